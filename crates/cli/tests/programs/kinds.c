/* Maps, unmaps, moves, protects and gives back memory at random, in an area for each of its threads, and then reads from /proc/self/maps what the kernel has there:
 * memory that can be touched, reservations, files. It counts itself what was given back. It prints all of it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { PAGE = 4096, PAGES = 512, MOST = 24, THREADS = 4 };
/* Far from where the kernel puts mappings by itself: no other mapping gets into a hole of an area. */
static char *const areas = (char *)0x200000000000;
static __thread char *area;
static __thread char returned[PAGES];
static __thread unsigned long long seed;
static int plain_file, shared_memory, zeros;
static long steps, of_all[256], given_back;
static pthread_mutex_t sums = PTHREAD_MUTEX_INITIALIZER;

static long below(long limit) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (long)(seed >> 33) % limit;
}

static void fail(const char *what) {
    perror(what);
    _exit(99);
}

static char *at(long page) { return area + page * PAGE; }

static void forget(long page, long count) { memset(returned + page, 0, (size_t)count); }

/* The kind of a page by the kernel's list: 'm', 'r', 'f', or '-' if nothing is mapped there. */
static __thread char kinds[PAGES];

static void look(void) {
    memset(kinds, '-', sizeof kinds);
    int file = open("/proc/self/maps", O_RDONLY);
    static __thread char text[1 << 19];
    size_t length = 0;
    ssize_t got;
    while ((got = read(file, text + length, sizeof text - 1 - length)) > 0) length += (size_t)got;
    close(file);
    text[length] = 0;
    for (char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        unsigned long start, end, inode;
        char access[8];
        int path = 0;
        sscanf(line, "%lx-%lx %7s %*x %*s %lu %n", &start, &end, access, &inode, &path);
        int is_zero = path > 0 && !strncmp(line + path, "/dev/zero", 9);
        char kind = inode && !is_zero ? 'f' : strncmp(access, "---", 3) ? 'm' : 'r';
        for (unsigned long page = start; page < end; page += PAGE)
            if ((char *)page >= area && (char *)page < at(PAGES)) kinds[((char *)page - area) / PAGE] = kind;
    }
}

static void step(void) {
    static const int access[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE, PROT_READ | PROT_EXEC};
    static const int advice[] = {MADV_DONTNEED, MADV_FREE, MADV_REMOVE, MADV_POPULATE_WRITE, MADV_NORMAL};
    long page = below(PAGES - MOST), count = 1 + below(MOST), to = below(PAGES - MOST), new_count = 1 + below(MOST);
    int overlap = page < to + new_count && to < page + count;
    switch (below(10)) {
    case 0: case 1: case 2: {
        int flags = MAP_FIXED | (below(2) ? MAP_PRIVATE : MAP_SHARED) | (below(3) ? 0 : MAP_NORESERVE);
        int file = -1, protection = access[below(3)];
        switch (below(6)) {
        case 0: file = plain_file, flags = MAP_FIXED | MAP_PRIVATE; break;
        case 1: file = shared_memory; break;
        case 2: file = zeros; break;
        default: flags |= MAP_ANONYMOUS;
        }
        if (mmap(at(page), (size_t)(count * PAGE - below(PAGE)), protection, flags, file, 0) == MAP_FAILED) fail("mmap");
        forget(page, count);
        break;
    }
    case 3:
        if (munmap(at(page), (size_t)count * PAGE)) fail("munmap");
        forget(page, count);
        break;
    case 4: case 5: {
        /* A call that meets a hole fails, but changes what is before it. So it is not made. */
        look();
        for (long each = page; each < page + count; each++)
            if (kinds[each] == '-') return;
        if (mprotect(at(page), (size_t)count * PAGE, access[below(4)]) == 0) forget(page, count);
        break;
    }
    case 6: case 7: {
        look();
        int how = advice[below(5)];
        for (long each = page; each < page + count; each++)
            if (kinds[each] == '-') return;
        if (madvise(at(page), (size_t)count * PAGE, how) == 0 && how != MADV_NORMAL)
            for (long each = page; each < page + count; each++)
                returned[each] = kinds[each] == 'm' && how != MADV_POPULATE_WRITE;
        break;
    }
    case 8:
        /* A call that fails may have moved a part, or unmapped what was at the new address. Neither is known afterwards, so both are unmapped. */
        look();
        for (long each = page; each < page + count; each++)
            if (overlap || kinds[each] == '-' || kinds[each] != kinds[page]) return;
        if (mremap(at(page), (size_t)count * PAGE, (size_t)new_count * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at(to)) == MAP_FAILED) {
            munmap(at(page), (size_t)count * PAGE);
            munmap(at(to), (size_t)new_count * PAGE);
        }
        forget(page, count);
        forget(to, new_count);
        break;
    default:
        if (below(2)) { /* the old mapping stays, empty */
            int flags = MREMAP_MAYMOVE | MREMAP_DONTUNMAP | MREMAP_FIXED;
            munmap(at(to), (size_t)count * PAGE);
            forget(to, count);
            if (page + count > to && to + count > page) return;
            look();
            for (long each = page; each < page + count; each++)
                if (kinds[each] != 'm') return;
            if (mremap(at(page), (size_t)count * PAGE, (size_t)count * PAGE, flags, at(to)) == MAP_FAILED) {
                munmap(at(page), (size_t)count * PAGE);
                munmap(at(to), (size_t)count * PAGE);
                forget(page, count);
            } else {
                memset(returned + page, 1, (size_t)count);
            }
        } else { /* a shared mapping twice */
            munmap(at(to), (size_t)new_count * PAGE);
            forget(to, new_count);
            mremap(at(page), 0, (size_t)new_count * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at(to));
        }
    }
}

static unsigned long long first_seed;

static void *work(void *number) {
    seed = first_seed + (unsigned long long)(long)number * 1000003;
    area = areas + ((long)number << 30);
    if (mmap(area, PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != area) fail("mmap");
    for (long left = steps; left > 0; left--) step();
    look();
    pthread_mutex_lock(&sums);
    for (long page = 0; page < PAGES; page++) of_all[(int)kinds[page]] += PAGE, given_back += returned[page] ? PAGE : 0;
    pthread_mutex_unlock(&sums);
    return NULL;
}

int main(int count, char **arguments) {
    if (count < 4) return 98;
    first_seed = strtoull(arguments[1], NULL, 10);
    steps = atol(arguments[2]);
    plain_file = open(arguments[3], O_RDONLY), shared_memory = memfd_create("kinds", 0), zeros = open("/dev/zero", O_RDWR);
    if (plain_file < 0 || shared_memory < 0 || zeros < 0 || ftruncate(shared_memory, PAGES * PAGE)) fail("a file");
    work((void *)0); /* alone first: a program with one thread is recorded differently */
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)(i + 1))) fail("pthread_create");
    for (long i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);

    /* The program break: five pages more, then two less. */
    char *before = sbrk(0);
    if (sbrk(5 * PAGE) != before) fail("sbrk");
    if (brk(before + 3 * PAGE)) fail("brk");
    if (brk(NULL) && brk(before + 3 * PAGE)) fail("brk of nothing");

    printf("{\"pid\":%d,\"memory\":%ld,\"reserved\":%ld,\"files\":%ld,\"returned\":%ld}\n", (int)getpid(), of_all['m'] + 3 * PAGE, of_all['r'],
           of_all['f'], given_back);
    fflush(stdout);
    if (count > 4) getchar(); /* keeps it until it was read */
    return 0;
}
