// Calls back through code that is made while the program runs, without unwind tables. Each way allocates blocks of a size of its own.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#define OWN_FRAME __attribute__((noinline, noclone))
enum { PAGE = 4096 };

static void *volatile kept[64];
static int kept_count;
static volatile int unknown;

OWN_FRAME static void allocate(size_t size) {
    kept[kept_count++ % 64] = malloc(size);
    unknown += 0;
}

// push rbp; mov rbp, rsp; mov rax, rdi; mov rdi, rsi; mov rsi, rdx; call rax; pop rbp; ret
static const uint8_t WITH_FRAME[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7,
                                     0x48, 0x89, 0xd6, 0xff, 0xd0, 0x5d, 0xc3};
// The same with 64 bytes of its own: push rbp; mov rbp, rsp; sub rsp, 64; …; leave; ret
static const uint8_t WITH_ROOM[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x40, 0x48, 0x89, 0xf8,
                                    0x48, 0x89, 0xf7, 0x48, 0x89, 0xd6, 0xff, 0xd0, 0xc9, 0xc3};
// Uses the frame pointer as any register: push rbp; mov rbp, rdx; mov rax, rdi; mov rdi, rsi; call rax; pop rbp; ret
static const uint8_t WITHOUT_FRAME[] = {0x55, 0x48, 0x89, 0xd5, 0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7, 0xff, 0xd0, 0x5d, 0xc3};

typedef void code(void *function, uint64_t first, uint64_t second);

static code *make(void *at, const uint8_t *bytes, size_t length) {
    int fixed = at ? MAP_FIXED : 0;
    void *page = mmap(at, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
    if (page == MAP_FAILED) exit(96);
    memcpy(page, bytes, length);
    if (mprotect(page, PAGE, PROT_READ | PROT_EXEC)) exit(97);
    return (code *)page;
}
#define MAKE(at, bytes) make(at, bytes, sizeof bytes)

OWN_FRAME static void through_code(code *made, size_t size) {
    made((void *)allocate, size, 0);
    unknown += 0;
}

// Code that calls code.
static code *inner;
OWN_FRAME static void through_two(code *outer, size_t size) {
    outer((void *)inner, (uint64_t)allocate, size);
    unknown += 0;
}

static ucontext_t home, coroutine;
static code *of_coroutine;
OWN_FRAME static void begin_coroutine(void) {
    through_code(of_coroutine, 4005);
    unknown += 0;
}
OWN_FRAME static void through_coroutine(code *made) {
    of_coroutine = made;
    getcontext(&coroutine);
    coroutine.uc_stack.ss_sp = malloc(1 << 16);
    coroutine.uc_stack.ss_size = 1 << 16;
    coroutine.uc_link = &home;
    makecontext(&coroutine, begin_coroutine, 0);
    swapcontext(&home, &coroutine);
}

static void *in_thread(void *made) {
    through_code((code *)made, 4006);
    unknown += 0;
    return NULL;
}

static void name(void *at, const char *text) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    FILE *map = fopen(path, "a");
    if (!map) exit(98);
    fprintf(map, "%lx %x %s\n", (unsigned long)at, PAGE, text);
    fclose(map);
}

static void sound(void) {
    code *first = MAKE(NULL, WITH_FRAME), *second = MAKE(NULL, WITH_ROOM);
    inner = second;
    // Twice: the second walk finds the stack as the first one left it.
    for (int turn = 0; turn < 2; turn++) through_code(first, 4001);
    through_two(first, 4002);
    for (int turn = 0; turn < 2; turn++) through_code(second, 4003);
    // Other code at the same address.
    munmap((void *)first, PAGE);
    if (MAKE((void *)first, WITH_ROOM) != first) exit(99);
    through_code(first, 4004);
    through_coroutine(second);
    pthread_t thread;
    pthread_create(&thread, NULL, in_thread, (void *)second);
    pthread_join(thread, NULL);
    // Code at an address that was not executable when the others were found.
    through_code(MAKE(NULL, WITH_FRAME), 4007);
}

static void named(void) {
    code *made = MAKE(NULL, WITH_FRAME);
    name((void *)made, "JS:*render file:///srv/app.js:10:5");
    through_code(made, 4001);
}

OWN_FRAME static void through_garbage(code *made, size_t size, uint64_t frame_pointer) {
    made((void *)allocate, size, frame_pointer);
    unknown += 0;
}

static int data = 1;
static void garbage(void) {
    code *made = MAKE(NULL, WITHOUT_FRAME);
    // On the stack, above the frames: what a frame pointer would point to, but no frame.
    volatile uint64_t words[8] = {0};
    const uint64_t at = (uint64_t)words;
    const uint64_t pointers[] = {0, 1, 0x1234, at + 1, ~0ull, (uint64_t)&data, (uint64_t)made, at - (1 << 20)};
    for (size_t index = 0; index < sizeof pointers / sizeof *pointers; index++)
        through_garbage(made, 5000 + index, pointers[index]);
    const uint64_t addresses[] = {0, 1, at, (uint64_t)&data, (uint64_t)garbage, (uint64_t)malloc, 0x7000dead0000};
    for (size_t index = 0; index < sizeof addresses / sizeof *addresses; index++) {
        words[0] = at + 16;
        words[1] = addresses[index];
        through_garbage(made, 5100 + index, at);
    }
}

int main(int count, char **arguments) {
    if (count != 2) return 95;
    if (!strcmp(arguments[1], "sound")) sound();
    if (!strcmp(arguments[1], "named")) named();
    if (!strcmp(arguments[1], "garbage")) garbage();
    printf("%d %d\n", kept_count, (int)getpid());
    return 0;
}
