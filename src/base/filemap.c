/* filemap.c - mapping, reading and replacing files. */
#include "base/filemap.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"

static lm_status fail_errno(lm_error *e, const char *path, const char *what)
{
    lm_fail(e, LM_IO, NULL, LM_NO_OFFSET, "%s: %s", what, strerror(errno));
    return lm_fail_in(e, path), LM_IO;
}

/* Read all `size` bytes of fd. */
static lm_status read_all(int fd, void *data, size_t size, const char *path, lm_error *e)
{
    for (size_t at = 0; at < size;) {
        ssize_t n = read(fd, (char *)data + at, size - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_errno(e, path, "cannot be read");
        if (n == 0) {
            lm_fail(e, LM_IO, NULL, (int64_t)at, "ends early");
            return lm_fail_in(e, path), LM_IO;
        }
        at += (size_t)n;
    }
    return LM_OK;
}

static lm_status open_regular(const char *path, int *out, struct stat *st, lm_error *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0)
        return fail_errno(e, path, "cannot be opened");
    if (fstat(fd, st) != 0 || !S_ISREG(st->st_mode)) {
        close(fd);
        lm_fail(e, LM_IO, NULL, LM_NO_OFFSET, "is not a regular file");
        return lm_fail_in(e, path), LM_IO;
    }
    *out = fd;
    return LM_OK;
}

lm_status lm_filemap_open(const char *path, bool use_mmap, lm_filemap *out, lm_error *e)
{
    struct stat st;
    int         fd;
    void       *data   = NULL;
    lm_status   status = LM_OK;

    LM_TRY(open_regular(path, &fd, &st, e));
    size_t size = (size_t)st.st_size;
    if (size && use_mmap) {
        data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED) {
            data   = NULL;
            status = fail_errno(e, path, "cannot be mapped");
        }
    } else if (size) {
        data   = lm_alloc_aligned(size, 4096);
        status = data ? read_all(fd, data, size, path, e) : lm_fail_memory(e, path, size);
    }
    char *name = lm_strdup(path);
    if (status == LM_OK && !name)
        status = lm_fail_memory(e, path, strlen(path));
    *out = (lm_filemap){ data, size, name, fd, !use_mmap };
    if (status != LM_OK) {
        lm_filemap_close(out);
        *out = (lm_filemap){ .fd = -1 };
    }
    return status;
}

void lm_filemap_close(lm_filemap *m)
{
    if (m->data && m->copied)
        lm_free_aligned((void *)(uintptr_t)m->data, m->size);
    else if (m->data)
        munmap((void *)(uintptr_t)m->data, m->size);
    if (m->path)
        close(m->fd);
    lm_free(m->path);
    *m = (lm_filemap){ .fd = -1 };
}

lm_status lm_filemap_check(const lm_filemap *m, lm_error *e)
{
    struct stat st;

    if (m->copied || (fstat(m->fd, &st) == 0 && (uint64_t)st.st_size >= m->size))
        return LM_OK;
    lm_fail(e, LM_IO, NULL, LM_NO_OFFSET, "the file has been cut short while in use");
    return lm_fail_in(e, m->path), LM_IO;
}

void lm_filemap_drop(const lm_filemap *m, uint64_t offset, uint64_t size)
{
    uint64_t from = (offset + 4095) & ~UINT64_C(4095), to = (offset + size) & ~UINT64_C(4095);

    if (m->data && !m->copied && from < to && to <= m->size)
        madvise((void *)(uintptr_t)(m->data + from), (size_t)(to - from), MADV_DONTNEED);
}

/* ---- SIGBUS ----
 * The handler jumps out of a guarded piece of work of the thread that faulted; a fault anywhere else goes to whoever
 * handled the signal before. SA_NODEFER leaves the signal mask alone, so that entering a guard needs no system call. */

static _Thread_local sigjmp_buf *guard;
static struct sigaction          previous;
static pthread_once_t            installed = PTHREAD_ONCE_INIT;

static void on_sigbus(int signal, siginfo_t *info, void *context)
{
    if (guard && info->si_code == BUS_ADRERR)
        siglongjmp(*guard, 1);
    if (previous.sa_flags & SA_SIGINFO && previous.sa_sigaction) {
        previous.sa_sigaction(signal, info, context);
        return;
    }
    if (previous.sa_handler == SIG_IGN)
        return;
    if (previous.sa_handler && previous.sa_handler != SIG_DFL) {
        previous.sa_handler(signal);
        return;
    }
    sigaction(SIGBUS, &previous, NULL);      /* the fault repeats and ends the process as it would have */
}

