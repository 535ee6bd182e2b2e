// special KIND: epoll: says "interrupted" when a signal ends its wait. uring: one thread in pause, others only in the kernel; SIGUSR1: a request, then "done". leader: the first thread has ended, another one
// allocates. locked: all memory is locked, and a loop allocates. exec N: executes itself N times, then "done". threads: allocates in threads that live for some calls. sandboxed: SIGUSR1: a filter that kills for gettid, prctl(PR_GET_NAME) and getpid,
// then a new thread allocates, then "done". heap N: N mebibytes of blocks of 64 bytes. unloads LIBRARY: opens and closes it without end, and allocates.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
static volatile int asked, stop;
static void has_come(int signal) { asked++; }
static void say(const char *text) { write(1, text, strlen(text)); }
static void some_blocks(unsigned count) {
    for (unsigned i = 0; i < count; i++) { size_t size = 20 + i * 37 % 3000; unsigned char *p = malloc(size); memset(p, (int)i, size); if (p[size - 1] != (unsigned char)i) abort(); free(p); }
}
static void *work(void *none) { while (!stop) some_blocks(1000); return 0; }
static void *once(void *none) { some_blocks(100); return 0; }
static void epoll(void) {
    sigset_t blocked, none; sigemptyset(&none); sigemptyset(&blocked); sigaddset(&blocked, SIGUSR1); sigprocmask(SIG_BLOCK, &blocked, 0);
    struct epoll_event event; int ep = epoll_create1(0); say("ready\n");
    for (;;) { int seen = asked; int r = epoll_pwait(ep, &event, 1, -1, &none); say(r < 0 && errno == EINTR && asked > seen ? "interrupted\n" : "RETURNED\n"); }
}
static void uring(void) {
    struct io_uring_params with[2] = {{.flags = IORING_SETUP_SQPOLL, .sq_thread_idle = 100000}, {0}}; int fd[2], pipes[2]; if (pipe(pipes)) exit(9);
    for (int i = 0; i < 2; i++) if ((fd[i] = syscall(SYS_io_uring_setup, 4, &with[i])) < 0) { say("none\n"); for (;;) pause(); }
    struct io_uring_params *p = &with[1]; static char byte;
    char *sq = mmap(0, p->sq_off.array + p->sq_entries * 4, 3, MAP_SHARED, fd[1], IORING_OFF_SQ_RING), *cq = mmap(0, p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe), 3, MAP_SHARED, fd[1], IORING_OFF_CQ_RING);
    struct io_uring_sqe *sqe = mmap(0, 4096, 3, MAP_SHARED, fd[1], IORING_OFF_SQES); if (sq == MAP_FAILED || cq == MAP_FAILED || sqe == MAP_FAILED) exit(8);
    for (unsigned n = 0;; n++) {
        // A read that waits, in a thread of the kernel's.
        sqe[0] = (struct io_uring_sqe){.opcode = IORING_OP_READ, .flags = IOSQE_ASYNC, .fd = pipes[0], .addr = (uint64_t)&byte, .len = 1, .user_data = n};
        *(unsigned *)(sq + p->sq_off.array) = 0; __atomic_store_n((unsigned *)(sq + p->sq_off.tail), n + 1, __ATOMIC_RELEASE);
        if (syscall(SYS_io_uring_enter, fd[1], 1, 0, 0, 0, 0) != 1) exit(7);
        if (!n) { usleep(50000); say("ready\n"); } else say("done\n");
        int seen = asked; while (asked == seen) pause();
        write(pipes[1], "x", 1);
        while (__atomic_load_n((unsigned *)(cq + p->cq_off.tail), __ATOMIC_ACQUIRE) == n) usleep(1000);
        struct io_uring_cqe *cqe = (struct io_uring_cqe *)(cq + p->cq_off.cqes) + (n & *(unsigned *)(cq + p->cq_off.ring_mask)); if (cqe->res != 1 || byte != 'x') { say("FAILED\n"); exit(6); }
        some_blocks(10);
    }
}
static void install(void) {
#define IF(n, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, n, 0, skip)
#define KILL BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
    struct sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), IF(SYS_gettid, 1), KILL, IF(SYS_getpid, 1), KILL, IF(SYS_prctl, 3), BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 16), IF(PR_GET_NAME, 1), KILL, BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof filter / 8, filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    long failed = getenv("BY_SYSCALL") ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
    if (failed) { say("FAILED\n"); exit(5); }
}
int main(int count, char **words) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); const char *kind = count > 1 ? words[1] : ""; pthread_t t; signal(SIGUSR1, has_come); some_blocks(100);
    if (!strcmp(kind, "epoll")) epoll();
    if (!strcmp(kind, "uring")) uring();
    if (!strcmp(kind, "leader")) { prctl(PR_SET_PDEATHSIG, 0); pthread_create(&t, 0, work, 0); say("ready\n"); pthread_exit(0); }
    if (!strcmp(kind, "locked")) { if (mlockall(MCL_CURRENT | MCL_FUTURE)) return 4; say("ready\n"); work(0); }
    if (!strcmp(kind, "exec")) {
        long left = atol(words[2]); if (!left) { say("done\n"); return 0; }
        if (!getenv("BEGUN")) { setenv("BEGUN", "1", 1); say("ready\n"); }
        pthread_create(&t, 0, work, 0); some_blocks(3000); char next[20]; sprintf(next, "%ld", left - 1); execl("/proc/self/exe", words[0], kind, next, (char *)0); return 3;
    }
    if (!strcmp(kind, "heap")) { for (long n = atol(words[2]) << 14; n; n--) memset(malloc(56), 1, 56); say("ready\n"); for (;;) pause(); }
    if (!strcmp(kind, "threads")) { say("ready\n"); for (;;) { pthread_create(&t, 0, once, 0); pthread_join(t, 0); } }
    if (!strcmp(kind, "sandboxed")) {
        say("ready\n"); while (!asked) some_blocks(100);
        install(); some_blocks(5000); pthread_create(&t, 0, once, 0); pthread_join(t, 0); say("done\n"); for (;;) pause();
    }
    if (!strcmp(kind, "unloads")) {
        say("ready\n");
        for (long n = 0;; n++) { void *library = dlopen(words[2], RTLD_NOW); if (!library) { say("FAILED\n"); return 2; } void *(*make)(size_t) = dlsym(library, "late_malloc"); void (*end)(void *) = dlsym(library, "late_free"); end(make(100)); some_blocks(20); dlclose(library); if (n % 200 == 0) say("went on\n"); }
    }
    return 1;
}
