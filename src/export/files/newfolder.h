/* newfolder.h - a model folder that is either complete or absent. */
#ifndef LM_EXPORT_NEWFOLDER_H
#define LM_EXPORT_NEWFOLDER_H

#include <jansson.h>
#include <limits.h>

#include "base/arena.h"
#include "base/error.h"

/* The key in the header of every weight file that is created here: only a folder whose files have it is ever
 * replaced. */
#define LM_MADE_BY "made_by"

typedef struct lm_new_folder {
    lm_arena   *arena;
    const char *maker;               /* "lamina synth": replaces only folders with the same maker */
    char        path[PATH_MAX];      /* final path */
    char        made[PATH_MAX];      /* temporary path */
    int         lock;
} lm_new_folder;

/* Create a temporary folder next to `path`, after checking what exists there. LM_USAGE: it is not a folder
 * created by `maker` (an empty folder is accepted). */
lm_status lm_new_folder_begin(lm_new_folder *f, const char *path, const char *maker, lm_arena *arena,
                              lm_error *e);
/* Check without creating a folder. */
lm_status lm_new_folder_check(lm_new_folder *f, const char *path, const char *maker, lm_arena *arena,
                              lm_error *e);
/* Give the folder its final name. An old folder is deleted after it has been replaced. */
lm_status lm_new_folder_commit(lm_new_folder *f, lm_error *e);
/* Delete the folder unless it was committed. Must be called in every case. */
void      lm_new_folder_end(lm_new_folder *f);

/* path of a file in it; in the arena */
const char *lm_new_folder_path(lm_new_folder *f, const char *name, lm_error *e);
lm_status   lm_new_folder_text(lm_new_folder *f, const char *name, const char *text, size_t n, lm_error *e);
/* takes the reference */
lm_status   lm_new_folder_json(lm_new_folder *f, const char *name, json_t *document, lm_error *e);

#endif
