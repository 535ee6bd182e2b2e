/* busy SECONDS KEPT PAUSE: keeps so many blocks and replaces them at random, by sizes at random, for so long, pausing so many microseconds after each
   thousand. Then holds KEPT blocks, says how many it ever allocated, and ends without giving them back. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

__attribute__((noinline)) static void *take(size_t size) {
    char *block = malloc(size);
    block[0] = 1;
    return block;
}

int main(int count, char **arguments) {
    double seconds = count > 1 ? atof(arguments[1]) : 1;
    int kept = count > 2 ? atoi(arguments[2]) : 1000;
    int pause = count > 3 ? atoi(arguments[3]) : 0;
    void **blocks = calloc(kept, sizeof *blocks);
    unsigned long taken = 0, random = 88172645463325252;
    for (; taken < (unsigned long)kept; taken++)
        blocks[taken] = take(100);
    double end = now() + seconds;
    do {
        for (int i = 0; i < 1000; i++, taken++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            int place = random % kept;
            free(blocks[place]);
            blocks[place] = take(16 + (random >> 32) % 2000);
        }
        if (pause)
            usleep(pause);
    } while (now() < end);
    for (int i = 0; i < kept; i++) {
        free(blocks[i]);
        blocks[i] = take(100);
    }
    printf("%lu\n", taken + kept);
    fflush(stdout);
    _exit(7);
}
