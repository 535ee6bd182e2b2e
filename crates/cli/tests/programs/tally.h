/* A program's count of its own blocks, by function and by thread, kept as the laws of the model say: a block belongs to the
 * function and the thread that allocated or last resized it, and its death is charged to them. Uses no heap.
 *
 * Call tally_born after an allocation returned, tally_dies before its free, and tally_leaves / tally_comes around a
 * reallocation, from the function that is to own the block; then tally_print once. */
#ifndef TALLY_H
#define TALLY_H

#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A function that keeps its name and its frame, whatever the optimiser thinks of it. */
#define OWN_FRAME __attribute__((noinline, noclone, noipa))

/* The compiler must not know what becomes of a block, or it removes the allocation together with the free. */
#define ESCAPES(pointer) __asm__ volatile("" : : "r"(pointer) : "memory")

enum { TALLY_FUNCTIONS = 64, TALLY_THREADS = 64, TALLY_SLOTS = 1 << 18 };

struct figures {
    long allocations, frees, reallocations, reallocated_away, allocated_bytes, freed_bytes, peak_bytes, cross_thread_frees;
    long temporary_allocations;
};

struct tally_owner {
    const char *name;
    long tid, latest;
    int threads_seen, last_thread;
    struct figures figures;
};

struct tally_block {
    void *address;
    size_t size;
    long number;
    int function, thread;
};

static struct tally_owner tally_functions[TALLY_FUNCTIONS], tally_threads[TALLY_THREADS];
static int tally_function_count, tally_thread_count;
static struct figures tally_total;
static struct tally_block tally_blocks[TALLY_SLOTS];
static pthread_mutex_t tally_lock = PTHREAD_MUTEX_INITIALIZER;
static long tally_next_number = 1;
static __thread int tally_this_thread = -1;
static __thread long tally_moving; /* the number of the block that is being reallocated */

static inline void tally_fail(const char *what) {
    dprintf(2, "tally: %s\n", what);
    _exit(99);
}

static inline int tally_function(const char *name) {
    for (int i = 0; i < tally_function_count; i++)
        if (!strcmp(tally_functions[i].name, name)) return i;
    if (tally_function_count == TALLY_FUNCTIONS) tally_fail("too many functions");
    tally_functions[tally_function_count].name = name;
    tally_functions[tally_function_count].last_thread = -1;
    return tally_function_count++;
}

static inline int tally_thread(void) {
    if (tally_this_thread >= 0) return tally_this_thread;
    if (tally_thread_count == TALLY_THREADS) tally_fail("too many threads");
    tally_threads[tally_thread_count].tid = syscall(SYS_gettid);
    return tally_this_thread = tally_thread_count++;
}

static inline size_t tally_home(void *address) { return ((uintptr_t)address >> 4) * 0x9E3779B97F4A7C15u >> 46; }

static inline void tally_arrive(struct figures *figures, size_t size, int by_reallocation) {
    if (by_reallocation) figures->reallocations++;
    else figures->allocations++;
    figures->allocated_bytes += (long)size;
    long live = figures->allocated_bytes - figures->freed_bytes;
    if (live > figures->peak_bytes) figures->peak_bytes = live;
}

static inline void tally_enter(const char *function, void *address, size_t size, int by_reallocation) {
    pthread_mutex_lock(&tally_lock);
    int f = tally_function(function), t = tally_thread();
    if (tally_functions[f].last_thread != t) tally_functions[f].threads_seen++;
    tally_functions[f].last_thread = t;
    size_t slot = tally_home(address);
    while (tally_blocks[slot].address) {
        if (tally_blocks[slot].address == address) tally_fail("two live blocks at one address");
        slot = (slot + 1) % TALLY_SLOTS;
    }
    long number = by_reallocation ? tally_moving : tally_next_number++;
    tally_threads[t].latest = number;
    tally_blocks[slot] = (struct tally_block){address, size, number, f, t};
    tally_arrive(&tally_functions[f].figures, size, by_reallocation);
    tally_arrive(&tally_threads[t].figures, size, by_reallocation);
    tally_arrive(&tally_total, size, by_reallocation);
    pthread_mutex_unlock(&tally_lock);
}

