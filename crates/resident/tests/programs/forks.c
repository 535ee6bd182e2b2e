// Forks children that allocate and end, without pause.
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    write(1, "done\n", 5);
    for (;;) {
        int child = fork();
        if (!child) { memset(malloc(1 << 20), 1, 1 << 20); _exit(0); }
        memset(malloc(1000), 1, 1000);
        waitpid(child, 0, 0);
    }
}
