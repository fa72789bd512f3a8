/* shelf.h - what the cache of huggingface_hub on this machine holds: listed, removed, checked. No request is made.
 *
 * Names come from folders that anybody may have written: links are not followed but to blobs of the same repository, and nothing outside
 * the cache is removed. */
#ifndef LM_HUB_SHELF_H
#define LM_HUB_SHELF_H

#include "hub/pull.h"

typedef struct hub_kept_file {
    char    *path;                   /* in the snapshot */
    char     blob[72];               /* its blob's name; "": the file itself stands in the snapshot */
    uint64_t size;
    bool     here;                   /* the link leads somewhere */
} hub_kept_file;

/* One snapshot of one model. */
typedef struct hub_kept {
    char  id[200], commit[41];       /* "org/name" */
    char *folder;                    /* of the snapshot */
    char *revisions;                 /* names that point to it: "main v1.0"; "" */
    hub_kept_file *files;
    size_t   n;
    uint64_t bytes;                  /* of its files that are here */
} hub_kept;

typedef struct hub_shelf {
    char      cache[2048];
    hub_kept *kept;                  /* by name, then commit */
    size_t    n;
} hub_shelf;

/* Every snapshot, or those of "org/name", "org/name@REVISION" and, of ":TYPE", with the files of that type alone. No cache is an empty
 * one. LM_NOT_FOUND: there is none of what is named. Freed with hub_shelf_free, also on failure. */
lm_status hub_shelf_read(const char *name, hub_shelf *out, lm_error *e);
void      hub_shelf_free(hub_shelf *s);

/* Links, then blobs that no other snapshot needs, then names that point to snapshots that are gone; of a model of which nothing is left
 * its folder. `freed`: bytes. LM_USAGE: somebody fetches it now. */
lm_status hub_shelf_remove(const hub_shelf *s, bool dry_run, uint64_t *freed, lm_error *e);

/* A file that is not what its name says; `problem` a word: "damaged", "missing". */
typedef struct hub_flaw { const hub_kept *of; const char *path; char blob[72]; const char *problem; bool removed; } hub_flaw;

typedef struct hub_checking {
    bool     repair;                 /* damaged blobs are removed, so that the next pull fetches them again */
    bool   (*stop)(void);
    void   (*progress)(void *arg, double fraction);
    void    *progress_arg;
    /* filled in */
    hub_flaw *flaws;                 /* freed by the caller, with free */
    size_t    n_flaws, checked, unknown;     /* files checked; those whose hash nobody has kept */
    uint64_t  bytes;                 /* read */
} hub_checking;

lm_status hub_shelf_check(const hub_shelf *s, hub_checking *c, lm_error *e);

#endif
