/* filemap.c - map and read files. */
#include "base/os/filemap.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/sigbus.h"

enum { READ_AT_ONCE = 16 << 20 };        /* bytes between two progress reports */

/* Read all `size` bytes of fd. */
static lm_status read_all(int fd, void *data, size_t size, const char *path, const lm_filemap_options *o,
                          lm_error *e)
{
    for (size_t at = 0; at < size;) {
        size_t  chunk = size - at < READ_AT_ONCE ? size - at : READ_AT_ONCE;
        ssize_t n    = pread(fd, (char *)data + at, chunk, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return lm_fail_errno(e, path, "cannot be read");
        if (n == 0) {
            lm_fail(e, LM_IO, NULL, (int64_t)at, "ends early");
            return lm_fail_in(e, path);
        }
        at += (size_t)n;
        if (o && o->progress && !o->progress(o->arg, (double)at / (double)size))
            return lm_fail(e, LM_CANCELLED, NULL, LM_NO_OFFSET, "cancelled");
    }
    return LM_OK;
}

static lm_status check_regular(int fd, const char *path, struct stat *st, lm_error *e)
{
    if (fstat(fd, st) == 0 && S_ISREG(st->st_mode))
        return LM_OK;
    lm_fail(e, LM_IO, NULL, LM_NO_OFFSET, "is not a regular file");
    return lm_fail_in(e, path);
}

static lm_status open_regular(const char *path, int *out, struct stat *st, lm_error *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0)
        return lm_fail_errno(e, path, "cannot be opened");
    lm_status status = check_regular(fd, path, st, e);
    if (status != LM_OK) {
        close(fd);
        return status;
    }
    *out = fd;
    return LM_OK;
}

static void release(const lm_filemap *m)
{
    void *data = m->borrowed ? NULL : (void *)(uintptr_t)m->data;   /* freed here only */

    if (data && m->copied) {
        lm_free_aligned(data, m->size);
    } else if (data) {
        lm_guarded_remove(data);
        munmap(data, m->size);
    }
    if (m->fd >= 0)
        close(m->fd);
    lm_free(m->path);
}

/* Map or read a file. The map owns `fd` from here on; it is closed on failure. */
static lm_status map_file(int fd, const struct stat *st, const char *path, const lm_filemap_options *o,
                          lm_filemap *out, lm_error *e)
{
    void     *data   = NULL;
    lm_status status = LM_OK;
    size_t    size   = (size_t)st->st_size;

    if (size && !o->copy) {
        data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED) {
            data   = NULL;
            status = lm_fail_errno(e, path, "cannot be mapped");
        }
    } else if (size) {
        data   = lm_alloc_aligned(size, 4096);
        status = data ? read_all(fd, data, size, path, o, e) : lm_fail_memory(e, path, size);
    }
    lm_filemap m = { data, size, lm_strdup(path), fd, o->copy, false };
    if (status == LM_OK && !m.path)
        status = lm_fail_memory(e, path, strlen(path));
    if (status == LM_OK)
        status = lm_filemap_check(&m, e);                /* the file may have shrunk between the two system
                                                            calls */
    if (status == LM_OK && data && !o->copy && !lm_guarded_add(data, size))
        status = lm_fail_memory(e, path, size);
    if (status == LM_OK)
        *out = m;
    else
        release(&m);
    return status;
}

lm_status lm_filemap_open_with(const char *path, const lm_filemap_options *o, lm_filemap *out, lm_error *e)
{
    struct stat st;
    int         fd = -1;

    LM_TRY(open_regular(path, &fd, &st, e));
    return map_file(fd, &st, path, o, out, e);
}

lm_status lm_filemap_open(const char *path, bool use_mmap, lm_filemap *out, lm_error *e)
{
    return lm_filemap_open_with(path, &(lm_filemap_options){ .copy = !use_mmap }, out, e);
}

lm_status lm_filemap_of_fd(int fd, const char *name, const lm_filemap_options *o, lm_filemap *out,
                           lm_error *e)
{
    struct stat st;
    int         own = fcntl(fd, F_DUPFD_CLOEXEC, 3);

    if (own < 0)
        return lm_fail_errno(e, name, "cannot be used");
    lm_status status = check_regular(own, name, &st, e);
    if (status != LM_OK) {
        close(own);
        return status;
    }
    return map_file(own, &st, name, o, out, e);
}

