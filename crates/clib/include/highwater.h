/* highwater.h: a program that reports its memory to Highwater.
 *
 * Link a program with the library, and every block that it allocates can be recorded, or be looked at while it runs:
 *
 *     cc app.c $(pkg-config --cflags --libs highwater)                      a dynamic program, with libhighwater.so
 *     cc -static app.c $(pkg-config --cflags --static --libs highwater)     a statically linked one, with libhighwater.a
 *
 * A program need not call any of these functions: 'highwater record ./app' and 'highwater run ./app' find the library in it. Until one of
 * them, or one of the functions below, asks for it, the library does nothing; malloc and free together cost one to two nanoseconds more.
 *
 * All functions can be called at any time, from any thread, and before main. None of them changes errno, leaves a descriptor open that was not
 * open before (a live program keeps two, close-on-exec), or ends the program. If there is no recorder and no collector, the program goes on as
 * without them. Results are 0, or an error number for strerror(). docs/c-library.md has examples.
 */
#ifndef HIGHWATER_H
#define HIGHWATER_H

#include <stddef.h>
#include <stdint.h>
#ifdef HIGHWATER_OPTIONAL
#include <errno.h>
#endif

/* With HIGHWATER_OPTIONAL defined before it is included, a program needs this header and no library. All functions can be called; where neither
 * the library nor a recorder is in the program, they do nothing: those with an error number return ENOSYS, the others 0 or an empty text.
 * With either of them they are the functions below. To have the library in such a program, link it by the options of pkg-config:
 * linkers leave a library out that a program can do without. */

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library that the program runs with, such as "0.1.0". */
const char *highwater_version(void);

/* What is done with the program's blocks now. */
enum {
    HIGHWATER_OFF = 0,    /* nothing */
    HIGHWATER_RECORD = 1, /* they are recorded: by highwater_record_to, or by 'highwater record' */
    HIGHWATER_LIVE = 2    /* they are in a live table: by highwater_live, or by 'highwater run' */
};
int highwater_state(void);

/* Keeps a live table of every block that is allocated from now on: 'highwater snapshot --pid N' shows it at any time, exactly as of one instant,
 * without stopping the program. Registers with the user's collector if one listens; a collector that starts later finds the program. Children
 * that the program forks have tables of their own.
 *
 * 0          the program is live, or was already
 * EBUSY      it is being recorded, or was: it can do one of both
 * ENOMEM     there is no memory for the table
 * EPERM      a seccomp filter is in force
 * ENOSYS     the library does not see the program's blocks: it is statically linked without the options of
 *            'pkg-config --static --libs highwater', or another malloc comes first */
int highwater_live(void);

/* The same, with settings. Set them all to zero first, then 'size'. */
struct highwater_live_options {
    size_t size;           /* sizeof(struct highwater_live_options) */
    uint64_t sample_bytes; /* keep samples only, on average one for this number of bytes; 0 keeps every block */
    uint64_t max_blocks;   /* the most blocks in the table, 0 for no limit; those beyond are counted */
    int allow_contents;    /* not 0: 'highwater snapshot --contents' may read what is in the blocks */
    const char *socket;    /* the collector's socket; NULL for that of the user */
};
/* Results as above, and EINVAL if 'options' is NULL or its size is another one. */
int highwater_live_with(const struct highwater_live_options *options);

/* Has the collector take a snapshot of this program as it is now, and keep it under a name: 'highwater snapshots' lists it. Returns when the
 * instant is fixed; the collector reads the table afterwards. Names longer than 255 bytes are cut.
 *
 * 0          the collector has it
 * ENOTSUP    the program is not live
 * ENOTCONN   no collector listens
 * EINVAL     'name' is NULL */
int highwater_take_named_snapshot(const char *name);

/* Blocks and bytes since the program became live. A block that is resized counts as bytes freed and allocated. */
struct highwater_stats {
    uint64_t allocations;
    uint64_t allocated_bytes;
    uint64_t frees;
    uint64_t freed_bytes;
};
/* Those of all threads; an estimate if only samples are kept. 0, or ENOTSUP if the program is not live. */
int highwater_global_stats(struct highwater_stats *stats);
/* Those of the calling thread. The blocks that it frees count here, whichever thread allocated them. Results as above. */
int highwater_thread_stats(struct highwater_stats *stats);

/* Records every block from now on into a file, until the program ends or highwater_stop_recording is called. The file is written by the command
 * 'highwater', which is found in PATH, or by the variable HIGHWATER_COMMAND; it is no child of the program. An existing file is replaced. Once per
 * program. Forked children are not recorded.
 *
 * 0          everything is recorded from now on
 * ENOENT     the command is not found, or the folder of the file
 * EBUSY      the program is being recorded or live, or was
 * EPERM      the program has more rights than the user who started it, or a seccomp filter is in force
 * ENOMEM, ENOSYS as above; EACCES, ENOSPC, EROFS and others if the file cannot be created */
int highwater_record_to(const char *path);

