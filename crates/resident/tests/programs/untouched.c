// A gibibyte that is never touched (site 1), a block of which a part is (site 2), a mapping (site 3) of which m gives half back, memory that is only read.
#include "tracker.h"
static char *half;
static void own(char command) { if (command == 'm') madvise(half, 32 << 20, MADV_DONTNEED); }
int main(void) {
    site = 1;
    volatile char *all = calloc(1, 1 << 30);
    site = 2;
    volatile char *some = malloc(64 << 20);
    site = 0;
    for (size_t i = 0; i < 16 << 20; i += 4096) some[i] = 1;
    half = map(64 << 20, 3);
    memset(half, 1, 64 << 20);
    volatile char *zeros = map(64 << 20, 4);
    char sum = 0;
    for (size_t i = 0; i < 64 << 20; i += 4096) sum += zeros[i];
    obey(own);
    return all[5] + sum;
}
