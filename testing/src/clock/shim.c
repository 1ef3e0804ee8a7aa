/* Answers for the wall clock of a server, preloaded into it. A test writes the answer into a file, which is mapped here.
 *
 * The file has four numbers of 64 bits: how much is added to the real time, in ns; the same with all bits turned; the time
 * itself, in ns since 1970, or 0 where it is the real one; the same with all bits turned. A number is written in front of
 * its copy and read behind it, so a copy that fits shows that the number is whole. A fifth number says that somebody reads.
 *
 * CLOCK_MONOTONIC stays as it is: by it the server plans its own work, and measures how long a script runs. Valkey from
 * 9.1 on asks for the wall clock once in a ms, and adds what the counter of the processor says. It does without that
 * counter where /proc/cpuinfo does not vouch for it, so the server does not see that file. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *page;
static int (*real_clock_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void open_page(void) {
    const char *path = getenv("REDLATCH_CLOCK");
    *(void **)&real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *mapped = mmap(NULL, 5 * sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (mapped == MAP_FAILED) return;
    page = mapped;
    page[4] = 1;
}

static int64_t number(int at) {
    for (;;) {
        int64_t copy = page[at + 1];
        __sync_synchronize();
        int64_t value = page[at];
        if (value == ~copy) return value;
    }
}

/* The allocator of the server asks for the time before anything is loaded. */
static int ask(clockid_t clock, struct timespec *time) {
    if (real_clock_gettime) return real_clock_gettime(clock, time);
    return (int)syscall(SYS_clock_gettime, clock, time);
}

static int is_of_the_wall(clockid_t clock) {
    return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_REALTIME_ALARM;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    const int64_t second = 1000000000;
    int failed = ask(clock, time);
    if (failed || !page || !is_of_the_wall(clock)) return failed;
    int64_t now = number(2);
    if (!now) now = time->tv_sec * second + time->tv_nsec + number(0);
    time->tv_sec = now / second;
    time->tv_nsec = now % second;
    return 0;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    struct timespec now;
    (void)zone;
    int failed = clock_gettime(CLOCK_REALTIME, &now);
    if (failed || !time) return failed;
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}

static FILE *open_unless_hidden(const char *symbol, const char *path, const char *mode) {
    FILE *(*real_fopen)(const char *, const char *);
    if (!strcmp(path, "/proc/cpuinfo")) {
        errno = ENOENT;
        return NULL;
    }
    *(void **)&real_fopen = dlsym(RTLD_NEXT, symbol);
    return real_fopen(path, mode);
}

FILE *fopen(const char *restrict path, const char *restrict mode) {
    return open_unless_hidden("fopen", path, mode);
}

/* Some C libraries have it as a macro. */
#undef fopen64
FILE *fopen64(const char *restrict path, const char *restrict mode) {
    return open_unless_hidden("fopen64", path, mode);
}
