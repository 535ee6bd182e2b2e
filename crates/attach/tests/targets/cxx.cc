// Counts what operator new and delete do after SIGUSR1, bad_alloc included.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <sys/prctl.h>
#include <unistd.h>
struct alignas(64) wide { char room[192]; };
static void *volatile kept;
template <class T> static T *keep(T *p) { kept = p; __asm__ volatile("" ::: "memory"); return static_cast<T *>(kept); }
int main() {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigset_t set; sigemptyset(&set); sigaddset(&set, SIGUSR1); sigprocmask(SIG_BLOCK, &set, 0);
    if (write(1, "ready\n", 6) < 0) return 1;
    for (;;) {
        int number; sigwait(&set, &number); int caught = 0;
        for (int i = 0; i < 1000; i++) {
            delete keep(new long(i));
            delete[] keep(new char[100 + i]);
            delete keep(new wide());
            ::operator delete(keep(::operator new(50, std::nothrow)), std::nothrow);
            try { volatile size_t n = static_cast<size_t>(1) << 62; delete[] keep(new char[n]); } catch (std::bad_alloc &) { caught++; }
        }
        if (caught != 1000) abort();
        if (write(1, "end\n", 4) < 0) return 1;
    }
}