static void install(void)
{
    struct sigaction action = { .sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_NODEFER };

    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &previous);
}

lm_status lm_filemap_guard(lm_status (*work)(void *arg), void *arg, const char *file, lm_error *e)
{
    sigjmp_buf           here;
    sigjmp_buf *volatile outer = guard;
    lm_status            status;

    pthread_once(&installed, install);
    if (sigsetjmp(here, 0) != 0) {
        guard = outer;
        lm_fail(e, LM_IO, NULL, LM_NO_OFFSET, "the file has been cut short while in use");
        return lm_fail_in(e, file), LM_IO;
    }
    guard  = &here;
    status = work(arg);
    guard  = outer;
    return status;
}

/* ---- small files ---- */

lm_status lm_file_read(const char *path, uint64_t max, char **data, size_t *size, lm_error *e)
{
    struct stat st;
    int         fd;
    char       *bytes;

    if (access(path, F_OK) != 0 && errno == ENOENT) {
        lm_fail(e, LM_NOT_FOUND, NULL, LM_NO_OFFSET, "does not exist");
        return lm_fail_in(e, path), LM_NOT_FOUND;
    }
    LM_TRY(open_regular(path, &fd, &st, e));
    if ((uint64_t)st.st_size > max) {
        close(fd);
        lm_fail(e, LM_BAD_MODEL, NULL, LM_NO_OFFSET, "is %lld bytes long; at most %llu are allowed", (long long)st.st_size,
                (unsigned long long)max);
        return lm_fail_in(e, path), LM_BAD_MODEL;
    }
    bytes            = lm_alloc((size_t)st.st_size + 1);
    lm_status status = bytes ? read_all(fd, bytes, (size_t)st.st_size, path, e) : lm_fail_memory(e, path, (uint64_t)st.st_size);
    close(fd);
    if (status != LM_OK) {
        lm_free(bytes);
        return status;
    }
    bytes[st.st_size] = '\0';
    *data             = bytes;
    *size             = (size_t)st.st_size;
    return LM_OK;
}

bool lm_path_is_folder(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool lm_path_is_file(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* ---- whole or absent ---- */

struct lm_outfile {
    FILE *file;
    char *path, *temp;
};

lm_status lm_outfile_open(const char *path, lm_outfile **out, lm_error *e)
{
    lm_outfile *f = lm_alloc_zero(1, sizeof *f);
    size_t      n = strlen(path) + 8;
    int         fd;

    if (!f || !(f->path = lm_strdup(path)) || !(f->temp = lm_alloc(n))) {
        lm_outfile_abort(f);
        return lm_fail_memory(e, path, n);
    }
    snprintf(f->temp, n, "%s.XXXXXX", path);
    fd = mkstemp(f->temp);
    if (fd >= 0) {
        mode_t mask = umask(0);
        umask(mask);
        fchmod(fd, 0666 & ~mask);
        f->file = fdopen(fd, "wb");
    }
    if (!f->file) {
        lm_status status = fail_errno(e, path, "cannot be written");
        if (fd >= 0) {
            close(fd);
            unlink(f->temp);
        }
        lm_free(f->temp);
        f->temp = NULL;
        lm_outfile_abort(f);
        return status;
    }
    *out = f;
    return LM_OK;
}

lm_status lm_outfile_write(lm_outfile *f, const void *data, size_t n, lm_error *e)
{
    if (n && fwrite(data, 1, n, f->file) != n)
        return fail_errno(e, f->path, "cannot be written");
    return LM_OK;
}

/* So that the new name survives a crash as the bytes do. */
static void sync_folder(const char *path)
{
    char *copy = lm_strdup(path);
    int   fd   = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    lm_free(copy);
}

lm_status lm_outfile_commit(lm_outfile *f, lm_error *e)
{
    bool      good   = fflush(f->file) == 0 && fsync(fileno(f->file)) == 0;
    lm_status status = good ? LM_OK : fail_errno(e, f->path, "cannot be written");

    if (good && rename(f->temp, f->path) != 0)
        status = fail_errno(e, f->path, "cannot be put in place");
    if (status != LM_OK) {
        lm_outfile_abort(f);
        return status;
    }
    sync_folder(f->path);
    lm_free(f->temp);
    f->temp = NULL;
    lm_outfile_abort(f);
    return LM_OK;
}

void lm_outfile_abort(lm_outfile *f)
{
    if (!f)
        return;
    if (f->file)
        fclose(f->file);
    if (f->temp && f->file)
        unlink(f->temp);
    lm_free(f->temp);
    lm_free(f->path);
    lm_free(f);
}
