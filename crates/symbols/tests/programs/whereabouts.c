/* Prints where its own code, and that of a library, really is. */
#include <stdio.h>
#include <string.h>

void *where_library_is(void);
int call_library(int value);

__attribute__((noinline)) int function_of_program(int value) { return value * 3; }

static void print_mappings(void) {
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) fputs(line, stdout);
}

int main(void) {
    printf("function_of_program %p\n", (void *)function_of_program);
    printf("function_of_library %p\n", where_library_is());
    print_mappings();
    return function_of_program(2) - call_library(2);
}
