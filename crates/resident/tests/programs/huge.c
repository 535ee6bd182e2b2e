// One byte in each of eight transparent huge pages (site 1), and one byte read in a ninth.
#include "tracker.h"
int main(void) {
    site = 1;
    volatile char *block = aligned_alloc(2 << 20, 64 << 20);
    madvise((void *)block, 64 << 20, MADV_HUGEPAGE);
    for (long i = 0; i < 8; i++) block[i << 21] = 1;
    site = 0;
    char sum = block[20l << 21];
    obey(0);
    return sum;
}
