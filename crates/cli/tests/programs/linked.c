/* A program that calls the functions of highwater.h, checks what the header promises, and prints its own count as JSON. It ends with 0 if every
 * promise was kept, and names the first one that was not.
 *
 *     linked off               nobody is there
 *     linked live [COLLECTOR]  takes snapshots, which a collector keeps if there is an argument; then waits for the end of its input
 *     linked record FILE       records itself */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <highwater.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, BLOCKS = 500, HIGHEST_DESCRIPTOR = 8192, ODD_ERRNO = 77 };

static void promise(int is_kept, const char *what, int line) {
    if (is_kept) return;
    dprintf(2, "line %d: %s\n", line, what);
    _exit(9);
}
#define PROMISE(is_kept) promise(is_kept, #is_kept, __LINE__)

/* Calls a function of the library: errno stays as it was. */
#define CALL(call) (errno = ODD_ERRNO, result = (call), PROMISE(errno == ODD_ERRNO), result)
static __thread int result;

static int open_descriptors(void) {
    int count = 0;
    for (int i = 0; i < HIGHEST_DESCRIPTOR; i++) count += fcntl(i, F_GETFD) >= 0;
    return count;
}

/* What is done by this thread since its count began. */
struct count {
    uint64_t allocations, allocated_bytes, frees, freed_bytes;
};
static __thread struct count count;

__attribute__((noinline, noclone)) static void *hold(size_t size) {
    void *block = malloc(size);
    memset(block, 1, size);
    count.allocations++;
    count.allocated_bytes += size;
    return block;
}

static void counted(void *block, size_t size) {
    PROMISE(block != NULL);
    count.allocations++;
    count.allocated_bytes += size;
}

static void drop(void *block, size_t size) {
    free(block);
    count.frees++;
    count.freed_bytes += size;
}

/* Each function of the family once, with everything freed. */
static void go_through_the_family(size_t size) {
    void *block = calloc(3, size);
    counted(block, 3 * size);
    block = realloc(block, 7 * size);
    count.freed_bytes += 3 * size;
    count.allocated_bytes += 7 * size;
    drop(block, 7 * size);
    counted(block = aligned_alloc(64, 64 * size), 64 * size);
    drop(block, 64 * size);
    PROMISE(posix_memalign(&block, 4096, size) == 0);
    counted(block, size);
    drop(block, size);
    counted(block = strdup("twelve bytes"), 13);
    drop(block, 13);
}

static struct count difference(const struct highwater_stats *before, const struct highwater_stats *after) {
    return (struct count){after->allocations - before->allocations, after->allocated_bytes - before->allocated_bytes,
                          after->frees - before->frees, after->freed_bytes - before->freed_bytes};
}

static void *work(void *argument) {
    size_t me = (size_t)argument;
    void *own[BLOCKS];
    struct highwater_stats before, after;
    free(malloc(1)); /* the thread begins */
    PROMISE(CALL(highwater_thread_stats(&before)) == 0);
    for (int i = 0; i < BLOCKS; i++) own[i] = hold(100 * (me + 1) + (size_t)i);
    for (int i = 0; i < 20; i++) go_through_the_family(10 + me);
    for (int i = 0; i < BLOCKS / 2; i++) drop(own[i], 100 * (me + 1) + (size_t)i);
    PROMISE(CALL(highwater_thread_stats(&after)) == 0);
    struct count seen = difference(&before, &after);
    PROMISE(!memcmp(&seen, &count, sizeof seen));
    return NULL;
}

static void have_no_children(void) {
    PROMISE(waitpid(-1, NULL, 0) == -1 && errno == ECHILD);
}

