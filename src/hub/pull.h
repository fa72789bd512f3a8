/* pull.h - download models from a hub to the local Hugging Face cache:
 * models--ORG--NAME/{blobs,refs,snapshots}, the layout of huggingface_hub, so that each finds what the other
 * has downloaded. */
#ifndef LM_HUB_PULL_H
#define LM_HUB_PULL_H

#include "hub/fetch.h"

typedef struct hub_file {
    char     path[1025];             /* in the repository */
    char     hash[65];               /* 64 digits: SHA-256; 40: git's SHA-1 of a blob; also the blob's name */
    uint64_t size;
    bool     wanted, here;           /* part of the pull; its blob is in the cache */
} hub_file;

/* The progress of a pull. */
typedef struct hub_progress {
    uint64_t done, of;               /* bytes */
    double   rate;                   /* bytes per second over the last seconds; 0: not known yet */
    uint32_t files, files_of;        /* complete files, files to download */
} hub_progress;

typedef struct hub_pull {
    hub_net   net;
    void    (*progress)(void *arg, const hub_progress *now);     /* called by one thread at a time */
    void     *progress_arg;
    bool      dry_run;
    uint32_t  connections;           /* parallel downloads; 0: 4 */
    /* results */
    char      id[200], type[1025], revision[200];     /* "org/name", "Q4_K_M" or "path/file.gguf" or "",
                                                         "main" */
    char      commit[41];
    char      cache[2048], repository[2400];          /* folders */
    char      path[4096];                             /* what to open: a .gguf file, or the snapshot */
    char      heads[2400];                            /* folder in which hub_heads_run stores files */
    char     *index;                                  /* of safetensors, as text; NULL: none */
    hub_file *files;
    size_t    n, capacity;
    uint64_t  bytes, missing;                         /* size of the wanted files; of those not in the
                                                         cache */
    _Atomic uint64_t done;                            /* downloaded bytes */
} hub_pull;

/* Download a model: "org/name", "org/name:TYPE", "org/name:path/file.gguf", "org/name@REVISION". `revision`
 * NULL: main. Offline (HF_HUB_OFFLINE, TRANSFORMERS_OFFLINE) no request is sent, and the cache must contain
 * it. A file gets its name only when its bytes match its hash; the revision points to the snapshot only when
 * the snapshot is complete. An interrupted pull is resumed. LM_NOT_FOUND: no such model, revision or type.
 * LM_IO: network or disk errors. */
lm_status hub_pull_run(hub_pull *p, const char *name, const char *revision, lm_error *e);
void      hub_pull_free(hub_pull *p);

/* Download a model without its weights: config.json, and the headers of weight files with range requests.
 * They are stored in FOLDER/org/name as sparse files of the full size, which take no more disk space than the
 * headers. `path` is what to open, `done` the downloaded bytes. `folder` must exist. */
lm_status hub_heads_run(hub_pull *p, const char *name, const char *folder, lm_error *e);

/* Return whether this looks like a name for hub_pull_run: "org/name", with :TYPE or @REVISION. */
bool      hub_is_name(const char *name);

/* ---- parts (pick.c, place.c) ---- */
lm_status hub_read_name(hub_pull *p, const char *name, const char *revision, lm_error *e);
lm_status hub_list_files(hub_pull *p, lm_error *e);                      /* sets commit and files */
lm_status hub_pick(hub_pull *p, lm_error *e);                            /* sets `wanted` */
bool      hub_is_index(const char *path);
/* is a GGUF file of this type, or this file */
bool      hub_has_type(const char *path, const char *type);
lm_status hub_pick_shards(hub_pull *p, const char *index, size_t n, lm_error *e);
/* if present: sets `index` and selects the shards */
lm_status hub_read_index(hub_pull *p, lm_error *e);
/* is not a later part of a split file */
bool      hub_is_first(const char *path);
bool      hub_is_offline(void);
/* LM_NOT_FOUND: `name` is not in the cache, and hub_is_offline */
lm_status hub_fail_offline(const char *name, lm_error *e);

lm_status hub_find_cache(hub_pull *p, lm_error *e);
/* sets `here`, `bytes` and `missing` */
lm_status hub_look(hub_pull *p, lm_error *e);
lm_status hub_fetch_file(hub_pull *p, hub_file *f, lm_error *e);         /* the blob, then the link */
lm_status hub_write_ref(hub_pull *p, lm_error *e);
lm_status hub_read_ref(hub_pull *p, lm_error *e);                        /* offline: the commit */
void      hub_blob_path(const hub_pull *p, const hub_file *f, char out[4096]);
void      hub_file_url(const hub_pull *p, const hub_file *f, char out[6000]);

/* together.c: call `one` for every wanted file, several in parallel. The first failure ends it. */
typedef lm_status hub_each(hub_pull *p, hub_file *f, lm_error *e);
lm_status hub_together(hub_pull *p, hub_each *one, lm_error *e);
/* Set *same if the bytes of an open file match a hash (hub_file). LM_CANCELLED: `stop` returned true. */
lm_status hub_check_hash(int fd, const char *name, const char *hash, bool (*stop)(void), bool *same,
                         lm_error *e);

#endif
