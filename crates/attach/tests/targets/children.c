// children KIND: without end 0 forks children that allocate, 1 vfork and exec, 2 posix_spawn, 3 short threads. Prints a number for each round; stops at the first that fails.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
extern char **environ;
static void use(int n) { for (int i = 1; i < n; i++) { char *p = malloc(i * 7); memset(p, i, i * 7); p = realloc(p, i * 9); for (int k = 0; k < i * 7; k++) if (p[k] != (char)i) abort(); free(p); } }
static void *thread(void *u) { use(30); return u; }
int main(int count, char **words) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int kind = count > 1 ? atoi(words[1]) : 0; char *true_words[] = {"true", 0};
    write(1, "ready\n", 6);
    for (long round = 0;; round++) {
        use(50); int status = 0; pid_t child = 0;
        if (kind == 0) { child = fork(); if (!child) { use(200); _exit(7); } waitpid(child, &status, 0); if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) break; }
        else if (kind == 1) { child = vfork(); if (!child) { struct timespec t = {0, 2000000}; syscall(SYS_nanosleep, &t, 0); execl("/bin/true", "true", (char *)0); _exit(9); } waitpid(child, &status, 0); if (status) break; }
        else if (kind == 2) { if (posix_spawn(&child, "/bin/true", 0, 0, true_words, environ)) break; waitpid(child, &status, 0); if (status) break; }
        else { pthread_t t[12]; for (int i = 0; i < 12; i++) if (pthread_create(&t[i], 0, thread, 0)) return 1; for (int i = 0; i < 12; i++) pthread_join(t[i], 0); }
        if (round % 10 == 0) dprintf(1, "%ld\n", round);
    }
    dprintf(1, "FAILED\n"); return 1;
}