lm_status lm_filemap_of_memory(const void *data, size_t size, const char *name, lm_filemap *out, lm_error *e)
{
    lm_filemap m = { data, size, lm_strdup(name), -1, false, true };

    if (!m.path)
        return lm_fail_memory(e, name, strlen(name));
    *out = m;
    return LM_OK;
}

void lm_filemap_close(lm_filemap *m)
{
    if (m->path)                                         /* all zero: already closed */
        release(m);
    *m = (lm_filemap){ .fd = -1 };
}

lm_status lm_filemap_check(const lm_filemap *m, lm_error *e)
{
    struct stat st;

    if (m->copied || m->borrowed || (fstat(m->fd, &st) == 0 && (uint64_t)st.st_size >= m->size))
        return LM_OK;
    lm_fail(e, LM_IO, NULL, LM_NO_OFFSET, "the file was truncated while in use");
    return lm_fail_in(e, m->path);
}

void lm_filemap_drop(const lm_filemap *m, uint64_t offset, uint64_t size)
{
    uint64_t from = (offset + 4095) & ~UINT64_C(4095), to = (offset + size) & ~UINT64_C(4095);

    if (m->data && !m->copied && !m->borrowed && from < to && to <= m->size)
        /* The bytes of the file stay the same: its pages are read again on next use. */
        madvise((void *)(uintptr_t)(m->data + from), (size_t)(to - from), MADV_DONTNEED);
}

/* ---- small files ---- */

#define BYTE_ORDER_MARK "\xEF\xBB\xBF"
#define POINTER "version https://git-lfs"

/* Remove a byte order mark, and reject a Git LFS pointer in place of the text. */
static lm_status check_text(lm_text *t, size_t from, const char *path, lm_error *e)
{
    size_t n = t->size - from;

    if (n >= sizeof BYTE_ORDER_MARK - 1 &&
        memcmp(t->data + from, BYTE_ORDER_MARK, sizeof BYTE_ORDER_MARK - 1) == 0) {
        t->size -= sizeof BYTE_ORDER_MARK - 1;
        memmove(t->data + from, t->data + from + sizeof BYTE_ORDER_MARK - 1,
                n - (sizeof BYTE_ORDER_MARK - 1));
    }
    if (n < sizeof POINTER - 1 || memcmp(t->data + from, POINTER, sizeof POINTER - 1) != 0)
        return LM_OK;
    lm_fail(e, LM_UNSUPPORTED, NULL, LM_NO_OFFSET, "a Git LFS pointer, not the file itself");
    lm_fail_hint(e, "git lfs pull");
    return lm_fail_in(e, path);
}

lm_status lm_text_load(lm_text *t, const char *path, uint64_t max, lm_error *e)
{
    LM_REQUIRE(e, t && path);
    struct stat st;
    int         fd = -1;

    if (access(path, F_OK) != 0 && errno == ENOENT) {
        lm_fail(e, LM_NOT_FOUND, NULL, LM_NO_OFFSET, "no such file or folder");
        return lm_fail_in(e, path);
    }
    LM_TRY(open_regular(path, &fd, &st, e));
    if ((uint64_t)st.st_size > max) {
        close(fd);
        lm_fail(e, LM_BAD_MODEL, NULL, LM_NO_OFFSET, "is %lld bytes long; at most %llu are allowed",
                (long long)st.st_size, (unsigned long long)max);
        return lm_fail_in(e, path);
    }
    size_t    size   = (size_t)st.st_size;
    lm_status status = lm_text_reserve(t, size) ? read_all(fd, t->data + t->size, size, path, NULL, e)
                                                : lm_fail_memory(e, path, size);
    close(fd);
    if (status == LM_OK) {
        t->size += size;
        status = check_text(t, t->size - size, path, e);
    }
    if (t->data)
        t->data[t->size] = '\0';
    return status;
}

lm_status lm_text_save(const lm_text *t, const char *path, lm_error *e)
{
    LM_REQUIRE(e, t && path);
    return t->failed ? lm_fail_memory(e, path, 0) : lm_file_write(path, t->data, t->size, e);
}

lm_status lm_file_read(const char *path, uint64_t max, char **data, size_t *size, lm_error *e)
{
    lm_text t = { 0 };

    lm_status status = lm_text_load(&t, path, max, e);
    if (status != LM_OK) {
        lm_text_free(&t);
        return status;
    }
    *data = t.data;
    *size = t.size;
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
