/* A library for LD_PRELOAD: the wall clock of a process is off by the seconds in OFFSET_FILE, which a
   test changes while the process runs. The monotonic clock is the real one. See tests/wall_clock.py. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offset_s;

__attribute__((constructor)) static void map_offset(void) {
    int file = open(OFFSET_FILE, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof *offset_s, PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) offset_s = mapped;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *t) {
    int failed = (int)syscall(SYS_clock_gettime, clock, t);
    if (!failed && offset_s && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        t->tv_sec += *offset_s;
    return failed;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
    int failed = (int)syscall(SYS_gettimeofday, t, zone);
    if (!failed && offset_s) t->tv_sec += *offset_s;
    return failed;
}

time_t time(time_t *seconds) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (seconds) *seconds = t.tv_sec;
    return t.tv_sec;
}
