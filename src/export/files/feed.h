/* feed.h - an input model presented as a GGUF file: either a GGUF file, or a Hugging Face folder that could
 * be converted to one. Quantizers read rows from it. */
#ifndef LM_EXPORT_FEED_H
#define LM_EXPORT_FEED_H

#include "export/files/gguf_view.h"

typedef struct lm_feed {
    const lm_container *seen;        /* keys and tensors; without data for a folder */
    /* internal */
    lm_container *file;              /* a GGUF file with all its parts; NULL: a folder */
    lm_gguf_view   *carrier;         /* a folder, in its stored types */
} lm_feed;

/* Open a model. `path`: as for lm_container_open. LM_UNSUPPORTED: a folder that cannot be represented in
 * GGUF. On failure there is nothing to close. */
lm_status lm_feed_open(const char *path, lm_feed *out, lm_error *e);
void      lm_feed_close(lm_feed *f);

/* Read rows [from, from + n) of tensor `i` of `seen`, counting the rows of all its matrices consecutively: as
 * stored in the file, or as float32. Thread-safe. Call this within lm_filemap_guard. */
lm_status lm_feed_bytes(const lm_feed *f, size_t i, uint64_t from, uint64_t n, void *out, lm_error *e);
lm_status lm_feed_floats(const lm_feed *f, size_t i, uint64_t from, uint64_t n, float *out, lm_error *e);
void      lm_feed_drop(const lm_feed *f, size_t i);              /* allow the kernel to drop its pages */

/* Return LM_USAGE if `path` is one of the input files. */
lm_status lm_feed_refuse(const lm_feed *f, const char *path, lm_error *e);
/* Return LM_IO if an input file has changed. */
lm_status lm_feed_check(const lm_feed *f, lm_error *e);
const char *lm_feed_path(const lm_feed *f);
/* Return lines about what a GGUF file cannot carry over from the folder, and about what is unusual; may be
 * empty. */
lm_view   lm_feed_notes(const lm_feed *f);

#endif
