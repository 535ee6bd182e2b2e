/* Holds small, middling and large blocks and lets many more go; prints what each of its functions did. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OWN_FRAME __attribute__((noinline, noclone, noipa))

OWN_FRAME void hold(size_t size) {
    void *block = malloc(size);
    __asm__ volatile("" : : "r"(block) : "memory");
}
OWN_FRAME void hold_small(int count) {
    for (int i = 0; i < count; i++) hold(64);
}
OWN_FRAME void hold_medium(int count) {
    for (int i = 0; i < count; i++) hold(16 << 10);
}
OWN_FRAME void hold_large(int count) {
    for (int i = 0; i < count; i++) hold(4 << 20);
}
OWN_FRAME void let_go(int count) {
    for (int i = 0; i < count; i++) {
        void *block = malloc(100);
        __asm__ volatile("" : : "r"(block) : "memory");
        free(block);
    }
}
OWN_FRAME void grow(int count) {
    char *block = NULL;
    for (int i = 1; i <= count; i++) {
        block = realloc(block, (size_t)i * 1000);
        if (i > 1 && block[(i - 1) * 1000 / 2] == 77) puts("never");
        memset(block + (i - 1) * 1000, i % 50, 1000);
    }
    for (int i = 0; i < count; i++)
        if (block[i * 1000 + 999] != (i + 1) % 50) abort();
    free(block);
}
OWN_FRAME void hold_zeroed(int count) {
    for (int i = 0; i < count; i++) {
        unsigned char *block = calloc(10, 1000);
        for (int j = 0; j < 10000; j++)
            if (block[j]) abort();
        memset(block, 255, 10000);
    }
}
OWN_FRAME void hold_aligned(int count) {
    for (int i = 0; i < count; i++) {
        void *block = NULL;
        if (posix_memalign(&block, 8192, 10000) || (size_t)block % 8192) abort();
        memset(block, 255, 10000);
    }
}

int main(void) {
    hold_small(500000);
    hold_medium(2000);
    hold_large(20);
    let_go(3000000);
    grow(2000);
    hold_zeroed(3000);
    hold_aligned(3000);
    puts("done");
    return 0;
}
