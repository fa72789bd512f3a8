/* journal.c - records in a file, each with a checksum. */
#include "base/os/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/filemap.h"
#include "base/hash.h"

#define MAGIC "lamina results 1: "

enum { KEY = 200, HEAD = 32, MAX = 1 << 30 };

/* Precedes each record: u64 index, u64 bytes, the first half of BLAKE2b of both and of the bytes. */
typedef struct head { uint64_t index, size; uint8_t sum[16]; } head;

struct lm_journal {
    int   fd;
    char *path;
};

static void checksum(const head *h, const void *data, uint8_t out[16])
{
    lm_blake2b state;
    uint8_t    all[LM_BLAKE2B_BYTES];

    lm_blake2b_begin(&state);
    lm_blake2b_add(&state, h, offsetof(head, sum));
    lm_blake2b_add(&state, data, h->size);
    lm_blake2b_end(&state, all);
    memcpy(out, all, 16);
}

/* ---- reading ---- */

/* Read records from `at` on; *whole: where the last valid one ends. */
static lm_status read_records(const lm_filemap *f, size_t at, lm_journal_record *each, void *arg,
                              size_t *whole, lm_error *e)
{
    for (*whole = at; f->size - at >= sizeof(head); *whole = at) {
        head    h;
        uint8_t sum[16];
        memcpy(&h, f->data + at, sizeof h);
        if (h.size > MAX || h.size > f->size - at - sizeof h)
            return LM_OK;
        checksum(&h, f->data + at + sizeof h, sum);
        if (memcmp(sum, h.sum, sizeof sum) != 0)
            return LM_OK;
        LM_TRY(each(arg, h.index, f->data + at + sizeof h, (size_t)h.size, e));
        at += sizeof h + (size_t)h.size;
    }
    return LM_OK;
}

static lm_status refuse(const char *path, const char *why, lm_error *e)
{
    lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "%s", why);
    return lm_fail_in(e, path);
}

static lm_status read_all(const lm_filemap *f, const char *path, const char *line, lm_journal_record *each,
                          void *arg, size_t *whole, lm_error *e)
{
    size_t n = strlen(line);

    *whole = 0;
    if (f->size >= n && memcmp(f->data, line, n) == 0)
        return read_records(f, n, each, arg, whole, e);
    if (!f->size || (f->size < n && memcmp(f->data, line, f->size) == 0))
        return LM_OK;                    /* the writer was killed in its first line */
    if (f->size < strlen(MAGIC) || memcmp(f->data, MAGIC, strlen(MAGIC)) != 0)
        return refuse(path, "is not a file of results", e);
    refuse(path, "has results of another model, text or setting", e);
    return lm_fail_hint(e, "name another file, or remove this one");
}

/* ---- writing ---- */

static lm_status write_all(lm_journal *j, const void *data, size_t n, lm_error *e)
{
    for (const uint8_t *at = data; n;) {
        ssize_t got = write(j->fd, at, n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return lm_fail_errno(e, j->path, "cannot be written");
        at += got;
        n -= (size_t)got;
    }
    return LM_OK;
}

lm_status lm_journal_add(lm_journal *j, uint64_t index, const void *data, size_t n, lm_error *e)
{
    head  h  = { .index = index, .size = n };
    off_t at = j ? lseek(j->fd, 0, SEEK_END) : 0;

    if (!j)
        return LM_OK;
    checksum(&h, data, h.sum);
    lm_status status = write_all(j, &h, sizeof h, e);
    if (status == LM_OK)
        status = write_all(j, data, n, e);
    if (status != LM_OK && at >= 0 && ftruncate(j->fd, at) != 0)
        return status;                   /* the next reader cuts the partial record off */
    return status;
}

static lm_status fill(lm_journal *j, const char *line, lm_journal_record *each, void *arg, lm_error *e)
{
    lm_filemap f;
    size_t     whole = 0;

    if (flock(j->fd, LOCK_EX | LOCK_NB) != 0)
        return refuse(j->path, "is in use by another process", e);
    LM_TRY(lm_filemap_of_fd(j->fd, j->path, &(lm_filemap_options){ .copy = true }, &f, e));
    lm_status status = read_all(&f, j->path, line, each, arg, &whole, e);
    lm_filemap_close(&f);
    LM_TRY(status);
    if (ftruncate(j->fd, (off_t)whole) != 0 || lseek(j->fd, 0, SEEK_END) < 0)
        return lm_fail_errno(e, j->path, "cannot be written");
    return whole ? LM_OK : write_all(j, line, strlen(line), e);
}

lm_status lm_journal_open(const char *path, const char *key, lm_journal_record *each, void *arg,
                          lm_journal **out, lm_error *e)
{
    lm_journal *j = lm_alloc_zero(1, sizeof *j);
    char        line[KEY + HEAD];

    if (!j || !(j->path = lm_strdup(path))) {
        lm_free(j);
        return lm_fail_memory(e, path, sizeof *j);
    }
    snprintf(line, sizeof line, MAGIC "%.*s\n", KEY, key);
    j->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
    lm_status status = j->fd >= 0 ? fill(j, line, each, arg, e) : lm_fail_errno(e, path, "cannot be opened");
    if (status == LM_OK) {
        *out = j;
        return LM_OK;
    }
    if (j->fd >= 0)
        close(j->fd);
    lm_free(j->path);
    lm_free(j);
    return status;
}

lm_status lm_journal_close(lm_journal *j, lm_error *e)
{
    if (!j)
        return LM_OK;
    lm_status status = fsync(j->fd) == 0 ? LM_OK : lm_fail_errno(e, j->path, "cannot be written");
    close(j->fd);
    lm_free(j->path);
    lm_free(j);
    return status;
}
