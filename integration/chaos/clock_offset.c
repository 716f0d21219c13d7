/* The wall clock of a process, off by the nanoseconds in the first eight bytes of the file CHAOS_CLOCK, from the moment
 * they are written. Deadlines given in wall clock time are moved back, so that waits stay as long as they were. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL
/* A deadline after this second (September 2001) is one of the wall clock: monotonic clocks count from the boot. */
#define WALL 1000000000LL

static volatile long long *offset_ns;
static const long long none = 0;
static int (*real_clock_gettime)(clockid_t, struct timespec *);
static int (*real_cond_timedwait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
static int (*real_sem_timedwait)(sem_t *, const struct timespec *);

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("CHAOS_CLOCK");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, sizeof(none), PROT_READ, MAP_SHARED, file, 0);
    offset_ns = (volatile long long *)(mapped == MAP_FAILED ? (void *)&none : mapped);
    if (file >= 0) close(file);
    real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    real_cond_timedwait = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (!real_cond_timedwait) real_cond_timedwait = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    real_sem_timedwait = dlsym(RTLD_NEXT, "sem_timedwait");
}

static struct timespec moved(struct timespec at, long long by_ns) {
    long long ns = at.tv_sec * SECOND + at.tv_nsec + by_ns;
    return (struct timespec){.tv_sec = ns / SECOND, .tv_nsec = ns % SECOND};
}

static struct timespec real_deadline(const struct timespec *at) {
    return at->tv_sec > WALL && offset_ns ? moved(*at, -*offset_ns) : *at;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    if (!real_clock_gettime) begin();
    int result = real_clock_gettime(clock, at);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) *at = moved(*at, *offset_ns);
    return result;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *at = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}

int timespec_get(struct timespec *at, int base) {
    return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, at) == 0 ? base : 0;
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *at) {
    if (!real_cond_timedwait) begin();
    struct timespec deadline = real_deadline(at);
    return real_cond_timedwait(condition, mutex, &deadline);
}

int sem_timedwait(sem_t *semaphore, const struct timespec *at) {
    if (!real_sem_timedwait) begin();
    struct timespec deadline = real_deadline(at);
    return real_sem_timedwait(semaphore, &deadline);
}
