/* ggufparts.h - a GGUF model in one file or several: internal to export/. */
#ifndef LM_EXPORT_GGUFPARTS_H
#define LM_EXPORT_GGUFPARTS_H

#include "base/arena.h"
#include "export/tensors/moving.h"
#include "formats/gguf.h"

/* The keys, and where the file is split. */
typedef struct lm_parts_plan {
    const char    *path;             /* "model.gguf"; with several parts "model-00001-of-00003.gguf" … */
    const lm_meta *keys;             /* of a GGUF reader; split.* and general.alignment are not copied */
    const char *const *except;       /* prefixes of keys to omit; NULL: none */
    int64_t        file_type;        /* general.file_type to add; -1: none */
    /* add other keys after the copied ones; NULL: none */
    void         (*more_keys)(void *arg, lm_gguf_writer *w);
    uint64_t       max_bytes;        /* 0: no limit */
    uint32_t       max_tensors;
    uint32_t       n;                /* set by lm_plan_parts */
} lm_parts_plan;

/* Assign each tensor to a part, in order. No part exceeds the limits unless a single tensor does. */
void lm_plan_parts(lm_parts_plan *p, lm_moved *tensors, size_t n);

/* Return the file name of part `k`, counted from 0; in the arena. */
char *lm_part_path(const lm_parts_plan *p, uint32_t k, lm_arena *arena);

/* Writes the data of tensor `i` to `w`, and checks before the first rename that the input has not changed. */
typedef struct lm_parts_source {
    void       *arg;
    lm_status (*tensor)(void *arg, size_t i, lm_gguf_writer *w, lm_error *e);
    lm_status (*check)(void *arg, lm_error *e);
} lm_parts_source;

/* Write all parts as temporary files, then rename each, the first one last. If writing fails, no part is
 * created; if a rename fails, later parts may remain without the first one. LM_USAGE: more than 65535
 * parts. */
lm_status lm_write_parts(const lm_parts_plan *p, const lm_parts_source *source, const lm_moved *tensors,
                         size_t n, lm_arena *arena, lm_error *e);

#endif
