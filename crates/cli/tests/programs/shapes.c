// A program whose memory has a shape over time: 'leak' keeps more and more, 'steady' holds the same, 'sawtooth' lets a cache grow and drops it once a second.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STEPS 20

__attribute__((noinline)) static void *touched(size_t bytes) {
  char *block = malloc(bytes);
  memset(block, 1, bytes);
  return block;
}

__attribute__((noinline)) static void leak(void) { *(void *volatile *)touched(128 << 10) = NULL; }

int main(int count, char **arguments) {
  const char *shape = count > 1 ? arguments[1] : "steady";
  void *volatile base = touched(4 << 20);
  void *cache[STEPS] = {0};
  printf("pid %d\n", (int)getpid());
  fflush(stdout);
  for (unsigned step = 0;; step++) {
    if (!strcmp(shape, "leak")) leak();
    if (!strcmp(shape, "sawtooth")) {
      if (step % STEPS == 0)
        for (int at = 0; at < STEPS; at++) free(cache[at]), cache[at] = NULL;
      cache[step % STEPS] = touched(512 << 10);
    }
    free(touched(64 << 10));
    usleep(50000);
  }
  return base == NULL;
}
