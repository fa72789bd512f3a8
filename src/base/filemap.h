/* filemap.h - files, whole and read-only.
 *
 * A file that shrinks while it is mapped raises SIGBUS on access. lm_filemap_guard turns that into an error for the thread
 * that reads. */
#ifndef LM_BASE_FILEMAP_H
#define LM_BASE_FILEMAP_H

#include "base/error.h"
#include "base/str.h"

typedef struct lm_filemap {
    const uint8_t *data;     /* NULL when the file is empty */
    size_t         size;
    char          *path;
    int            fd;       /* kept open to notice that the file has shrunk; -1: there is no file */
    bool           copied;   /* read into memory instead of mapped */
    bool           borrowed; /* memory of the caller */
} lm_filemap;

typedef struct lm_filemap_options {
    bool   copy;             /* read into memory instead of mapping */
    bool (*progress)(void *arg, double fraction);        /* while it is read; false: stop there, LM_CANCELLED. May be NULL */
    void  *arg;
} lm_filemap_options;

/* Map a regular file. Folders, pipes and devices are refused; LM_NOT_FOUND when the path does not exist. */
lm_status lm_filemap_open(const char *path, bool use_mmap, lm_filemap *out, lm_error *e);
lm_status lm_filemap_open_with(const char *path, const lm_filemap_options *o, lm_filemap *out, lm_error *e);
/* A regular file that is open: `fd` stays the caller's, which may close it, and its position is where it was. `name` is what messages
 * call it. */
lm_status lm_filemap_of_fd(int fd, const char *name, const lm_filemap_options *o, lm_filemap *out, lm_error *e);
/* Bytes that stay where they are, and as they are, until lm_filemap_close. */
lm_status lm_filemap_of_memory(const void *data, size_t size, const char *name, lm_filemap *out, lm_error *e);
void      lm_filemap_close(lm_filemap *m);

/* LM_IO when the file is now shorter than it was when it was mapped. */
lm_status lm_filemap_check(const lm_filemap *m, lm_error *e);

/* Run `work(arg)`; when it touches a page that the file no longer has, the function returns LM_IO and `work` is
 * abandoned where it stood (it must hold no lock and own nothing). Nests; one guard a thread. */
lm_status lm_filemap_guard(lm_status (*work)(void *arg), void *arg, const char *file, lm_error *e);

/* Tell the kernel that [offset, offset+size) may leave memory; a later read brings it back from the file. */
void lm_filemap_drop(const lm_filemap *m, uint64_t offset, uint64_t size);

/* The whole of a small file, at most `max` bytes, NUL-terminated, in memory freed with lm_free. LM_NOT_FOUND when the
 * path does not exist. */
lm_status lm_file_read(const char *path, uint64_t max, char **data, size_t *size, lm_error *e);

/* Writing a file that is either whole or absent: a temporary file in the same folder (temporary.h), then flush, fsync, rename,
 * fsync of the folder. What a link
 * points to is replaced, not the link; devices and pipes are written as they are. */
typedef struct lm_outfile lm_outfile;
lm_status lm_outfile_open(const char *path, lm_outfile **out, lm_error *e);
lm_status lm_outfile_write(lm_outfile *f, const void *data, size_t n, lm_error *e);
/* At a place of its own; what lies between is zero until it is written. Not into pipes. */
lm_status lm_outfile_write_at(lm_outfile *f, uint64_t offset, const void *data, size_t n, lm_error *e);
lm_status lm_outfile_commit(lm_outfile *f, lm_error *e);     /* frees f in every case */
void      lm_outfile_abort(lm_outfile *f);                   /* removes the temp file; frees f; NULL is fine */

lm_status lm_file_write(const char *path, const void *data, size_t n, lm_error *e);  /* all of that with what is in memory */

bool lm_path_is_folder(const char *path);
bool lm_path_is_file(const char *path);
bool lm_path_is_dangling(const char *path);                 /* a link that leads nowhere; errno says why */

#endif
