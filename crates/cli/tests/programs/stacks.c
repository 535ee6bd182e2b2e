/* Allocates at the far end of every kind of call that C has, and prints what libgcc's unwinder says about the stack there.
 * usage: stacks PLUGIN_A PLUGIN_B; build with -rdynamic, so that functions have names at run time. */
#include "traces.h"
#include <alloca.h>
#include <pthread.h>
#include <search.h>
#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>

/* Every point has a size of its own. */
enum {
    PLAIN = 70001,
    CALLBACK = 70101,
    TAIL = 70201,
    SIGNAL = 70301,
    FRAMES = 70401,
    PLUGIN = 70501,
    DEEP = 70601,
    COROUTINE = 70701,
    THREAD = 70801,
    WANDERING = 71001,
};

static volatile int unknown; /* zero, but the compiler cannot know */

OWN_FRAME void allocate_plainly(size_t size) { ALLOCATE(size); }

/* A chain without anything special. */
OWN_FRAME void plain_inner(size_t size) {
    allocate_plainly(size);
    unknown += 0;
}
OWN_FRAME void plain_outer(size_t size) {
    plain_inner(size);
    unknown += 0;
}

/* The library calls us back: its own frames lie between. */
static int compared;
OWN_FRAME int compare_and_allocate(const void *a, const void *b) {
    if (!compared++) ALLOCATE(CALLBACK);
    return *(const int *)a - *(const int *)b;
}
OWN_FRAME int look_and_allocate(const void *key, const void *element) {
    if (compared++ == 0) ALLOCATE(CALLBACK + 1);
    return *(const int *)key - *(const int *)element;
}
OWN_FRAME void visit_and_allocate(const void *node, VISIT order, int depth) {
    (void)node;
    if (order == leaf && depth >= 0 && compared++ == 0) ALLOCATE(CALLBACK + 2);
}
OWN_FRAME void from_once(void) { ALLOCATE(CALLBACK + 3); }

OWN_FRAME void through_callbacks(void) {
    int numbers[] = {3, 1, 2, 9, 8, 7, 6, 5, 4, 0}, key = 5;
    qsort(numbers, 10, sizeof *numbers, compare_and_allocate);
    compared = 0;
    (void)!bsearch(&key, numbers, 10, sizeof *numbers, look_and_allocate);
    compared = 1;
    void *root = NULL;
    tsearch(&numbers[0], &root, compare_and_allocate);
    compared = 0;
    twalk(root, visit_and_allocate);
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, from_once);
}

/* Calls in the last place become jumps: who jumped has no frame any more. */
OWN_FRAME void tail_end(size_t size) { ALLOCATE(size); }
OWN_FRAME void tail_middle(size_t size) { tail_end(size + 1); }
OWN_FRAME void tail_start(size_t size) { tail_middle(size - 1); }
OWN_FRAME void not_in_the_last_place(size_t size) {
    tail_start(size);
    unknown += 0;
}
#ifdef __OPTIMIZE__
/* The allocation itself is in the last place: the caller's frame is the innermost one. */
OWN_FRAME void *jump_to_malloc(size_t size) { return malloc(size); }
OWN_FRAME void call_what_jumps(size_t size) {
    void *block = jump_to_malloc(size);
    __asm__ volatile("" : : "r"(block) : "memory");
    note_trace(size);
    __asm__ volatile("" : : : "memory");
}
#endif

/* Signal handlers: between them and the interrupted function lies a frame that the kernel made. */
static volatile size_t signal_size; /* the library's headers promise that raise calls nobody back */
OWN_FRAME void allocate_in_a_handler(int signal) {
    (void)signal;
    ALLOCATE(signal_size);
}
static sigjmp_buf back;
OWN_FRAME void allocate_after_a_fault(int signal) {
    (void)signal;
    ALLOCATE(SIGNAL + 2);
    siglongjmp(back, 1);
}
OWN_FRAME int fault(int *nowhere) {
    int before = unknown;
    *(volatile int *)nowhere = before;
    return before;
}
OWN_FRAME void through_signals(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = allocate_in_a_handler;
    sigaction(SIGUSR1, &action, NULL);
    signal_size = SIGNAL;
    raise(SIGUSR1);

    static char alternate[1 << 16];
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    sigaltstack(&stack, NULL);
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR1, &action, NULL);
    signal_size = SIGNAL + 1;
    raise(SIGUSR1);

    action.sa_handler = allocate_after_a_fault;
    sigaction(SIGSEGV, &action, NULL);
    if (!sigsetjmp(back, 1)) fault(NULL);
    signal(SIGSEGV, SIG_DFL);
    /* After the jump the stack is shorter than it was. */
    ALLOCATE(SIGNAL + 3);
}

