/* Waits for orders on standard input while others attach to it, and counts itself.
 *   w: each worker frees, resizes and keeps some of the blocks that it had from the beginning, and makes new ones
 *   c: the workers allocate, resize and free without end       s: they stop; prints what is live of that
 *   p: prints the tally (tally.h)                               end of input: ends
 * Blocks that it had from the beginning count with their usable sizes: those are what a heap shows from outside. */
#define _GNU_SOURCE
#include "tally.h"
#include <malloc.h>
#include <stdatomic.h>

#ifdef PADDING
#define TEXT_OF(number) #number
#define SKIP(number) __asm__(".pushsection .text; .skip " TEXT_OF(number) ", 0xcc; .popsection")
SKIP(PADDING);
#endif

enum { WORKERS = 4, OLDER = 600, NEWER = 900, SLOTS = 800 };

static void *older[WORKERS][OLDER], *newer[WORKERS][NEWER];
static void *slots[WORKERS][SLOTS];
static pthread_barrier_t turn;
static atomic_int order, is_churning;
static size_t sizes[WORKERS][SLOTS];
static long live_blocks[WORKERS], requested[WORKERS], usable[WORKERS];

static size_t fitting(unsigned long random, size_t least, size_t most) { return least + random % (most - least); }

OWN_FRAME static void *allocated_before(size_t size) {
    void *block = malloc(size);
    tally_born(block, malloc_usable_size(block));
    return block;
}

OWN_FRAME static void *allocated_after(size_t size) {
    void *block = malloc(size);
    tally_born(block, size);
    return block;
}

OWN_FRAME static void *resized_after(void *block, size_t size) {
    tally_leaves(block);
    block = realloc(block, size);
    tally_comes(block, size);
    return block;
}

OWN_FRAME static void freed(void *block) {
    tally_dies(block);
    free(block);
}

static void begin(long me) {
    for (long i = 0; i < OLDER; i++) older[me][i] = allocated_before(i % 2 ? 1000 : fitting(me * 7919 + i * 131, 5000, 300000));
    /* Some are in the caches of their threads, some in the bins, when the heap is read. */
    for (long i = 0; i < OLDER; i += 9) {
        freed(older[me][i]);
        older[me][i] = NULL;
    }
}

static void work(long me) {
    for (long i = 0; i < OLDER; i++) {
        void **block = &older[(me + 1) % WORKERS][i];
        if (!*block) continue;
        if (i % 3 == 0) {
            freed(*block);
            *block = NULL;
        } else if (i % 3 == 1) {
            *block = resized_after(*block, fitting(i * 977, 6000, 90000));
        }
    }
    for (long i = 0; i < NEWER; i++) {
        if (newer[me][i]) freed(newer[me][i]);
        newer[me][i] = allocated_after(fitting(i * 31 + me, 1000, 40000));
    }
}

static void churn(long me) {
    unsigned long random = 0x9E3779B97F4A7C15ul * (me + 1);
    while (is_churning) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        void **slot = &slots[me][random % SLOTS];
        size_t size = fitting(random >> 20, 1000, random >> 60 ? 4000 : 250000);
        if (*slot && random >> 40 & 1) {
            *slot = realloc(*slot, size);
        } else {
            free(*slot);
            *slot = malloc(size);
        }
        sizes[me][slot - slots[me]] = size;
        memset(*slot, (int)me, size);
        /* Not faster than any recorder can read on a busy machine. */
        if (!(random >> 30 & 15)) usleep(200);
        if (!(random >> 50 & 3)) {
            free(*slot);
            *slot = NULL;
        }
    }
    live_blocks[me] = requested[me] = usable[me] = 0;
    for (long i = 0; i < SLOTS; i++) {
        if (!slots[me][i]) continue;
        live_blocks[me]++;
        requested[me] += (long)sizes[me][i];
        usable[me] += (long)malloc_usable_size(slots[me][i]);
    }
}

static void *worker(void *number) {
    long me = (long)number;
    begin(me);
    pthread_barrier_wait(&turn);
    for (;;) {
        pthread_barrier_wait(&turn);
        if (order == 'w') work(me);
        if (order == 'c') churn(me);
        pthread_barrier_wait(&turn);
    }
    return NULL;
}

static void say(const char *text) {
    if (write(1, text, strlen(text)) < 0) _exit(97);
}

int main(void) {
    pthread_barrier_init(&turn, NULL, WORKERS + 1);
    for (long i = 0; i < WORKERS; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, worker, (void *)i)) return 2;
    }
    pthread_barrier_wait(&turn);
    say("ready\n");
    char letter;
    while (read(0, &letter, 1) == 1) {
        if (letter == 'p') tally_print();
        if (letter == 'w' || letter == 'c') {
            order = letter;
            is_churning = letter == 'c';
            pthread_barrier_wait(&turn);
        }
        if (letter == 'c') say("churning\n");
        if (letter == 's') is_churning = 0;
        if (letter == 'w' || letter == 's') pthread_barrier_wait(&turn);
        if (letter == 'w') say("worked\n");
        if (letter == 's') {
            long blocks = 0, least = 0, most = 0;
            for (long i = 0; i < WORKERS; i++) blocks += live_blocks[i], least += requested[i], most += usable[i];
            char text[120];
            snprintf(text, sizeof text, "{\"live_blocks\":%ld,\"live_bytes\":%ld,\"usable_bytes\":%ld}\n", blocks, least, most);
            say(text);
        }
    }
    return 0;
}
