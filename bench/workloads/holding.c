// Holds so many live blocks of many sizes from a thousand different stacks, and waits until its input ends.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t random_state = 88172645463325252u;

static uint64_t next_random(void) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  return random_state ^= random_state << 17;
}

// Three levels with ten call sites each.
#define TEN(call) \
  switch (digits % 10) { \
    case 0: call; break; case 1: call; break; case 2: call; break; case 3: call; break; case 4: call; break; \
    case 5: call; break; case 6: call; break; case 7: call; break; case 8: call; break; default: call; \
  } \
  __asm__ volatile("")

static void *made;

__attribute__((noinline)) static void innermost(unsigned digits, size_t size) { TEN(made = malloc(size)); }
__attribute__((noinline)) static void middle(unsigned digits, size_t size) { TEN(innermost(digits / 10, size)); }
__attribute__((noinline)) static void outermost(unsigned digits, size_t size) { TEN(middle(digits / 10, size)); }

int main(int count, char **arguments) {
  long blocks = count > 1 ? atol(arguments[1]) : 1000000;
  for (long at = 0; at < blocks; at++) {
    uint64_t random = next_random();
    size_t size = 16 + (random >> 20) % 48;
    outermost((unsigned)(random % 1000), size);
    memset(made, 1, 8);
  }
  printf("%d\n", 1);
  fflush(stdout);
  while (getchar() != EOF) {}
  return 0;
}
