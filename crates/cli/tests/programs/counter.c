/* A second witness: a library for LD_PRELOAD that counts what passes through the malloc family of each process it is in, and
 * knows nothing of Highwater. The figures lie in a shared mapping of $COUNTER_DIRECTORY/<pid>, so that no way of ending a
 * process loses them. Beside Highwater in one run, it sees the calls that Highwater passes on; alone, those of the program.
 *
 * One lock and a table of fixed size: correct and slow. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The layout that the test reads: eight counters. */
struct figures {
    uint64_t allocations, frees, reallocations, allocated_bytes, freed_bytes, peak_bytes, peak_blocks, unknown;
};

struct entry {
    uintptr_t address;
    size_t size;
};

enum { BITS = 24 };
static const size_t SLOTS = (size_t)1 << BITS;

static void *(*real_malloc)(size_t), *(*real_calloc)(size_t, size_t), *(*real_realloc)(void *, size_t);
static void *(*real_reallocarray)(void *, size_t, size_t), *(*real_aligned_alloc)(size_t, size_t);
static void *(*real_memalign)(size_t, size_t), *(*real_valloc)(size_t), *(*real_pvalloc)(size_t);
static int (*real_posix_memalign)(void **, size_t, size_t);
static void (*real_free)(void *);

static struct figures *figures;
static struct entry *entries;
static pid_t owner;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread int inside __attribute__((tls_model("initial-exec")));

/* What dlsym itself may ask for while it looks for us. */
static char early[4096] __attribute__((aligned(16)));
static size_t early_used;

static void look_up(void) {
    if (real_free) return;
    inside++;
    real_malloc = dlsym(RTLD_NEXT, "malloc");
    real_calloc = dlsym(RTLD_NEXT, "calloc");
    real_realloc = dlsym(RTLD_NEXT, "realloc");
    real_reallocarray = dlsym(RTLD_NEXT, "reallocarray");
    real_aligned_alloc = dlsym(RTLD_NEXT, "aligned_alloc");
    real_memalign = dlsym(RTLD_NEXT, "memalign");
    real_valloc = dlsym(RTLD_NEXT, "valloc");
    real_pvalloc = dlsym(RTLD_NEXT, "pvalloc");
    real_posix_memalign = dlsym(RTLD_NEXT, "posix_memalign");
    real_free = dlsym(RTLD_NEXT, "free");
    inside--;
}

