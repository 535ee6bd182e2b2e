/* The same in C++. */
#include "optional.c"
