/* cache_scan.h - what the cache of huggingface_hub on this machine holds: listed, removed, checked. No request is made.
 *
 * Names come from folders that others may have written: links are not followed but to blobs of the same repository, and nothing outside
 * the cache is removed. */
#ifndef LM_HUB_CACHE_SCAN_H
#define LM_HUB_CACHE_SCAN_H

#include "hub/pull.h"

typedef struct hub_cached_file {
    char    *path;                   /* in the snapshot */
    char     blob[72];               /* its blob's name; "": the file itself is in the snapshot */
    uint64_t size;
    bool     here;                   /* the link leads somewhere */
} hub_cached_file;

/* One snapshot of one model. */
typedef struct hub_cached_revision {
    char  id[200], commit[41];       /* "org/name" */
    char *folder;                    /* of the snapshot */
    char *revisions;                 /* names that point to it: "main v1.0"; "" */
    hub_cached_file *files;
    size_t   n;
    uint64_t bytes;                  /* of its files that are here */
} hub_cached_revision;

typedef struct hub_cache_info {
    char      cache[2048];
    hub_cached_revision *kept;       /* by name, then commit */
    size_t    n;
} hub_cache_info;

/* Every snapshot, or those of "org/name", "org/name@REVISION" and, of ":TYPE", with the files of that type alone. A missing cache is an
 * empty one. LM_NOT_FOUND: nothing has that name. Freed with hub_cache_free, also on failure. */
lm_status hub_cache_scan(const char *name, hub_cache_info *out, lm_error *e);
void      hub_cache_free(hub_cache_info *s);

/* Links, then blobs that no other snapshot needs, then names that point to snapshots that are gone; of a model of which nothing is left
 * its folder. `freed`: bytes. LM_USAGE: it is being fetched. */
lm_status hub_cache_remove(const hub_cache_info *s, bool dry_run, uint64_t *freed, lm_error *e);

/* A file that is not what its name says; `problem` a word: "damaged", "missing". */
typedef struct hub_flaw { const hub_cached_revision *of; const char *path; char blob[72]; const char *problem; bool removed; } hub_flaw;

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

lm_status hub_cache_check(const hub_cache_info *s, hub_checking *c, lm_error *e);

#endif