/* A child of fork counts from nothing: what it inherited is unknown to it. */
static int begin(void) {
    if (owner == getpid()) return figures != NULL;
    owner = getpid();
    figures = NULL;
    const char *directory = getenv("COUNTER_DIRECTORY");
    if (!directory) return 0;
    char path[4096];
    snprintf(path, sizeof path, "%s/%d", directory, owner);
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0) return 0;
    if (ftruncate(file, sizeof *figures) == 0) {
        void *map = mmap(NULL, sizeof *figures, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (map != MAP_FAILED) figures = map;
    }
    close(file);
    if (entries) munmap(entries, SLOTS * sizeof *entries);
    entries = mmap(NULL, SLOTS * sizeof *entries, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return figures != NULL;
}

static size_t home(uintptr_t address) { return (address >> 4) * 0x9E3779B97F4A7C15u >> (64 - BITS); }

static void enter(void *address, size_t size) {
    size_t slot = home((uintptr_t)address);
    while (entries[slot].address) slot = (slot + 1) % SLOTS;
    entries[slot] = (struct entry){(uintptr_t)address, size};
    figures->allocated_bytes += size;
    uint64_t live = figures->allocated_bytes - figures->freed_bytes;
    if (live > figures->peak_bytes) figures->peak_bytes = live;
    uint64_t blocks = figures->allocations - figures->frees;
    if (blocks > figures->peak_blocks) figures->peak_blocks = blocks;
}

static int leave(void *address, size_t *size) {
    size_t slot = home((uintptr_t)address);
    for (; entries[slot].address != (uintptr_t)address; slot = (slot + 1) % SLOTS)
        if (!entries[slot].address) return 0;
    *size = entries[slot].size;
    for (size_t next = (slot + 1) % SLOTS; entries[next].address; next = (next + 1) % SLOTS) {
        if ((next - home(entries[next].address)) % SLOTS >= (next - slot) % SLOTS) {
            entries[slot] = entries[next];
            slot = next;
        }
    }
    entries[slot].address = 0;
    return 1;
}

static void born(void *address, size_t size) {
    if (!address || inside) return;
    int error = errno;
    inside++;
    pthread_mutex_lock(&lock);
    if (begin()) {
        figures->allocations++;
        enter(address, size);
    }
    pthread_mutex_unlock(&lock);
    inside--;
    errno = error;
}

static void dies(void *address) {
    if (!address || inside) return;
    int error = errno;
    inside++;
    pthread_mutex_lock(&lock);
    size_t size;
    if (begin()) {
        if (leave(address, &size)) {
            figures->frees++;
            figures->freed_bytes += size;
        } else {
            figures->unknown++;
        }
    }
    pthread_mutex_unlock(&lock);
    inside--;
    errno = error;
}

void *malloc(size_t size) {
    if (!real_free) {
        if (inside) {
            void *block = early + early_used;
            early_used += (size + 15) & ~(size_t)15;
            return early_used <= sizeof early ? block : NULL;
        }
        look_up();
    }
    void *block = real_malloc(size);
    born(block, size);
    return block;
}

void *calloc(size_t count, size_t size) {
    if (!real_free) {
        if (inside) return malloc(count * size);
        look_up();
    }
    void *block = real_calloc(count, size);
    born(block, count * size);
    return block;
}

void free(void *block) {
    if ((char *)block >= early && (char *)block < early + sizeof early) return;
    look_up();
    dies(block);
    real_free(block);
}

/* The whole of a reallocation happens under the lock: nobody can be given the old place in between. */
static void *resize(void *block, size_t count, size_t size, int is_array) {
    look_up();
    if (inside) return is_array ? real_reallocarray(block, count, size) : real_realloc(block, size);
    inside++;
    pthread_mutex_lock(&lock);
    int counts = begin();
    size_t old_size = 0, bytes = size;
    int overflows = is_array && __builtin_mul_overflow(count, size, &bytes);
    int known = counts && block && leave(block, &old_size);
    void *moved = is_array ? real_reallocarray(block, count, size) : real_realloc(block, size);
    int error = errno;
    if (counts) {
        if (moved && block && known) {
            figures->reallocations++;
            figures->freed_bytes += old_size;
            enter(moved, bytes);
        } else if (moved) {
            if (block) figures->unknown++;
            figures->allocations++;
            enter(moved, bytes);
        } else if (known && bytes == 0 && !overflows) {
            figures->frees++;
            figures->freed_bytes += old_size;
        } else if (known) {
            uint64_t peak = figures->peak_bytes;
            enter(block, old_size);
            figures->allocated_bytes -= old_size;
            figures->peak_bytes = peak;
        }
    }
    pthread_mutex_unlock(&lock);
    inside--;
    errno = error;
    return moved;
}

void *realloc(void *block, size_t size) { return resize(block, 1, size, 0); }
void *reallocarray(void *block, size_t count, size_t size) { return resize(block, count, size, 1); }

int posix_memalign(void **place, size_t alignment, size_t size) {
    look_up();
    int result = real_posix_memalign(place, alignment, size);
    if (result == 0) born(*place, size);
    return result;
}

#define ALIGNED(name)                                \
    void *name(size_t alignment, size_t size) {      \
        look_up();                                   \
        void *block = real_##name(alignment, size);  \
        born(block, size);                           \
        return block;                                \
    }
ALIGNED(aligned_alloc)
ALIGNED(memalign)

#define IN_PAGES(name)                     \
    void *name(size_t size) {              \
        look_up();                         \
        void *block = real_##name(size);   \
        born(block, size);                 \
        return block;                      \
    }
IN_PAGES(valloc)
IN_PAGES(pvalloc)
