// Holds as many MiB as its argument says, and lets four threads allocate for a while: close to a limit, every page of others counts.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *work(void *seed) {
    unsigned state = (unsigned)(size_t)seed * 2654435761u + 1, sum = 0;
    char *ring[256] = {0};
    for (int round = 0; round < 3000000; round++) {
        state = state * 1664525u + 1013904223u;
        char **place = &ring[state >> 24];
        free(*place);
        *place = malloc(16 + (state >> 8) % 200);
        **place = (char)state;
        sum += (unsigned char)**place;
    }
    for (int at = 0; at < 256; at++) free(ring[at]);
    return (void *)(size_t)sum;
}

int main(int count, char **words) {
    size_t bytes = (count > 1 ? strtoul(words[1], 0, 10) : 1) << 20;
    char *held = malloc(bytes);
    memset(held, 7, bytes);
    pthread_t all[4];
    size_t sum = 0;
    for (size_t at = 0; at < 4; at++) pthread_create(&all[at], 0, work, (void *)at);
    for (size_t at = 0; at < 4; at++) {
        void *result;
        pthread_join(all[at], &result);
        sum += (size_t)result;
    }
    printf("ended well with %zu and %d\n", sum, held[bytes - 1]);
    free(held);
    return 7;
}
