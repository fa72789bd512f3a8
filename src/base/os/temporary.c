/* temporary.c - unique names, and locks that end with their owner. */
#include "base/os/temporary.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX ".lamina-"                /* then 16 hexadecimal digits */
enum { DIGITS = 16, TRIES = 16 };

static bool is_temporary(const char *name)
{
    const char *digits = name + sizeof PREFIX - 1;

    return strncmp(name, PREFIX, sizeof PREFIX - 1) == 0 && strspn(digits, "0123456789abcdef") == DIGITS &&
           digits[DIGITS] == '\0';
}

/* ---- removal of what dead writers left ---- */

static void remove_files_of(DIR *dir)
{
    for (struct dirent *d; (d = readdir(dir));)
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
            unlinkat(dirfd(dir), d->d_name, 0);
}

void lm_remove_folder(const char *path)
{
    DIR *dir = opendir(path);

    if (dir) {
        remove_files_of(dir);
        closedir(dir);
    }
    rmdir(path);
}

/* Remove a temporary file or folder if its writer has ended. `fd`: the folder that contains it. */
static void remove_if_abandoned(int fd, const char *name)
{
    struct stat st;
    int         left   = openat(fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool        folder = left >= 0 && fstat(left, &st) == 0 && S_ISDIR(st.st_mode);

    if (left >= 0 && flock(left, LOCK_EX | LOCK_NB) == 0) {
        DIR *dir = folder ? fdopendir(left) : NULL;
        if (dir)
            remove_files_of(dir);
        unlinkat(fd, name, folder ? AT_REMOVEDIR : 0);
        if (dir) {
            closedir(dir);
            return;
        }
    }
    if (left >= 0)
        close(left);
}

static void sweep(const char *folder)
{
    DIR *dir = opendir(folder);

    for (struct dirent *d; dir && (d = readdir(dir));)
        if (is_temporary(d->d_name))
            remove_if_abandoned(dirfd(dir), d->d_name);
    if (dir)
        closedir(dir);
}

/* ---- creation ---- */

/* Lock a new file or folder. False: a sweeping process was faster, because it saw it without a
 * lock. A file system without locks sweeps nothing. */
static bool lock(int fd)
{
    struct stat st;

    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        return errno != EWOULDBLOCK;
    return fstat(fd, &st) == 0 && st.st_nlink > 0;
}

/* Create a file. Not with mkstemp: the permissions are those that the user's mask gives any new file. */
static int make_file(const char *name)
{
    return open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}

static int make_folder(const char *name)
{
    int fd;

    if (mkdir(name, 0777) != 0)
        return -1;
    fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno != ENOENT) {
        int why = errno;
        rmdir(name);
        errno = why;
    } else if (fd < 0) {
        errno = EEXIST;                                  /* swept: try another name */
    }
    return fd;
}

static int make(const char *path, char *name, int (*make_one)(const char *name))
{
    const char *last   = strrchr(path, '/');
    size_t      folder = last ? (size_t)(last - path) + 1 : 0;

    if (folder + sizeof PREFIX + DIGITS > PATH_MAX)
        return errno = ENAMETOOLONG, -1;
    snprintf(name, PATH_MAX, "%.*s", (int)folder, folder ? path : "");
    sweep(folder ? name : ".");
    for (unsigned tries = 0; tries < TRIES; tries++) {
        uint64_t random;
        if (getrandom(&random, sizeof random, 0) != sizeof random)
            return -1;
        snprintf(name + folder, PATH_MAX - folder, PREFIX "%016" PRIx64, random);
        int fd = make_one(name);
        if (fd >= 0 && lock(fd))
            return fd;
        if (fd >= 0)
            close(fd);
        else if (errno != EEXIST)
            return -1;
    }
    return errno = EAGAIN, -1;
}

int lm_temporary_file(const char *path, char *name)
{
    return make(path, name, make_file);
}

int lm_temporary_folder(const char *path, char *name)
{
    return make(path, name, make_folder);
}
