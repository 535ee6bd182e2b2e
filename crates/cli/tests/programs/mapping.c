/* Maps, unmaps, remaps, protects, whole and in parts, and prints what it holds: memory in all and for each function that made it so, and beside it what is
 * reserved (PROT_NONE) and what is a file. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define OWN_FRAME __attribute__((noinline, noclone, noipa))
enum { PAGE = 4096, SLOTS = 1 << 14 };

/* Who owns each page we mapped. The ledger is static: nothing here may map by itself. The first two own what is no memory. */
enum { RESERVED, FILES, FIRST_FUNCTION };
static const char *names[16] = {"reserved", "files"};
static int name_count = FIRST_FUNCTION;
static struct {
    char *page;
    int owner; /* -1 for nobody */
} pages_owned[SLOTS];
static long live, peak, live_of[16];

static void fail(const char *what) {
    perror(what);
    _exit(99);
}

static int name_of(const char *function) {
    for (int i = 0; i < name_count; i++)
        if (!strcmp(names[i], function)) return i;
    names[name_count] = function;
    return name_count++;
}

static int *owner_of(char *page) {
    size_t slot = (size_t)page / PAGE * 0x9E3779B97F4A7C15u >> 50;
    while (pages_owned[slot].page && pages_owned[slot].page != page) slot = (slot + 1) % SLOTS;
    if (!pages_owned[slot].page) pages_owned[slot].owner = -1;
    pages_owned[slot].page = page;
    return &pages_owned[slot].owner;
}

static void own(char *start, long pages, int owner) {
    for (char *page = start; page < start + pages * PAGE; page += PAGE) {
        int *now = owner_of(page);
        if (*now >= 0) live_of[*now] -= PAGE, live -= *now >= FIRST_FUNCTION ? PAGE : 0;
        if (owner >= 0) live_of[owner] += PAGE, live += owner >= FIRST_FUNCTION ? PAGE : 0;
        *now = owner;
    }
    if (live > peak) peak = live;
}

static void disown(char *start, long pages) { own(start, pages, -1); }

OWN_FRAME static char *map_plainly(long pages) {
    char *start = mmap(NULL, (size_t)pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) fail("mmap");
    own(start, pages, name_of(__func__));
    return start;
}

/* Room for an area whose neighbours are known to be ours. */
OWN_FRAME static char *reserve(long pages) {
    char *start = mmap(NULL, (size_t)pages * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) fail("mmap");
    own(start, pages, RESERVED);
    return start;
}

/* Whoever makes a reservation accessible puts memory there; what is accessible stays its owner's. */
OWN_FRAME static void commit(char *start, long pages, int protection) {
    if (mprotect(start, (size_t)pages * PAGE, protection)) fail("mprotect");
    for (char *page = start; page < start + pages * PAGE; page += PAGE)
        if (*owner_of(page) == RESERVED) own(page, 1, name_of(__func__));
}

OWN_FRAME static void decommit(char *start, long pages) {
    if (mprotect(start, (size_t)pages * PAGE, PROT_NONE)) fail("mprotect");
    for (char *page = start; page < start + pages * PAGE; page += PAGE)
        if (*owner_of(page) != FILES) own(page, 1, RESERVED);
}

