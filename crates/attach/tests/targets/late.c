#include <stdlib.h>
void *late_malloc(size_t n) { void *p = malloc(n); __asm__ volatile("" : "+r"(p)); return p; }
void late_free(void *p) { free(p); __asm__ volatile(""); }
