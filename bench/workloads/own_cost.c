/* Preloaded into everything that is measured, in all modes alike: when a process ends, appends one line to $OWN_COST with its
 * name, the CPU time it used and the most memory it had. So the program's own share is known, whatever runs beside it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* The high-water mark of this image; what getrusage calls ru_maxrss includes the one before exec. */
static long high_water_kb(void) {
    char text[4096];
    int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    if (length <= 0) return 0;
    text[length] = 0;
    char *line = strstr(text, "VmHWM:");
    return line ? atol(line + 6) : 0;
}

__attribute__((destructor)) static void say_what_it_cost(void) {
    const char *path = getenv("OWN_COST");
    if (!path) return;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    long microseconds = (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000L + usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
    char line[256];
    int length = snprintf(line, sizeof line, "%s %ld %ld\n", program_invocation_short_name, microseconds, high_water_kb());
    int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) return;
    if (write(file, line, (size_t)length) < 0) { /* nobody to tell */ }
    close(file);
}
