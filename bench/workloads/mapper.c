// Holds memory that it has touched, maps and unmaps a page again and again, and prints for each line of its input the longest wait of a call since the last one, in microseconds.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static atomic_long longest;

static long now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000l + time.tv_nsec;
}

static void *map_pages(void *unused) {
  (void)unused;
  for (;;) {
    long begin = now();
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(page, 4096);
    long waited = now() - begin;
    if (waited > atomic_load(&longest)) atomic_store(&longest, waited);
    struct timespec nap = {0, 20000};
    nanosleep(&nap, NULL);
  }
}

int main(int count, char **arguments) {
  size_t bytes = (size_t)(count > 1 ? atoi(arguments[1]) : 1024) << 20;
  char *held = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  madvise(held, bytes, MADV_NOHUGEPAGE);
  memset(held, 1, bytes);
  pthread_t thread;
  pthread_create(&thread, NULL, map_pages, NULL);
  setvbuf(stdout, NULL, _IOLBF, 0);
  puts("ready");
  for (char line[16]; fgets(line, sizeof line, stdin);) printf("%ld\n", atomic_exchange(&longest, 0) / 1000);
  return 0;
}