/* Ends the recording that highwater_record_to began, and waits until its file is complete. Done at exit as well.
 *
 * 0          the file is complete
 * ENOTSUP    the program does not record itself
 * ENOTCONN   the recorder is gone: the file holds what it had received
 * ETIMEDOUT  the recorder needs more than a minute: it goes on without the program */
int highwater_stop_recording(void);

/* Names this instant in the recording: 'highwater report app.hw --at mark:NAME'. Does nothing if the program is not recorded. */
void highwater_mark(const char *name);

/* A task is a part of the program's work that has a name: 'highwater report app.hw --by task' shows what each task holds. A scheduler enters the task
 * whose turn it is, and enters the one before when it returns:
 *
 *     uint32_t before = highwater_task_enter(connection->task);
 *     ...
 *     highwater_task_enter(before);
 *
 * What the thread allocates or resizes in between belongs to the task, whichever thread frees it. */

/* The task with this name: a number that stays as long as the program. 0 is no task. Of names beyond 16383, all are the task "[other tasks]"; of a long
 * name the first 256 bytes count. */
uint32_t highwater_task(const char *name);
/* The calling thread works for this task from now on, 0 for none. Returns the task that it worked for. */
uint32_t highwater_task_enter(uint32_t task);

#ifdef HIGHWATER_OPTIONAL
#pragma weak highwater_version
#pragma weak highwater_state
#pragma weak highwater_live
#pragma weak highwater_live_with
#pragma weak highwater_take_named_snapshot
#pragma weak highwater_global_stats
#pragma weak highwater_thread_stats
#pragma weak highwater_record_to
#pragma weak highwater_stop_recording
#pragma weak highwater_mark
#pragma weak highwater_task
#pragma weak highwater_task_enter

static inline const char *highwater_optional_version(void) { return highwater_version ? highwater_version() : ""; }
static inline int highwater_optional_state(void) { return highwater_state ? highwater_state() : HIGHWATER_OFF; }
static inline int highwater_optional_live(void) { return highwater_live ? highwater_live() : ENOSYS; }
static inline int highwater_optional_live_with(const struct highwater_live_options *options) {
    return highwater_live_with ? highwater_live_with(options) : ENOSYS;
}
static inline int highwater_optional_take_named_snapshot(const char *name) {
    return highwater_take_named_snapshot ? highwater_take_named_snapshot(name) : ENOSYS;
}
static inline int highwater_optional_global_stats(struct highwater_stats *stats) {
    return highwater_global_stats ? highwater_global_stats(stats) : ENOSYS;
}
static inline int highwater_optional_thread_stats(struct highwater_stats *stats) {
    return highwater_thread_stats ? highwater_thread_stats(stats) : ENOSYS;
}
static inline int highwater_optional_record_to(const char *path) {
    return highwater_record_to ? highwater_record_to(path) : ENOSYS;
}
static inline int highwater_optional_stop_recording(void) {
    return highwater_stop_recording ? highwater_stop_recording() : ENOSYS;
}
static inline void highwater_optional_mark(const char *name) {
    if (highwater_mark) { highwater_mark(name); }
}
static inline uint32_t highwater_optional_task(const char *name) { return highwater_task ? highwater_task(name) : 0; }
static inline uint32_t highwater_optional_task_enter(uint32_t task) {
    return highwater_task_enter ? highwater_task_enter(task) : 0;
}

/* Calls only: a name without parentheses is still the function, or NULL. */
#define highwater_version() highwater_optional_version()
#define highwater_state() highwater_optional_state()
#define highwater_live() highwater_optional_live()
#define highwater_live_with(options) highwater_optional_live_with(options)
#define highwater_take_named_snapshot(name) highwater_optional_take_named_snapshot(name)
#define highwater_global_stats(stats) highwater_optional_global_stats(stats)
#define highwater_thread_stats(stats) highwater_optional_thread_stats(stats)
#define highwater_record_to(path) highwater_optional_record_to(path)
#define highwater_stop_recording() highwater_optional_stop_recording()
#define highwater_mark(name) highwater_optional_mark(name)
#define highwater_task(name) highwater_optional_task(name)
#define highwater_task_enter(task) highwater_optional_task_enter(task)
#endif

/* Everything that the program does between both calls is a measure with this name, and a budget can limit it, however often it is made:
 *
 *     [[budget.part]]
 *     measure = "parse"
 *     max-allocations = 0
 *
 * All threads count. They are the marks NAME:begin and NAME:end; of a long name the first 240 bytes count. */
static inline void highwater_measure_part(const char *name, const char *part) {
    char mark[256];
    size_t length = 0;
    if (!name) return;
    while (length < 240 && name[length]) {
        mark[length] = name[length];
        length++;
    }
    while (*part) mark[length++] = *part++;
    mark[length] = 0;
    highwater_mark(mark);
}
static inline void highwater_measure_begin(const char *name) { highwater_measure_part(name, ":begin"); }
static inline void highwater_measure_end(const char *name) { highwater_measure_part(name, ":end"); }

#ifdef __cplusplus
}
#endif

#endif
