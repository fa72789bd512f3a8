/* feed.h - a model that is read, as a GGUF file has it: one that is such a file, or a Hugging Face folder that would become one. What
 * quantizers read rows from. */
#ifndef LM_EXPORT_FEED_H
#define LM_EXPORT_FEED_H

#include "export/carrier.h"

typedef struct lm_feed {
    const lm_container *seen;        /* keys and tensors; of a folder without data */
    /* its own */
    lm_container *file;              /* a GGUF file, all its parts; NULL: */
    lm_carrier   *carrier;           /* a folder, in the types that it has */
} lm_feed;

/* `path`: what lm_container_open takes. LM_UNSUPPORTED: a folder that has no form in GGUF. On failure there is nothing to close. */
lm_status lm_feed_open(const char *path, lm_feed *out, lm_error *e);
void      lm_feed_close(lm_feed *f);

/* Rows [from, from + n) of tensor `i` of `seen`, rows of all its matrices one after another: as they stand in the file, or as float32.
 * Called by several threads at once; under lm_filemap_guard. */
lm_status lm_feed_bytes(const lm_feed *f, size_t i, uint64_t from, uint64_t n, void *out, lm_error *e);
lm_status lm_feed_floats(const lm_feed *f, size_t i, uint64_t from, uint64_t n, float *out, lm_error *e);
void      lm_feed_drop(const lm_feed *f, size_t i);              /* its pages may leave memory */

/* LM_USAGE where `path` is one of the files that are read. */
lm_status lm_feed_refuse(const lm_feed *f, const char *path, lm_error *e);
/* LM_IO where one of them is no longer what it was. */
lm_status lm_feed_check(const lm_feed *f, lm_error *e);
const char *lm_feed_path(const lm_feed *f);
/* What of a folder a GGUF file does not carry, and what was unusual: lines; may be empty. */
lm_view   lm_feed_notes(const lm_feed *f);

#endif
