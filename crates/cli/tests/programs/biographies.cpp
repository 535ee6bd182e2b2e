// Allocates, resizes and frees blocks, and says of each who did it: docs of the test are in record_biographies.rs.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OWN __attribute__((noinline, noclone))

static long self() { return syscall(SYS_gettid); }

/// One line for each thing that happens to a block, named by the size that it has first: no other block of the program has that size.
static void say(unsigned born, const char *what, const void *at, unsigned long size, const char *by) {
    printf("%u %s %p %lu %ld %s\n", born, what, at, size, self(), by);
}

static void *volatile kept;

OWN void *make(unsigned size) {
    void *block = malloc(size);
    memset(block, 1, size);
    say(size, "allocated", block, size, "make");
    return block;
}

OWN void release(unsigned born, void *block) {
    say(born, "freed", block, 0, "release");
    free(block);
    asm volatile("");
}

OWN void *grow(unsigned born, void *block, unsigned long size) {
    void *now = realloc(block, size);
    say(born, "reallocated", now, size, "grow");
    return now;
}

OWN void shrink_to_nothing(unsigned born, void *block) {
    say(born, "freed", block, 0, "shrink_to_nothing");
    kept = realloc(block, 0);
    asm volatile("");
}

struct Thing {
    char bytes[30011];
};

OWN Thing *build() {
    Thing *thing = new Thing;
    say(sizeof *thing, "allocated", thing, sizeof *thing, "build");
    return thing;
}

OWN void destroy(Thing *thing) {
    say(sizeof *thing, "freed", thing, 0, "destroy");
    delete thing;
    asm volatile("");
}

OWN void *map_pages(unsigned long size) {
    void *pages = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    say(size, "allocated", pages, size, "map_pages");
    return pages;
}

OWN void unmap_pages(unsigned born, void *pages, unsigned long size) {
    say(born, "freed", pages, 0, "unmap_pages");
    munmap(pages, size);
    asm volatile("");
}

static void *block_of_another;

static void *other_thread(void *) {
    release(20011, block_of_another);
    return nullptr;
}

int main() {
    setvbuf(stdout, nullptr, _IOFBF, 1 << 16);
    free(nullptr);
    // At one address, one after the other.
    for (int turn = 0; turn < 3; turn += 1) release(10011 + turn, make(10011 + turn));
    // Freed by another thread.
    block_of_another = make(20011);
    pthread_t thread;
    pthread_create(&thread, nullptr, other_thread, nullptr);
    pthread_join(thread, nullptr);
    destroy(build());
    // A block that grows where it is, then moves because another one lies behind it.
    void *block = make(40011);
    block = grow(40011, block, 41011);
    void *behind = make(50011);
    block = grow(40011, block, 400011);
    release(50011, behind);
    release(40011, block);
    shrink_to_nothing(60011, make(60011));
    unmap_pages(1 << 20, map_pages(1 << 20), 1 << 20);
    kept = make(70011);
    fflush(stdout);
    _exit(0);
}
