/* dying HOW EARLY LATE: allocates EARLY blocks, waits a third of a second, allocates LATE blocks, says so and ends in one of the
 * many ways: return, exit, _exit, quick, abort, kill, term, segv, exec. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define OWN_FRAME __attribute__((noinline, noclone, noipa))

OWN_FRAME void allocate_early(long count) {
    for (long i = 0; i < count; i++) {
        void *block = malloc(100);
        __asm__ volatile("" : : "r"(block) : "memory");
    }
}

OWN_FRAME void allocate_late(long count) {
    for (long i = 0; i < count; i++) {
        void *block = malloc(100);
        __asm__ volatile("" : : "r"(block) : "memory");
    }
}

OWN_FRAME void *allocate_in_the_next_program(size_t size) { return malloc(size) + 0; }

int main(int count, char **arguments) {
    if (count != 4) return 98;
    const char *how = arguments[1];
    if (!strcmp(how, "next")) {
        void *block = allocate_in_the_next_program(12345);
        __asm__ volatile("" : : "r"(block) : "memory");
        return 5;
    }
    allocate_early(atol(arguments[2]));
    nanosleep(&(struct timespec){0, 333000000}, NULL);
    allocate_late(atol(arguments[3]));
    dprintf(1, "allocated %s and %s\n", arguments[2], arguments[3]);
    if (!strcmp(how, "return")) return 3;
    if (!strcmp(how, "exit")) exit(3);
    if (!strcmp(how, "_exit")) _exit(3);
    if (!strcmp(how, "quick")) quick_exit(3);
    if (!strcmp(how, "abort")) abort();
    if (!strcmp(how, "kill")) kill(getpid(), SIGKILL);
    if (!strcmp(how, "term")) raise(SIGTERM);
    if (!strcmp(how, "segv")) *(volatile int *)8 = 1;
    if (!strcmp(how, "exec")) execl(arguments[0], arguments[0], "next", "0", "0", (char *)NULL);
    return 97;
}
