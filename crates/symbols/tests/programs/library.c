/* The address of a local function: that of a public one may be a stub in the program. */
__attribute__((noinline)) static int function_of_library(int value) { return value + 1; }

void *where_library_is(void) { return (void *)function_of_library; }

int call_library(int value) { return function_of_library(value) * 2; }
