/* config.h - the metadata of a model in a form that does not depend on the container. */
#ifndef LM_ARCH_CONFIG_H
#define LM_ARCH_CONFIG_H

#include <stdio.h>

#include "formats/container.h"
#include "program/builder.h"

/* The value that transformers' class uses if config.json does not have the key; null is handled
 * separately. */
typedef struct lm_default {
    const char *key;
    double      value;
} lm_default;

/* The source of a description. */
typedef struct lm_source {
    lm_container_kind   kind;            /* determines the spelling of keys */
    const lm_meta      *meta;            /* config.json, or the keys of a GGUF file */
    const lm_container *tensors;         /* NULL: no weights available */
    const char         *arch;            /* GGUF: general.architecture, the prefix of its keys */
    const lm_default   *defaults;        /* of the family, set by lm_describe; `warnings`: where warnings
                                            go */
    lm_text             *warnings;
    lm_text             *keys_read;       /* GGUF: lm_gguf_key appends each key, with a NUL */
    /* GGUF: called with both names of each key that is read; NULL: none */
    void (*pair)(void *arg, const char *hf, const char *gguf);
    void *pair_arg;
    /* overrides requested by the user; 0 / NULL: none */
    const char         *rope_scaling;
    double              rope_freq_base, rope_freq_scale;
    uint32_t            yarn_orig_ctx;
    int64_t             sliding_window;  /* -1: no window in any layer */
    bool                latent_naive;    /* latent attention in its naive form */
} lm_source;

#define LM_MAX_LAYERS 1024
#define LM_MAX_HEADS  1024
#define LM_MAX_WIDTH  (1u << 20)             /* of the model, and of its MLPs */
#define LM_OWN_BYTES  2560

/* config.json's keys for the sizes of Mamba layers; NULL: the family has no such key. */
typedef struct lm_mamba_keys {
    const char *heads, *head_dim, *state, *groups, *taps, *conv_bias, *in_bias, *out_bias;
    const char *rank;                    /* of the time step, in Mamba; NULL: Mamba-2 */
    const char *expand;                  /* the mixer is this many times as wide as the model; NULL: heads
                                            times their width */
    const char *inner;                   /* or this wide */
} lm_mamba_keys;

/* What GGUF files say of shared experts. */
typedef enum lm_shared_keys {
    LM_SHARED_COUNT, LM_SHARED_WIDTH, LM_SHARED_BOTH, LM_SHARED_UNSAID
} lm_shared_keys;

/* config.json's keys for a mixture of experts. */
typedef struct lm_mixture_keys {
    const char *experts, *top_k, *shared;    /* shared NULL: there are none */
    const char *normalised;              /* NULL: the weights are always renormalised */
    bool        normalises;              /* if config.json or the GGUF file has no such key */
    const char *groups;                  /* NULL: experts form no groups */
    const char *width;                   /* NULL: moe_intermediate_size */
    const char *scale;                   /* NULL: the weights are not scaled */
    bool        says_function;           /* GGUF files name the function of the scores, softmax too */
    lm_shared_keys gguf_shared;
} lm_mixture_keys;

/* The norms of the time step, B and C. */
typedef enum lm_inner_norm { LM_NO_INNER, LM_INNER_WEIGHTED, LM_INNER_UNWEIGHTED } lm_inner_norm;
typedef enum lm_mamba_norm { LM_GATE_BEFORE_NORM, LM_NORM_BEFORE_GATE, LM_NO_NORM } lm_mamba_norm;

/* What all readers, reports and writers may need to know about a model. Numbers of a single family are in
 * `own`. */
