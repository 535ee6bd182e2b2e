/* Allocations fifty frames deep at the ends of 10,000 different stacks: ten functions to choose from at levels 40, 30, 20 and 10
 * above the leaf. Every pair begins with a descent from the top.
 * usage: deep_stacks PAIRS walk|random; a walk visits neighbouring stacks after each other, as programs do that go through a
 * tree; random ones have little in common. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OWN_FRAME __attribute__((noinline, noclone))
enum { DEPTH = 50, HELD = 8 };

static unsigned char *held[HELD];
static unsigned held_next, sum;

OWN_FRAME static void leaf(unsigned path) {
    unsigned char *block = malloc(32 + path % 64);
    memset(block, (int)path, 32);
    if (held[held_next]) {
        sum = sum * 31 + held[held_next][5];
        free(held[held_next]);
    }
    held[held_next] = block;
    held_next = (held_next + 1) % HELD;
}

typedef unsigned level(int depth, unsigned path);
static level level0, level1, level2, level3, level4, level5, level6, level7, level8, level9;
static level *const levels[10] = {level0, level1, level2, level3, level4, level5, level6, level7, level8, level9};
static const unsigned divisors[5] = {0, 1, 10, 100, 1000};

#define LEVEL(number)                                                                       \
    OWN_FRAME static unsigned level##number(int depth, unsigned path) {                     \
        if (depth == 0) {                                                                   \
            leaf(path);                                                                     \
            return number;                                                                  \
        }                                                                                   \
        unsigned way = depth % 10 == 0 && depth <= 40 ? path / divisors[depth / 10] % 10 : (unsigned)depth % 3; \
        return levels[way](depth - 1, path) + number;                                       \
    }
LEVEL(0) LEVEL(1) LEVEL(2) LEVEL(3) LEVEL(4) LEVEL(5) LEVEL(6) LEVEL(7) LEVEL(8) LEVEL(9)

int main(int count, char **arguments) {
    long pairs = count > 1 ? atol(arguments[1]) : 1000000;
    int walks = count < 3 || strcmp(arguments[2], "random");
    uint64_t random = 1;
    for (long i = 0; i < pairs; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        unsigned path = walks ? (unsigned)(i % 10000) : (unsigned)(random >> 33) % 10000;
        sum += level0(DEPTH - 2, path);
    }
    for (int i = 0; i < HELD; i++) free(held[i]);
    printf("pairs %ld checksum %08x\n", pairs, sum);
    return 0;
}
