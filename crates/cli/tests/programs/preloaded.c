/* Allocates a thousand blocks and prints how many of them the user's own preloaded library saw. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline, noclone)) void *allocate_with_company(size_t size) {
    void *block = malloc(size);
    __asm__ volatile("" : : "r"(block) : "memory");
    return block;
}

int main(void) {
    long (*seen)(void) = (long (*)(void))dlsym(RTLD_DEFAULT, "ownpreload_seen");
    if (!seen) return 98;
    long before = seen();
    for (int i = 0; i < 1000; i++) free(allocate_with_company(100));
    printf("%ld\n", seen() - before);
    return 0;
}
