/* toucher MIB STEPS PAUSE: takes one block of MIB mebibytes, then touches a part of it in each of STEPS steps, PAUSE milliseconds apart, without another call
 * of the allocator: what is resident grows while nothing is allocated. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int main(int count, char **arguments) {
    if (count < 4) return 98;
    size_t bytes = strtoul(arguments[1], NULL, 10) << 20, steps = strtoul(arguments[2], NULL, 10);
    long pause = atol(arguments[3]);
    char *block = malloc(bytes);
    if (!block) return 97;
    for (size_t step = 0; step < steps; step++) {
        memset(block + bytes / steps * step, 1, bytes / steps);
        struct timespec time = {pause / 1000, pause % 1000 * 1000000};
        nanosleep(&time, NULL);
    }
    __asm__ volatile("" : : "r"(block) : "memory");
    return 0;
}
