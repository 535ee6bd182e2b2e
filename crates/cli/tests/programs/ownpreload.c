/* A library for LD_PRELOAD with a malloc of its own around the real one, which allocates before anything else is ready. What it
 * saw can be asked for by name. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

static void *(*real_malloc)(size_t);
static void *early;
static long seen;

void *malloc(size_t size) {
    if (!real_malloc) real_malloc = dlsym(RTLD_NEXT, "malloc");
    __atomic_add_fetch(&seen, 1, __ATOMIC_RELAXED);
    return real_malloc(size);
}

long ownpreload_seen(void) { return __atomic_load_n(&seen, __ATOMIC_RELAXED); }

__attribute__((constructor)) static void begin(void) { early = malloc(5555); }
__attribute__((destructor)) static void end(void) { free(early); }
