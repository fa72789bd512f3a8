/* outfile.c - files that are either whole or absent. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/filemap.h"
#include "base/os/temporary.h"

struct lm_outfile {
    FILE *file;
    char *path, *temp;                                   /* temp NULL: a device or a pipe, written directly */
};

/* Return whether a path is /dev/stdout, /dev/null, a named pipe or the like: a file in its place would break
 * it for other processes. */
static bool is_special(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

bool lm_path_is_dangling(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0 && S_ISLNK(st.st_mode) && stat(path, &st) != 0;
}

lm_status lm_outfile_open(const char *path, lm_outfile **out, lm_error *e)
{
    bool special = is_special(path);
    char real[PATH_MAX], name[PATH_MAX];
    int  fd;

    if (lm_path_is_dangling(path))
        return lm_fail_errno(e, path, "is a link that leads nowhere");
    lm_outfile *f = lm_alloc_zero(1, sizeof *f);
    if (!special && realpath(path, real))                /* a link stays; what it points to is replaced */
        path = real;
    if (!f || !(f->path = lm_strdup(path))) {
        lm_outfile_abort(f);
        return lm_fail_memory(e, path, strlen(path) + 1);
    }
    fd = special ? open(path, O_WRONLY | O_CLOEXEC) : lm_temporary_file(path, name);
    if (fd >= 0)
        f->file = fdopen(fd, "wb");
    lm_status status = f->file ? LM_OK : lm_fail_errno(e, path, "cannot be written");
    if (f->file && !special && !(f->temp = lm_strdup(name)))
        status = lm_fail_memory(e, path, strlen(name) + 1);
    if (status == LM_OK) {
        *out = f;
        return LM_OK;
    }
    if (fd >= 0 && !special)
        unlink(name);
    if (fd >= 0 && !f->file)
        close(fd);
    lm_outfile_abort(f);
    return status;
}

lm_status lm_outfile_write(lm_outfile *f, const void *data, size_t n, lm_error *e)
{
    if (n && fwrite(data, 1, n, f->file) != n)
        return lm_fail_errno(e, f->path, "cannot be written");
    return LM_OK;
}

lm_status lm_outfile_write_at(lm_outfile *f, uint64_t offset, const void *data, size_t n, lm_error *e)
{
    const char *at = data;

    if (fflush(f->file) != 0)
        return lm_fail_errno(e, f->path, "cannot be written");
    for (ssize_t done; n > 0; at += done, offset += (uint64_t)done, n -= (size_t)done) {
        done = pwrite(fileno(f->file), at, n, (off_t)offset);
        if (done < 0 && errno == EINTR)
            done = 0;
        else if (done <= 0)
            return lm_fail_errno(e, f->path, "cannot be written");
    }
    return LM_OK;
}

void lm_sync_parent(const char *path)
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
    bool      good   = fflush(f->file) == 0 && (!f->temp || fsync(fileno(f->file)) == 0);
    lm_status status = good ? LM_OK : lm_fail_errno(e, f->path, "cannot be written");

    if (good && f->temp && rename(f->temp, f->path) != 0)
        status = lm_fail_errno(e, f->path, "cannot be put in place");
    if (status != LM_OK) {
        lm_outfile_abort(f);
        return status;
    }
    if (f->temp)
        lm_sync_parent(f->path);
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

lm_status lm_file_write(const char *path, const void *data, size_t n, lm_error *e)
{
    lm_outfile *f = NULL;

    LM_TRY(lm_outfile_open(path, &f, e));
    lm_status status = lm_outfile_write(f, data, n, e);
    if (status == LM_OK)
        return lm_outfile_commit(f, e);
    lm_outfile_abort(f);
    return status;
}
