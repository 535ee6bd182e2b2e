// kinds LATE PRINTS: says "ready", waits for SIGUSR1, and then makes known numbers of calls, each time in another way.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
enum { N = 1000 };
static void *(*volatile before)(size_t) = malloc;
static void (*volatile free_before)(void *) = free;
static void *volatile kept;
static void keep(void *p) { kept = p; __asm__ volatile("" ::: "memory"); }
int main(int count, char **words) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigset_t set; sigemptyset(&set); sigaddset(&set, SIGUSR1); sigprocmask(SIG_BLOCK, &set, 0);
    char line[4096]; setvbuf(stdout, line, _IOFBF, sizeof line);
    keep(malloc(100));
    write(1, "ready\n", 6);
    for (;;) {
        int number; sigwait(&set, &number);
        void *library = count > 1 ? dlopen(words[1], RTLD_NOW) : 0;
        void *(*late)(size_t) = library ? (void *(*)(size_t))dlsym(library, "late_malloc") : 0;
        void (*late_free)(void *) = library ? (void (*)(void *))dlsym(library, "late_free") : 0;
        void *(*looked_up)(size_t) = (void *(*)(size_t))dlsym(RTLD_DEFAULT, "malloc");
        if (!looked_up) looked_up = malloc; // in a static program
        write(1, "begin\n", 6); sigwait(&set, &number);
        for (int i = 0; i < N; i++) {
            void *p = malloc(i); keep(p); free(p);
            p = before(i); keep(p); free_before(p);
            p = looked_up(i); keep(p); free(p);
            if (late) { p = late(i); keep(p); late_free(p); }
            p = calloc(3, i); keep(p); p = realloc(p, i + 10000); keep(p); free(p);
            p = memalign(64, i); keep(p); free(p);
            p = aligned_alloc(64, 128); keep(p); free(p);
            if (posix_memalign(&p, 64, i)) abort(); keep(p); free(p);
            p = valloc(i); keep(p); free(p);
            p = strdup("inside the C library"); keep(p); free(p);
        }
        write(1, "end\n", 4);
    }
}
