// Starts 64 threads that allocate, each at a few depths, and waits until its input ends.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 64

static pthread_barrier_t done;

__attribute__((noinline)) static void *deep(int depth, size_t size) {
  void *block = depth > 0 ? deep(depth - 1, size + 1) : malloc(size);
  __asm__ volatile("");
  return block;
}

static void *work(void *unused) {
  for (int round = 0; round < 20000; round++) free(deep(round % 60, 16 + round % 200));
  pthread_barrier_wait(&done);
  pthread_barrier_wait(&done);
  return unused;
}

int main(void) {
  pthread_t threads[THREADS];
  pthread_barrier_init(&done, NULL, THREADS + 1);
  for (int at = 0; at < THREADS; at++) pthread_create(&threads[at], NULL, work, NULL);
  pthread_barrier_wait(&done);
  printf("%d\n", 1);
  fflush(stdout);
  while (getchar() != EOF) {}
  return 0;
}