typedef struct lm_config {
    uint32_t vocab_size, hidden, intermediate, n_layers;
    uint32_t n_further;                  /* layers after the last that predict further tokens: in the lists of
                                            GGUF files, not run */
    uint32_t n_heads, n_kv_heads, head_dim;
    uint32_t context_length;
    float    norm_eps;
    lm_act   act;
    float    gate_limit, gate_plus;      /* of gated MLPs and experts: lm_expert_spec; 0: none */
    const char *act_class;               /* its name in transformers; NULL: not in the file */
    char     pad_token[16];              /* padding token of the embedding, as printed by PyTorch; "": none */
    float    dropout[3];                 /* during training: of the embedding, of attention, of residuals */
    bool     bias_qkv, bias_o, bias_mlp;
    bool     tied;
    lm_rope_spec      rope;
    lm_rope_spec      compress;          /* of layers with compressed keys; dim 0: no layer may have them */
    lm_attention_spec attention;         /* with the window of the layers that have one */
    lm_temperature_spec temperature;     /* of queries */
    bool     full[LM_MAX_LAYERS];        /* layers with full attention although others have a window */
    struct {                             /* layers with a window whose heads have other widths or numbers;
                                            head_dim 0: all layers are alike */
        uint32_t     n_heads, n_kv_heads;
        uint32_t     head_dim, v_dim;
        bool         sinks;
        lm_rope_spec rope;
    } local;
    uint32_t n_readers;                  /* last layers, which read the keys and values of earlier ones */
    bool     wide_readers;               /* and whose MLPs are twice as wide */
    float    gate_cut[LM_MAX_LAYERS];    /* deviations above the mean below which gates of an MLP are 0;
                                            -INFINITY: none is */
    bool     stateful[LM_MAX_LAYERS];    /* layers with a state instead of attention */
    bool     no_attention[LM_MAX_LAYERS], no_mlp[LM_MAX_LAYERS];     /* layers with only one of the parts */
    struct {                             /* layers with a Mamba-2 or Mamba mixer; n_heads 0: none */
        uint32_t      rank;              /* of the time step, in Mamba, which has one head; 0: Mamba-2 */
        lm_inner_norm inner_norm;        /* in Mamba */
        float         inner_eps;
        const char   *gated_class;           /* of the norm beside the gate; NULL: "%sRMSNormGated" */
        uint32_t      n_heads, head_dim, state, n_groups, taps;
        bool          conv_bias, in_bias, out_bias;
        lm_act        act;               /* after the convolution */
        lm_mamba_norm norm;
        float         dt_min, dt_max;    /* limits of the time step; dt_max FLT_MAX: none */
        float         factors[5];        /* of z, x, B, C and dt, which GGUF has in its weights; 0: 1 */
        float         of_input;          /* the same, of the mixer's input */
    } mamba;
    lm_route_spec route;                 /* mixtures of experts */
    uint32_t expert_width;
    uint32_t qkv_groups;                 /* equal parts of a fused projection, each with its own q, k and v */
    bool     gguf_layout;                /* weights are in the order of GGUF files (lm_gguf_layout) */
    int32_t  sections[3];                /* of the rotation, for three positions that are equal for text; 0:
                                            not in GGUF files */
    uint32_t qkv_groups_hf;              /* of checkpoints, if GGUF files have one group; 0: the same */
    bool     parallel;                   /* attention and MLP read the same input */
    bool     shared_choice[LM_MAX_LAYERS];   /* layers of sparse attention to the keys that the last layer
                                                before has chosen */
    lm_ternary ternary;                  /* products with matrices of -1, 0 and 1 */
    bool     qk_norm;                    /* each head of q and k is normalised */
    struct {
        uint32_t q_rank;                 /* 0: queries have no latent */
        uint32_t kv_rank, nope_dim, rope_dim, v_dim;
    } latent;                            /* latent attention */
    uint32_t shared_width;               /* of the shared experts, which process every token; 0: none */
    float    longrope[2][512];           /* short and long factors as config.json lists them */
    /* the family's own struct, zeroed before `configure`: lm_own */
    _Alignas(8) unsigned char own[LM_OWN_BYTES];
} lm_config;

