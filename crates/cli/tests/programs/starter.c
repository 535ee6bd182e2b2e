// Starts another program in the way that its first argument names, waits for it, and prints how it ended.
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void become(const char *way, char *path, char **arguments) {
    const char *name = strrchr(path, '/') + 1;
    if (!strcmp(way, "execve")) execve(path, arguments, environ);
    if (!strcmp(way, "execv") || !strcmp(way, "vfork")) execv(path, arguments);
    if (!strcmp(way, "execvp")) execvp(name, arguments);
    if (!strcmp(way, "execvpe")) execvpe(name, arguments, environ);
    // More arguments than fit into registers.
    if (!strcmp(way, "execl")) execl(path, name, "-u", "A", "-u", "B", "-u", "C", "-u", "D", (char *)0);
    if (!strcmp(way, "execlp")) execlp(name, name, "-u", "A", (char *)0);
    if (!strcmp(way, "execle")) execle(path, name, "-u", "A", "-u", "B", "-u", "C", (char *)0, environ);
    if (!strcmp(way, "fexecve")) fexecve(open(path, O_RDONLY), arguments, environ);
    perror(way);
    _exit(99);
}

int main(int count, char **words) {
    if (count < 3) return 2;
    char *way = words[1], *path = words[2];
    char *arguments[] = {strrchr(path, '/') + 1, 0};
    int status = 0;
    pid_t child = 0;
    setenv("STARTER", "is here", 1);
    // What makes no sense is refused as ever.
    char *none = 0;
    if (execve(none, arguments, environ) != -1 || execvp("", arguments) != -1 || execve("/", arguments, 0) != -1) return 6;
    fflush(stdout);
    if (!strcmp(way, "posix_spawn")) {
        if (posix_spawn(&child, path, 0, 0, arguments, environ)) return 3;
    } else if (!strcmp(way, "posix_spawnp")) {
        if (posix_spawnp(&child, arguments[0], 0, 0, arguments, environ)) return 3;
    } else if (!strcmp(way, "system")) {
        // The shell starts it.
        char *line = 0;
        if (asprintf(&line, "%s; exit $?", path) < 0) return 4;
        status = system(line);
        free(line);
    } else if (!strcmp(way, "vfork")) {
        child = vfork();
        if (child == 0) become(way, path, arguments);
    } else {
        child = fork();
        if (child == 0) become(way, path, arguments);
    }
    if (child > 0 && waitpid(child, &status, 0) != child) return 5;
    printf("child ended with %d\n", WEXITSTATUS(status));
    return 0;
}
