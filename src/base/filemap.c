/* filemap.c - mapping and reading files. */
#include "base/filemap.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/sigbus.h"

/* Read all `size` bytes of fd. */
static lm_status read_all(int fd, void *data, size_t size, const char *path, lm_error *e)
{
    for (size_t at = 0; at < size;) {
        ssize_t n = read(fd, (char *)data + at, size - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return lm_fail_errno(e, path, "cannot be read");
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
        return lm_fail_errno(e, path, "cannot be opened");
    if (fstat(fd, st) != 0 || !S_ISREG(st->st_mode)) {
        close(fd);
        lm_fail(e, LM_IO, NULL, LM_NO_OFFSET, "is not a regular file");
        return lm_fail_in(e, path), LM_IO;
    }
    *out = fd;
    return LM_OK;
}

static void release(const lm_filemap *m)
{
    void *data = (void *)(uintptr_t)m->data;

    if (data && m->copied) {
        lm_free_aligned(data, m->size);
    } else if (data) {
        lm_guarded_remove(data);
        munmap(data, m->size);
    }
    close(m->fd);
    lm_free(m->path);
}

lm_status lm_filemap_open(const char *path, bool use_mmap, lm_filemap *out, lm_error *e)
{
    struct stat st;
    int         fd = -1;
    void       *data   = NULL;
    lm_status   status = LM_OK;

    LM_TRY(open_regular(path, &fd, &st, e));
    size_t size = (size_t)st.st_size;
    if (size && use_mmap) {
        data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED) {
            data   = NULL;
            status = lm_fail_errno(e, path, "cannot be mapped");
        }
    } else if (size) {
        data   = lm_alloc_aligned(size, 4096);
        status = data ? read_all(fd, data, size, path, e) : lm_fail_memory(e, path, size);
    }
    lm_filemap m = { data, size, lm_strdup(path), fd, !use_mmap };
    if (status == LM_OK && !m.path)
        status = lm_fail_memory(e, path, strlen(path));
    if (status == LM_OK)
        status = lm_filemap_check(&m, e);                /* it may have shrunk between the two system calls */
    if (status == LM_OK && data && use_mmap && !lm_guarded_add(data, size))
        status = lm_fail_memory(e, path, size);
    if (status == LM_OK)
        *out = m;
    else
        release(&m);
    return status;
}

void lm_filemap_close(lm_filemap *m)
{
    if (m->path)                                         /* all zero is closed already */
        release(m);
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

/* ---- small files ---- */

lm_status lm_file_read(const char *path, uint64_t max, char **data, size_t *size, lm_error *e)
{
    struct stat st;
    int         fd = -1;
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