static inline struct tally_block tally_take(void *address) {
    size_t slot = tally_home(address);
    while (tally_blocks[slot].address != address) {
        if (!tally_blocks[slot].address) tally_fail("a block that nobody knows");
        slot = (slot + 1) % TALLY_SLOTS;
    }
    struct tally_block block = tally_blocks[slot];
    for (size_t next = (slot + 1) % TALLY_SLOTS; tally_blocks[next].address; next = (next + 1) % TALLY_SLOTS) {
        size_t home = tally_home(tally_blocks[next].address);
        if ((next - home) % TALLY_SLOTS >= (next - slot) % TALLY_SLOTS) {
            tally_blocks[slot] = tally_blocks[next];
            slot = next;
        }
    }
    tally_blocks[slot].address = NULL;
    return block;
}

static inline void tally_depart(struct figures *figures, const struct tally_block *block, int by_reallocation, int crosses,
                                int is_temporary) {
    if (by_reallocation) figures->reallocated_away++;
    else figures->frees++;
    figures->freed_bytes += (long)block->size;
    if (by_reallocation) return;
    figures->cross_thread_frees += crosses;
    figures->temporary_allocations += is_temporary;
}

static inline void tally_remove(void *address, int by_reallocation) {
    if (!address) return;
    pthread_mutex_lock(&tally_lock);
    struct tally_block block = tally_take(address);
    int crosses = block.thread != tally_thread(), is_temporary = block.number == tally_threads[block.thread].latest;
    tally_moving = block.number;
    tally_depart(&tally_functions[block.function].figures, &block, by_reallocation, crosses, is_temporary);
    tally_depart(&tally_threads[block.thread].figures, &block, by_reallocation, crosses, is_temporary);
    tally_depart(&tally_total, &block, by_reallocation, crosses, is_temporary);
    pthread_mutex_unlock(&tally_lock);
}

#define tally_born(address, size) tally_enter(__func__, address, size, 0)
#define tally_dies(address) tally_remove(address, 0)
#define tally_leaves(address) tally_remove(address, 1)
#define tally_comes(address, size) tally_enter(__func__, address, size, 1)

/* This thread is about to allocate something that is not tallied: what it allocated last is no longer the latest. */
static inline void tally_else(void) {
    pthread_mutex_lock(&tally_lock);
    tally_threads[tally_thread()].latest = 0;
    pthread_mutex_unlock(&tally_lock);
}

static char tally_text[1 << 16];
static size_t tally_length;

__attribute__((format(printf, 1, 2))) static inline void tally_say(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    tally_length += (size_t)vsnprintf(tally_text + tally_length, sizeof tally_text - tally_length, format, arguments);
    va_end(arguments);
    if (tally_length >= sizeof tally_text) tally_fail("too much to say");
}

static inline void tally_say_figures(const struct figures *f, int peak_is_known) {
    tally_say("\"allocations\":%ld,\"frees\":%ld,\"reallocations\":%ld,\"reallocated_away\":%ld,\"allocated_bytes\":%ld,"
              "\"freed_bytes\":%ld,\"live_blocks\":%ld,\"live_bytes\":%ld,\"cross_thread_frees\":%ld,"
              "\"temporary_allocations\":%ld,\"peak_bytes\":",
              f->allocations, f->frees, f->reallocations, f->reallocated_away, f->allocated_bytes, f->freed_bytes,
              f->allocations + f->reallocations - f->frees - f->reallocated_away, f->allocated_bytes - f->freed_bytes,
              f->cross_thread_frees, f->temporary_allocations);
    if (peak_is_known) tally_say("%ld", f->peak_bytes);
    else tally_say("null");
}

/* Writes everything as one JSON object to standard output, without its buffer. Where several threads ran a function, the
 * order of their events, and with it the function's peak, is nobody's to know. */
static inline void tally_print(void) {
    tally_say("{\"totals\":{");
    tally_say_figures(&tally_total, 1);
    tally_say("},\"functions\":{");
    for (int i = 0; i < tally_function_count; i++) {
        tally_say("%s\"%s\":{", i ? "," : "", tally_functions[i].name);
        tally_say_figures(&tally_functions[i].figures, tally_functions[i].threads_seen == 1);
        tally_say("}");
    }
    tally_say("},\"threads\":[");
    for (int i = 0; i < tally_thread_count; i++) {
        tally_say("%s{\"id\":%ld,", i ? "," : "", tally_threads[i].tid);
        tally_say_figures(&tally_threads[i].figures, 1);
        tally_say("}");
    }
    tally_say("]}\n");
    for (size_t written = 0; written < tally_length;) {
        ssize_t count = write(1, tally_text + written, tally_length - written);
        if (count <= 0) _exit(98);
        written += (size_t)count;
    }
}

#endif
