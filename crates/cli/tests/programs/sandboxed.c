// Installs a seccomp filter, and goes on allocating: on its first thread, on threads that begin later, in a forked child. The filter kills the
// process for the calls that a recorder might make and this program does not. The argument says how it is installed.
#define _GNU_SOURCE
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOAD(what) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, what))
#define KILL_IF(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)

static struct sock_filter code[] = {
    LOAD(nr),
    KILL_IF(SYS_gettid),    KILL_IF(SYS_getpid),  KILL_IF(SYS_prctl),     KILL_IF(SYS_memfd_create), KILL_IF(SYS_socket),
    KILL_IF(SYS_connect),   KILL_IF(SYS_openat),  KILL_IF(SYS_open),      KILL_IF(SYS_readlink),     KILL_IF(SYS_tgkill),
    KILL_IF(SYS_ftruncate), KILL_IF(SYS_sendmsg), KILL_IF(SYS_faccessat2), KILL_IF(SYS_pread64),     KILL_IF(SYS_geteuid),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};
static struct sock_fprog filter = {sizeof code / sizeof *code, code};
static volatile int go;

static void *work(void *seed) {
    while (!go) usleep(100);
    unsigned sum = (unsigned)(size_t)seed;
    for (int round = 0; round < 20000; round++) {
        char *block = malloc(16 + round % 2000);
        memset(block, round, 16);
        sum = sum * 31 + (unsigned char)block[7];
        free(block);
    }
    return (void *)(size_t)sum;
}

static size_t threads(void) {
    pthread_t all[4];
    void *result;
    size_t sum = 0;
    for (size_t at = 0; at < 4; at++) pthread_create(&all[at], 0, work, (void *)at);
    for (size_t at = 0; at < 4; at++) pthread_join(all[at], &result), sum += (size_t)result;
    return sum;
}

int main(int count, char **words) {
    const char *how = count > 1 ? words[1] : "prctl";
    char *kept = malloc(5000);
    pthread_t early;
    void *result;
    // A thread that is there already, and at work when the filter comes.
    pthread_create(&early, 0, work, (void *)9);
    // Whether the kernel could: this installs nothing.
    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, NULL);
    char *still = malloc(6000);
    if (!strcmp(how, "strict")) {
        go = 1;
        pthread_join(early, &result);
        char text[64];
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) return 3;
        size_t sum = 0;
        for (int round = 0; round < 100; round++) {
            char *block = malloc(32);
            block[0] = (char)round;
            sum += (size_t)block[0];
            free(block);
        }
        int length = snprintf(text, sizeof text, "strict %zu\n", sum);
        if (write(1, text, (size_t)length) != length) syscall(SYS_exit, 4);
        syscall(SYS_exit, 0);
    }
    if (!strcmp(how, "vfork")) {
        // The filter is the child's alone, but until it ends the two share their memory.
        pid_t child = vfork();
        if (child == 0) _exit(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter));
        int status = 1;
        waitpid(child, &status, 0);
        go = 1;
        pthread_join(early, &result);
        printf("filtered in a child %d, %zu\n", status, (size_t)result);
        return 7;
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 5;
    go = !strcmp(how, "busy");
    long failed = strcmp(how, "prctl") ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter)
                                       : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
    if (failed) return 6;
    go = 1;
    pthread_join(early, &result);
    size_t sum = threads() + (size_t)result;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        char *inherited = malloc(100);
        inherited[0] = 1;
        free(inherited);
        _exit(threads() == sum ? 1 : 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    free(kept);
    free(still);
    printf("filtered %zu, child %d\n", sum, status);
    return 7;
}
