/* beneath.c - reach files of the cache without following links. */
#include "hub/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Create a folder and those above it. */
static bool make_root(const char *root)
{
    char copy[4096];

    if ((size_t)snprintf(copy, sizeof copy, "%s/", root) >= sizeof copy)
        return errno = ENAMETOOLONG, false;
    for (char *c = copy + 1; *c; c++)
        if (*c == '/') {
            *c = '\0';
            if (mkdir(copy, 0777) != 0 && errno != EEXIST)
                return false;
            *c = '/';
        }
    return true;
}

/* Open the folder `name` in the folder `at`, which is closed. */
static int step(int at, const char *name, bool make)
{
    int next = -1;

    if (!make || mkdirat(at, name, 0777) == 0 || errno == EEXIST)
        next = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int why = errno;
    close(at);
    errno = why == ELOOP ? ENOTDIR : why;
    return next;
}

int hub_open_beneath(const char *root, const char *path, bool make, const char **name)
{
    char part[1100];
    int  at = !make || make_root(root) ? open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

    path += strlen(root);
    path += strspn(path, "/");
    for (const char *slash; at >= 0 && (slash = strchr(path, '/')); path = slash + strspn(slash, "/")) {
        size_t n = (size_t)(slash - path);
        if (n >= sizeof part || (n <= 2 && strspn(path, ".") >= n)) {
            close(at);
            return errno = ENAMETOOLONG, -1;
        }
        memcpy(part, path, n);
        part[n] = '\0';
        at      = step(at, part, make);
    }
    *name = path;
    return at;
}

bool hub_write(int fd, const void *data, size_t n)
{
    const char *at = data;

    for (ssize_t k; n; at += k, n -= (size_t)k) {
        k = write(fd, at, n);
        if (k == 0 || (k < 0 && errno != EINTR))
            return false;
        k = k < 0 ? 0 : k;
    }
    return true;
}

bool hub_unlink_beneath(const char *root, const char *path)
{
    const char *name;
    int         folder = hub_open_beneath(root, path, false, &name);

    if (folder < 0)
        return errno == ENOENT;
    bool gone = unlinkat(folder, name, 0) == 0 || errno == ENOENT;
    int  why  = errno;
    close(folder);
    errno = why;
    return gone;
}
