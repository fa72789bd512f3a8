/* pull.h - models from a hub into the Hugging Face cache of this machine: models--ORG--NAME/{blobs,refs,snapshots}, as huggingface_hub
 * lays it out, so
 * that both find what the other has fetched. */
#ifndef LM_HUB_PULL_H
#define LM_HUB_PULL_H

#include "hub/fetch.h"

typedef struct hub_file {
    char     path[1025];             /* in the repository */
    char     hash[65];               /* 64 digits: SHA-256; 40: git's SHA-1 of a blob; the blob's name */
    uint64_t size;
    bool     wanted, here;           /* taken by the pull; its blob is in the cache */
} hub_file;

/* How far a pull is. */
typedef struct hub_progress {
    uint64_t done, of;               /* bytes */
    double   rate;                   /* bytes a second, of the last seconds; 0: not known yet */
    uint32_t files, files_of;        /* that are whole, of those that are fetched */
} hub_progress;

typedef struct hub_pull {
    hub_net   net;
    void    (*progress)(void *arg, const hub_progress *now);     /* one thread at a time */
    void     *progress_arg;
    bool      dry_run;
    uint32_t  connections;           /* files that are fetched at once; 0: 4 */
    /* filled in */
    char      id[200], type[1025], revision[200];     /* "org/name", "Q4_K_M" or "path/file.gguf" or "", "main" */
    char      commit[41];
    char      cache[2048], repository[2400];          /* folders */
    char      path[4096];                             /* of what can be opened: a .gguf file, or the snapshot */
    char      heads[2400];                            /* where hub_heads_run puts files */
    char     *index;                                  /* of safetensors, as text; NULL */
    hub_file *files;
    size_t    n, room;
    uint64_t  bytes, missing;                         /* of what is wanted; not in the cache */
    _Atomic uint64_t done;                            /* fetched */
} hub_pull;

/* "org/name", "org/name:TYPE", "org/name:path/file.gguf", "org/name@REVISION". `revision` NULL: main. Offline (HF_HUB_OFFLINE,
 * TRANSFORMERS_OFFLINE) nothing
 * is asked, and what is in the cache must do. Every file has its name only when its bytes are those of its hash; the revision points to
 * the snapshot when
 * all of it is there. What an interrupted pull has fetched is gone on with. LM_NOT_FOUND: no such model, revision or type. LM_IO: the
 * network, the disk. */
lm_status hub_pull_run(hub_pull *p, const char *name, const char *revision, lm_error *e);
void      hub_pull_free(hub_pull *p);

/* The model without its weights: config.json, and of files of weights their headers, by range requests, in FOLDER/org/name as files that
 * are as long as they should be and hold nothing more (they take no room on the disk). `path` is what can be opened, `done` the bytes
 * that were fetched. `folder` exists. */
lm_status hub_heads_run(hub_pull *p, const char *name, const char *folder, lm_error *e);

/* Whether it is a name for hub_pull_run, as far as it can be seen: "org/name", with :TYPE or @REVISION. */
bool      hub_is_name(const char *name);

/* ---- parts (pick.c, place.c) ---- */
lm_status hub_read_name(hub_pull *p, const char *name, const char *revision, lm_error *e);
lm_status hub_list_files(hub_pull *p, lm_error *e);                      /* commit and files */
lm_status hub_pick(hub_pull *p, lm_error *e);                            /* sets `wanted` */
bool      hub_is_index(const char *path);
bool      hub_has_type(const char *path, const char *type);              /* a GGUF file of this type, or this file */
lm_status hub_pick_shards(hub_pull *p, const char *index, size_t n, lm_error *e);
lm_status hub_read_index(hub_pull *p, lm_error *e);                      /* where there is one: sets `index`, shards are wanted */
bool      hub_is_first(const char *path);                                /* no later part of a split file */
bool      hub_is_offline(void);

lm_status hub_find_cache(hub_pull *p, lm_error *e);
lm_status hub_look(hub_pull *p, lm_error *e);                            /* sets `here`, bytes, missing */
lm_status hub_fetch_file(hub_pull *p, hub_file *f, lm_error *e);         /* its blob, then its link */
lm_status hub_write_ref(hub_pull *p, lm_error *e);
lm_status hub_read_ref(hub_pull *p, lm_error *e);                        /* offline: the commit */
void      hub_blob_path(const hub_pull *p, const hub_file *f, char out[4096]);
void      hub_file_url(const hub_pull *p, const hub_file *f, char out[6000]);

/* `one` for every wanted file, several at once (together.c). The first that fails ends it. */
typedef lm_status hub_each(hub_pull *p, hub_file *f, lm_error *e);
lm_status hub_together(hub_pull *p, hub_each *one, lm_error *e);
/* Whether the bytes of an open file are those of a hash (hub_file). LM_CANCELLED: `stop` says so. */
lm_status hub_check_hash(int fd, const char *name, const char *hash, bool (*stop)(void), bool *same, lm_error *e);

#endif
