/* A file system that fails: calls on files below one path end with an error of the system.
 *
 * The rule stands in the file $FAULTY_FILES, which all processes map: whoever writes it decides for all of them at
 * once, also for Java and for Python workers of Spark. cc -shared -fPIC -O1 -o faulty_files.so faulty_files.c -ldl,
 * then LD_PRELOAD. `tests/hostile/faulty_files.py` has the same layout of the rule.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OPEN = 1, READ = 2, WRITE = 4, SYNC = 8, STAT = 16, LIST = 32, CHANGE = 64, CLOSE = 128 };

struct rule {
    int32_t active, error, calls, skip, seen, fired;
    char path[1024];
};

static struct rule *rule;
static unsigned char below[1 << 16]; /* descriptors of files that the rule is about */

__attribute__((constructor)) static void map_rule(void) {
    const char *name = getenv("FAULTY_FILES");
    int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, "open64");
    int fd = name == NULL ? -1 : real(name, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    void *mapped = mmap(NULL, sizeof(struct rule), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped != MAP_FAILED)
        rule = mapped;
    close(fd);
}

static int matches(const char *path) {
    if (rule == NULL || !rule->active || path == NULL)
        return 0;
    size_t size = strlen(rule->path);
    return size && strncmp(path, rule->path, size) == 0 && (path[size] == 0 || path[size] == '/');
}

static int is_below(int fd) { return fd >= 0 && fd < (int)sizeof below && below[fd] && rule != NULL && rule->active; }

/* Whether a call of this kind fails now; sets errno. */
static int fails(int call) {
    if (!(rule->calls & call) || __sync_fetch_and_add(&rule->seen, 1) < rule->skip)
        return 0;
    __sync_fetch_and_add(&rule->fired, 1);
    errno = rule->error;
    return 1;
}

static int opened(const char *path, int fd) {
    if (fd >= 0 && fd < (int)sizeof below)
        below[fd] = matches(path);
    return fd;
}

#define REAL(name)                                                                                                     \
    static __typeof__(name) *real;                                                                                     \
    if (real == NULL)                                                                                                  \
    real = dlsym(RTLD_NEXT, #name)

#define OPENS(name)                                                                                                    \
    int name(const char *path, int flags, ...) {                                                                       \
        REAL(name);                                                                                                    \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;                                        \
        va_end(rest);                                                                                                  \
        int call = flags & (O_WRONLY | O_RDWR | O_CREAT) ? OPEN | CHANGE : OPEN;                                       \
        return matches(path) && fails(call) ? -1 : opened(path, real(path, flags, mode));                              \
    }
#define OPENS_AT(name)                                                                                                 \
    int name(int at, const char *path, int flags, ...) {                                                               \
        REAL(name);                                                                                                    \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;                                        \
        va_end(rest);                                                                                                  \
        int call = flags & (O_WRONLY | O_RDWR | O_CREAT) ? OPEN | CHANGE : OPEN;                                       \
        return matches(path) && fails(call) ? -1 : opened(path, real(at, path, flags, mode));                          \
    }
OPENS(open)
OPENS(open64)
OPENS_AT(openat)
OPENS_AT(openat64)

#define ON_DESCRIPTOR(type, name, call, parameters, arguments)                                                         \
    type name parameters {                                                                                             \
        REAL(name);                                                                                                    \
        return is_below(fd) && fails(call) ? -1 : real arguments;                                                      \
    }
ON_DESCRIPTOR(ssize_t, read, READ, (int fd, void *data, size_t size), (fd, data, size))
ON_DESCRIPTOR(ssize_t, pread, READ, (int fd, void *data, size_t size, off_t at), (fd, data, size, at))
ON_DESCRIPTOR(ssize_t, pread64, READ, (int fd, void *data, size_t size, off64_t at), (fd, data, size, at))
ON_DESCRIPTOR(ssize_t, write, WRITE, (int fd, const void *data, size_t size), (fd, data, size))
ON_DESCRIPTOR(ssize_t, pwrite, WRITE, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
ON_DESCRIPTOR(ssize_t, pwrite64, WRITE, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at))
ON_DESCRIPTOR(ssize_t, writev, WRITE, (int fd, const struct iovec *parts, int count), (fd, parts, count))
ON_DESCRIPTOR(int, fsync, SYNC, (int fd), (fd))
ON_DESCRIPTOR(int, fdatasync, SYNC, (int fd), (fd))
ON_DESCRIPTOR(int, fstat, STAT, (int fd, struct stat *data), (fd, data))
ON_DESCRIPTOR(int, fstat64, STAT, (int fd, struct stat64 *data), (fd, data))

int close(int fd) {
    REAL(close);
    int is_ours = is_below(fd);
    int result = real(fd);
    if (fd >= 0 && fd < (int)sizeof below)
        below[fd] = 0;
    return is_ours && fails(CLOSE) ? -1 : result;
}

#define ON_PATH(type, name, call, failed, parameters, arguments)                                                       \
    type name parameters {                                                                                             \
        REAL(name);                                                                                                    \
        return matches(path) && fails(call) ? failed : real arguments;                                                 \
    }
ON_PATH(int, stat, STAT, -1, (const char *path, struct stat *data), (path, data))
ON_PATH(int, stat64, STAT, -1, (const char *path, struct stat64 *data), (path, data))
ON_PATH(int, lstat, STAT, -1, (const char *path, struct stat *data), (path, data))
ON_PATH(int, lstat64, STAT, -1, (const char *path, struct stat64 *data), (path, data))
ON_PATH(int, fstatat, STAT, -1, (int at, const char *path, struct stat *data, int flags), (at, path, data, flags))
ON_PATH(int, fstatat64, STAT, -1, (int at, const char *path, struct stat64 *data, int flags), (at, path, data, flags))
ON_PATH(int, statx, STAT, -1, (int at, const char *path, int flags, unsigned mask, struct statx *data),
        (at, path, flags, mask, data))
ON_PATH(DIR *, opendir, LIST, NULL, (const char *path), (path))
ON_PATH(int, mkdir, CHANGE, -1, (const char *path, mode_t mode), (path, mode))
ON_PATH(int, unlink, CHANGE, -1, (const char *path), (path))
ON_PATH(int, rmdir, CHANGE, -1, (const char *path), (path))
ON_PATH(int, rename, CHANGE, -1, (const char *path, const char *new), (path, new))
ON_PATH(int, truncate64, CHANGE, -1, (const char *path, off64_t size), (path, size))
