// stacks THREADS: half of them end on the command e, and the C library keeps their stacks. Each thread touches 64 KiB.
#include "tracker.h"
static int threads;
static volatile int leaving, started;
static pthread_t numbers[1024];
static void *run(void *number) {
    volatile char touched[64 << 10];
    memset((void *)touched, 1, sizeof touched);
    __sync_fetch_and_add(&started, 1);
    while (!(leaving && (long)number % 2)) usleep(10000);
    return 0;
}
static void own(char command) {
    if (command != 'e') return;
    leaving = 1;
    for (long i = 1; i < threads; i += 2) pthread_join(numbers[i], 0);
}
int main(int count, char **words) {
    threads = atoi(words[1]);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 << 10);
    for (long i = 0; i < threads; i++) pthread_create(&numbers[i], &attributes, run, (void *)i);
    while (started < threads) usleep(1000);
    obey(own);
}
