/* model.h - a model: its description, its weights on disk, its tokenizer and chat templates. */
#ifndef LAMINA_MODEL_H
#define LAMINA_MODEL_H

#include "lamina/error.h"
#include "lamina/log.h"
#include "lamina/text.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lm_model lm_model;
typedef struct lm_cluster lm_cluster;    /* processes that run one model: cluster.h */

typedef struct lm_model_options {
    bool        no_mmap;             /* read files into memory instead of mapping them */
    bool        allow_unused;        /* tensors that no operation uses are a warning, not an error */
    bool        structure_only;      /* read the description only; a config.json is enough, weights are not
                                        read */
    bool        weights_optional;    /* as structure_only if there are no weights: presets, config.json, a
                                        folder without weights */
    bool        tokenizer_optional;  /* a valid tokenizer of an unsupported kind is a warning, not
                                        LM_UNSUPPORTED */
    const char *pre;                 /* as in lm_tokenizer_options */
    /* With no_mmap: called by the opening thread while a file is read; fraction of that file in 0…1. Return
     * false to cancel: LM_CANCELLED. Mapped files are not read in advance. */
    bool      (*progress)(void *arg, double fraction);
    void       *progress_arg;
    lm_log      log;                 /* used while the model is opened */
    /* Overrides of the file; lm_model_warning reports each. 0 or NULL: no override. */
    const char *rope_scaling;        /* "none" "linear" "yarn" */
    double      rope_freq_base, rope_freq_scale;
    uint32_t    yarn_orig_ctx;
    int64_t     sliding_window;      /* -1: no window in any layer */
    const char *mla;                 /* form of latent attention: "absorbed" (default) or "naive" */
    const lm_cluster *cluster;       /* the ranks that run the model (cluster.h), this process among them;
                                        NULL: run alone */
    bool        adaptable;           /* for lm_train: use the naive form of latent attention, which keeps
                                        every projection as one matrix; no warning */
    uint64_t    reserved[6];         /* zero */
} lm_model_options;

lm_model_options lm_model_defaults(void);

/* Resolve a model name to a path for lm_model_open, appended to `path`:
 *   a path that exists, unchanged;
 *   NAME of a file or folder in models/ of lamina's cache ($LAMINA_CACHE, else $XDG_CACHE_HOME/lamina, else
 *     ~/.cache/lamina), any case, with or without ".gguf" and the type before it;
 *   "-": standard input, if a config.json is enough;
 *   "org/name" or "org/name:TYPE" in the Hugging Face cache, else NAME (of the TYPE) in lamina's;
 *   the name of a published model (lm_preset_find): "preset:NAME", a description without weights;
 *   NULL: the demo model, which scripts/setup stores in the cache.
 * LM_NOT_FOUND: no such model. LM_USAGE: NAME matches more than one. */
lm_status lm_model_locate(const char *name, lm_text *path, lm_error *e);

/* Append lamina's cache folder, with a slash at its end, to `path`; it need not exist. LM_NOT_FOUND if none
 * of the variables is set. */
lm_status lm_cache_folder(lm_text *path, lm_error *e);

/* A model in one of the caches, by a name that lm_model_locate accepts. Strings are valid during the call. */
typedef struct lm_cached_model {
    const char *name;                /* "tiny.Q4_0.gguf", "org/name", "org/name:Q8_0" */
    const char *path;
    const char *cache;               /* "lamina" or "huggingface" */
    uint64_t    bytes;               /* of its files; links are followed */
    uint64_t    reserved[4];         /* zero */
} lm_cached_model;

/* Call `each`, in the calling thread, for every cached model: lamina's cache, then the Hugging Face cache,
 * sorted by name. `each` returns false to stop. A missing cache is empty, and damaged entries are skipped.
 * Models are not opened. Thread-safe. */
lm_status lm_model_cached(bool (*each)(void *arg, const lm_cached_model *model), void *arg, lm_error *e);

