/* Maps 64 MiB, writes to all of it and gives half of it back to the kernel. Prints its process number, then waits for the end of its input. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MIB = 1 << 20 };

int main(void) {
    char *memory = mmap(NULL, 64 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 99;
    memset(memory, 1, 64 * MIB);
    for (int part = 0; part < 40; part++) /* piece by piece, and eight of them twice */
        if (madvise(memory + part % 32 * MIB, MIB, part % 2 ? MADV_DONTNEED : MADV_FREE)) return 98;
    /* A quarter of that is in use again, another one is not memory any more. */
    if (mprotect(memory, 8 * MIB, PROT_READ | PROT_WRITE) || mprotect(memory + 8 * MIB, 8 * MIB, PROT_NONE)) return 97;
    printf("{\"pid\":%d}\n", (int)getpid());
    fflush(stdout);
    while (getchar() != EOF) {}
    return 0;
}
