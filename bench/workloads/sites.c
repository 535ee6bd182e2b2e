// Holds memory at 1,000 call sites, some calls deep. Each second it frees and allocates at 100 of them, of other sizes, so that live bytes change.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *held[1000];
static unsigned dice = 1;

// The same each time in one process, different in two.
static size_t more(void) { return (dice = dice * 1664525 + 1013904223) >> 22; }

__attribute__((noinline)) static void *take(size_t size) { return malloc(size); }

#define SITE(N) free(held[N]); held[N] = take(16 + N * 8 + more());
#define TEN(N) SITE(N) SITE(N + 1) SITE(N + 2) SITE(N + 3) SITE(N + 4) SITE(N + 5) SITE(N + 6) SITE(N + 7) SITE(N + 8) SITE(N + 9)
#define HUNDRED(N) TEN(N) TEN(N + 10) TEN(N + 20) TEN(N + 30) TEN(N + 40) TEN(N + 50) TEN(N + 60) TEN(N + 70) TEN(N + 80) TEN(N + 90)
#define PART(N) __attribute__((noinline)) static void part##N(void) { HUNDRED(N * 100) }
PART(0) PART(1) PART(2) PART(3) PART(4) PART(5) PART(6) PART(7) PART(8) PART(9)

static void (*const parts[10])(void) = {part0, part1, part2, part3, part4, part5, part6, part7, part8, part9};

__attribute__((noinline)) static void deep(int depth, int part) {
  if (depth > 0) deep(depth - 1, part);
  else parts[part]();
  __asm__ volatile("" ::: "memory");
}

int main(void) {
  dice = (unsigned)getpid();
  for (int part = 0; part < 10; part++) deep(12, part);
  puts("ready");
  fflush(stdout);
  for (unsigned second = 0;; second++) {
    sleep(1);
    deep(12, (int)(second % 10));
  }
}