/* A family declares its struct in its file, checks its size with LM_OWN_FITS, and accesses it with these
 * functions. */
#define LM_OWN_FITS(type) _Static_assert(sizeof(type) <= LM_OWN_BYTES, "more than a family may keep")
static inline const void *lm_own(const lm_config *c) { return c->own; }
static inline void       *lm_family_config_mut(lm_config *c) { return c->own; }

typedef enum lm_own_kind { LM_OWN_F32, LM_OWN_F64, LM_OWN_U32, LM_OWN_BOOL } lm_own_kind;

/* A number in a family's own struct: its keys, its range, and its value if absent. */
typedef struct lm_own_number {
    const char *hf, *gguf;               /* NULL: no such key in that container; both NULL end a table */
    lm_own_kind kind;
    size_t      at;                      /* offset in the struct */
    double      min, max, absent;
    bool        always;                  /* llama.cpp requires the key even if the value is `absent` */
} lm_own_number;

/* A list of config.json or GGUF with an entry for each layer, which writers make from the configuration. */
typedef struct lm_layer_list {
    const char        *hf, *gguf;        /* one of them is NULL; both NULL end a table */
    const char *const *words;            /* the entry is one of these, by number; NULL: the number */
    double           (*of)(const lm_config *c, uint32_t layer);
    bool               whole;            /* GGUF has whole numbers; else float32 */
} lm_layer_list;

typedef struct lm_family {
    const char *name;                    /* "llama" */
    const char *class_prefix;            /* "Llama" */
    const char *root_class;              /* NULL: the prefix and "ForCausalLM" */
    const char *const *hf_types;         /* values of model_type, NULL-terminated */
    const char *const *gguf_archs;       /* values of general.architecture, NULL-terminated */
    const lm_order *orders;              /* of modules that are not created in execution order; NULL: none */
    const char *act_name;                /* module name of its activations; NULL: "act_fn"; "": functions */
    const char *act_class;               /* their class if the file names none; NULL: by function */
    const char *pad_token;               /* pad_token_id if config.json has none, as in transformers; NULL:
                                            none */
    const char *const *dropout_keys;     /* keys of lm_config.dropout, three; NULL: not printed */
    float       dropout;                 /* default if config.json has none */
    const char *gguf_as;                 /* architecture that its files have, if it reads none itself; NULL:
                                            gguf_archs[0] */
    bool        joint_latent;            /* GGUF has one matrix for the keys and values of all heads, and
                                            describes these heads, not the latent */
    /* For families that share a GGUF architecture: only if this key is greater than 0 ("expert_count"), has
     * this value ("expert_gating_func=2") or is absent ("!logit_scale"); NULL: always. */
    const char *gguf_key;
    bool       (*gguf_suits)(const lm_source *s);   /* and only if this returns true; NULL: always */
    bool        gguf_renormalises;       /* llama.cpp always does: its files have no expert_weights_norm */
    /* For families that share a model_type: whether this config.json is one of theirs; NULL: always. */
    bool       (*suits)(const lm_source *s);
    bool        fixed_scale;             /* scores have one scale in all its models: GGUF has no key for it */
    bool        coarse_mixture;          /* llama.cpp's quantizer keeps fewer of its layers in finer types */
    lm_status  (*configure)(const lm_source *s, lm_config *c, lm_error *e);
    lm_value   (*build)(lm_builder *b, const lm_config *c);
    /* infer what GGUF files omit; NULL: nothing */
    void       (*gguf_implied)(const lm_source *s, lm_config *c);
    const lm_own_number *own;            /* numbers that no other family has; NULL: none */
    const lm_layer_list *lists;          /* what it has for each layer besides those of other families; NULL:
                                            nothing */
    const lm_name *names;                /* GGUF names of the modules */
    const lm_name *spellings;            /* other names of whole tensors in checkpoints, a '*' for the layer
                                            and one for the expert; NULL: none */
    const lm_default *defaults;          /* where transformers' class differs from the readers' defaults;
                                            terminated by NULL, or NULL */
    const char *const *keys;             /* members of config.json that `configure` reads, in addition to the
                                            common ones */
    const char *const *ignorable;        /* tensors in checkpoints that are not needed; '*' matches digits, or
                                            at an end any text */
    const char *state_word;              /* the layers with a state, in layer_types: "conv"; NULL: none has */
    bool        whole_mscale;            /* GGUF's rope.scaling.yarn_log_multiplier is mscale_all_dim; else
                                            a tenth of it */
    const char *temperature;             /* rotary parameter of config.json for the temperature of queries;
                                            NULL: they have none */
    bool        lists_states;            /* GGUF lists these layers in attention.recurrent_layers; else
                                            attention.head_count_kv is 0 there */
    bool        lists_rotations;         /* GGUF lists the layers that rotate in attention.rope_pattern */
    bool        rms_epsilon;             /* GGUF has the eps of its LayerNorms where others have that of
                                            RMSNorms */
    bool        ternary;                 /* its matrices may be of -1, 0 and 1 (lm_read_ternary) */
    bool        experts_only;            /* no layer has a plain MLP: GGUF has no feed_forward_length */
    const char *const *gguf_unread;      /* keys of its GGUF files that no reader uses, besides those of all
                                            architectures; NULL: none */
    const char *attention_word;          /* the others; NULL: "full_attention" */
    const lm_mamba_keys *mamba;          /* NULL: it has no Mamba layers */
    const lm_mixture_keys *mixture;      /* NULL: it has no experts, or those keys that most families have */
    const char *layers;                  /* "model.layers.": checkpoints contain unused layers after the last
                                            one; NULL: they do not */
} lm_family;

