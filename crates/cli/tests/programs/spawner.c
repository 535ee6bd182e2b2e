/* spawner HOW: runs env as a child in one of the ways there are, so that a child's environment can be seen: system, fork, spawn,
 * explicit (an environment of its own), cleared. */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int main(int count, char **arguments) {
    if (count != 2) return 98;
    const char *how = arguments[1];
    char *line[] = {"env", NULL}, *own[] = {"A=1", "LD_BIND_NOW=1", "B=2", NULL};
    free(malloc(100));
    if (!strcmp(how, "system")) return system("env") == 0 ? 0 : 1;
    pid_t child = -1;
    if (!strcmp(how, "spawn")) {
        if (posix_spawnp(&child, "env", NULL, NULL, line, environ)) return 97;
    } else {
        child = fork();
        if (child == 0) {
            if (!strcmp(how, "fork")) execvp("env", line);
            if (!strcmp(how, "explicit")) execvpe("env", line, own);
            if (!strcmp(how, "cleared")) {
                clearenv();
                execv("/usr/bin/env", line);
            }
            _exit(96);
        }
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 95;
}
