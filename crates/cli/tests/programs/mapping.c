/* Maps, unmaps, remaps, whole and in parts, and prints what it holds: in all and for each function that mapped it. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define OWN_FRAME __attribute__((noinline, noclone, noipa))
enum { PAGE = 4096, SLOTS = 1 << 14 };

/* Who owns each page we mapped. The ledger is static: nothing here may map by itself. */
static const char *names[16];
static int name_count;
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

static void own(char *start, long pages, int owner) {
    for (char *page = start; page < start + pages * PAGE; page += PAGE) {
        size_t slot = (size_t)page / PAGE * 0x9E3779B97F4A7C15u >> 50;
        while (pages_owned[slot].page && pages_owned[slot].page != page) slot = (slot + 1) % SLOTS;
        int before = pages_owned[slot].page ? pages_owned[slot].owner : -1;
        if (before >= 0) live -= PAGE, live_of[before] -= PAGE;
        if (owner >= 0) live += PAGE, live_of[owner] += PAGE;
        pages_owned[slot].page = page;
        pages_owned[slot].owner = owner;
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
    own(start, pages, name_of(__func__));
    return start;
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
    disown(start, pages);
    char *moved = mremap(start, (size_t)pages * PAGE, (size_t)pages * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place);
    if (moved != place) fail("mremap over");
    own(moved, pages, name_of(__func__));
}

/* What fails changes nothing. */
OWN_FRAME static void map_in_vain(void) {
    if (mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) fail("mmap of nothing");
    if (munmap((void *)1, PAGE) == 0) fail("munmap of an address that is no page's");
    if (mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, -1, 0) != MAP_FAILED) fail("mmap of no file");
}

OWN_FRAME static char *map_a_file(const char *path, long pages) {
    FILE *file = fopen(path, "r");
    if (!file) fail(path);
    char *start = mmap(NULL, (size_t)pages * PAGE, PROT_READ, MAP_PRIVATE, fileno(file), 0);
    if (start == MAP_FAILED) fail("mmap of a file");
    fclose(file);
    own(start, pages, name_of(__func__));
    return start;
}

int main(int count, char **arguments) {
    if (count != 2) return 98;
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

    map_a_file(arguments[1], 1);
    char *summit = map_plainly(900);
    unmap(summit, 900);
    for (int i = 0; i < 50; i++) unmap(map_plainly(i + 1), i + 1);

    printf("{\"live_bytes\":%ld,\"peak_bytes\":%ld,\"functions\":{", live, peak);
    for (int i = 0; i < name_count; i++) printf("%s\"%s\":%ld", i ? "," : "", names[i], live_of[i]);
    printf("}}\n");
    return 0;
}
