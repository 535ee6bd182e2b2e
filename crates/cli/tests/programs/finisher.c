/* Works for a while with the heap and prints a checksum that does not depend on anything but its arguments.
 * usage: finisher STEPS [LINE]; prints its process id after a first bit of work, then waits for a line on standard input if LINE is given. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((noinline)) static uint64_t work(long steps) {
    enum { KEPT = 4096 };
    static unsigned char *kept[KEPT];
    static size_t sizes[KEPT];
    uint64_t random = 1, sum = 0;
    for (long step = 0; step < steps; step++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        size_t slot = (random >> 33) % KEPT, size = (random >> 50) % 700 + 1;
        if (kept[slot]) {
            for (size_t i = 0; i < sizes[slot]; i += 64) sum = sum * 31 + kept[slot][i];
            if (random >> 40 & 1) {
                free(kept[slot]);
                kept[slot] = malloc(size);
            } else {
                kept[slot] = realloc(kept[slot], size);
            }
        } else {
            kept[slot] = calloc(1, size);
        }
        if (!kept[slot]) abort();
        memset(kept[slot], (int)(step & 0xff), size);
        sizes[slot] = size;
    }
    for (int slot = 0; slot < KEPT; slot++) {
        free(kept[slot]);
        kept[slot] = NULL;
    }
    return sum;
}

int main(int count, char **arguments) {
    if (count < 2) return 98;
    uint64_t sum = work(1000);
    printf("%d\n", (int)getpid());
    fflush(stdout);
    if (count > 2) {
        char line[64];
        if (!fgets(line, sizeof line, stdin)) return 97;
    }
    sum += work(atol(arguments[1]));
    printf("%016llx\n", (unsigned long long)sum);
    return 42;
}
