// Keeps a list of the program's live blocks, like Highwater's agent, and prints it: the tests compare pages with it. Included by each program.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static __thread int site; // The site of the thread's next blocks.

struct entry { uintptr_t address; size_t size; int site; };
#define ENTRIES (1ul << 23)
#define GONE 1
static struct entry *entries;
static volatile int lock;
static void *(*real_malloc)(size_t);
static void *(*real_calloc)(size_t, size_t);
static void *(*real_realloc)(void *, size_t);
static void *(*real_aligned)(size_t, size_t);
static void (*real_free)(void *);
static size_t (*real_usable)(void *);
static char early[4096];
static size_t early_used;

static void acquire(void) { while (__sync_lock_test_and_set(&lock, 1)) usleep(1); }
static void release(void) { __sync_lock_release(&lock); }
static int is_early(void *block) { return (char *)block >= early && (char *)block < early + sizeof early; }

static void resolve(void) {
    if (real_free) return;
    real_malloc = dlsym(RTLD_NEXT, "malloc");
    real_calloc = dlsym(RTLD_NEXT, "calloc");
    real_realloc = dlsym(RTLD_NEXT, "realloc");
    real_aligned = dlsym(RTLD_NEXT, "memalign");
    real_usable = dlsym(RTLD_NEXT, "malloc_usable_size");
    entries = mmap(0, ENTRIES * sizeof *entries, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    real_free = dlsym(RTLD_NEXT, "free");
}
__attribute__((constructor)) static void begin(void) { resolve(); }

static size_t slot(uintptr_t address) { return (address >> 4) * 0x9E3779B97F4A7C15ul >> 41; }
static void note(void *block, size_t size) {
    if (!block) return;
    acquire();
    size_t i = slot((uintptr_t)block);
    while (entries[i].address > GONE) i = (i + 1) % ENTRIES;
    entries[i] = (struct entry){(uintptr_t)block, size, site};
    release();
}
static void forget(void *block) {
    acquire();
    size_t i = slot((uintptr_t)block);
    for (; entries[i].address; i = (i + 1) % ENTRIES) if (entries[i].address == (uintptr_t)block) { entries[i].address = GONE; break; }
    release();
}
void *malloc(size_t size) {
    resolve();
    void *block = real_malloc(size);
    note(block, size);
    return block;
}
void *calloc(size_t count, size_t size) {
    if (!real_calloc) { void *block = early + early_used; early_used += (count * size + 15) & ~15ul; return block; }
    resolve();
    void *block = real_calloc(count, size);
    note(block, count * size);
    return block;
}
void *realloc(void *old, size_t size) {
    resolve();
    if (old) forget(old);
    void *block = real_realloc(old, size);
    note(block, size);
    return block;
}
void *memalign(size_t alignment, size_t size) {
    resolve();
    void *block = real_aligned(alignment, size);
    note(block, size);
    return block;
}
void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
void free(void *block) {
    if (!block || is_early(block)) return;
    forget(block);
    real_free(block);
}

// Mappings of the program, each with a site.
static struct { char *start; size_t size; int site; } mapped[64];
static int mapped_count;
__attribute__((unused)) static char *map(size_t size, int of) {
    char *start = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mapped[mapped_count].start = start, mapped[mapped_count].size = size, mapped[mapped_count++].site = of;
    return start;
}

static char out[1 << 16];
static size_t out_used;
static void flush(void) { for (size_t at = 0; at < out_used;) at += write(1, out + at, out_used - at); out_used = 0; }
static void print(const char *format, unsigned long a, unsigned long b, unsigned long c, int d) {
    if (out_used > sizeof out - 128) flush();
    out_used += snprintf(out + out_used, 128, format, a, b, c, d);
}
static void list(void) {
    print("agent %lx %lx\n", (unsigned long)entries, (unsigned long)(entries + ENTRIES), 0, 0);
    for (size_t i = 0; i < ENTRIES; i++) {
        if (entries[i].address > GONE) print("block %lx %lu %lu %d\n", entries[i].address, entries[i].size, real_usable((void *)entries[i].address), entries[i].site);
    }
    for (int i = 0; i < mapped_count; i++) print("mapping %lx %lx %lu\n", (unsigned long)mapped[i].start, (unsigned long)(mapped[i].start + mapped[i].size), mapped[i].site, 0);
}
static void forget_site(int of) {
    for (size_t i = 0; i < ENTRIES; i++) if (entries[i].address > GONE && entries[i].site == of) { void *block = (void *)entries[i].address; entries[i].address = GONE; real_free(block); }
}

// Obeys commands from standard input: l lists, t trims, f frees the blocks of site 1, others are the program's. Each ends with a line "done".
static void obey(void (*own)(char)) {
    print("done\n", 0, 0, 0, 0);
    flush();
    char command;
    while (read(0, &command, 1) == 1) {
        if (command == 'l') list();
        else if (command == 't') malloc_trim(0);
        else if (command == 'f') forget_site(1);
        else if (own) own(command);
        print("done\n", 0, 0, 0, 0);
        flush();
    }
}
