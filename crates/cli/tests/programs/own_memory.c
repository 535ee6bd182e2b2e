// Maps nothing of its own: its threads' stacks are static, and it has one arena, which is the heap. So every other anonymous mapping is the agent's.
// Lets threads come and go, keeps some, forks a child, and prints for both processes the number and an address in their thread's own storage.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 200
#define STACK (64 * 1024)

static char stacks[THREADS][STACK] __attribute__((aligned(4096)));
static void *kept[200000];
static pthread_barrier_t met;

static void *allocate(void *stays) {
  for (int round = 0; round < 50; round++) free(malloc(100 + round));
  if (stays) {
    pthread_barrier_wait(&met);
    pause();
  }
  return NULL;
}

static pthread_t begin(int number, void *stays) {
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, stacks[number], STACK);
  if (pthread_create(&thread, &attributes, allocate, stays) != 0) abort();
  pthread_attr_destroy(&attributes);
  return thread;
}

static void introduce(void) {
  printf("%d %lx\n", getpid(), (unsigned long)pthread_self());
  fflush(stdout);
}

int main(void) {
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  for (int round = 0; round < 3; round++) {
    pthread_t threads[THREADS];
    for (int at = 0; at < THREADS; at++) threads[at] = begin(at, NULL);
    for (int at = 0; at < THREADS; at++) pthread_join(threads[at], NULL);
  }
  for (int at = 0; at < 200000; at++) kept[at] = malloc(48);
  pid_t child = fork();
  if (child == 0) {
    for (int at = 0; at < 100000; at++) kept[at] = malloc(32);
    introduce();
    getchar();
    _exit(0);
  }
  pthread_barrier_init(&met, NULL, THREADS + 1);
  for (int at = 0; at < THREADS; at++) begin(at, kept);
  pthread_barrier_wait(&met);
  introduce();
  getchar();
  waitpid(child, NULL, 0);
  _exit(0);
}
