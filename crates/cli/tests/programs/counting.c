/* Calls every function of the malloc family, each from a function of its own, alone and in four threads that free and
 * resize each other's blocks, and prints what it did. */
#define _GNU_SOURCE
#include "tally.h"
#include <errno.h>
#include <malloc.h>

enum { ROUNDS = 50, WORKERS = 4, BLOCKS_PER_WORKER = 600 };

static long page;

OWN_FRAME static void give_back(void *block) {
    tally_dies(block);
    free(block);
}

OWN_FRAME static void *use_malloc(size_t size) {
    void *block = malloc(size);
    tally_born(block, size);
    return block;
}

OWN_FRAME static void *use_calloc(size_t count, size_t size) {
    unsigned char *block = calloc(count, size);
    tally_born(block, count * size);
    for (size_t i = 0; i < count * size; i++)
        if (block[i]) tally_fail("calloc gave a block that is not empty");
    return block;
}

OWN_FRAME static void *use_realloc_of_nothing(size_t size) {
    void *block = realloc(NULL, size);
    tally_born(block, size);
    return block;
}

OWN_FRAME static void *use_realloc(void *block, size_t size) {
    tally_leaves(block);
    block = realloc(block, size);
    tally_comes(block, size);
    return block;
}

/* The GNU C library takes a reallocation to nothing as a free. */
OWN_FRAME static void use_realloc_to_nothing(void *block) {
    tally_dies(block);
    if (realloc(block, 0)) tally_fail("realloc to nothing gave something");
}

OWN_FRAME static void *use_reallocarray(void *block, size_t count, size_t size) {
    tally_leaves(block);
    block = reallocarray(block, count, size);
    tally_comes(block, count * size);
    return block;
}

OWN_FRAME static void *use_posix_memalign(size_t alignment, size_t size) {
    void *block = NULL;
    errno = 7;
    if (posix_memalign(&block, alignment, size) || (uintptr_t)block % alignment) tally_fail("posix_memalign");
    if (errno != 7) tally_fail("posix_memalign touched errno");
    tally_born(block, size);
    return block;
}

OWN_FRAME static void *use_aligned_alloc(size_t alignment, size_t size) {
    void *block = aligned_alloc(alignment, size);
    if ((uintptr_t)block % alignment) tally_fail("aligned_alloc");
    tally_born(block, size);
    return block;
}

OWN_FRAME static void *use_memalign(size_t alignment, size_t size) {
    void *block = memalign(alignment, size);
    if ((uintptr_t)block % alignment) tally_fail("memalign");
    tally_born(block, size);
    return block;
}

OWN_FRAME static void *use_valloc(size_t size) {
    void *block = valloc(size);
    if ((uintptr_t)block % (uintptr_t)page) tally_fail("valloc");
    tally_born(block, size);
    return block;
}

OWN_FRAME static void *use_pvalloc(size_t pages) {
    void *block = pvalloc(pages * (size_t)page);
    if ((uintptr_t)block % (uintptr_t)page) tally_fail("pvalloc");
    tally_born(block, pages * (size_t)page);
    return block;
}

OWN_FRAME static void *use_strdup(const char *text) {
    char *copy = strdup(text);
    tally_born(copy, strlen(text) + 1);
    return copy;
}

OWN_FRAME static void *use_strndup(const char *text, size_t length) {
    char *copy = strndup(text, length);
    tally_born(copy, length + 1);
    return copy;
}

/* The library begins with 120 bytes and takes what a longer line needs, or twice what it had. */
OWN_FRAME static void use_getline(FILE *file) {
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length = getline(&line, &capacity, file);
    if (length < 0) tally_fail("getline");
    tally_born(line, 120);
    if (capacity != 120) {
        if (capacity != (size_t)length + 1 && capacity != 240) tally_fail("getline's buffer is of no expected size");
        tally_leaves(line);
        tally_comes(line, capacity);
    }
    tally_dies(line);
    free(line);
}

/* A FILE and, with the first byte read, its buffer. The sizes that the library asks for are such that nothing is rounded up. */
OWN_FRAME static FILE *use_fopen(const char *path) {
    FILE *file = fopen(path, "r");
    if (!file) tally_fail("fopen");
    size_t size = malloc_usable_size(file);
    if (size != 472 && size != 552) tally_fail("a FILE has no size known to this test");
    tally_born(file, size);
    int first = getc(file);
    tally_born(file->_IO_buf_base, (size_t)(file->_IO_buf_end - file->_IO_buf_base));
    ungetc(first, file);
    return file;
}

OWN_FRAME static void use_fclose(FILE *file) {
    tally_dies(file->_IO_buf_base);
    tally_dies(file);
    fclose(file);
}

static volatile size_t far_too_much = (size_t)1 << 60;