/* A trap after every instruction: allocations with the stack in every state that a prologue, an epilogue and the procedure
 * linkage table put it in. */
static size_t steps;
static volatile int stepping;
OWN_FRAME void allocate_at_each_step(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    if (!stepping) {
        ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~0x100;
        return;
    }
    steps++;
    ALLOCATE(90001 + steps);
}
OWN_FRAME long stepped_inner(long a, long b, long c) {
    volatile long kept[8] = {a, b, c};
    return kept[0] * 3 + kept[1] * 5 + kept[2];
}
OWN_FRAME long stepped(long n) {
    long sum = 0;
    for (long i = 0; i < n; i++) sum += stepped_inner(i, n, sum) + labs(sum) + ffsl(sum);
    return sum;
}
OWN_FRAME void step_by_step(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = allocate_at_each_step;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGTRAP, &action, NULL);
    stepped(1); /* what is bound at the first call is bound now */
    stepping = 1;
    __asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; orq $0x100, (%%rsp); popfq; lea 128(%%rsp), %%rsp" : : : "memory", "cc");
    stepped(2);
    stepping = 0;
}

/* Frames whose size is known only at run time, and frames that are aligned beyond what the caller gave. */
OWN_FRAME void frame_of_unknown_size(int size) {
    char *space = alloca((size_t)size);
    memset(space, size, (size_t)size);
    char more[size + 3];
    memset(more, size, sizeof more);
    ALLOCATE(FRAMES);
    __asm__ volatile("" : : "r"(space), "r"(more) : "memory");
}
OWN_FRAME void aligned_frame(int number, int a, int b, int c, int d, int e, int on_stack, int on_stack_too) {
    __attribute__((aligned(64))) volatile char wide[128];
    wide[0] = (char)(number + a + b + c + d + e + on_stack + on_stack_too);
    if ((uintptr_t)wide % 64) _exit(97);
    ALLOCATE(FRAMES + 1);
}
OWN_FRAME void aligned_frame_of_unknown_size(int size) {
    __attribute__((aligned(128))) volatile char wide[256];
    char *space = alloca((size_t)size);
    wide[5] = space[0] = 3;
    ALLOCATE(FRAMES + 2);
    __asm__ volatile("" : : "r"(space), "r"(wide) : "memory");
}
OWN_FRAME void large_frame(void) {
    volatile char room[200000];
    room[100] = 1;
    frame_of_unknown_size(77 + unknown);
    room[199999] = 1;
}
OWN_FRAME void through_frames(void) {
    large_frame();
    aligned_frame(1, 2, 3, 4, 5, 6, 7, 8);
    aligned_frame_of_unknown_size(333 + unknown);
}

/* A library that goes, and another that is likely to be loaded where it was. */
OWN_FRAME void *call_plugin(const char *path, const char *function, size_t size) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        dprintf(2, "stacks: %s\n", dlerror());
        _exit(96);
    }
    void (*enter)(void (*)(size_t), size_t) = (void (*)(void (*)(size_t), size_t))dlsym(library, function);
    enter(allocate_plainly, size);
    return library;
}
OWN_FRAME void through_plugins(const char *a, const char *b) {
    for (int turn = 0; turn < 3; turn++) {
        void *first = call_plugin(a, "enter_plugin_a", (size_t)(PLUGIN + turn * 2));
        if (turn < 2) dlclose(first);
        void *second = call_plugin(b, "enter_plugin_b", (size_t)(PLUGIN + turn * 2 + 1));
        dlclose(second);
    }
}

/* Deeper than any tracer likes. */
OWN_FRAME int descend(int depth) {
    if (depth == 0) {
        ALLOCATE(DEEP);
        return 0;
    }
    int below = descend(depth - 1);
    return below + (unknown | 1);
}
OWN_FRAME void go_deep(void) { descend(10000); }
/* The same place once more, after the stack was short in between. */
OWN_FRAME void go_deep_again(void) {
    int result = descend(10000);
    unknown += result & 0;
}