/* Write the class of the whole model. */
static inline void lm_root_class(const lm_family *f, char *out, size_t size)
{
    snprintf(out, size, "%s%s", f->root_class ? f->root_class : f->class_prefix,
             f->root_class ? "" : "ForCausalLM");
}

/* Return the share of normally distributed gates that a cut sets to zero, in few digits. */
double lm_gate_share(float cut);

/* ---- registry ---- */

/* NULL after the last one. */
const lm_family *lm_family_at(size_t i);

/* Find the family of a description. LM_UNSUPPORTED: the error contains the type and lists the supported
 * ones. */
lm_status lm_family_find(const lm_source *s, const lm_family **out, lm_error *e);

/* Read the metadata, check it, build the program. Warnings (unknown keys, overrides) are appended to
 * `warnings`, one per line. */
lm_status lm_describe(const lm_source *s, const lm_family **family, lm_config *config, lm_program **out,
                      lm_text *warnings, lm_error *e);

/* Return attention.head_count and attention.head_count_kv of the first layer in GGUF files, which
 * llama-quantize looks at. */
static inline uint32_t lm_first_heads(const lm_config *c)
{
    return c->local.head_dim && !c->full[0] ? c->local.n_heads : c->n_heads;
}

static inline uint32_t lm_first_kv_heads(const lm_family *f, const lm_config *c)
{
    uint32_t local = c->local.head_dim && !c->full[0] ? c->local.n_kv_heads : c->n_kv_heads;

    return (c->stateful[0] || c->no_attention[0]) && !f->lists_states ? 0 : local;
}

/* Write the name that published files of the family have for a tensor of the program: its first other
 * spelling, else the name itself. Returns `out`. */
const char *lm_published_name(const lm_family *f, const char *name, char *out, size_t size);

/* Find a tensor by its name in the program; NULL: there is none. Checkpoints may have one of the family's
 * other spellings. */
const lm_tensor_info *lm_find_tensor(const lm_family *f, const lm_container *c, const char *name);

/* Return whether a tensor that no operation uses is allowed. */
bool lm_family_ignores(const lm_family *f, uint32_t n_layers, const char *tensor);

