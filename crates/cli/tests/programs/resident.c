// Makes memory of known shapes on command, one line each on standard input, answered by one line each. It counts its own pages with mincore, and its RSS with statm.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096ul
#define MIB (1ul << 20)

static void **kept;
static unsigned long kept_count;
static char *mapping;
static atomic_int ready = 0;

static unsigned long rss(void) {
  static char text[256];
  unsigned long size = 0, resident = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  static char buffer[256];
  setvbuf(file, buffer, _IOFBF, sizeof buffer);
  if (fgets(text, sizeof text, file)) sscanf(text, "%lu %lu", &size, &resident);
  fclose(file);
  return resident * PAGE;
}

// The result passes through a variable: a tail call would leave no frame of this function.
__attribute__((noinline)) static void *allocate_untouched(unsigned long size) {
  void *volatile block = calloc(1, size);
  return block;
}

__attribute__((noinline)) static void *pin_block(unsigned long size) { return memset(malloc(size), 1, size); }

__attribute__((noinline)) static void *scratch_block(unsigned long size) { return memset(malloc(size), 2, size); }

// Allocates blocks of which every `every`th is kept, and the others are freed.
static void sparse(unsigned long count, unsigned long size, unsigned long every) {
  void **all = mmap(NULL, count * sizeof *all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  kept = mmap(NULL, (count / every + 1) * sizeof *kept, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (unsigned long at = 0; at < count; at++) all[at] = at % every ? scratch_block(size) : pin_block(size);
  kept_count = 0;
  for (unsigned long at = 0; at < count; at++)
    if (at % every) free(all[at]);
    else kept[kept_count++] = all[at];
  munmap(all, count * sizeof *all);
}

static void *stay(void *argument) {
  unsigned long bytes = (unsigned long)(uintptr_t)argument;
  if (bytes > 0) {
    void *blocks[64];
    for (int at = 0; at < 64; at++) blocks[at] = scratch_block(bytes / 64);
    for (int at = 0; at < 64; at++) free(blocks[at]);
    // The last block before the top keeps the rest from being returned.
    pin_block(64);
  } else {
    volatile char deep[64 << 10];
    memset((char *)deep, 1, sizeof deep);
  }
  atomic_fetch_add(&ready, 1);
  for (;;) pause();
}

static void threads(unsigned long number, unsigned long bytes) {
  for (unsigned long at = 0; at < number; at++) {
    pthread_t made;
    pthread_create(&made, NULL, stay, (void *)(uintptr_t)bytes);
  }
  while (atomic_load(&ready) < (int)number) usleep(1000);
}

__attribute__((noinline)) static char *map_pages(unsigned long pages) {
  void *volatile made = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return made;
}

int main(void) {
  static char line[256], word[64], text[160];
  unsigned long first, second, third;
  setvbuf(stdout, NULL, _IOLBF, 0);
  printf("pid %d\n", getpid());
  while (fgets(line, sizeof line, stdin)) {
    first = second = third = 0;
    text[0] = 0;
    if (sscanf(line, "%63s %lu %lu %lu", word, &first, &second, &third) < 1) continue;
    sscanf(line, "%*s %159[^\n]", text);
    if (!strcmp(word, "untouched")) allocate_untouched(first * MIB);
    else if (!strcmp(word, "sparse")) sparse(first, second, third);
    else if (!strcmp(word, "release")) {
      for (unsigned long at = 0; at < kept_count; at++) free(kept[at]);
      kept_count = 0;
    } else if (!strcmp(word, "trim")) malloc_trim(0);
    else if (!strcmp(word, "map")) mapping = memset(map_pages(first), 1, first * PAGE);
    else if (!strcmp(word, "giveback")) madvise(mapping + first * PAGE, second * PAGE, MADV_DONTNEED);
    else if (!strcmp(word, "slack"))
      for (unsigned long at = 0; at < first; at++) pin_block(second);
    else if (!strcmp(word, "threads")) threads(first, second);
    else if (!strcmp(word, "exec")) {
      char *arguments[] = {text, NULL};
      execvp(text, arguments);
    } else if (!strcmp(word, "exit")) _exit(0);
    printf("rss %lu\n", rss());
  }
  return 0;
}
