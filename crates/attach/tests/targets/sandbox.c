// sandbox KIND: a filter that answers 1 memfd_create with an error, 2 memfd_create with death, 3 executable mmap with an error, 4 nothing unusual, 5 strict mode, 6 gettid with death, in another thread
// than the first; 7 is 1 in a thread that waits, and says so if that ends.
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>
#define NUMBER BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0)
#define IF(n, answer) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, n, 0, 1), BPF_STMT(BPF_RET | BPF_K, answer)
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
static void *filtered(void *none) {
    struct sock_filter gettid[] = {NUMBER, IF(186, SECCOMP_RET_KILL_PROCESS), ALLOW}; struct sock_fprog program = {sizeof gettid / 8, gettid};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) _exit(1);
    write(1, "ready\n", 6); for (;;) usleep(100000);
}
int main(int count, char **words) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); int kind = count > 1 ? atoi(words[1]) : 0;
    struct sock_filter error[] = {NUMBER, IF(319, SECCOMP_RET_ERRNO | 1), ALLOW}, death[] = {NUMBER, IF(319, SECCOMP_RET_KILL_PROCESS), ALLOW}, other[] = {NUMBER, IF(169, SECCOMP_RET_ERRNO | 1), ALLOW};
    struct sock_filter executable[] = {NUMBER, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 9, 0, 3), BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 32), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 4, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1), ALLOW};
    struct sock_fprog programs[] = {{0}, {sizeof error / 8, error}, {sizeof death / 8, death}, {sizeof executable / 8, executable}, {sizeof other / 8, other}};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); char *first = malloc(10); free(first);
    pthread_t thread; if (kind == 6) { pthread_create(&thread, 0, filtered, 0); for (;;) usleep(1000); }
    if (kind == 7) { struct epoll_event event; if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &programs[1])) return 1; write(1, "ready\n", 6); epoll_wait(epoll_create1(0), &event, 1, -1); write(1, "RETURNED\n", 9); for (;;) pause(); }
    write(1, "ready\n", 6);
    if (kind == 5) prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT); else if (kind && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &programs[kind])) return 1;
    for (unsigned i = 0;; i++) { char *p = malloc(100 + i % 3000); __asm__ volatile("" ::"r"(p) : "memory"); free(p); }
}