/* Stacks that are exchanged by hand. */
static ucontext_t main_context, coroutine[2];
static char coroutine_stack[2][1 << 16];
OWN_FRAME void coroutine_inner(int number, int turn) { ALLOCATE((size_t)(COROUTINE + number * 10 + turn)); }
OWN_FRAME void coroutine_body(int number) {
    for (int turn = 0; turn < 3; turn++) {
        coroutine_inner(number, turn);
        swapcontext(&coroutine[number], &main_context);
    }
}
OWN_FRAME void through_coroutines(void) {
    for (int i = 0; i < 2; i++) {
        getcontext(&coroutine[i]);
        coroutine[i].uc_stack.ss_sp = coroutine_stack[i];
        coroutine[i].uc_stack.ss_size = sizeof coroutine_stack[i];
        coroutine[i].uc_link = &main_context;
        makecontext(&coroutine[i], (void (*)(void))coroutine_body, 1, i);
    }
    for (int turn = 0; turn < 3; turn++)
        for (int i = 0; i < 2; i++) swapcontext(&main_context, &coroutine[i]);
}

OWN_FRAME void *allocate_in_a_thread(void *argument) {
    allocate_plainly(THREAD);
    return argument;
}
OWN_FRAME void through_a_thread(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, allocate_in_a_thread, NULL);
    pthread_join(thread, NULL);
}

/* A walk without a plan through functions of all shapes: what a tracer remembers of the last stack is right, partly right
 * and wrong in every combination. */
static uint64_t random_state = 88172645463325252u;
static unsigned next_random(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)(random_state >> 33);
}
static size_t wandered;
typedef void wanderer(int);
OWN_FRAME void wander_on(int depth);
OWN_FRAME void wander_and_allocate(int depth) {
    (void)depth;
    ALLOCATE(WANDERING + wandered++);
}
OWN_FRAME void wander_small(int depth) {
    wander_on(depth);
    unknown += 0;
}
OWN_FRAME void wander_twice(int depth) {
    wander_on(depth);
    wander_on(depth);
    unknown += 0;
}
OWN_FRAME void wander_large(int depth) {
    volatile char room[5000];
    room[depth & 1023] = 1;
    wander_on(depth);
    room[depth & 1023] = 2;
}
OWN_FRAME void wander_alloca(int depth) {
    char *space = alloca(next_random() % 300 + 1);
    space[0] = 1;
    wander_on(depth);
    __asm__ volatile("" : : "r"(space) : "memory");
}
OWN_FRAME void wander_aligned(int depth) {
    __attribute__((aligned(64))) volatile char wide[64];
    wide[0] = 1;
    wander_on(depth);
    wide[1] = 1;
}
OWN_FRAME void wander_tail(int depth) { wander_on(depth); }
OWN_FRAME void wander_registers(int depth) {
    long a = next_random(), b = next_random(), c = next_random(), d = next_random(), e = next_random();
    wander_on(depth);
    if (unknown) unknown = (int)(a * b + c * d + e);
    wander_on(depth - 5);
    if (unknown) unknown = (int)(a + b + c + d + e);
}
static int wander_compare(const void *a, const void *b) {
    static int depth;
    if (depth < 2 && next_random() % 3 == 0) {
        depth++;
        wander_on(3);
        depth--;
    }
    return *(const int *)a - *(const int *)b;
}
OWN_FRAME void wander_sort(int depth) {
    int numbers[4] = {depth, 3, 2, 1};
    qsort(numbers, 4, sizeof *numbers, wander_compare);
    wander_on(depth);
    unknown += 0;
}
static jmp_buf wander_home;
OWN_FRAME void wander_on(int depth) {
    static wanderer *const ways[] = {wander_small, wander_twice,     wander_large, wander_alloca, wander_aligned,
                                     wander_tail,  wander_registers, wander_sort,  wander_small,  wander_tail};
    if (next_random() % 4 == 0 || depth <= 0) wander_and_allocate(depth);
    if (depth <= 0 || wandered > 6000) return;
    if (next_random() % 400 == 0) longjmp(wander_home, 1);
    ways[next_random() % 10](depth - 1 - (int)(next_random() % 3));
    unknown += 0;
}
OWN_FRAME void wander(void) {
    setjmp(wander_home);
    while (wandered < 3000) wander_on(24);
}

OWN_FRAME int run_all(char **arguments) {
    plain_outer(PLAIN);
    through_callbacks();
    not_in_the_last_place(TAIL);
#ifdef __OPTIMIZE__
    call_what_jumps(TAIL + 5);
#endif
    through_signals();
    through_frames();
    through_plugins(arguments[1], arguments[2]);
    go_deep();
    go_deep_again();
    through_coroutines();
    through_a_thread();
    step_by_step();
    wander();
    return unknown;
}

int main(int count, char **arguments) {
    if (count != 3) return 95;
    int result = run_all(arguments);
    print_traces();
    return result;
}