/* `path`: a .gguf file (a split one: any part) or a Hugging Face folder; with structure_only or
 * weights_optional also a config.json or "preset:NAME". `o` may be NULL. On success the program is built and,
 * unless only a description was read, every tensor it needs exists with the right shape. */
lm_status lm_model_open(const char *path, const lm_model_options *o, lm_model **out, lm_error *e);

/* Open a GGUF file without a path. It must not be split (LM_UNSUPPORTED). `name` is used in messages, and as
 * the model's name; NULL: "descriptor N" or "memory", and the name is that in the file's keys.
 *   fd      a regular file, open for reading. It is duplicated: the caller may close it. Its position is
 *           neither used nor changed
 *   memory  `size` bytes at any address, which must stay unchanged until lm_model_close: weights are used in
 *           place. NULL or size 0: LM_USAGE. no_mmap has no effect */
lm_status lm_model_open_fd(int fd, const char *name, const lm_model_options *o, lm_model **out, lm_error *e);
lm_status lm_model_open_memory(const void *data, size_t size, const char *name, const lm_model_options *o,
                               lm_model **out, lm_error *e);
void      lm_model_close(lm_model *m);           /* engines made from it must be freed first */

/* Strings are printable UTF-8 on one line; other bytes of a file or path are written as \xHH. */
typedef struct lm_model_info {
    const char *name;                /* of the file or folder: "Qwen2.5-0.5B-Instruct-Q4_K_M"; if it says
                                        nothing ("model"), the basename and size of its keys */
    const char *family;              /* "llama" */
    const char *source;              /* path; for a preset, where its configuration is published */
    const char *container;           /* "gguf" "safetensors" "config" "preset" */
    uint32_t    n_vocab, n_layers, n_heads, n_kv_heads, head_dim, hidden, intermediate;
    uint32_t    context_length;      /* advertised */
    bool        tied;
    uint64_t    parameters;          /* each stored parameter counted once */
    uint64_t    active;              /* parameters used per token: experts that are not chosen are excluded */
    uint64_t    weight_bytes;        /* size of the tensors used, as stored */
    const char *storage;             /* most common type by bytes, "q4_1" */
    uint64_t    reserved[8];         /* zero */
} lm_model_info;

void lm_model_describe(const lm_model *m, lm_model_info *out);

/* Identify the model's files independently of their path: 64 hexadecimal digits, a BLAKE2b hash of
 * config.json, of each file's size and everything before its weights (metadata, tensor directory), and of 256
 * bytes at the beginning, middle and end of each tensor. It differs for another training or quantisation, but
 * does not detect a weight changed elsewhere in a tensor. Takes milliseconds; the time depends on the number
 * of tensors, not on their size. Options of lm_model_open have no effect. LM_USAGE: the model has no weights.
 * Thread-safe. */
lm_status lm_model_fingerprint(const lm_model *m, char out[65], lm_error *e);

/* Warnings from opening the model; one line each, NULL past the end. */
const char *lm_model_warning(const lm_model *m, size_t i);

/* NULL when the model has none. Owned by the model. */
const lm_tokenizer *lm_model_tokenizer(const lm_model *m);

/* The source of a chat template: name NULL for the default. NULL when there is none. */
const char *lm_model_chat_template(const lm_model *m, const char *name);

/* Whether a token ends generation, according to the tokenizer, generation_config.json and config.json. */
bool lm_model_is_end(const lm_model *m, lm_token id);

/* Reports about the model as JSON documents (UTF-8, freed with lm_text_free): */
typedef enum lm_report {
    LM_REPORT_TENSORS,               /* [{name, type, shape, bytes, offset, file}] */
    LM_REPORT_METADATA,              /* {key: value}; long arrays are shortened, with a note */
    LM_REPORT_METADATA_WHOLE,        /* {key: value}, with all elements of arrays */
} lm_report;
lm_status lm_model_report(const lm_model *m, lm_report what, lm_text *out, lm_error *e);

/* The program as text: one line per operation, with path, shapes and weights. */
lm_status lm_model_program_text(const lm_model *m, lm_text *out, lm_error *e);

#ifdef __cplusplus
}
#endif
#endif
