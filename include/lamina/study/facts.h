/* study/facts.h - facts about a model: a tree of typed values, each with its unit and origin.
 *
 * Every number is taken from the program and the plan that run. Groups are computed on first access, so a
 * query costs only its own computation. A path names a fact:
 *
 *   parameters.total   kv.bytes_at_context   rope.theta[31]   kv.at[8192].bytes
 *                      layers[3].self_attn.q_proj.shape
 *   model.layers.3.self_attn.q_proj.parameters            (any module, by its own path)
 *
 * docs/study/facts.md lists them. */
#ifndef LAMINA_FACTS_H
#define LAMINA_FACTS_H

#include "lamina/study/device.h"
#include "lamina/engine.h"
#include "lamina/language.h"
#include "lamina/machine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lm_fact_kind {
    LM_FACT_NONE,                    /* known to be absent: null in JSON */
    LM_FACT_BOOL,
    LM_FACT_COUNT,                   /* an exact integer; values of 2^63 or more are LM_FACT_NUMBER */
    LM_FACT_NUMBER,
    LM_FACT_TEXT,
    LM_FACT_GROUP,                   /* named facts */
    LM_FACT_LIST,                    /* facts by index, from 0 */
    LM_FACT_TABLE,                   /* facts by any number: kv.at[4096]; computed on access */
} lm_fact_kind;

/* Unit of a number. For display: lm_unit_name. */
#define LM_UNIT_LIST(X)                                                                               \
    X(LM_UNIT_NONE, "")                                                                               \
    X(LM_UNIT_PARAMETERS, "parameters") X(LM_UNIT_BYTES, "bytes") X(LM_UNIT_FLOPS, "FLOP")            \
        X(LM_UNIT_MULT_ADDS, "mult-adds") X(LM_UNIT_ELEMENTS, "elements") X(LM_UNIT_TOKENS, "tokens") \
            X(LM_UNIT_LAYERS, "layers") X(LM_UNIT_HEADS, "heads") X(LM_UNIT_LANES, "lanes")           \
                X(LM_UNIT_RATIO, "ratio") X(LM_UNIT_PERCENT, "%") X(LM_UNIT_RADIANS, "rad/token")     \
                    X(LM_UNIT_TOKENS_PER_SECOND, "tokens/s") X(LM_UNIT_SECONDS, "s")                  \
                        X(LM_UNIT_BYTES_PER_SECOND, "bytes/s") X(LM_UNIT_FLOPS_PER_SECOND, "FLOP/s")  \
                            X(LM_UNIT_EXPERTS, "experts")

typedef enum lm_unit {
#define X(name, word) name,
    LM_UNIT_LIST(X)
#undef X
    LM_UNITS
} lm_unit;

/* Where a fact comes from. */
#define LM_ORIGIN_LIST(X)                                                             \
    X(LM_FROM_PROGRAM, "program")        /* operations and weights of the program */  \
    X(LM_FROM_CONFIG, "config")          /* a key of the model's configuration */     \
    X(LM_FROM_TENSOR, "tensor")          /* the file's tensor directory */            \
    X(LM_FROM_PLAN, "plan")              /* memory that the engine would allocate */  \
    X(LM_FROM_MEASURE, "measured")       /* on this machine */                        \
    X(LM_FROM_PUBLISHED, "published")    /* published data; the source is in `how` */ \
    X(LM_FROM_REQUEST, "request")        /* requested: context, batch, cache type */  \
    X(LM_FROM_RULE, "rule")              /* a convention, stated in `how` */          \
    X(LM_FROM_WHAT_IF, "what-if")        /* the program with one thing changed, stated in `how` */

typedef enum lm_origin {
#define X(name, word) name,
    LM_ORIGIN_LIST(X)
#undef X
    LM_ORIGINS
} lm_origin;

typedef struct lm_facts lm_facts;

/* Description of a fact. Fields that do not apply to its kind are 0 or NULL. */
typedef struct lm_fact lm_fact;

typedef struct lm_fact_info {
    const char  *name;               /* in its group; NULL: a list item with `index` */
    uint64_t     index;
    lm_fact_kind kind;
    lm_unit      unit;
    lm_origin    origin;
    const char  *how;                /* "sum over all weights", "config.json: rope_theta"; NULL: none */
    bool         truth;
    uint64_t     count;              /* for groups and lists: their size */
    double       number;             /* for a count: the same value */
    const char  *text;
    const char  *id;                 /* stable identifier of a text from a fixed list; the text may change.
                                        NULL: none */
    uint64_t     reserved[4];        /* zero */
} lm_fact_info;

/* Strings live as long as the facts. A group is computed first. */
void lm_fact_describe(const lm_fact *x, lm_fact_info *out);

typedef struct lm_facts_options {
    lm_engine_options engine;        /* context, sequences, cache type, threads … as for lm_engine_new */
    uint32_t     tokens;             /* tokens of the forward pass for costs per module, batch 1; 0: 4, as
                                        usual with torchinfo */
    const char  *precision;          /* assumed type of the weights ("Q4_K_M", "f16", "int4"); NULL: as
                                        stored, else the type in the configuration, else f16 */
    uint32_t     rank;               /* of LoRA adapters; 0: 16 */
    const lm_limits *limits;         /* for predicted speed; NULL: those of this machine, if they have been
                                        measured */
    const lm_device *device;         /* predict speed and plan for a device of the catalogue, by its maker's
                                        data, instead of this machine: results do not depend on the machine
                                        then */
    const char  *name;               /* name of the model on pages; NULL: its own name. Copied */
    uint64_t     reserved[3];        /* zero */
} lm_facts_options;

