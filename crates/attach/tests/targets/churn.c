// churn PROGRESS THREADS IDLE: allocates, checks and frees without end, and counts in a shared file. Any wrong byte aborts.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>
enum { SLOTS = 1500 };
static volatile uint64_t *progress;
struct held { unsigned char *at; size_t size; unsigned char mark; };
static void check(const struct held *h, size_t size) { for (size_t i = 0; i < size; i += 31) if (h->at[i] != (unsigned char)(h->mark + i)) abort(); }
static void *work(void *number) {
    uint64_t me = (uint64_t)number, random = 0x9E3779B97F4A7C15ull * (me + 1);
    struct held *held = calloc(SLOTS, sizeof *held);
    for (;;) {
        random ^= random << 13; random ^= random >> 7; random ^= random << 17;
        struct held *h = &held[random % SLOTS];
        size_t size = random >> 58 ? (random >> 20) % 700 : (random >> 20) % 180000;
        if (h->at && (random >> 40 & 3)) { check(h, h->size); free(h->at); h->at = 0; progress[8 + me]++; continue; }
        if (h->at) { unsigned char *at = realloc(h->at, size + 1); if (!at) abort(); h->at = at; check(h, h->size < size ? h->size : size); }
        else switch (random >> 45 & 7) {
            case 0: h->at = calloc(size + 1, 1); for (size_t i = 0; i < size; i += 31) if (h->at[i]) abort(); break;
            case 1: if (posix_memalign((void **)&h->at, 128, size + 1)) abort(); if ((uintptr_t)h->at & 127) abort(); break;
            case 2: h->at = aligned_alloc(64, (size + 64) & ~(size_t)63); if ((uintptr_t)h->at & 63) abort(); break;
            default: h->at = malloc(size + 1);
        }
        if (!h->at) abort();
        h->size = size; h->mark = (unsigned char)random;
        for (size_t i = 0; i < size; i++) h->at[i] = (unsigned char)(h->mark + i);
        progress[8 + me]++;
    }
}
static void *idle(void *unused) { (void)unused; for (;;) pause(); }
int main(int count, char **words) {
    if (count < 4) return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int file = open(words[1], O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, 4096)) return 3;
    progress = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0); close(file);
    pthread_attr_t small; pthread_attr_init(&small); pthread_attr_setstacksize(&small, 65536); pthread_t t;
    long threads = atol(words[2]), idles = atol(words[3]);
    for (long i = 0; i < idles; i++) if (pthread_create(&t, &small, idle, 0)) return 4;
    for (long i = 1; i < threads; i++) if (pthread_create(&t, 0, work, (void *)i)) return 4;
    progress[0] = 1;
    if (threads) work(0);
    for (;;) pause();
}
