/* filemap.h - whole files, read-only.
 *
 * A file that shrinks while it is mapped raises SIGBUS on access. lm_filemap_guard turns that into an error
 * for the thread that reads. */
#ifndef LM_BASE_FILEMAP_H
#define LM_BASE_FILEMAP_H

#include "base/error.h"
#include "base/str.h"

typedef struct lm_filemap {
    const uint8_t *data;     /* NULL: the file is empty */
    size_t         size;
    char          *path;
    int            fd;       /* kept open to detect that the file has shrunk; -1: there is no file */
    bool           copied;   /* read into memory instead of mapped */
    bool           borrowed; /* memory owned by the caller */
} lm_filemap;

typedef struct lm_filemap_options {
    bool   copy;             /* read into memory instead of mapping */
    bool (*progress)(void *arg, double fraction);        /* called while it is read; false: stop,
                                                            LM_CANCELLED. May be NULL */
    void  *arg;
} lm_filemap_options;

/* Map a regular file. Folders, pipes and devices are rejected; LM_NOT_FOUND: the path does not exist. */
lm_status lm_filemap_open(const char *path, bool use_mmap, lm_filemap *out, lm_error *e);
lm_status lm_filemap_open_with(const char *path, const lm_filemap_options *o, lm_filemap *out, lm_error *e);
/* Map a regular file that is open: the caller keeps `fd` and may close it, and its position does not change.
 * `name` is for messages. */
lm_status lm_filemap_of_fd(int fd, const char *name, const lm_filemap_options *o, lm_filemap *out,
                           lm_error *e);
/* Use bytes of the caller, which must not move or change before lm_filemap_close. */
lm_status lm_filemap_of_memory(const void *data, size_t size, const char *name, lm_filemap *out, lm_error *e);
void      lm_filemap_close(lm_filemap *m);

/* Return LM_IO if the file is now shorter than when it was mapped. */
lm_status lm_filemap_check(const lm_filemap *m, lm_error *e);

/* Run `work(arg)`. If it touches a page that the file no longer has, return LM_IO and abandon `work` at that
 * point (it must hold no lock and own nothing). Guards nest; each thread has its own. */
lm_status lm_filemap_guard(lm_status (*work)(void *arg), void *arg, const char *file, lm_error *e);

/* Tell the kernel that [offset, offset+size) may leave memory; a later read brings it back from the file. */
void lm_filemap_drop(const lm_filemap *m, uint64_t offset, uint64_t size);

/* Read a small file completely: at most `max` bytes, NUL-terminated, in memory freed with lm_free.
 * LM_NOT_FOUND: the path does not exist. */
lm_status lm_file_read(const char *path, uint64_t max, char **data, size_t *size, lm_error *e);

/* Write a file that is either whole or absent: a temporary file in the same folder (temporary.h), then flush,
 * fsync, rename, fsync of the folder. What a link points to is replaced, not the link; devices and pipes are
 * written directly. */
typedef struct lm_outfile lm_outfile;
lm_status lm_outfile_open(const char *path, lm_outfile **out, lm_error *e);
lm_status lm_outfile_write(lm_outfile *f, const void *data, size_t n, lm_error *e);
/* Write at an offset; gaps are zero until they are written. Not for pipes. */
lm_status lm_outfile_write_at(lm_outfile *f, uint64_t offset, const void *data, size_t n, lm_error *e);
lm_status lm_outfile_commit(lm_outfile *f, lm_error *e);     /* frees f in every case */
void      lm_outfile_abort(lm_outfile *f);                   /* removes the temp file; frees f; NULL is
                                                                fine */

/* Sync the folder of a path, so that its new name survives a crash as its bytes do. */
void lm_sync_parent(const char *path);

/* all of these steps, with data in memory */
lm_status lm_file_write(const char *path, const void *data, size_t n, lm_error *e);

bool lm_path_is_folder(const char *path);
bool lm_path_is_file(const char *path);
bool lm_path_is_dangling(const char *path);                 /* a link to a missing file; errno gives the
                                                               reason */

#endif
