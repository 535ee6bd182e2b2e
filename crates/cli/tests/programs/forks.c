/* forks HOW: makes children in one of the ways there are while another thread allocates all the time, and checks them.
 * HOW: fork, raw (a system call that no library knows of), vfork, spawn, exec; "child" is what the last three run. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define OWN_FRAME __attribute__((noinline, noclone, noipa))
extern char **environ;
static volatile int stop;

OWN_FRAME void *allocate_in_parent(size_t size) {
    void *block = malloc(size);
    __asm__ volatile("" : : "r"(block) : "memory");
    return block;
}

OWN_FRAME void *allocate_in_child(size_t size) {
    void *block = malloc(size);
    __asm__ volatile("" : : "r"(block) : "memory");
    return block;
}

static void *keep_allocating(void *argument) {
    while (!stop) {
        free(allocate_in_parent(64));
        free(allocate_in_parent(640));
    }
    return argument;
}

/* 100 blocks of 1000 bytes; one of the parent's is freed, ten stay. */
static int be_a_child(void *inherited) {
    void *blocks[100];
    for (int i = 0; i < 100; i++) blocks[i] = allocate_in_child(1000);
    free(inherited);
    for (int i = 10; i < 100; i++) free(blocks[i]);
    return 7;
}

static int finish(pid_t child) {
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) return 96;
    return WIFEXITED(status) && WEXITSTATUS(status) == 7 ? 0 : 95;
}

int main(int count, char **arguments) {
    if (count != 2) return 98;
    const char *how = arguments[1];
    if (!strcmp(how, "child")) return be_a_child(NULL);

    pthread_t thread;
    pthread_create(&thread, NULL, keep_allocating, NULL);
    int result = 0;
    for (int i = 0; i < 5 && !result; i++) {
        void *inherited = allocate_in_parent(5000);
        char *line[] = {arguments[0], "child", NULL};
        pid_t child = -1;
        fflush(stdout);
        if (!strcmp(how, "fork")) {
            child = fork();
            if (child == 0) exit(be_a_child(inherited));
        } else if (!strcmp(how, "raw")) {
            child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0);
            if (child == 0) _exit(be_a_child(inherited));
        } else if (!strcmp(how, "vfork")) {
            child = vfork();
            if (child == 0) {
                execve(arguments[0], line, environ);
                _exit(94);
            }
        } else if (!strcmp(how, "spawn")) {
            if (posix_spawn(&child, arguments[0], NULL, NULL, line, environ)) child = -1;
        } else if (!strcmp(how, "exec")) {
            child = fork();
            if (child == 0) {
                free(allocate_in_child(100));
                execv(arguments[0], line);
                _exit(94);
            }
        } else {
            return 93;
        }
        result = finish(child);
        free(inherited);
    }
    stop = 1;
    pthread_join(thread, NULL);
    printf("children done, result %d\n", result);
    return result;
}
