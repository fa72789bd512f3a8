/* config.h - what a model's metadata says, in one form for all containers. */
#ifndef LM_ARCH_CONFIG_H
#define LM_ARCH_CONFIG_H

#include "formats/container.h"
#include "program/builder.h"

/* What transformers' class has where config.json does not have the key at all; null is another matter. */
typedef struct lm_default {
    const char *key;
    double      value;
} lm_default;

/* Where a description comes from. */
typedef struct lm_source {
    lm_container_kind   kind;            /* which spelling the keys have */
    const lm_meta      *meta;            /* config.json, or the keys of a GGUF file */
    const lm_container *tensors;         /* NULL when there are no weights to look at */
    const char         *arch;            /* GGUF: general.architecture, the prefix of its keys */
    const lm_default   *defaults;        /* of the family; lm_describe fills it in, and where warnings go */
    lm_text             *warnings;
    lm_text             *keys_read;       /* GGUF: lm_gguf_key notes each key here, with a NUL */
    void (*pair)(void *arg, const char *hf, const char *gguf);   /* GGUF: told both names of what is read; NULL: nobody */
    void *pair_arg;
    /* departures the user asked for; 0 / NULL: none */
    const char         *rope_scaling;
    double              rope_freq_base, rope_freq_scale;
    uint32_t            yarn_orig_ctx;
    int64_t             sliding_window;  /* -1: none anywhere */
    bool                latent_naive;    /* latent attention in its naive form */
} lm_source;

#define LM_MAX_LAYERS 1024
#define LM_OWN_BYTES  1088

/* What every reader, report and writer may ask of a model. What one family alone has is in `own`. */
typedef struct lm_config {
    uint32_t vocab_size, hidden, intermediate, n_layers;
    uint32_t n_heads, n_kv_heads, head_dim;
    uint32_t context_length;
    float    norm_eps;
    lm_act   act;
    const char *act_class;               /* what transformers calls it; NULL: the file does not name it */
    char     pad_token[16];              /* of the embedding, as a print shows it; "": none */
    float    dropout[3];                 /* in training: of the embedding, of attention, of what is added */
    bool     bias_qkv, bias_o, bias_mlp;
    bool     tied;
    lm_rope_spec      rope;
    lm_attention_spec attention;         /* with the window of the layers that have one */
    bool     full[LM_MAX_LAYERS];        /* layers that see everything although others have a window */
    lm_route_spec route;                 /* mixtures of experts */
    uint32_t expert_width;
    uint32_t qkv_groups;                 /* equal parts of a fused projection, each with its own q, k and v */
    uint32_t qkv_groups_hf;              /* of checkpoints, where GGUF files have one; 0: no difference */
    bool     parallel;                   /* attention and MLP read the same x, and both are added to it */
    bool     qk_norm;                    /* each head of q and k is normalised */
    struct {
        uint32_t q_rank;                 /* 0: queries have no latent */
        uint32_t kv_rank, nope_dim, rope_dim, v_dim;
    } latent;                            /* latent attention */
    uint32_t shared_width;               /* of the experts that every token is routed to; 0: none */
    float    longrope[2][512];           /* short and long factors as config.json lists them */
    _Alignas(8) unsigned char own[LM_OWN_BYTES];                /* the family's own struct, zero before it configures: lm_own */
} lm_config;

/* A family declares its struct in its file, holds it to LM_OWN_FITS, and reads and writes it here. */
#define LM_OWN_FITS(type) _Static_assert(sizeof(type) <= LM_OWN_BYTES, "more than a family may keep")
static inline const void *lm_own(const lm_config *c) { return c->own; }
static inline void       *lm_own_to_set(lm_config *c) { return c->own; }

typedef enum lm_own_kind { LM_OWN_F32, LM_OWN_F64, LM_OWN_U32, LM_OWN_BOOL } lm_own_kind;

/* A number of a family's own struct: what files call it, what it may be, what its absence means. */
typedef struct lm_own_number {
    const char *hf, *gguf;               /* NULL: that container has no such key; both NULL end a table */
    lm_own_kind kind;
    size_t      at;                      /* offset in the struct */
    double      min, max, absent;
    bool        always;                  /* llama.cpp wants the key also where the value is `absent` */
} lm_own_number;