/* ---- readers for families ---- */

/* Read a number under either name; both may be NULL (no such key in that container). If absent: the family's
 * default, otherwise `fallback` if >= 0, otherwise LM_BAD_MODEL. If null in config.json: `fallback`. */
lm_status lm_read_u32(const lm_source *s, const char *hf, const char *gguf, uint32_t min, uint32_t max,
                      int64_t fallback, uint32_t *out, lm_error *e);
lm_status lm_read_f32(const lm_source *s, const char *hf, const char *gguf, double min, double max,
                      double fallback, float *out, lm_error *e); /* fallback NAN: required */
lm_status lm_read_bool(const lm_source *s, const char *hf, const char *gguf, bool fallback, bool *out,
                       lm_error *e); /* null: false */

/* Read all numbers of a table into the family's own struct. */
lm_status lm_read_own(const lm_source *s, const lm_own_number *table, lm_config *c, lm_error *e);

/* Return one of these numbers as it was read. */
double lm_own_value(const lm_config *c, const lm_own_number *n);

/* Return the family's default for a key that config.json does not have; `otherwise` if it has the key, even
 * if null, and for GGUF. */
double lm_default_of(const lm_source *s, const char *hf, double otherwise);

/* Return the full name of a GGUF key: "llama." + name. */
const char *lm_gguf_key(const lm_source *s, const char *name, char *buffer, size_t size);

/* Return whether the checkpoint contains this tensor; false if there are no weights. */
bool lm_has_tensor(const lm_source *s, const char *name);

/* Read only the vocabulary size; read the head size once heads and hidden size are known. `hf`: config.json's
 * key for the heads. */
lm_status lm_read_vocabulary(const lm_source *s, lm_config *c, lm_error *e);
lm_status lm_read_head_dim(const lm_source *s, const char *hf, lm_config *c, lm_error *e);
/* The same without a look at the width of values. */
lm_status lm_read_key_dim(const lm_source *s, const char *hf, lm_config *c, lm_error *e);

/* Set n_kv_heads to n_heads, because every head has its own keys and values; fail if GGUF's
 * attention.head_count_kv differs. */
lm_status lm_read_own_heads(const lm_source *s, lm_config *c, lm_error *e);

/* Read the sizes that every decoder has: vocabulary, widths, layers, heads, context, rms eps; check heads and
 * divisors. */
lm_status lm_read_sizes(const lm_source *s, lm_config *c, lm_error *e);

/* Tell lm_source.pair the names of a key. */
void lm_warn_of_pair(const lm_source *s, const char *hf, const char *gguf);

/* Read a number that GGUF may store once per layer, 0 for layers that have none (none [c->n_layers]; NULL:
 * that is an error); the others must be equal. `fallback` as in lm_read_u32. */
lm_status lm_read_per_layer(const lm_source *s, const char *hf, const char *gguf, uint32_t max,
                            int64_t fallback, const lm_config *c, bool *none, uint32_t *out, lm_error *e);

/* The same for a number of all layers that config.json, too, may store once per layer. */
lm_status lm_read_listed(const lm_source *s, const char *hf, const char *gguf, uint32_t max, int64_t fallback,
                         const lm_config *c, uint32_t *out, lm_error *e);

/* Read a number that files may store once per layer: out[0] is that of the layers that are false in kind
 * [c->n_layers], out[1] that of the others; those of one kind must be equal. */
lm_status lm_read_by_kind(const lm_source *s, const char *hf, const char *gguf, uint32_t max,
                          const bool *kind, const lm_config *c, uint32_t out[2], lm_error *e);

/* The same as lm_read_sizes for a family whose layers with a window may have other numbers of heads. Sets
 * c->local if the numbers differ, and always local.v_dim. */
