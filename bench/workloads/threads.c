/* Threads in a ring: each hands its blocks to the next one, which reads and frees them.
 * usage: threads PAIRS THREADS; prints the wall time of the part in which all run. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OWN_FRAME __attribute__((noinline, noclone))
enum { ROOM = 4096, MOST = 64 };

/* One writer, one reader; the two counters on lines of their own. */
static struct queue {
    _Alignas(64) atomic_ulong written;
    _Alignas(64) atomic_ulong taken;
    _Alignas(64) atomic_int closed;
    unsigned char *blocks[ROOM];
} queues[MOST];

static long pairs_each, thread_count;
static pthread_barrier_t start;
static unsigned sums[MOST];

OWN_FRAME static unsigned char *make(size_t size, int seed) {
    unsigned char *block = malloc(size);
    memset(block, seed, size);
    return block;
}

OWN_FRAME static unsigned take_all(struct queue *queue) {
    unsigned long taken = atomic_load_explicit(&queue->taken, memory_order_relaxed);
    unsigned long written = atomic_load_explicit(&queue->written, memory_order_acquire);
    unsigned sum = 0;
    for (; taken != written; taken++) {
        unsigned char *block = queue->blocks[taken % ROOM];
        sum = sum * 31 + block[7];
        free(block);
    }
    atomic_store_explicit(&queue->taken, taken, memory_order_release);
    return sum;
}

static void *run(void *argument) {
    long me = (long)argument;
    struct queue *mine = &queues[me], *next = &queues[(me + 1) % thread_count];
    unsigned sum = 0;
    pthread_barrier_wait(&start);
    for (long i = 0; i < pairs_each; i++) {
        unsigned long written = atomic_load_explicit(&next->written, memory_order_relaxed);
        while (written - atomic_load_explicit(&next->taken, memory_order_acquire) == ROOM) {
            unsigned long before = atomic_load(&mine->taken);
            sum += take_all(mine);
            if (atomic_load(&mine->taken) == before) sched_yield();
        }
        next->blocks[written % ROOM] = make((size_t)(i % 120 + 16), (int)i);
        atomic_store_explicit(&next->written, written + 1, memory_order_release);
        if (i % 64 == 0) sum += take_all(mine);
    }
    atomic_store(&next->closed, 1);
    while (!atomic_load(&mine->closed)) {
        sum += take_all(mine);
        sched_yield();
    }
    sum += take_all(mine);
    sums[me] = sum;
    return NULL;
}

int main(int count, char **arguments) {
    if (count < 3) return 98;
    thread_count = atol(arguments[2]);
    pairs_each = atol(arguments[1]) / thread_count;
    pthread_barrier_init(&start, NULL, (unsigned)thread_count + 1);
    pthread_t threads[MOST];
    for (long i = 0; i < thread_count; i++) pthread_create(&threads[i], NULL, run, (void *)i);
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    pthread_barrier_wait(&start);
    for (long i = 0; i < thread_count; i++) pthread_join(threads[i], NULL);
    clock_gettime(CLOCK_MONOTONIC, &to);
    double seconds = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
    printf("pairs %ld wall %.6f\n", pairs_each * thread_count, seconds);
    return 0;
}
