/* Pairs of malloc and free in bursts, and what one costs: prints the processor time of a pair in nanoseconds, the median of 100 bursts, without end.
 * Bursts fit into the rings of a recorder that never lets the program wait. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { PAIRS = 10000, BURSTS = 100, DEPTH = 12 };

static uint64_t processor_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

__attribute__((noinline, noclone)) static void pairs(int depth) {
    if (depth > 0) {
        pairs(depth - 1);
        __asm__ volatile("");
        return;
    }
    for (int i = 0; i < PAIRS; i++) {
        void *volatile block = malloc(16 + i % 200);
        free(block);
    }
}

static int by_size(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

int main(void) {
    static uint64_t times[BURSTS];
    for (;;) {
        for (int i = 0; i < BURSTS; i++) {
            uint64_t before = processor_ns();
            pairs(DEPTH);
            times[i] = processor_ns() - before;
            usleep(4000);
        }
        qsort(times, BURSTS, sizeof times[0], by_size);
        printf("%.2f\n", (double)times[BURSTS / 2] / PAIRS);
        fflush(stdout);
    }
}