typedef struct lm_kind_keys {
    /* reads which layers have a window, once the number of layers is known */
    lm_status (*windows)(const lm_source *s, lm_config *c, lm_error *e);
    const char *heads;                   /* config.json's key for the heads of each layer; NULL: none */
    const char *v_dim;                   /* the same for the width of a value; NULL: as wide as keys */
    const char *kv_heads;                /* the same for the key/value heads of layers with a window; NULL:
                                            they have as many as the others */
    uint32_t    kv_factor;               /* and if it is absent, this many times those of the others */
} lm_kind_keys;
lm_status lm_read_sizes_by_kind(const lm_source *s, const lm_kind_keys *k, lm_config *c, lm_error *e);

/* Read the number of layers. GGUF counts layers that predict further tokens, which are not run, and come
 * last. */
lm_status lm_read_layers(const lm_source *s, lm_config *c, lm_error *e);

/* The same for a family in which some layers have a state instead of attention: sets c->stateful, from
 * layer_types (`word`: its word for them; "full_attention": the others) or from attention.head_count_kv,
 * which is 0 there. Without either, all layers have attention. `eps`: config.json's key. `word` NULL:
 * layer_types is not read. */
lm_status lm_read_mixed_sizes(const lm_source *s, const char *word, const char *eps, lm_config *c,
                              lm_error *e);

/* Read one of two words for each layer; is [i]: whether it is `word`. */
lm_status lm_read_layer_kinds(const lm_source *s, const char *key, const char *word, const char *other,
                              bool *is, const lm_config *c, lm_error *e);

/* The same with up to three words, the rest NULL; which [i]: the index of the layer's word. */
lm_status lm_read_layer_words(const lm_source *s, const char *key, const char *const *words, uint8_t *which,
                              const lm_config *c, lm_error *e);

/* Check that a switch of config.json has this value, or is absent. */
lm_status lm_expect_bool(const lm_source *s, const char *key, bool value, lm_error *e);

/* Check that a string of config.json has this value, or is absent: others mean other computations. */
lm_status lm_expect_word(const lm_source *s, const char *key, const char *word, lm_error *e);

/* Read the list of layers that have attention, which some files have in place of layer_types; all others have
 * a state. */
lm_status lm_read_attention_layers(const lm_source *s, const char *key, lm_config *c, lm_error *e);

/* The same with the eps of LayerNorm, which has the key `hf` in config.json. */
lm_status lm_read_layer_norm_sizes(const lm_source *s, const char *hf, lm_config *c, lm_error *e);

/* Read the number of rotated lanes per head: int(head_dim x factor), with the factor under `hf` or in
 * rope_parameters; or rope.dimension_count. */
lm_status lm_read_rotary_lanes(const lm_source *s, const char *hf, double fallback, const lm_config *c,
                               uint32_t *out, lm_error *e);

/* The same of the layers without a window (local: with one), whose factor may be in rope_parameters of their
 * kind; `hf` NULL: only there. GGUF: rope.dimension_count, rope.dimension_count_swa. */
lm_status lm_read_rotary_lanes_of(const lm_source *s, const char *hf, double fallback, bool local,
                                  const lm_config *c, uint32_t *out, lm_error *e);

