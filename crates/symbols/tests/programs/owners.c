// Structs that functions return pointers to. Prints their sizes, which the debug information must agree with.
#include <stdio.h>
#include <stdlib.h>

struct node {
    struct node *next;
    int values[7];
};

struct local {
    int values[9];
};

__attribute__((noinline)) struct node *make_node(int value) {
    struct node *made = calloc(1, sizeof *made);
    made->values[0] = value;
    return made;
}

int main(int count, char **arguments) {
    struct local local = {{count}};
    struct node *node = make_node(local.values[0]);
    printf("node %zu\n", sizeof *node);
    free(node);
    return arguments == NULL;
}
