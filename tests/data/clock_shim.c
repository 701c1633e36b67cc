/* A wall clock that is wrong by as much as a file says.
 *
 * Loaded into a server in front of the C library. The file named by FIELDLEASE_CLOCK holds one signed 64-bit number, the
 * microseconds to add, in the byte order of this machine. It is mapped, so a test moves the clock by writing the file.
 * Only the time of day is moved: clocks that measure durations stay right, as they do when an operator sets a clock.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *volatile wrong_by;

/* Straight to the system: what is looked up by name here could ask for the time again. */
static void look(void)
{
    const char *path = getenv("FIELDLEASE_CLOCK");
    if (wrong_by != NULL || path == NULL)
        return;
    int file = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    void *map = (void *)syscall(SYS_mmap, NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    if (map != MAP_FAILED)
        wrong_by = map;
    syscall(SYS_close, file);
}

static int64_t wall_us(void)
{
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
    look();
    int64_t us = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
    return wrong_by == NULL ? us : us + *wrong_by;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
    (void)zone;
    int64_t us = wall_us();
    time->tv_sec = us / 1000000;
    time->tv_usec = us % 1000000;
    return 0;
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)
        return (int)syscall(SYS_clock_gettime, clock, time);
    int64_t us = wall_us();
    time->tv_sec = us / 1000000;
    time->tv_nsec = us % 1000000 * 1000;
    return 0;
}

time_t time(time_t *out)
{
    time_t now = wall_us() / 1000000;
    if (out != NULL)
        *out = now;
    return now;
}