/* Append a warning for the user who opens the model, if warnings are collected. */
void lm_source_warn(const lm_source *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Return LM_BAD_MODEL for the value of a key, under its name in this container. */
lm_status lm_wrong(const lm_source *s, const char *hf, const char *gguf, lm_error *e, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Return whether quantization_config says that matrices have the values -1, 0 and 1; read its members. */
bool      lm_is_ternary(const lm_source *s);
extern const char lm_ternary_method[];       /* its quant_method */
lm_status lm_read_ternary(const lm_source *s, lm_config *c, lm_error *e);

/* Return LM_UNSUPPORTED for a member of config.json with an unsupported value. */
lm_status lm_no_form(const lm_source *s, const char *key, const char *why, lm_error *e);

/* Read rope_theta / rope_scaling / rope_parameters, or rope.* keys, and check them (docs/dev/families.md).
 * `dim`: rotated lanes. */
lm_status lm_read_rope(const lm_source *s, uint32_t dim, double default_base, lm_config *c, lm_error *e);

/* The same for a family whose layers with a window have a different rotation: `c->rope` is that of the other
 * layers, from rope_parameters/full_attention; `local` is from rope_parameters/sliding_attention, with
 * `local_base` as its default base. */
lm_status lm_read_two_ropes(const lm_source *s, uint32_t dim, double default_base, double local_base,
                            lm_config *c, lm_rope_spec *local, lm_error *e);

/* The same for a family whose layers with compressed keys have a different rotation: `c->rope` is that of the
 * others, from rope_parameters/main, else not scaled; `compress` is from rope_parameters/compress, else from
 * rope_scaling or rope_parameters, with this base. With YaRN, its magnitude is 1 unless it is stated. GGUF:
 * rope.scaling.* are those of `compress`. */
lm_status lm_read_main_and_compress(const lm_source *s, uint32_t dim, double compress_base, lm_config *c,
                                    lm_rope_spec *compress, lm_error *e);

/* Read the temperature of queries, after the rotation, whose trained length is that of its steps. `hf`: its
 * key in config.json's rotary parameters. GGUF files without it: `absent`, with a warning unless it is 0. */
lm_status lm_read_temperature(const lm_source *s, const char *hf, double absent, lm_config *c, lm_error *e);

/* Return whether config.json describes the rotation. `{}` in rope_scaling does not count, in rope_parameters
 * it does. */
bool lm_rope_is_given(const lm_source *s);

/* Set the padding row of the embedding created last. */
void lm_set_padding(lm_builder *b, const lm_config *c);

/* Look up an activation by name, such as "gelu_new"; false: unknown. */
bool lm_act_spelled(const char *word, lm_act *out);

/* Read hidden_act or a similar key into act and act_class. */
lm_status lm_read_act(const lm_source *s, const char *hf, lm_act fallback, lm_config *c, lm_error *e);

/* Return the attention of a layer: with the window and its heads, unless it is a full-attention layer. */
lm_attention_spec lm_layer_attention(const lm_config *c, uint32_t layer);

/* Read sliding_window (a number; null or absent: `fallback`, 0 for none) and layer_types. */
lm_status lm_read_window(const lm_source *s, uint32_t fallback, lm_config *c, lm_error *e);

/* Set which layers have the window if there are no layer_types: all except every `every`-th (GGUF:
 * attention.sliding_window_pattern, a number or a list); config.json may contain `every` under `hf`. 1: none,
 * 0: all. */
lm_status lm_read_window_pattern(const lm_source *s, const char *hf, uint32_t every, lm_config *c,
                                 lm_error *e);

/* The same for GGUF files whose layers without a window are the first of every `every`. */
lm_status lm_read_pattern_from_first(const lm_source *s, uint32_t every, lm_config *c, lm_error *e);

/* Read a number that null disables: 0 in this case. */
lm_status lm_read_optional_f32(const lm_source *s, const char *hf, const char *gguf, double fallback,
                               float *out, lm_error *e);

/* Return plain grouped-query attention: heads as in `c`, scale 1/sqrt(head_dim). */
lm_attention_spec lm_plain_attention(const lm_config *c);

/* Check for members of config.json that are not read. LM_UNSUPPORTED: one is known to change the architecture
 * of other families and has a non-neutral value. Others cause a warning. */
lm_status lm_check_keys(const lm_source *s, const lm_family *f, lm_text *warnings, lm_error *e);

/* Warn about keys under the architecture of a GGUF file that the family has not read, unless they are known
 * not to affect the computation. Call after `configure`. */
lm_status lm_check_gguf_keys(const lm_source *s, const lm_family *f, lm_error *e);

#endif