typedef struct lm_family {
    const char *name;                    /* "llama" */
    const char *class_prefix;            /* "Llama" */
    const char *head_class;              /* what follows it in the root's class; NULL: "ForCausalLM" */
    const char *const *hf_types;         /* values of model_type, NULL-ended */
    const char *const *gguf_archs;       /* values of general.architecture, NULL-ended */
    const lm_order *orders;              /* of modules that are not made in the order they run; NULL: as usual */
    const char *act_name;                /* of its activations; NULL: "act_fn" */
    const char *act_class;               /* theirs, where the file names none; NULL: by function */
    const char *pad_token;               /* pad_token_id where config.json has none, as transformers fills it in; NULL: none */
    const char *const *dropout_keys;     /* of lm_config.dropout, three; NULL: nobody shows them */
    float       dropout;                 /* where config.json does not say */
    const char *gguf_as;                 /* the architecture that its files name when it reads none of its own; NULL: gguf_archs[0] */
    /* Families that share a GGUF architecture: only where this key is above 0 ("expert_count") or has this value
     * ("expert_gating_func=2"); NULL: any. */
    const char *gguf_key;
    bool        coarse_mixture;          /* llama.cpp's quantiser keeps fewer of its layers in finer types */
    lm_status  (*configure)(const lm_source *s, lm_config *c, lm_error *e);
    lm_value   (*build)(lm_builder *b, const lm_config *c);
    void       (*gguf_implied)(const lm_source *s, lm_config *c);    /* what GGUF files leave out and their shape tells; or NULL */
    const lm_own_number *own;            /* numbers that no other family has; NULL: none */
    const lm_name *names;                /* what GGUF calls the modules */
    const lm_default *defaults;          /* where transformers' class differs from what the readers fall back on; NULL-ended, or NULL */
    const char *const *keys;             /* members of config.json that `configure` understands, besides the common ones */
    const char *const *ignorable;        /* tensors that checkpoints carry and nobody needs; '*' matches digits or any prefix */
    const char *layers;                  /* "model.layers.": checkpoints store layers past the last, nobody needs them; NULL: none do */
} lm_family;

/* ---- registry ---- */

/* NULL past the end. */
const lm_family *lm_family_at(size_t i);

/* The family that a description belongs to. LM_UNSUPPORTED names the type and lists what is known. */
lm_status lm_family_find(const lm_source *s, const lm_family **out, lm_error *e);

/* Read the metadata, check it, build the program. Warnings (unknown keys, departures) are appended to `warnings`, one
 * line each. */
lm_status lm_describe(const lm_source *s, const lm_family **family, lm_config *config, lm_program **out, lm_text *warnings, lm_error *e);

/* Whether a tensor that no operation uses may be there all the same. */
bool lm_family_ignores(const lm_family *f, uint32_t n_layers, const char *tensor);

/* ---- reading, for families ---- */

/* A number under either name; both may be NULL (that container has no such key). Absent: the family's default, else
 * `fallback` when >= 0, else LM_BAD_MODEL; null in config.json: `fallback`. */
lm_status lm_read_u32(const lm_source *s, const char *hf, const char *gguf, uint32_t min, uint32_t max, int64_t fallback,
                      uint32_t *out, lm_error *e);
lm_status lm_read_f32(const lm_source *s, const char *hf, const char *gguf, double min, double max, double fallback,
                      float *out, lm_error *e);       /* fallback NAN: required */
lm_status lm_read_bool(const lm_source *s, const char *hf, const char *gguf, bool fallback, bool *out, lm_error *e);       /* null: false */

/* All numbers of a table, into the family's own struct. */
lm_status lm_read_own(const lm_source *s, const lm_own_number *table, lm_config *c, lm_error *e);

/* One of them as it was read. */
double lm_own_value(const lm_config *c, const lm_own_number *n);

/* The family's default of a key that config.json does not have; `otherwise` where it has it, null too, and in GGUF. */
double lm_default_of(const lm_source *s, const char *hf, double otherwise);

/* The full name of a GGUF key: "llama." + name. */
const char *lm_gguf_key(const lm_source *s, const char *name, char *buffer, size_t size);

/* Does the checkpoint hold this tensor? False when there are no weights to look at. */
bool lm_has_tensor(const lm_source *s, const char *name);

