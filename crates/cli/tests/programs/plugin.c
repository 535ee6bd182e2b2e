/* A library to be loaded and unloaded; -DNAME gives each build functions and a layout of its own. */
#include <stddef.h>
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define OWN_FRAME __attribute__((noinline, noclone, noipa))
static volatile int unknown;

#ifdef LONGER
OWN_FRAME int JOIN(pad_, NAME)(int a, int b) { return a * b + unknown; }
#endif
OWN_FRAME void JOIN(inside_, NAME)(void (*call)(size_t), size_t size) {
    volatile char room[PADDING];
    room[0] = 1;
    call(size);
    room[1] = 2;
}
void JOIN(enter_, NAME)(void (*call)(size_t), size_t size) {
    JOIN(inside_, NAME)(call, size);
    unknown += 0;
}
