/* newfolder.h - a folder of a model that is either whole or absent. */
#ifndef LM_EXPORT_NEWFOLDER_H
#define LM_EXPORT_NEWFOLDER_H

#include <jansson.h>
#include <limits.h>

#include "base/arena.h"
#include "base/error.h"

/* In the header of every file of weights that is made here: only a folder whose files say so is ever replaced. */
#define LM_MADE_BY "made_by"

typedef struct lm_new_folder {
    lm_arena   *arena;
    const char *maker;               /* "lamina synth": who may replace what */
    char        path[PATH_MAX];      /* what it will be called */
    char        made[PATH_MAX];      /* where it is made */
    int         lock;
} lm_new_folder;

/* A temporary folder beside `path`, after a look at what is there: LM_USAGE where it is no folder made by `maker` (an empty one will
 * do). */
lm_status lm_new_folder_begin(lm_new_folder *f, const char *path, const char *maker, lm_arena *arena, lm_error *e);
/* The look alone. */
lm_status lm_new_folder_check(lm_new_folder *f, const char *path, const char *maker, lm_arena *arena, lm_error *e);
/* It takes its name; an old one is deleted when it has lost it. */
lm_status lm_new_folder_commit(lm_new_folder *f, lm_error *e);
/* It goes, unless it was committed; in every case the end. */
void      lm_new_folder_end(lm_new_folder *f);

const char *lm_new_folder_path(lm_new_folder *f, const char *name, lm_error *e);  /* of a file in it; in the arena */
lm_status   lm_new_folder_text(lm_new_folder *f, const char *name, const char *text, size_t n, lm_error *e);
lm_status   lm_new_folder_json(lm_new_folder *f, const char *name, json_t *document, lm_error *e);      /* takes the reference */

#endif