/* Calls that fail give no block and take none. */
OWN_FRAME static void use_what_fails(void *block) {
    errno = 0;
    if (malloc(far_too_much) || errno != ENOMEM) tally_fail("malloc of far too much");
    if (calloc(far_too_much, 64)) tally_fail("calloc beyond all sizes");
    if (realloc(block, far_too_much)) tally_fail("realloc of far too much");
    if (reallocarray(block, far_too_much, 64)) tally_fail("reallocarray beyond all sizes");
    void *nothing = NULL;
    if (posix_memalign(&nothing, 3, 8) != EINVAL) tally_fail("posix_memalign to three");
    if (posix_memalign(&nothing, 64, far_too_much) != ENOMEM) tally_fail("posix_memalign of far too much");
    if (aligned_alloc(64, far_too_much)) tally_fail("aligned_alloc of far too much");
    free(NULL);
}

OWN_FRAME static void go_through_the_family(int round, const char *path) {
    size_t r = (size_t)round;
    void *kept[16];
    int n = 0;
    kept[n++] = use_malloc(r * 37);
    kept[n++] = use_malloc(0);
    kept[n++] = use_calloc(r + 1, 24);
    kept[n++] = use_realloc_of_nothing(r * 11 + 1);
    kept[n++] = use_posix_memalign(64, r * 5 + 1);
    kept[n++] = use_aligned_alloc(128, (r % 7 + 1) * 128);
    kept[n++] = use_memalign(4096, r + 100);
    kept[n++] = use_valloc(r + 3);
    kept[n++] = use_pvalloc(r % 3 + 1);
    kept[n++] = use_strdup("a text that is to be kept");
    kept[n++] = use_strndup("a text of which some is to be kept", 6 + r % 20);
    give_back(use_malloc(77)); /* freed before anything else was allocated */

    kept[0] = use_realloc(kept[0], r * 37 + 1);   /* perhaps in place */
    kept[0] = use_realloc(kept[0], 100000 + r);   /* surely elsewhere */
    kept[0] = use_realloc(kept[0], 100000 + r);   /* nothing changes */
    kept[0] = use_realloc(kept[0], 10);           /* smaller */
    kept[4] = use_realloc(kept[4], 2000);         /* an aligned block as well */
    kept[2] = use_reallocarray(kept[2], r + 3, 40);
    use_what_fails(kept[2]);
    use_realloc_to_nothing(kept[3]);
    kept[3] = NULL;

    FILE *file = use_fopen(path);
    use_getline(file);
    use_getline(file);
    use_fclose(file);

    for (int i = 0; i < n; i++)
        if (kept[i]) give_back(kept[i]);
}

/* What the threads do. Between two barriers each block is touched by one thread only, so that every figure is known. */
static pthread_barrier_t together;
static void *made[WORKERS][BLOCKS_PER_WORKER];

OWN_FRAME static void *allocate_as_worker(size_t size) {
    void *block = malloc(size);
    memset(block, 1, size);
    tally_born(block, size);
    return block;
}

OWN_FRAME static void *resize_as_worker(void *block, size_t size) {
    tally_leaves(block);
    block = realloc(block, size);
    tally_comes(block, size);
    return block;
}

OWN_FRAME static void *work(void *argument) {
    int me = (int)(long)argument, neighbour = (me + 1) % WORKERS;
    char name[16];
    snprintf(name, sizeof name, "worker-%d", me);
    pthread_setname_np(pthread_self(), name);
    for (int i = 0; i < BLOCKS_PER_WORKER; i++) made[me][i] = allocate_as_worker((size_t)(100 + i + me * 1000));
    pthread_barrier_wait(&together);
    for (int i = 0; i < BLOCKS_PER_WORKER / 2; i++) give_back(made[me][i]);
    pthread_barrier_wait(&together);
    void **theirs = made[neighbour];
    for (int i = BLOCKS_PER_WORKER / 2; i < BLOCKS_PER_WORKER / 2 + 100; i++) theirs[i] = resize_as_worker(theirs[i], (size_t)(50 + i));
    pthread_barrier_wait(&together);
    for (int i = BLOCKS_PER_WORKER / 2 + 50; i < BLOCKS_PER_WORKER - 20; i++) give_back(theirs[i]);
    return NULL;
}

OWN_FRAME static void raise_the_summit(void) {
    char *block = malloc(64 << 20);
    ESCAPES(block);
    tally_born(block, 64 << 20);
    tally_dies(block);
    free(block);
}

OWN_FRAME static void leave_behind(void) {
    static void *left[25];
    for (int i = 0; i < 25; i++) {
        left[i] = malloc(1000 + (size_t)i);
        tally_born(left[i], 1000 + (size_t)i);
    }
}

int main(int count, char **arguments) {
    if (count != 2) tally_fail("usage: counting FILE, whose first line is short and whose second has a thousand bytes");
    page = sysconf(_SC_PAGESIZE);
    for (int round = 0; round < ROUNDS; round++) go_through_the_family(round, arguments[1]);
    pthread_barrier_init(&together, NULL, WORKERS);
    pthread_t workers[WORKERS];
    for (long i = 0; i < WORKERS; i++)
        if (pthread_create(&workers[i], NULL, work, (void *)i)) tally_fail("pthread_create");
    for (int i = 0; i < WORKERS; i++) pthread_join(workers[i], NULL);
    raise_the_summit();
    leave_behind();
    tally_print();
    return 0;
}