/* Takes the place of whatever was there. */
OWN_FRAME static void map_over(char *place, long pages) {
    char *start = mmap(place, (size_t)pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (start != place) fail("mmap over");
    own(start, pages, name_of(__func__));
}

OWN_FRAME static void unmap(char *start, long pages) {
    disown(start, pages);
    if (munmap(start, (size_t)pages * PAGE)) fail("munmap");
}

/* Grows to a place where there is room, shrinks in place. */
OWN_FRAME static char *remap(char *start, long old_pages, long pages) {
    disown(start, old_pages);
    char *moved = mremap(start, (size_t)old_pages * PAGE, (size_t)pages * PAGE, MREMAP_MAYMOVE);
    if (moved == MAP_FAILED) fail("mremap");
    own(moved, pages, name_of(__func__));
    return moved;
}

OWN_FRAME static void remap_over(char *start, long pages, char *place) {
    int owner = *owner_of(start) == RESERVED ? RESERVED : name_of(__func__);
    disown(start, pages);
    char *moved = mremap(start, (size_t)pages * PAGE, (size_t)pages * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place);
    if (moved != place) fail("mremap over");
    own(moved, pages, owner);
}

/* What fails changes nothing. */
OWN_FRAME static void map_in_vain(void) {
    if (mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) fail("mmap of nothing");
    if (munmap((void *)1, PAGE) == 0) fail("munmap of an address that is no page's");
    if (mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, -1, 0) != MAP_FAILED) fail("mmap of no file");
    if (mprotect((void *)1, PAGE, PROT_READ) == 0) fail("mprotect of an address that is no page's");
}

OWN_FRAME static char *map_a_file(const char *path, long pages) {
    FILE *file = fopen(path, "r");
    if (!file) fail(path);
    char *start = mmap(NULL, (size_t)pages * PAGE, PROT_READ, MAP_PRIVATE, fileno(file), 0);
    if (start == MAP_FAILED) fail("mmap of a file");
    fclose(file);
    own(start, pages, FILES);
    return start;
}

int main(int count, char **arguments) {
    if (count < 2) return 98;
    char *area = reserve(512);
    map_over(area + 10 * PAGE, 20);   /* a hole of another owner in the middle */
    map_over(area + 25 * PAGE, 10);   /* over the end of that and what follows */
    map_over(area + 100 * PAGE, 300); /* a large part */
    unmap(area + 5 * PAGE, 10);       /* the end of one block and the start of the next */
    unmap(area, 1);                   /* the start */
    unmap(area + 511 * PAGE, 1);      /* the end */
    unmap(area + 200 * PAGE, 50);     /* the middle */
    unmap(area + 190 * PAGE, 70);     /* what is there and what is not */
    map_in_vain();

    char *growing = map_plainly(4);
    growing[0] = 1;
    growing = remap(growing, 4, 600);
    growing = remap(growing, 600, 100);
    remap_over(growing, 50, area + 300 * PAGE);
    remap_over(growing + 50 * PAGE, 20, area + 120 * PAGE);

    char *file = map_a_file(arguments[1], 1);
    decommit(file, 1); /* a file stays a file */
    char *heap = reserve(2000);
    commit(heap, 100, PROT_READ | PROT_WRITE);             /* as allocators with a heap of their own grow */
    commit(heap + 50 * PAGE, 150, PROT_READ | PROT_WRITE); /* half of it already is */
    commit(heap + 300 * PAGE, 10, PROT_READ);
    commit(heap + 20 * PAGE, 10, PROT_READ | PROT_EXEC); /* code that was written: nothing changes */
    decommit(heap + 90 * PAGE, 20);
    decommit(heap + 400 * PAGE, 5); /* reserved already */
    map_over(heap + 500 * PAGE, 64);
    unmap(heap + 1900 * PAGE, 100);
    remap_over(heap + 600 * PAGE, 30, heap + 800 * PAGE); /* a reservation over another */
    char *summit = map_plainly(900);
    unmap(summit, 900);
    for (int i = 0; i < 50; i++) unmap(map_plainly(i + 1), i + 1);

    printf("{\"live_bytes\":%ld,\"peak_bytes\":%ld,\"reserved_bytes\":%ld,\"file_bytes\":%ld,\"functions\":{", live, peak, live_of[RESERVED], live_of[FILES]);
    for (int i = FIRST_FUNCTION; i < name_count; i++) printf("%s\"%s\":%ld", i > FIRST_FUNCTION ? "," : "", names[i], live_of[i]);
    printf("}}\n");
    fflush(stdout);
    if (count > 2) getchar(); /* for whoever wants to look at it meanwhile */
    return 0;
}
