// Allocates blocks, then frees all but every Nth: every_40th THREADS BLOCKS N SIZE. Blocks that stay are of site 1, those of each further thread too.
#include "tracker.h"
static int blocks, every;
static size_t size;
static pthread_barrier_t ready;
static void work(void) {
    size_t length = blocks * sizeof(char *);
    char **all = mmap(0, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < blocks; i++) { site = i % every == 0; all[i] = malloc(size); memset(all[i], 1, size); }
    for (int i = 0; i < blocks; i++) if (i % every) free(all[i]);
    site = 0;
    munmap(all, length);
}
static void *thread(void *unused) { work(); pthread_barrier_wait(&ready); pause(); return unused; }
int main(int count, char **words) {
    int threads = atoi(words[1]);
    blocks = atoi(words[2]), every = atoi(words[3]), size = atol(words[4]);
    if (count < 5) return 2;
    pthread_barrier_init(&ready, 0, threads + 1);
    for (int i = 0; i < threads; i++) { pthread_t it; pthread_create(&it, 0, thread, 0); }
    work();
    pthread_barrier_wait(&ready);
    obey(0);
}
