// One thread in each kind of waiting, and a main thread that waits in vfork for some seconds after SIGUSR1. Prints what comes back although nothing has happened.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
static const struct timespec hour = {3600, 0};
static sem_t started;
#define WAITS(X) \
    X(epoll_forever, epoll_wait(ep, ev, 4, -1)) X(epoll_timed, epoll_wait(ep, ev, 4, 3600000)) X(epoll_masked, epoll_pwait(ep, ev, 4, -1, &none)) \
    X(poll_forever, poll(&pf, 1, -1)) X(poll_timed, poll(&pf, 1, 3600000)) X(ppoll_timed, ppoll(&pf, 1, &hour, &none)) \
    X(select_forever, select(p[0] + 1, &fs, 0, 0, 0)) X(select_timed, select(p[0] + 1, &fs, 0, 0, &tv)) X(pselect_timed, pselect(p[0] + 1, &fs, 0, 0, &hour, &none)) \
    X(nanosleep_timed, nanosleep(&hour, 0)) X(clock_relative, clock_nanosleep(CLOCK_MONOTONIC, 0, &hour, 0)) X(clock_absolute, clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &later, 0)) \
    X(cond_forever, pthread_cond_wait(&c, &m)) X(cond_timed, pthread_cond_timedwait(&c, &m, &later)) \
    X(sem_forever, sem_wait(&sem)) X(sem_timed, sem_timedwait(&sem, &later)) \
    X(read_pipe, read(p[0], b, 1)) X(recv_forever, recv(s[0], b, 1, 0)) X(recv_timed, recv(limited[0], b, 1, 0)) \
    X(accept_forever, accept(ls, 0, 0)) X(accept_timed, accept(ls_timed, 0, 0)) X(sigwaitinfo_, sigwaitinfo(&set, 0)) X(sigtimedwait_, sigtimedwait(&set, 0, &hour)) \
    X(pause_, pause()) X(sigsuspend_, sigsuspend(&set)) X(semop_, semop(se, &sb, 1)) X(semtimedop_, semtimedop(se, &sb, 1, &hour)) X(msgrcv_, msgrcv(mq, b, 8, 0, 0)) \
    X(waitpid_, waitpid(kid, 0, 0)) X(waitid_, waitid(P_PID, kid, &si, WEXITED)) X(io_getevents_, syscall(SYS_io_getevents, ctx, 1L, 1L, ie, 0L)) \
    X(inotify_, read(in, b, 4096)) X(eventfd_, read(ef, b, 8)) X(timerfd_, read(tf, b, 8)) X(signalfd_, read(sf, b, 128)) \
    X(futex_forever, syscall(SYS_futex, &word, FUTEX_WAIT, 0, 0, 0, 0)) X(futex_timed, syscall(SYS_futex, &word, FUTEX_WAIT, 0, &hour, 0, 0)) \
    X(write_full, write(full[1], b, 4096)) X(send_timed, send(stuffed[0], b, 4096, 0)) \
    X(io_uring_, uring < 0 ? pause() : syscall(SYS_io_uring_enter, uring, 0, 1, 1 /* IORING_ENTER_GETEVENTS */, 0, 0))
