// Holds memory on command, one line each on standard input, answered by one line each; counts by itself what it holds.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST 12000000
static void *(*held)[1];
static unsigned *sizes;
static unsigned count;
static unsigned long bytes;

__attribute__((noinline)) static void keep_blocks(unsigned number, unsigned size) {
  for (unsigned at = 0; at < number; at++) {
    char *block = malloc(size);
    memset(block, (int)('a' + at % 26), size < 16 ? size : 16);
    held[count][0] = block;
    sizes[count++] = size;
    bytes += size;
  }
}

__attribute__((noinline)) static void drop_blocks(unsigned number) {
  while (number-- > 0 && count > 0) {
    free(held[--count][0]);
    bytes -= sizes[count];
  }
}

__attribute__((noinline)) static void grow_blocks(void) {
  for (unsigned at = 0; at < count; at++) {
    held[at][0] = realloc(held[at][0], sizes[at] * 2);
    bytes += sizes[at];
    sizes[at] *= 2;
  }
}

static atomic_int going = 0, kept_by_threads = 0;
static atomic_bool stop = 0;
struct task { unsigned number, size; };

__attribute__((noinline)) static void keep_in_thread(struct task *task) {
  for (unsigned at = 0; at < task->number; at++) {
    void *volatile block = malloc(task->size);
    (void)block;
    atomic_fetch_add(&kept_by_threads, 1);
  }
}

static void *thread(void *argument) {
  pthread_setname_np(pthread_self(), "keeper");
  keep_in_thread(argument);
  atomic_fetch_add(&going, 1);
  while (!atomic_load(&stop)) usleep(1000);
  return NULL;
}

static void *churn(void *argument) {
  unsigned random = (unsigned)(uintptr_t)argument * 2654435761u + 1;
  void *window[256] = {0};
  pthread_setname_np(pthread_self(), "churner");
  atomic_fetch_add(&going, 1);
  for (unsigned long round = 0; !atomic_load_explicit(&stop, memory_order_relaxed); round++) {
    random = random * 1664525u + 1013904223u;
    void **place = &window[random >> 24];
    unsigned size = 16 + (random >> 12) % 500;
    if (random & 1) {
      *place = realloc(*place, size);
    } else {
      free(*place);
      *place = malloc(size);
    }
  }
  for (int at = 0; at < 256; at++) free(window[at]);
  return NULL;
}

static void start(void *(*function)(void *), unsigned number, struct task *task) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 << 10);
  atomic_store(&going, 0);
  for (unsigned at = 0; at < number; at++) {
    pthread_t made;
    pthread_create(&made, &attributes, function, task ? (void *)task : (void *)(uintptr_t)(at + 1));
    pthread_detach(made);
  }
  while (atomic_load(&going) < (int)number) usleep(100);
}

static int lookup(const char *name, void *argument) {
  int (*function)(void *) = (int (*)(void *))dlsym(RTLD_DEFAULT, name);
  return function ? function(argument) : -2;
}

int main(void) {
  held = mmap(NULL, MOST * sizeof *held, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  sizes = mmap(NULL, MOST * sizeof *sizes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  static char line[256], word[64], text[160];
  static char *mapping = NULL;
  unsigned first, second;
  setvbuf(stdout, NULL, _IOLBF, 0);
  printf("pid %d\n", getpid());
  while (fgets(line, sizeof line, stdin)) {
    first = second = 0;
    text[0] = 0;
    if (sscanf(line, "%63s %u %u", word, &first, &second) < 1) continue;
    sscanf(line, "%*s %159[^\n]", text);
    if (!strcmp(word, "keep")) keep_blocks(first, second);
    else if (!strcmp(word, "drop")) drop_blocks(first);
    else if (!strcmp(word, "grow")) grow_blocks();
    else if (!strcmp(word, "map")) mapping = mmap(NULL, first * 4096ul, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    else if (!strcmp(word, "reserve")) mapping = mmap(NULL, first * 4096ul, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    else if (!strcmp(word, "commit")) mprotect(mapping + first * 4096ul, second * 4096ul, PROT_READ | PROT_WRITE);
    else if (!strcmp(word, "decommit")) mprotect(mapping + first * 4096ul, second * 4096ul, PROT_NONE);
    else if (!strcmp(word, "unmap")) munmap(mapping + first * 4096ul, second * 4096ul);
    else if (!strcmp(word, "remap")) mapping = mremap(mapping, first * 4096ul, second * 4096ul, MREMAP_MAYMOVE);
    else if (!strcmp(word, "threads")) {
      static struct task task;
      task = (struct task){second, 100};
      start(thread, first, &task);
    } else if (!strcmp(word, "churn")) start(churn, first, NULL);
    else if (!strcmp(word, "rest")) {
      atomic_store(&stop, 1);
      usleep(200000);
      atomic_store(&stop, 0);
    } else if (!strcmp(word, "snapshot")) {
      printf("%d\n", lookup("highwater_take_named_snapshot", text));
      continue;
    } else if (!strcmp(word, "stats")) {
      static unsigned long stats[4];
      int found = lookup("highwater_global_stats", stats);
      printf("%d %lu %lu %lu %lu\n", found, stats[0], stats[1], stats[2], stats[3]);
      continue;
    } else if (!strcmp(word, "fork")) {
      // The child goes on with the same input, its parent waits.
      pid_t child = fork();
      if (child == 0) {
        count = 0, bytes = 0;
        printf("pid %d\n", getpid());
        continue;
      }
      waitpid(child, NULL, 0);
      printf("back\n");
      continue;
    } else if (!strcmp(word, "exec")) {
      char *arguments[] = {text, NULL};
      execvp(text, arguments);
      printf("%s\n", strerror(errno));
      continue;
    } else if (!strcmp(word, "closeall")) {
      for (int number = 3; number < 5000; number++) close(number);
    } else if (!strcmp(word, "exit")) {
      _exit((int)first);
    } else {
      printf("?\n");
      continue;
    }
    printf("%u %lu\n", count, bytes);
  }
  return 0;
}
