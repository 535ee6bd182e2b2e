// Allocates, resizes and frees in several threads without end, and checks what it has written. Each line on standard input is answered with the number of
// calls so far. Any wrong byte ends it.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { SLOTS = 400 };
static atomic_ulong calls;
struct held { unsigned char *at; size_t size; unsigned char mark; };

static void check(const struct held *one, size_t size) {
  for (size_t i = 0; i < size; i += 13)
    if (one->at[i] != (unsigned char)(one->mark + i)) abort();
}

static void *work(void *number) {
  uint64_t random = 0x9E3779B97F4A7C15ull * ((uintptr_t)number + 1);
  struct held *held = calloc(SLOTS, sizeof *held);
  for (;;) {
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    struct held *one = &held[random % SLOTS];
    size_t size = 1 + (random >> 20) % 3000;
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    if (one->at && random >> 40 & 1) {
      check(one, one->size);
      free(one->at);
      one->at = NULL;
      continue;
    }
    if (one->at) {
      one->at = realloc(one->at, size);
      check(one, one->size < size ? one->size : size);
    } else {
      one->at = malloc(size);
    }
    one->size = size, one->mark = (unsigned char)random;
    for (size_t i = 0; i < size; i++) one->at[i] = (unsigned char)(one->mark + i);
  }
}

int main(int count, char **words) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setvbuf(stdout, NULL, _IOLBF, 0);
  for (long at = 0, most = count > 1 ? atol(words[1]) : 1; at < most; at++) {
    pthread_t made;
    if (pthread_create(&made, NULL, work, (void *)at)) return 1;
  }
  printf("pid %d\n", getpid());
  static char line[64];
  while (fgets(line, sizeof line, stdin)) printf("%lu 0\n", atomic_load(&calls));
  return 0;
}