enum {
#define NAME(name, call) K_##name,
    WAITS(NAME) KINDS
};
static void *wait_in(void *number) {
    long kind = (long)number; static int word; char b[4096] = {0}; int p[2], s[2], limited[2], full[2], stuffed[2]; struct timeval tv = {3600, 0}; sigset_t set, none; siginfo_t si; struct epoll_event ev[4];
    sigemptyset(&none); sigemptyset(&set); sigaddset(&set, SIGUSR2); pthread_sigmask(SIG_BLOCK, &set, 0);
    if (pipe(p) || pipe(full) || socketpair(AF_UNIX, SOCK_STREAM, 0, s) || socketpair(AF_UNIX, SOCK_STREAM, 0, limited) || socketpair(AF_UNIX, SOCK_STREAM, 0, stuffed)) exit(9);
    struct pollfd pf = {p[0], POLLIN, 0}; fd_set fs; FD_ZERO(&fs); FD_SET(p[0], &fs); int ep = epoll_create1(0); ev[0].events = EPOLLIN; epoll_ctl(ep, EPOLL_CTL_ADD, p[0], ev);
    setsockopt(limited[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv); setsockopt(stuffed[0], SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof tv);
    while (send(stuffed[0], b, sizeof b, MSG_DONTWAIT) > 0) {} 
    fcntl(full[1], F_SETFL, O_NONBLOCK); while (write(full[1], b, sizeof b) > 0) {} fcntl(full[1], F_SETFL, 0);
    struct sockaddr_un un = {.sun_family = AF_UNIX}; int ls = socket(AF_UNIX, SOCK_STREAM, 0), ls_timed = socket(AF_UNIX, SOCK_STREAM, 0);
    for (int i = 0; i < 2; i++) { int n = snprintf(un.sun_path + 1, 90, "waits.%d.%ld.%d", getpid(), kind, i); bind(i ? ls_timed : ls, (void *)&un, sizeof(sa_family_t) + 1 + n); listen(i ? ls_timed : ls, 1); }
    setsockopt(ls_timed, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
    pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; pthread_cond_t c = PTHREAD_COND_INITIALIZER; sem_t sem; sem_init(&sem, 0, 0); pthread_mutex_lock(&m);
    struct timespec later; clock_gettime(CLOCK_REALTIME, &later); later.tv_sec += 3600; struct sembuf sb = {0, -1, 0}; int se = -1, mq = -1; if (kind == K_semop_ || kind == K_semtimedop_) { se = semget(IPC_PRIVATE, 1, 0600); } if (kind == K_msgrcv_) mq = msgget(IPC_PRIVATE, 0600);
    int kid = 0; if ((kind == K_waitpid_ || kind == K_waitid_) && !(kid = fork())) { prctl(PR_SET_PDEATHSIG, SIGKILL); for (;;) pause(); }
    aio_context_t ctx = 0; struct io_event ie[1]; if (kind == K_io_getevents_) syscall(SYS_io_setup, 4, &ctx);
    int in = inotify_init(), ef = eventfd(0, 0), tf = timerfd_create(CLOCK_MONOTONIC, 0), sf = signalfd(-1, &set, 0); struct itimerspec it = {.it_value = {3600, 0}}; timerfd_settime(tf, 0, &it, 0);
    char parameters[120] = {0}; int uring = kind == K_io_uring_ ? syscall(SYS_io_uring_setup, 4, parameters) : -1;
    sem_post(&started);
    long r = 0; const char *name = "?"; errno = 0;
    switch (kind) {
#define CASE(n, call) case K_##n: name = #n; r = call; break;
        WAITS(CASE)
    }
    int e = errno; dprintf(1, "RETURNED %s %ld %s\n", name, r, strerror(e));
    if (se >= 0) semctl(se, 0, IPC_RMID);
    if (mq >= 0) msgctl(mq, IPC_RMID, 0);
    for (;;) sleep(3600);
}
static volatile int is_asked;
static void has_come(int signal) { is_asked = 1; }
int main(int count, char **words) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pthread_attr_t a; pthread_attr_init(&a); pthread_attr_setstacksize(&a, 131072); pthread_t t; sem_init(&started, 0, 0);
    // With a number: the main thread itself waits so, and there is no other.
    if (count > 1) { dprintf(1, "ready %d\n", KINDS); wait_in((void *)atol(words[1])); }
    for (long k = 0; k < KINDS; k++) if (pthread_create(&t, &a, wait_in, (void *)k)) return 4;
    for (long k = 0; k < KINDS; k++) while (sem_wait(&started)) {}
    signal(SIGUSR1, has_come);
    usleep(300000); dprintf(1, "ready %d\n", KINDS);
    while (!is_asked) usleep(1000);
    // Until the child ends, this thread cannot stop.
    pid_t child = vfork(); if (!child) { syscall(SYS_nanosleep, &(struct timespec){3, 0}, 0); _exit(0); }
    for (;;) sleep(3600);
}
