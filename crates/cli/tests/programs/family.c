/* A program with a forked child and a child that executes another program, each with blocks of known sizes. Marks name the instants
 * at which the total is known: "held" (the parent alone), "forked" (parent and forked child), "executed" (parent and executed child). */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern void highwater_mark(const char *name) __attribute__((weak));

static void mark(const char *name) {
    if (highwater_mark)
        highwater_mark(name);
}

static void *hold(size_t bytes) {
    void *block = malloc(bytes);
    memset(block, 7, bytes);
    return block;
}

/* A last event: a recording lasts until its last event, not until the process ends. */
static void live_on(void) {
    free(malloc(1));
}

/* Blocks until the other end writes a byte. */
static void await(int end) {
    char byte;
    while (read(end, &byte, 1) < 0) {
    }
}

static void wake(int end) {
    while (write(end, "x", 1) < 0) {
    }
}

int main(int argc, char **argv) {
    if (argc == 4) {
        /* The executed program: holds 4 MiB until its parent has marked. */
        hold(4 << 20);
        wake(atoi(argv[2]));
        await(atoi(argv[3]));
        live_on();
        return 0;
    }
    char *first = hold(3 << 20);
    mark("held");
    int up[2], down[2];
    if (pipe(up) || pipe(down))
        return 1;
    pid_t child = fork();
    if (child == 0) {
        /* What it inherited counts in its parent; that it frees it changes nothing there. */
        hold(2 << 20);
        free(first);
        wake(up[1]);
        await(down[0]);
        live_on();
        _exit(0);
    }
    await(up[0]);
    mark("forked");
    wake(down[1]);
    waitpid(child, NULL, 0);
    char ends[2][16];
    for (int at = 0; at < 2; at++) {
        int end = at == 0 ? up[1] : down[0], length = 0;
        char digits[16];
        do {
            digits[length++] = (char)('0' + end % 10);
            end /= 10;
        } while (end);
        for (int digit = 0; digit < length; digit++)
            ends[at][digit] = digits[length - 1 - digit];
        ends[at][length] = 0;
    }
    child = fork();
    if (child == 0) {
        execl(argv[0], argv[0], "run", ends[0], ends[1], (char *)NULL);
        _exit(127);
    }
    await(up[0]);
    mark("executed");
    wake(down[1]);
    waitpid(child, NULL, 0);
    free(first);
    return 0;
}
