#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline __attribute__((always_inline)) char *innermost(size_t size) {
    char *block = malloc(size); /* innermost allocates */
    memset(block, 1, size);
    return block;
}

static inline __attribute__((always_inline)) char *middle(size_t size) {
    return innermost(size + 1); /* middle calls */
}

__attribute__((noinline)) char *outer(size_t size) {
    char *block = middle(size * 2); /* outer calls */
    block[0] = 2;
    return block;
}

__attribute__((noinline)) static int only_local(int value) {
    return printf("%d\n", value) + value; /* only_local prints */
}

int main(int count, char **arguments) {
    char *block = outer((size_t)count);
    int printed = only_local(block[0]);
    free(block);
    return printed + (arguments == NULL);
}
