/* A child that holds 2 MiB and waits without any event while its parent, half a second later, holds 3 MiB and marks "later". */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern void highwater_mark(const char *name) __attribute__((weak));

static void hold(size_t bytes) {
    memset(malloc(bytes), 7, bytes);
}

int main(void) {
    int held[2], end[2];
    char byte;
    if (pipe(held) || pipe(end))
        return 1;
    if (fork() == 0) {
        hold(2 << 20);
        if (write(held[1], "x", 1) != 1 || read(end[0], &byte, 1) != 1)
            _exit(1);
        _exit(0);
    }
    if (read(held[0], &byte, 1) != 1)
        return 1;
    usleep(500000);
    hold(3 << 20);
    if (highwater_mark)
        highwater_mark("later");
    usleep(500000);
    if (write(end[1], "x", 1) != 1)
        return 1;
    wait(NULL);
    return 0;
}
