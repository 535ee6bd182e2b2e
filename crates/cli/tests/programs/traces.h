/* What an independent unwinder (libgcc's) says about the stack at an allocation, for comparison with the recorded one.
 *
 * A function that is to be compared calls ALLOCATE(size) at one place only. The frames printed begin with that function
 * itself; its own address differs from the recorded one (this call is not that call), all callers' addresses are the same. */
#ifndef TRACES_H
#define TRACES_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <unwind.h>

#define OWN_FRAME __attribute__((noinline, noclone, noipa))

#ifdef __cplusplus
extern "C" {
#endif

/* Allocates, leaves the block live, and notes the stack. The barrier after the call keeps it from becoming a jump. */
#define ALLOCATE(size)                                        \
    do {                                                      \
        size_t asked_ = (size);                               \
        void *allocated_ = malloc(asked_);                    \
        __asm__ volatile("" : : "r"(allocated_) : "memory");  \
        note_trace(asked_);                                   \
        __asm__ volatile("" : : : "memory");                  \
    } while (0)

enum { TRACE_ROOM = 48 << 20, DEEPEST = 40000 };

static char *trace_text;
static size_t trace_length;

struct walk {
    size_t count;
    uintptr_t *addresses;
    unsigned char *interrupted; /* the address is where a signal came, not where a call returns to */
};

static inline _Unwind_Reason_Code trace_step(struct _Unwind_Context *context, void *argument) {
    struct walk *walk = (struct walk *)argument;
    if (walk->count == DEEPEST) return _URC_END_OF_STACK;
    int interrupted = 0;
    uintptr_t address = _Unwind_GetIPInfo(context, &interrupted);
    if (!address) return _URC_NO_REASON;
    walk->interrupted[walk->count] = (unsigned char)interrupted;
    walk->addresses[walk->count++] = address;
    return _URC_NO_REASON;
}

/* One line of JSON: the size, and for each frame its address, whether a signal came there (1) or a call returns there (0), and the
 * name of the function as the dynamic linker knows it at this moment (null for functions that are not exported). */
OWN_FRAME static void note_trace(size_t size) {
    static uintptr_t addresses[DEEPEST];
    static unsigned char interrupted[DEEPEST];
    if (!trace_text) {
        void *map = mmap(NULL, TRACE_ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        trace_text = (char *)map;
    }
    struct walk walk = {0, addresses, interrupted};
    _Unwind_Backtrace(trace_step, &walk);
    if (trace_length + walk.count * 128 + 256 > TRACE_ROOM) {
        dprintf(2, "traces: no room\n");
        _exit(99);
    }
    char *out = trace_text + trace_length;
    out += sprintf(out, "{\"size\":%zu,\"frames\":[", size);
    for (size_t i = 1; i < walk.count; i++) {
        Dl_info info;
        memset(&info, 0, sizeof info);
        /* A return address may be the first byte of the next function. */
        int found = dladdr((void *)(addresses[i] - !interrupted[i]), &info);
        out += sprintf(out, "%s[%lu,%d,", i > 1 ? "," : "", (unsigned long)addresses[i], interrupted[i]);
        if (found && info.dli_sname) out += sprintf(out, "\"%.80s\"]", info.dli_sname);
        else out += sprintf(out, "null]");
    }
    out += sprintf(out, "]}\n");
    trace_length = (size_t)(out - trace_text);
}

static inline void print_traces(void) {
    for (size_t written = 0; written < trace_length;) {
        ssize_t count = write(1, trace_text + written, trace_length - written);
        if (count <= 0) _exit(98);
        written += (size_t)count;
    }
}

#ifdef __cplusplus
}
#endif
#endif
