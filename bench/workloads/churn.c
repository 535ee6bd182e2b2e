/* Keeps a number of blocks live and replaces them at random, as a server's cache does.
 * usage: churn BLOCKS REPLACEMENTS */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t random_state = 1;

static uint64_t next_random(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return random_state >> 30;
}

static uint32_t *make(void) {
    uint32_t *block = malloc(next_random() % 96 + 16);
    *block = (uint32_t)random_state;
    return block;
}

int main(int count, char **arguments) {
    uint64_t blocks = count > 1 ? strtoull(arguments[1], NULL, 10) : 1000000;
    uint64_t replacements = count > 2 ? strtoull(arguments[2], NULL, 10) : 30000000;
    uint32_t **all = malloc(blocks * sizeof *all), sum = 0;
    for (uint64_t i = 0; i < blocks; i++) all[i] = make();
    for (uint64_t i = 0; i < replacements; i++) {
        uint64_t which = next_random() % blocks;
        sum += *all[which];
        free(all[which]);
        all[which] = make();
    }
    printf("checksum %08x\n", sum);
    return 0;
}
