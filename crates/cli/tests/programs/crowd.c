/* crowd THREADS SECONDS: so many threads that do nothing but replace blocks, for so long. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((noinline, noclone)) void *take_a_block(size_t size) {
    void *block = malloc(size);
    __asm__ volatile("" : : "r"(block) : "memory");
    return block;
}

static void *work(void *seed) {
    enum { KEPT = 1000 };
    uint64_t random = 88172645463325252u ^ (uintptr_t)seed;
    void **blocks = calloc(KEPT, sizeof *blocks);
    for (;;) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        int place = random % KEPT;
        free(blocks[place]);
        blocks[place] = take_a_block(16 + (random >> 32) % 2000);
    }
    return NULL;
}

int main(int count, char **arguments) {
    int threads = count > 1 ? atoi(arguments[1]) : 1;
    for (intptr_t i = 0; i < threads; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, work, (void *)(i * 7919 + 1));
    }
    sleep(count > 2 ? atoi(arguments[2]) : 1);
    _exit(0);
}
