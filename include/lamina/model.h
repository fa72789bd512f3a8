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
typedef struct lm_cluster lm_cluster;    /* processes that run a model together: cluster.h */

typedef struct lm_model_options {
    bool        no_mmap;             /* read files into memory instead of mapping them */
    bool        allow_unused;        /* tensors that no operation uses are a warning, not an error */
    bool        structure_only;      /* description only: a bare config.json will do, no weights are looked at */
    bool        weights_optional;    /* as structure_only where there are no weights: presets, config.json, a folder without */
    bool        tokenizer_optional;  /* a sound tokenizer of an unsupported kind is a warning, not LM_UNSUPPORTED */
    const char *pre;                 /* as in lm_tokenizer_options */
    /* With no_mmap: called while a file is read, by the thread that opens the model; fraction of that file, in 0…1. false: stop,
     * LM_CANCELLED. Mapped files are not read before they are used. */
    bool      (*progress)(void *arg, double fraction);
    void       *progress_arg;
    lm_log      log;                 /* used while the model is opened */
    /* Departures from the file; each is reported by lm_model_warning. 0 / NULL: as the file says. */
    const char *rope_scaling;        /* "none" "linear" "yarn" */
    double      rope_freq_base, rope_freq_scale;
    uint32_t    yarn_orig_ctx;
    int64_t     sliding_window;      /* -1: no window anywhere */
    const char *mla;                 /* form of latent attention: "absorbed" (default) or "naive" */
    const lm_cluster *cluster;       /* ranks that run the model together, of which this is one (cluster.h); NULL: it is run alone */
    bool        adaptable;           /* for lm_train: latent attention, where there is any, in its naive form, in which every projection
                                        is one; without a warning */
    uint64_t    reserved[6];         /* zero */
} lm_model_options;

lm_model_options lm_model_defaults(void);

/* Where a model named by a user lies, appended to `path` for lm_model_open:
 *   a path that exists, as it is;
 *   NAME of a file or folder in models/ of lamina's cache ($LAMINA_CACHE, else $XDG_CACHE_HOME/lamina, else
 *     ~/.cache/lamina), any case, with or without ".gguf" and the type before it;
 *   "-": standard input, where a config.json will do;
 *   "org/name" or "org/name:TYPE" in the Hugging Face cache, else NAME (of the TYPE) in lamina's;
 *   what people call a published model (lm_preset_find): "preset:NAME", a description without weights;
 *   NULL: the demo model, which scripts/setup puts into the cache.
 * LM_NOT_FOUND when it is nowhere, LM_USAGE when NAME could be several. */
lm_status lm_model_locate(const char *name, lm_text *path, lm_error *e);

/* Lamina's cache folder, with a slash at its end, appended to `path`; it need not exist. LM_NOT_FOUND when no variable says
 * where. */
lm_status lm_cache_folder(lm_text *path, lm_error *e);

/* A model that lies in one of the caches, by a name that lm_model_locate takes. Texts are valid during the call. */
typedef struct lm_cached_model {
    const char *name;                /* "tiny.Q4_0.gguf", "org/name", "org/name:Q8_0" */
    const char *path;
    const char *cache;               /* "lamina" or "huggingface" */
    uint64_t    bytes;               /* of its files; links are followed */
    uint64_t    reserved[4];         /* zero */
} lm_cached_model;

/* Tell `each` of all of them: lamina's cache, then the Hugging Face cache, by name; false ends the list. A cache that is not there is
 * empty, and what is damaged is left out. Nothing is opened. Thread-safe. */
lm_status lm_model_cached(bool (*each)(void *arg, const lm_cached_model *model), void *arg, lm_error *e);

/* `path`: a .gguf file (a split one: any part) or a Hugging Face folder; with structure_only or weights_optional also a
 * config.json or "preset:NAME". `o` may be NULL. On success the program is built and, unless there is only a description,
 * every tensor it needs is there with the right shape. */
lm_status lm_model_open(const char *path, const lm_model_options *o, lm_model **out, lm_error *e);

/* The same of a GGUF file that is not split (another one: LM_UNSUPPORTED), without its path: `name` stands in messages and where the
 * model has no name of its own; NULL: "descriptor N", "memory".
 *   fd      a regular file, open for reading. It is duplicated: the caller may close it. Its position does not matter and stays
 *   memory  `size` bytes at any address, which must stay there unchanged until lm_model_close: weights are used in place. NULL or 0:
 *           LM_USAGE; no_mmap has no effect */
lm_status lm_model_open_fd(int fd, const char *name, const lm_model_options *o, lm_model **out, lm_error *e);
lm_status lm_model_open_memory(const void *data, size_t size, const char *name, const lm_model_options *o, lm_model **out,
                               lm_error *e);
void      lm_model_close(lm_model *m);           /* engines made from it must be freed first */

/* Texts are printable UTF-8 on one line: bytes of a file or path that are not stand there as \xHH. */
typedef struct lm_model_info {
    const char *name;                /* "SmolLM2 135M Instruct", or the file's name */
    const char *family;              /* "llama" */
    const char *source;              /* path; of a preset, where its numbers are published */
    const char *container;           /* "gguf" "safetensors" "config" "preset" */
    uint32_t    n_vocab, n_layers, n_heads, n_kv_heads, head_dim, hidden, intermediate;
    uint32_t    context_length;      /* advertised */
    bool        tied;
    uint64_t    parameters;          /* stored once */
    uint64_t    active;              /* of these, used for one token: without experts that it does not visit */
    uint64_t    weight_bytes;        /* of the tensors used, as stored */
    const char *storage;             /* most common type by bytes, "q4_1" */
    uint64_t    reserved[8];         /* zero */
} lm_model_info;

void lm_model_describe(const lm_model *m, lm_model_info *out);

/* What tells this model's files from those of every other, wherever they lie: 64 hexadecimal digits, a BLAKE2b hash of config.json, of
 * the size of each file and all that stands in it before its weights (metadata, the directory of tensors), and of 256 bytes at the
 * beginning, in the middle and at the end of each tensor. So another training or quantisation is noticed; a weight changed by hand
 * elsewhere is not. Milliseconds, and no more for a larger model of as many tensors. Options of lm_model_open do not matter. LM_USAGE for a
 * description without weights. Thread-safe. */
lm_status lm_model_fingerprint(const lm_model *m, char out[65], lm_error *e);

/* What was unusual while opening; one line each, NULL past the end. */
const char *lm_model_warning(const lm_model *m, size_t i);

/* NULL when the model has none. Owned by the model. */
const lm_tokenizer *lm_model_tokenizer(const lm_model *m);

/* The source of a chat template: name NULL for the default. NULL when there is none. */
const char *lm_model_chat_template(const lm_model *m, const char *name);

/* Ids that end a generation: the tokenizer's own and those of generation_config.json and config.json. */
bool lm_model_is_end(const lm_model *m, lm_token id);

/* Reports about the model as JSON documents (UTF-8, freed with lm_text_free): */
typedef enum lm_report {
    LM_REPORT_INSPECT,               /* the object that `lamina inspect --json` prints */
    LM_REPORT_TENSORS,               /* [{name, type, shape, bytes, offset, file}] */
    LM_REPORT_METADATA,              /* {key: value}; long arrays are cut with a note */
} lm_report;
struct lm_engine_options;
lm_status lm_model_report(const lm_model *m, lm_report what, const struct lm_engine_options *o, lm_text *out, lm_error *e);

/* The program, readably: one line for each operation with path, shapes and weights. */
lm_status lm_model_program_text(const lm_model *m, lm_text *out, lm_error *e);

#ifdef __cplusplus
}
#endif
#endif
