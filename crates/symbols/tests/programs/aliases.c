#include <stdlib.h>

static int counter;

__attribute__((noinline)) void *__real_allocate(size_t size) {
    counter += 1;
    return malloc(size);
}
void *allocate(size_t size) __attribute__((alias("__real_allocate")));
static void *local_allocate(size_t size) __attribute__((alias("__real_allocate"), used));

/* A label inside a function is no function of its own. */
__asm__(".text\n"
        ".globl assembled\n"
        ".type assembled, @function\n"
        "assembled:\n"
        "    nop\n"
        "label_inside:\n"
        "    nop\n"
        "    ret\n"
        ".size assembled, .-assembled\n");
void assembled(void);

int main(void) {
    assembled();
    free(allocate(10));
    return counter;
}
