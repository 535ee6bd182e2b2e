// signals N: N queued signals, handled on an alternate stack while it allocates: none may be lost, doubled or out of order.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <unistd.h>
static volatile long seen, alarms; static pthread_t receiver; static long wanted;
static void on_queued(int s, siginfo_t *i, void *u) { (void)s; (void)u; if (i->si_value.sival_int != seen) { write(1, "OUT OF ORDER\n", 13); _exit(1); } seen++; }
static void on_alarm(int s) { (void)s; alarms++; }
static void *send(void *u) { (void)u; for (long i = 0; i < wanted; i++) { union sigval v = {.sival_int = (int)i}; while (pthread_sigqueue(receiver, SIGRTMIN, v)) usleep(50); if (i % 40 == 0) usleep(700); } return 0; }
int main(int count, char **words) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    wanted = count > 1 ? atol(words[1]) : 1000; receiver = pthread_self(); stack_t alternate = {.ss_sp = malloc(65536), .ss_size = 65536}; sigaltstack(&alternate, 0);
    struct sigaction q = {.sa_sigaction = on_queued, .sa_flags = SA_SIGINFO | SA_ONSTACK}, a = {.sa_handler = on_alarm, .sa_flags = SA_RESTART}; sigaction(SIGRTMIN, &q, 0); sigaction(SIGALRM, &a, 0);
    struct itimerval it = {{0, 1000}, {0, 1000}}; setitimer(ITIMER_REAL, &it, 0);
    write(1, "ready\n", 6); pthread_t t; pthread_create(&t, 0, send, 0); long rounds = 0;
    while (seen < wanted) { char *p = malloc(100 + rounds % 5000); memset(p, 1, 100); free(p); rounds++; }
    dprintf(1, "done %ld\n", seen); return 0;
}
