/* A cache that keeps more than it should, and reports it: `highwater snapshots` has one snapshot for each phase.
 *
 *     cc cache.c $(pkg-config --cflags --libs highwater) -o cache
 *     cc -static cache.c $(pkg-config --cflags --static --libs highwater) -o cache
 *
 * Without a collector it prints that there is none, and does its work all the same. */
#include <highwater.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct entry {
    struct entry *next;
    char *text;
};

static struct entry *cache;

static void remember(const char *text) {
    struct entry *entry = malloc(sizeof *entry);
    entry->text = strdup(text);
    entry->next = cache;
    cache = entry;
}

/* Forgets every second entry. */
static void forget_half(void) {
    for (struct entry *entry = cache; entry && entry->next; entry = entry->next) {
        struct entry *forgotten = entry->next;
        entry->next = forgotten->next;
        free(forgotten->text);
        free(forgotten);
    }
}

static void snapshot(const char *name) {
    int error = highwater_take_named_snapshot(name);
    if (error) fprintf(stderr, "no snapshot '%s': %s\n", name, strerror(error));
}

int main(void) {
    int error = highwater_live();
    if (error) fprintf(stderr, "not live: %s\n", strerror(error));

    char text[64];
    for (int i = 0; i < 1000; i++) {
        snprintf(text, sizeof text, "entry number %d", i);
        remember(text);
    }
    snapshot("filled");
    forget_half();
    snapshot("half forgotten");

    struct highwater_stats stats;
    if (highwater_global_stats(&stats) == 0)
        printf("%llu blocks allocated, %llu freed, %llu bytes live\n", (unsigned long long)stats.allocations,
               (unsigned long long)stats.frees, (unsigned long long)(stats.allocated_bytes - stats.freed_bytes));
    return 0;
}
