/* cache_scan.h - the local cache of huggingface_hub: list, remove and check its contents. No network requests
 * are made.
 *
 * Names come from folders that others may have written: only links to blobs of the same repository are
 * followed, and nothing outside the cache is removed. */
#ifndef LM_HUB_CACHE_SCAN_H
#define LM_HUB_CACHE_SCAN_H

#include "hub/pull.h"

typedef struct hub_cached_file {
    char    *path;                   /* relative to the snapshot */
    char     blob[72];               /* name of its blob; "": the file itself is in the snapshot */
    uint64_t size;
    bool     here;                   /* the target of the link exists */
} hub_cached_file;

/* A snapshot of a model. */
typedef struct hub_cached_revision {
    char  id[200], commit[41];       /* "org/name" */
    char *folder;                    /* of the snapshot */
    char *revisions;                 /* revisions that point to it: "main v1.0"; may be "" */
    hub_cached_file *files;
    size_t   n;
    uint64_t bytes;                  /* of its existing files */
} hub_cached_revision;

typedef struct hub_cache_info {
    char      cache[2048];
    hub_cached_revision *kept;       /* sorted by name, then commit */
    size_t    n;
} hub_cache_info;

/* List all snapshots, or those of "org/name" or "org/name@REVISION"; with ":TYPE", only files of that type. A
 * missing cache counts as empty. LM_NOT_FOUND: nothing has that name. Free the result with hub_cache_free,
 * also on failure. */
lm_status hub_cache_scan(const char *name, hub_cache_info *out, lm_error *e);
void      hub_cache_free(hub_cache_info *s);

/* Remove the revision names of snapshots that go completely, then links and the blobs that no other snapshot
 * needs, then the folder of the snapshot, or of the model if nothing else is left. `freed`: bytes. LM_USAGE:
 * it is being downloaded. */
lm_status hub_cache_remove(const hub_cache_info *s, bool dry_run, uint64_t *freed, lm_error *e);

/* A file that does not match its hash; `problem`: "damaged" or "missing". */
typedef struct hub_flaw {
    const hub_cached_revision *of;
    const char *path;
    char blob[72];
    const char *problem;
    bool removed;
} hub_flaw;

typedef struct hub_checking {
    bool     repair;                 /* remove damaged blobs, so that the next pull downloads them again */
    bool   (*stop)(void);
    void   (*progress)(void *arg, double fraction);
    void    *progress_arg;
    /* results */
    hub_flaw *flaws;                 /* freed by the caller with free */
    size_t    n_flaws, checked, unknown;     /* files checked; files without a known hash */
    uint64_t  bytes;                 /* read */
} hub_checking;

lm_status hub_cache_check(const hub_cache_info *s, hub_checking *c, lm_error *e);

#endif