lm_facts_options lm_facts_defaults(void);

/* `m` must outlive the facts. Errors: as lm_engine_predict; LM_USAGE: an unknown precision. Not
 * thread-safe. */
lm_status lm_facts_new(const lm_model *m, const lm_facts_options *o, lm_facts **out, lm_error *e);
void      lm_facts_free(lm_facts *f);

const lm_fact *lm_facts_root(lm_facts *f);

/* The facts of a group or list, in order; NULL past the end and in tables. */
const lm_fact *lm_fact_first(const lm_fact *group);
const lm_fact *lm_fact_next(const lm_fact *x);

/* Find a fact by path. LM_NOT_FOUND names the missing part and similar names. */
lm_status lm_facts_find(lm_facts *f, const char *path, const lm_fact **out, lm_error *e);

/* Find a fact by a common name: a path, with or without jq's leading dot (".parameters.total"); a key of
 * config.json ("hidden_size", "rope_scaling.factor"), even if the model's configuration names it differently;
 * a usual name ("kv cache per token"); a module of a layer ("q_proj.shape"). A hint suggests a similar
 * name. */
lm_status lm_facts_named(lm_facts *f, const char *name, const lm_fact **out, lm_error *e);

/* Values of existing paths: 0, 0.0, "" or false if a path does not exist, which lm_facts_check reports later.
 * A count of 2^63 or more is UINT64_MAX; use lm_facts_number for it. */
uint64_t    lm_facts_count(lm_facts *f, const char *path, ...) LM_PRINTF(2, 3);
double      lm_facts_number(lm_facts *f, const char *path, ...) LM_PRINTF(2, 3);
const char *lm_facts_text(lm_facts *f, const char *path, ...) LM_PRINTF(2, 3);
bool        lm_facts_truth(lm_facts *f, const char *path, ...) LM_PRINTF(2, 3);
bool        lm_facts_has(lm_facts *f, const char *path, ...) LM_PRINTF(2, 3);

/* The same for a complete path, for languages without variadic calls. */
uint64_t    lm_facts_count_at(lm_facts *f, const char *path);
double      lm_facts_number_at(lm_facts *f, const char *path);
const char *lm_facts_text_at(lm_facts *f, const char *path);
bool        lm_facts_truth_at(lm_facts *f, const char *path);
bool        lm_facts_has_at(lm_facts *f, const char *path);

/* The first error of these functions: LM_NO_MEMORY, or a path that does not exist. */
lm_status lm_facts_check(const lm_facts *f, lm_error *e);

/* A fact, a group, or with path NULL everything, as a JSON document (docs/schema/inspect.schema.json). */
lm_status lm_facts_json(lm_facts *f, const char *path, lm_text *out, lm_error *e);

/* The path of a fact, appended. */
void lm_fact_path(const lm_fact *x, lm_text *out);

const char *lm_unit_name(lm_unit u);
const char *lm_origin_name(lm_origin o);

/* ---- checking statements about a model ---- */
typedef enum lm_claim {
    LM_CLAIM_CONFIRMED,
    LM_CLAIM_ROUNDED,
    LM_CLAIM_WRONG,
    LM_CLAIM_NOT_CHECKABLE
} lm_claim;

const char *lm_claim_word(lm_claim c);           /* "confirmed" … */

typedef struct lm_judgement {
    lm_claim verdict;
    char     path[128];              /* of the fact; "" when there is none */
    char     truth[160];             /* its value */
    char     why[96];                /* the likely error, or why it cannot be checked; "" */
    const char *nearest;             /* for an unknown quantity: a similar one, valid as long as the facts;
                                        NULL: none */
    const char *derivation;          /* how the fact follows: "config.json: rope_theta"; valid as long as the
                                        facts; NULL: none */
    uint64_t reserved[2];            /* zero */
} lm_judgement;

/* Check a statement. `quantity`: a common name ("num_hidden_layers", "params.total") or a path; `claim`:
 * "3.6B", "7213.50 MB", "GQA". LM_OK for every verdict. */
lm_status lm_facts_judge(lm_facts *f, const char *quantity, const char *claim, lm_judgement *out,
                         lm_error *e);

/* ---- views: pages made of facts ---- */
typedef struct lm_view_options {
    const char *view;                /* "info", "layers", "flops" …: lm_view_at lists them; NULL: the
                                        overview */
    bool        one_layer;           /* only decoder layer `layer`; else all */
    int32_t     layer;
    uint32_t    depth;               /* of trees; 0: the view's default */
    uint32_t    columns;             /* of the terminal; 0: 80 */
    bool        lines;               /* use box-drawing characters and bars, for a terminal */
    bool        json;                /* a JSON document instead of a page: {view, blocks} with exact values,
                                        or {view, text} for views that are one text */
    bool        compatible;          /* view torchinfo: exactly as torchinfo 1.8.0, with its double counts */
    lm_language language;
    const char *more;                /* last line of the overview and torchinfo, from the caller; NULL:
                                        none */
    uint64_t    reserved[4];         /* zero */
} lm_view_options;

lm_view_options lm_view_defaults(void);

/* The i-th view and its summary; NULL past the end. */
const char *lm_view_at(size_t i, const char **summary);

/* Write a view. LM_USAGE: an unknown view or layer. */
lm_status lm_facts_view(lm_facts *f, const lm_view_options *o, lm_text *out, lm_error *e);

#ifdef __cplusplus
}
#endif
#endif
