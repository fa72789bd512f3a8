/* faults.c - a library for LD_PRELOAD that makes the N-th call on a file fail, or transfer less than
 * requested.
 *
 * FAULT_AT is N (0: count only), FAULT_ERRNO a number (0: short), FAULT_LOG a file that receives one line:
 * the number of calls, and the one that failed. Standard streams and descriptors that are not regular files
 * are unaffected. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static long calls;
static const char *failed = "-";

static long number(const char *name)
{
    const char *v = getenv(name);

    return v ? strtol(v, NULL, 10) : 0;
}

static int is_file(int fd)
{
    struct stat st;

    return fd > 2 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

/* Count a call. Returns whether it is the one that fails. */
static int now(const char *name)
{
    if (__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) != number("FAULT_AT"))
        return 0;
    failed = name;
    return 1;
}

static int fault(void)
{
    errno = (int)number("FAULT_ERRNO");
    return errno;
}

__attribute__((destructor)) static void report(void)
{
    const char *path = getenv("FAULT_LOG");
    char        line[100];
    int         n  = snprintf(line, sizeof line, "%ld %s\n", calls, failed);
    int         fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600) : -1;

    if (fd >= 0) {
        syscall(SYS_write, fd, line, n);
        syscall(SYS_close, fd);
    }
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

size_t fwrite(const void *data, size_t size, size_t n, FILE *f)
{
    if (is_file(fileno(f)) && now("fwrite") && fault())
        return 0;
    return NEXT(fwrite)(data, size, n, f);
}

int fflush(FILE *f)
{
    if (f && is_file(fileno(f)) && now("fflush") && fault())
        return EOF;
    return NEXT(fflush)(f);
}

ssize_t write(int fd, const void *data, size_t n)
{
    if (is_file(fd) && now("write"))
        return fault() ? -1 : NEXT(write)(fd, data, n > 1 ? n / 2 : n);
    return NEXT(write)(fd, data, n);
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t at)
{
    if (is_file(fd) && now("pwrite"))
        return fault() ? -1 : NEXT(pwrite)(fd, data, n > 1 ? n / 2 : n, at);
    return NEXT(pwrite)(fd, data, n, at);
}

ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at)
{
    if (is_file(fd) && now("pwrite"))
        return fault() ? -1 : NEXT(pwrite64)(fd, data, n > 1 ? n / 2 : n, at);
    return NEXT(pwrite64)(fd, data, n, at);
}

ssize_t pread64(int fd, void *data, size_t n, off64_t at)
{
    if (is_file(fd) && now("pread"))
        return fault() ? -1 : NEXT(pread64)(fd, data, n > 1 ? n / 2 : n, at);
    return NEXT(pread64)(fd, data, n, at);
}

int fsync(int fd)
{
    if (is_file(fd) && now("fsync") && fault())
        return -1;
    return NEXT(fsync)(fd);
}

int rename(const char *from, const char *to)
{
    if (now("rename") && fault())
        return -1;
    return NEXT(rename)(from, to);
}

int renameat2(int a, const char *from, int b, const char *to, unsigned flags)
{
    if (now("renameat2") && fault())
        return -1;
    return NEXT(renameat2)(a, from, b, to, flags);
}

int symlink(const char *to, const char *path)
{
    if (now("symlink") && fault())
        return -1;
    return NEXT(symlink)(to, path);
}

int ftruncate64(int fd, off64_t n)
{
    if (is_file(fd) && now("ftruncate") && fault())
        return -1;
    return NEXT(ftruncate64)(fd, n);
}
