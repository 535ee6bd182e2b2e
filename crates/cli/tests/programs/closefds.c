/* Prints which descriptors are open, closes all but the first three, opens files of its own and works on: a daemon's start. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((noinline, noclone)) void *allocate_afterwards(size_t size) {
    void *block = malloc(size);
    __asm__ volatile("" : : "r"(block) : "memory");
    return block;
}

int main(int count, char **arguments) {
    printf("open:");
    for (int fd = 0; fd < 1024; fd++)
        if (fcntl(fd, F_GETFD) >= 0) printf(" %d", fd);
    printf("\n");
    if (count > 1 && !strcmp(arguments[1], "range")) syscall(SYS_close_range, 3, ~0u, 0);
    else
        for (int fd = 3; fd < 65536; fd++) close(fd);

    /* What we open now gets the numbers of what we closed, and nobody else may write to it. */
    char path[] = "closefds.XXXXXX";
    int own[16];
    for (int i = 0; i < 16; i++) own[i] = i ? dup(own[0]) : mkstemp(path);
    for (int i = 0; i < 20000; i++) {
        void *block = allocate_afterwards((size_t)(i % 100 + 1));
        if (i % 10) free(block);
    }
    off_t size = lseek(own[0], 0, SEEK_END);
    printf("first of our own: %d; written to it by others: %ld bytes\n", own[0], (long)size);
    unlink(path);
    return size == 0 ? 0 : 1;
}
