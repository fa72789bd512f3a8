/* ggufparts.h - a GGUF model as one file or several: internal to export/. */
#ifndef LM_EXPORT_GGUFPARTS_H
#define LM_EXPORT_GGUFPARTS_H

#include "base/arena.h"
#include "export/moving.h"
#include "formats/gguf.h"

/* The keys and where they are cut. */
typedef struct lm_parts_plan {
    const char    *path;             /* "model.gguf"; of several "model-00001-of-00003.gguf" … */
    const lm_meta *keys;             /* of a GGUF reader; split.* and general.alignment are not taken */
    const char *const *except;       /* those that begin so are left out; NULL: none */
    int64_t        file_type;        /* general.file_type to add; -1: none */
    uint64_t       most_bytes;       /* 0: no limit */
    uint32_t       most_tensors;
    uint32_t       n;                /* set by lm_plan_parts */
} lm_parts_plan;

/* Which part each tensor goes to, in order, no part above the limits unless one tensor is. */
void lm_plan_parts(lm_parts_plan *p, lm_moved *tensors, size_t n);

/* The name of part `k`, from 0 on; in the arena. */
char *lm_part_path(const lm_parts_plan *p, uint32_t k, lm_arena *arena);

/* All parts as temporary files, then each under its name, the first last. On failure none of this call is there. */
lm_status lm_write_parts(const lm_parts_plan *p, lm_moving *m, const lm_moved *tensors, size_t n, lm_arena *arena, lm_error *e);

#endif
