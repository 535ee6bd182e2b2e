/* Millions of live blocks: all are made, a part of them is replaced at random, all are freed.
 * usage: live_blocks BLOCKS */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define OWN_FRAME __attribute__((noinline, noclone))

OWN_FRAME static uint32_t *make(uint64_t random) {
    uint32_t *block = malloc(random % 96 + 16);
    *block = (uint32_t)random;
    return block;
}

int main(int count, char **arguments) {
    long blocks = count > 1 ? atol(arguments[1]) : 5000000, replaced = blocks / 5;
    uint32_t **all = malloc((size_t)blocks * sizeof *all);
    uint64_t random = 1;
    uint32_t sum = 0;
    for (long i = 0; i < blocks; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        all[i] = make(random >> 33);
    }
    for (long i = 0; i < replaced; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        long which = (long)((random >> 30) % (uint64_t)blocks);
        sum += *all[which];
        free(all[which]);
        all[which] = make(random >> 33);
    }
    for (long i = 0; i < blocks; i++) {
        sum += *all[i];
        free(all[i]);
    }
    free(all);
    printf("pairs %ld checksum %08x\n", blocks + replaced + 1, sum);
    return 0;
}
