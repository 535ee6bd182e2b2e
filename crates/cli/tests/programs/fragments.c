/* Fills a heap, then frees all but every 40th block: most of the memory is free, and stays in RAM. Each state is marked, and lasts for a while. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

extern void highwater_mark(const char *name) __attribute__((weak));

enum { BLOCKS = 200000, SIZE = 104, KEPT = 40 };
static char *blocks[BLOCKS];

static void mark(const char *name) {
    if (highwater_mark) highwater_mark(name);
    struct timespec while_it_lasts = {0, 400 * 1000 * 1000};
    nanosleep(&while_it_lasts, NULL);
}

__attribute__((noinline)) static void fill(void) {
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(SIZE);
        memset(blocks[i], 1, SIZE);
    }
}

int main(void) {
    size_t mapped = 8 << 20;
    char *mapping = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(mapping, 1, mapped);
    fill();
    mark("full");
    for (int i = 0; i < BLOCKS; i++)
        if (i % KEPT != 0) free(blocks[i]);
    munmap(mapping, mapped);
    mark("holes");
    printf("%d\n", BLOCKS / KEPT);
    return 0;
}
