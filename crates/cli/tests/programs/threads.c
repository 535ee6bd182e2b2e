/* threads many N: N threads come and go, four at a time, each with a few blocks.
 * threads together N BLOCKS: N threads at once, each with BLOCKS blocks, of which every tenth stays. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long blocks_each;
static pthread_barrier_t together;

__attribute__((noinline, noclone)) void *allocate_in_thread(size_t size) {
    void *block = malloc(size);
    __asm__ volatile("" : : "r"(block) : "memory");
    return block;
}

static void *come_and_go(void *argument) {
    void *first = allocate_in_thread(10), *second = allocate_in_thread(20);
    free(first);
    if (argument) return second;
    free(second);
    return NULL;
}

static void *stay(void *argument) {
    pthread_barrier_wait(&together);
    for (long i = 0; i < blocks_each; i++) {
        void *block = allocate_in_thread((size_t)(i % 200 + 1));
        if (i % 10) free(block);
    }
    pthread_barrier_wait(&together);
    return argument;
}

int main(int count, char **arguments) {
    if (count < 3) return 98;
    long number = atol(arguments[2]);
    if (!strcmp(arguments[1], "many")) {
        for (long done = 0; done < number; done += 4) {
            pthread_t four[4];
            for (long i = 0; i < 4; i++)
                if (pthread_create(&four[i], NULL, come_and_go, (void *)(long)(i == 0))) return 97;
            for (int i = 0; i < 4; i++) {
                void *left = NULL;
                pthread_join(four[i], &left);
                free(left);
            }
        }
    } else {
        blocks_each = atol(arguments[3]);
        pthread_barrier_init(&together, NULL, (unsigned)number);
        static pthread_t all[1024];
        for (long i = 0; i < number; i++)
            if (pthread_create(&all[i], NULL, stay, NULL)) return 97;
        for (long i = 0; i < number; i++) pthread_join(all[i], NULL);
    }
    puts("done");
    return 0;
}