/* A forked child has a table of its own, from its first allocation on. */
static void fork_one(void) {
    pid_t child = fork();
    if (child == 0) {
        void *blocks[3];
        for (int i = 0; i < 3; i++) blocks[i] = hold(1000);
        struct highwater_stats stats;
        PROMISE(highwater_state() == HIGHWATER_LIVE);
        PROMISE(CALL(highwater_global_stats(&stats)) == 0);
        PROMISE(stats.allocations == 3 && stats.allocated_bytes == 3000 && stats.frees == 0);
        PROMISE(blocks[2] != NULL);
        _exit(0);
    }
    int status;
    PROMISE(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void be_live(int has_collector) {
    int before = open_descriptors();
    PROMISE(CALL(highwater_live()) == 0 && highwater_state() == HIGHWATER_LIVE);
    PROMISE(CALL(highwater_live()) == 0);
    PROMISE(open_descriptors() <= before + 2);
    PROMISE(CALL(highwater_record_to("never.hw")) == EBUSY);
    struct highwater_stats first, second;
    PROMISE(CALL(highwater_global_stats(&first)) == 0);
    count = (struct count){0};
    void *held[10];
    for (int i = 0; i < 10; i++) held[i] = hold(5000);
    for (int i = 0; i < 20; i++) go_through_the_family(33);
    PROMISE(CALL(highwater_global_stats(&second)) == 0);
    struct count seen = difference(&first, &second);
    PROMISE(!memcmp(&seen, &count, sizeof seen));
    PROMISE(CALL(highwater_take_named_snapshot("ten held")) == (has_collector ? 0 : ENOTCONN));

    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    fork_one();
    drop(held[9], 5000);
    PROMISE(CALL(highwater_take_named_snapshot("more held")) == (has_collector ? 0 : ENOTCONN));
    have_no_children();

    size_t blocks = 9, bytes = 9 * 5000;
    for (size_t me = 0; me < THREADS; me++)
        for (size_t i = BLOCKS / 2; i < BLOCKS; i++) blocks++, bytes += 100 * (me + 1) + i;
    dprintf(1, "{\"blocks\":%zu,\"bytes\":%zu}\n", blocks, bytes);
    char byte;
    while (read(0, &byte, 1) > 0) {
    }
}

static void record(const char *file) {
    void *older = hold(11);
    int before = open_descriptors();
    int error = CALL(highwater_record_to(file));
    PROMISE(open_descriptors() == before);
    have_no_children();
    if (error) {
        dprintf(1, "{\"error\":%d}\n", error);
        PROMISE(highwater_state() == HIGHWATER_OFF);
        free(hold(1));
        return;
    }
    PROMISE(highwater_state() == HIGHWATER_RECORD);
    PROMISE(CALL(highwater_record_to(file)) == EBUSY && CALL(highwater_live()) == EBUSY);
    struct highwater_stats stats;
    PROMISE(CALL(highwater_global_stats(&stats)) == ENOTSUP);
    count = (struct count){0};
    free(older);
    void *held[10];
    uint32_t task = highwater_task("first four");
    PROMISE(task != 0 && highwater_task("first four") == task && highwater_task("another") != task);
    PROMISE(highwater_task("") == 0 && highwater_task(NULL) == 0 && highwater_task_enter(task) == 0);
    for (int i = 0; i < 4; i++) held[i] = hold(5000);
    PROMISE(highwater_task_enter(0) == task);
    for (int i = 4; i < 10; i++) held[i] = hold(5000);
    highwater_mark("ten held");
    drop(held[0], 5000);
    pid_t child = fork();
    if (child == 0) exit(highwater_state()); /* not recorded, and no end of its parent's recording */
    int status;
    PROMISE(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    drop(held[1], 5000);
    highwater_mark("eight held");
    dprintf(1, "{\"allocations\":%llu,\"live_blocks\":8}\n", (unsigned long long)count.allocations);
    char byte;
    while (read(0, &byte, 1) > 0) {
    }
    free(hold(1));
}

static void be_off(void) {
    struct highwater_stats stats;
    PROMISE(highwater_state() == HIGHWATER_OFF);
    highwater_mark("nowhere");
    highwater_mark(NULL);
    PROMISE(CALL(highwater_global_stats(&stats)) == ENOTSUP && CALL(highwater_thread_stats(&stats)) == ENOTSUP);
    PROMISE(CALL(highwater_take_named_snapshot("nowhere")) == ENOTSUP);
    PROMISE(CALL(highwater_take_named_snapshot(NULL)) == EINVAL && CALL(highwater_record_to(NULL)) == EINVAL);
    PROMISE(CALL(highwater_stop_recording()) == ENOTSUP);
    struct highwater_live_options options = {0};
    PROMISE(CALL(highwater_live_with(&options)) == EINVAL && CALL(highwater_live_with(NULL)) == EINVAL);
    PROMISE(!strncmp(highwater_version(), "0.", 2));
    go_through_the_family(5);
    dprintf(1, "{}\n");
}

int main(int arguments, char **argument) {
    if (arguments > 2 && !strcmp(argument[1], "record")) record(argument[2]);
    else if (arguments > 1 && !strcmp(argument[1], "live")) be_live(arguments > 2);
    else be_off();
    return 0;
}