/* The vocabulary alone, and the width of a head after heads and hidden are known. `hf`: config.json's word for heads. */
lm_status lm_read_vocabulary(const lm_source *s, lm_config *c, lm_error *e);
lm_status lm_read_head_dim(const lm_source *s, const char *hf, lm_config *c, lm_error *e);

/* Every head has its own keys and values: n_kv_heads is n_heads, and GGUF's attention.head_count_kv says no other number. */
lm_status lm_read_own_heads(const lm_source *s, lm_config *c, lm_error *e);

/* Sizes that every decoder has: vocabulary, widths, layers, heads, context, rms eps; heads and divisors checked. */
lm_status lm_read_sizes(const lm_source *s, lm_config *c, lm_error *e);

/* The same with the eps of LayerNorm, which config.json calls `hf`. */
lm_status lm_read_layer_norm_sizes(const lm_source *s, const char *hf, lm_config *c, lm_error *e);

/* Lanes of a head that rotate: int(head_dim x factor), the factor under `hf` or in rope_parameters; rope.dimension_count. */
lm_status lm_read_rotary_lanes(const lm_source *s, const char *hf, double fallback, const lm_config *c, uint32_t *out, lm_error *e);

/* A line for whoever opens the model, if anybody listens. */
void lm_source_warn(const lm_source *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* LM_UNSUPPORTED for a member of config.json whose value has no form here. */
lm_status lm_no_form(const lm_source *s, const char *key, const char *why, lm_error *e);

/* rope_theta / rope_scaling / rope_parameters, or rope.* keys; checked (docs/dev/families.md). `dim`: lanes rotated. */
lm_status lm_read_rope(const lm_source *s, uint32_t dim, double default_base, lm_config *c, lm_error *e);

/* The same of a family whose layers with a window rotate in a way of their own: `c->rope` is that of the others, from
 * rope_parameters/full_attention; `local` from rope_parameters/sliding_attention, its base `local_base` where that is silent. */
lm_status lm_read_two_ropes(const lm_source *s, uint32_t dim, double default_base, double local_base, lm_config *c, lm_rope_spec *local,
                            lm_error *e);

/* Does config.json say anything about the rotation? `{}` is nothing in rope_scaling, and something in rope_parameters. */
bool lm_rope_is_given(const lm_source *s);

/* Says of the embedding that was just made which of its rows is padding. */
void lm_say_padding(lm_builder *b, const lm_config *c);

/* What "gelu_new" means; false: nobody knows. */
bool lm_act_spelled(const char *word, lm_act *out);

/* hidden_act and its kin: act and act_class. */
lm_status lm_read_act(const lm_source *s, const char *hf, lm_act fallback, lm_config *c, lm_error *e);

/* The scores of a layer: with the window, unless the layer is one of those that see everything. */
lm_attention_spec lm_layer_attention(const lm_config *c, uint32_t layer);

/* sliding_window (a number; null or absent: `fallback`, 0 for none), layer_types. */
lm_status lm_read_window(const lm_source *s, uint32_t fallback, lm_config *c, lm_error *e);

/* Which layers have the window where layer_types is silent: all but every `every`-th (GGUF: attention.sliding_window_pattern,
 * a number or a list); config.json may say `every` under `hf`. 1: none, 0: all. */
lm_status lm_read_window_pattern(const lm_source *s, const char *hf, uint32_t every, lm_config *c, lm_error *e);

/* A number that null switches off: 0 then. */
lm_status lm_read_optional_f32(const lm_source *s, const char *hf, const char *gguf, double fallback, float *out, lm_error *e);

/* Grouped-query attention without further wishes: heads as in `c`, 1/sqrt(head_dim). */
lm_attention_spec lm_plain_attention(const lm_config *c);

/* Members of config.json: those that nobody understands. Known to change the architecture elsewhere and not neutral here:
 * LM_UNSUPPORTED. Others: a warning. */
lm_status lm_check_keys(const lm_source *s, const lm_family *f, lm_text *warnings, lm_error *e);

/* Keys of a GGUF file under its architecture that the family did not ask for: a warning, unless they are known to say nothing that is
 * computed with. After `configure`. */
lm_status lm_check_gguf_keys(const lm_source *s, lm_error *e);

#endif
