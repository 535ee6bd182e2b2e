// Calls jemalloc's own interface; one letter on standard input each, answered by the number of blocks that it holds. With PREFIX, the functions are its own, and
// have that before their names: an allocator that never gives memory back.
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifdef PREFIX
#define JOINED(prefix, name) prefix##name
#define NAMED(prefix, name) JOINED(prefix, name)
#define REAL(name) NAMED(PREFIX, name)
#define OWN __attribute__((used, noipa))

static char arena[16 << 20];
static volatile size_t at, calls;

OWN void *REAL(mallocx)(size_t size, int flags) {
  calls += (size_t)flags + 1;
  at = (at + 31) & ~15ul;
  void *block = arena + at;
  at += size;
  return block;
}
OWN void *REAL(malloc)(size_t size) {
  calls += 1;
  at = (at + 31) & ~15ul;
  void *block = arena + at;
  at += size;
  return block;
}
OWN void *REAL(rallocx)(void *old, size_t size, int flags) {
  calls += (size_t)flags + 1;
  at = (at + 31) & ~15ul;
  char *block = arena + at;
  at += size;
  for (size_t i = 0; i < size / 2; i++) block[i] = ((volatile char *)old)[i];
  return block;
}
OWN void REAL(dallocx)(void *block, int flags) { calls += block ? (size_t)flags + 1 : 0; }
OWN void REAL(sdallocx)(void *block, size_t size, int flags) { calls += block ? size + (size_t)flags : 0; }
OWN void REAL(free)(void *block) { calls += block ? 1 : 0; }
#else
#include <stdlib.h>
#define REAL(name) name
void *mallocx(size_t, int);
void *rallocx(void *, size_t, int);
void dallocx(void *, int);
void sdallocx(void *, size_t, int);
#endif

static void *blocks[100];
static int count;

__attribute__((noinline)) static void take_by_mallocx(void) {
  while (count < 100) blocks[count++] = REAL(mallocx)(1000, 0);
}

__attribute__((noinline)) static void grow_by_rallocx(void) {
  for (int i = 0; i < count; i++) blocks[i] = REAL(rallocx)(blocks[i], 2000, 0);
}

__attribute__((noinline)) static void take_plainly(void) {
  while (count < 50) blocks[count++] = REAL(malloc)(100);
}

__attribute__((noinline)) static void drop_all(size_t size) {
  while (count > 0) {
    void *block = blocks[--count];
    if (count % 2)
      REAL(sdallocx)(block, size, 0);
    else
      REAL(dallocx)(block, 0);
  }
}

int main(void) {
  static char line[64];
  setvbuf(stdout, NULL, _IOLBF, 0);
  printf("pid %d\n", getpid());
  while (fgets(line, sizeof line, stdin)) {
    if (line[0] == 'a') take_by_mallocx();
    if (line[0] == 'r') grow_by_rallocx();
    if (line[0] == 'm') take_plainly();
    if (line[0] == 'f') drop_all(2000);
    if (line[0] == 's') drop_all(100);
    printf("%d\n", count);
  }
  return 0;
}
