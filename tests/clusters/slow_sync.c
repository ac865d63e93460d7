/* A slow disk: fsync and fdatasync of entry logs take longer by the milliseconds that the file $SLOW_SYNC says.
 *
 * Entry logs alone (".../current/0.log"): journals and RocksDB go on, so that a flush takes long while writes are
 * acknowledged. cc -shared -fPIC -o slow_sync.so slow_sync.c -ldl, then LD_PRELOAD.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void wait_for_disk(int fd) {
    char link[64], path[4096];
    const char *setting = getenv("SLOW_SYNC");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (setting == NULL || size < 0)
        return;
    path[size] = 0;
    const char *name = strrchr(path, '/');
    if (name == NULL || name - path < 8 || strncmp(name - 8, "/current", 8) != 0 || strstr(name, ".log") == NULL)
        return;
    FILE *file = fopen(setting, "r");
    long milliseconds = 0;
    if (file != NULL) {
        if (fscanf(file, "%ld", &milliseconds) != 1)
            milliseconds = 0;
        fclose(file);
    }
    /* In steps: what waits goes on as soon as the file is gone, or another one is in its place. */
    struct stat first, now;
    if (milliseconds == 0 || stat(setting, &first) != 0)
        return;
    for (long slept = 0; slept < milliseconds; slept += 20) {
        usleep(20 * 1000);
        if (stat(setting, &now) != 0 || now.st_ino != first.st_ino)
            break;
    }
}

int fsync(int fd) {
    int (*real)(int) = (int (*)(int)) dlsym(RTLD_NEXT, "fsync");
    wait_for_disk(fd);
    return real(fd);
}

int fdatasync(int fd) {
    int (*real)(int) = (int (*)(int)) dlsym(RTLD_NEXT, "fdatasync");
    wait_for_disk(fd);
    return real(fd);
}
