// A server without its network: each request makes 500 allocations of mixed sizes, uses them, and frees them; some stay in a cache.
// Prints the median and the 99th percentile of the time of a request, in nanoseconds.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REQUESTS = 20000, WARM_UP = 2000, ALLOCATIONS = 500, CACHE = 4096 };

static uint64_t random_state = 88172645463325252u;
static void *cache[CACHE];
static uint32_t times[REQUESTS];

static uint64_t next_random(void) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  return random_state ^= random_state << 17;
}

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

struct node {
  struct node *next;
  size_t size;
};

__attribute__((noinline)) static struct node *part(struct node *list, size_t size) {
  struct node *made = malloc(sizeof *made + size);
  memset(made + 1, (int)size, size < 256 ? size : 256);
  made->next = list;
  made->size = size;
  return made;
}

__attribute__((noinline)) static uint64_t request(void) {
  struct node *list = NULL;
  uint64_t sum = 0;
  for (int at = 0; at < ALLOCATIONS; at++) {
    uint64_t random = next_random();
    // Mostly small: 16 bytes to 4 kB, twice as large half as often.
    size_t size = (16u << __builtin_ctzll(random | 256)) + (random >> 40) % 16;
    list = part(list, size);
  }
  while (list) {
    struct node *next = list->next;
    sum += list->size + ((unsigned char *)(list + 1))[0];
    if (list->size % 64 == 7) {
      void **place = &cache[next_random() % CACHE];
      free(*place);
      *place = list;
    } else {
      free(list);
    }
    list = next;
  }
  return sum;
}

static int compare(const void *one, const void *other) {
  uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
  return a < b ? -1 : a > b;
}

int main(void) {
  uint64_t sum = 0;
  for (int at = 0; at < WARM_UP; at++) sum += request();
  for (int at = 0; at < REQUESTS; at++) {
    uint64_t begin = now();
    sum += request();
    times[at] = (uint32_t)(now() - begin);
  }
  qsort(times, REQUESTS, sizeof *times, compare);
  printf("%u %u %llu\n", times[REQUESTS / 2], times[REQUESTS / 100 * 99], (unsigned long long)sum % 10);
  return 0;
}
