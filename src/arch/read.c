/* read.c - read the numbers of a description under the names of its container. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "arch/config.h"

#define MAX_VOCAB  (1u << 24)

const char *lm_gguf_key(const lm_source *s, const char *name, char *buffer, size_t size)
{
    snprintf(buffer, size, "%s.%s", s->arch ? s->arch : "", name);
    if (s->keys_read)
        lm_text_add(s->keys_read, buffer, strlen(buffer) + 1);
    return buffer;
}

void lm_warn_of_pair(const lm_source *s, const char *hf, const char *gguf)
{
    if (s->pair && hf && gguf)
        s->pair(s->pair_arg, hf, gguf);
}

/* Return the key for this container, or NULL if it has none. */
static const char *key_of(const lm_source *s, const char *hf, const char *gguf, char *buffer, size_t size)
{
    lm_warn_of_pair(s, hf, gguf);
    if (s->kind == LM_GGUF)
        return gguf ? lm_gguf_key(s, gguf, buffer, size) : NULL;
    return hf;
}

double lm_default_of(const lm_source *s, const char *hf, double otherwise)
{
    lm_meta_value v;

    if (s->kind == LM_GGUF || !hf || lm_meta_get(s->meta, hf, &v))
        return otherwise;
    for (const lm_default *d = s->defaults; d && d->key; d++)
        if (strcmp(d->key, hf) == 0)
            return d->value;
    return otherwise;
}

/* Check a default against the rest of the file: eight experts per token of four experts would be an error. */
static lm_status check_default(const lm_source *s, const char *key, double value, double min, double max,
                               lm_error *e)
{
    if (value >= min && value <= max)
        return LM_OK;
    lm_fail(e, LM_BAD_MODEL, key, LM_NO_OFFSET, "missing; its default %g is outside %g...%g", value, min,
            max);
    return lm_fail_in(e, lm_meta_file(s->meta));
}

lm_status lm_read_u32(const lm_source *s, const char *hf, const char *gguf, uint32_t min, uint32_t max,
                      int64_t fallback, uint32_t *out, lm_error *e)
{
    char        buffer[128];
    const char *key = key_of(s, hf, gguf, buffer, sizeof buffer);

    double      default_value = lm_default_of(s, hf, -1);

    if (default_value >= 0) {
        *out = (uint32_t)default_value;
        return check_default(s, key, default_value, min, max, e);
    }
    if (fallback >= 0 && (!key || !lm_meta_has(s->meta, key))) {
        *out = (uint32_t)fallback;
        return LM_OK;
    }
    return lm_meta_u32(s->meta, key, min, max, out, e);
}

static lm_status read_f64(const lm_source *s, const char *hf, const char *gguf, double min, double max,
                          double fallback, double *out, lm_error *e)
{
    char        buffer[128];
    const char *key = key_of(s, hf, gguf, buffer, sizeof buffer);

    fallback = lm_default_of(s, hf, fallback);
    if (isnan(fallback) || (key && lm_meta_has(s->meta, key)))
        return lm_meta_f64(s->meta, key, min, max, out, e);
    *out = fallback;
    return LM_OK;
}

lm_status lm_read_f32(const lm_source *s, const char *hf, const char *gguf, double min, double max,
                      double fallback, float *out, lm_error *e)
{
    double value;

    LM_TRY(read_f64(s, hf, gguf, min, max, fallback, &value, e));
    *out = (float)value;
    return LM_OK;
}

lm_status lm_read_bool(const lm_source *s, const char *hf, const char *gguf, bool fallback, bool *out,
                       lm_error *e)
{
    char          buffer[128];
    const char   *key = key_of(s, hf, gguf, buffer, sizeof buffer);
    lm_meta_value v;

    if (s->kind != LM_GGUF && key && lm_meta_get(s->meta, key, &v) && v.kind == LM_META_NULL) {
        *out = false;
        return LM_OK;
    }
    if (!key || !lm_meta_has(s->meta, key)) {
        *out = lm_default_of(s, hf, fallback) != 0;
        return LM_OK;
    }
    return lm_meta_bool(s->meta, key, out, e);
}

static lm_status read_own(const lm_source *s, const lm_own_number *n, unsigned char *own, lm_error *e)
{
    switch (n->kind) {
    case LM_OWN_F64:
        return read_f64(s, n->hf, n->gguf, n->min, n->max, n->absent, (double *)(void *)(own + n->at), e);
    case LM_OWN_F32:
        return lm_read_f32(s, n->hf, n->gguf, n->min, n->max, n->absent, (float *)(void *)(own + n->at), e);
    case LM_OWN_U32:
        return lm_read_u32(s, n->hf, n->gguf, (uint32_t)n->min, (uint32_t)n->max, (int64_t)n->absent,
                           (uint32_t *)(void *)(own + n->at), e);
    case LM_OWN_BOOL:
        return lm_read_bool(s, n->hf, n->gguf, n->absent != 0, (bool *)(void *)(own + n->at), e);
    }
    return LM_OK;
}

double lm_own_value(const lm_config *c, const lm_own_number *n)
{
    const void *at = c->own + n->at;

    switch (n->kind) {
    case LM_OWN_F32:
        return (double)*(const float *)at;
    case LM_OWN_F64:
        return *(const double *)at;
    case LM_OWN_U32:
        return *(const uint32_t *)at;
    case LM_OWN_BOOL:
        return *(const bool *)at;
    }
    return n->absent;
}

lm_status lm_read_own(const lm_source *s, const lm_own_number *table, lm_config *c, lm_error *e)
{
    for (const lm_own_number *n = table; n->hf || n->gguf; n++)
        LM_TRY(read_own(s, n, c->own, e));
    return LM_OK;
}

bool lm_has_tensor(const lm_source *s, const char *name)
{
    return s->tensors && lm_container_find(s->tensors, name);
}

static uint64_t embedding_rows(const lm_source *s)
{
    const lm_tensor_info *table = s->tensors ? lm_container_find(s->tensors, "token_embd.weight") : NULL;

    return table && table->n_dims == 2 ? table->dims[0] : 0;
}

static uint64_t listed_tokens(const lm_source *s)
{
    lm_meta_value tokens;

    return lm_meta_get(s->meta, "tokenizer.ggml.tokens", &tokens) && tokens.kind == LM_META_ARRAY ? tokens.a.n
                                                                                                  : 0;
}

/* GGUF may omit the size of the vocabulary: then it is the number of rows of the embedding, otherwise that of
 * the tokenizer's list. If present, it must match one of them: the table may be padded and have more rows
 * than there are tokens. */
lm_status lm_read_vocabulary(const lm_source *s, lm_config *c, lm_error *e)
{
    char     key[128];
    uint64_t rows = embedding_rows(s), tokens = listed_tokens(s), n = rows ? rows : tokens;

    if (s->kind != LM_GGUF)
        return lm_read_u32(s, "vocab_size", NULL, 1, MAX_VOCAB, -1, &c->vocab_size, e);
    LM_TRY(lm_read_u32(s, NULL, "vocab_size", 1, MAX_VOCAB, n >= 1 && n <= MAX_VOCAB ? (int64_t)n : -1,
                       &c->vocab_size, e));
    if (!n || n > MAX_VOCAB)
        return LM_OK;
    if (c->vocab_size != n && c->vocab_size != tokens) {
        lm_fail(e, LM_BAD_MODEL, lm_gguf_key(s, "vocab_size", key, sizeof key), LM_NO_OFFSET,
                "%u, but token_embd.weight has %" PRIu64 " rows and tokenizer.ggml.tokens %" PRIu64
                " elements",
                c->vocab_size, rows, tokens);
        return lm_fail_in(e, lm_meta_file(s->meta));
    }
    c->vocab_size = (uint32_t)n;
    return LM_OK;
}

lm_status lm_read_own_heads(const lm_source *s, lm_config *c, lm_error *e)
{
    char     key[128];
    uint32_t n;

    c->n_kv_heads = c->n_heads;
    LM_TRY(lm_read_u32(s, NULL, "attention.head_count_kv", 1, LM_MAX_HEADS, c->n_heads, &n, e));
    if (n == c->n_heads)
        return LM_OK;
    lm_fail(e, LM_BAD_MODEL, lm_gguf_key(s, "attention.head_count_kv", key, sizeof key), LM_NO_OFFSET,
            "%u, but attention.head_count is %u and every head has its own keys and values in this family", n,
            c->n_heads);
    return lm_fail_in(e, lm_meta_file(s->meta));
}

lm_status lm_wrong(const lm_source *s, const char *hf, const char *gguf, lm_error *e, const char *format, ...)
{
    char    buffer[128], message[256];
    va_list args;

    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    lm_fail(e, LM_BAD_MODEL, key_of(s, hf, gguf, buffer, sizeof buffer), LM_NO_OFFSET, "%s", message);
    return lm_fail_in(e, lm_meta_file(s->meta));
}

void lm_source_warn(const lm_source *s, const char *format, ...)
{
    char    line[256];
    va_list args;

    if (!s->warnings)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    lm_text_printf(s->warnings, "%s\n", line);
}

lm_status lm_no_form(const lm_source *s, const char *key, const char *why, lm_error *e)
{
    lm_fail(e, LM_UNSUPPORTED, key, LM_NO_OFFSET, "%s", why);
    return lm_fail_in(e, lm_meta_file(s->meta));
}

/* head_dim may differ from hidden / heads (Mistral-Nemo); if it is absent, heads must divide hidden. */
lm_status lm_read_key_dim(const lm_source *s, const char *hf, lm_config *c, lm_error *e)
{
    LM_TRY(lm_read_u32(s, "head_dim", "attention.key_length", 1, 65536, 0, &c->head_dim, e));
    if (c->head_dim == 0) {
        if (c->hidden % c->n_heads)
            return lm_wrong(s, hf, "attention.head_count", e,
                            "%u heads do not divide the width of %u, and no head width is given", c->n_heads,
                            c->hidden);
        c->head_dim = c->hidden / c->n_heads;
    }
    if ((uint64_t)c->n_heads * c->head_dim > LM_MAX_WIDTH)
        return lm_wrong(s, "head_dim", "attention.key_length", e,
                        "%u heads times a width of %u are beyond %u", c->n_heads, c->head_dim, LM_MAX_WIDTH);
    return LM_OK;
}

lm_status lm_read_head_dim(const lm_source *s, const char *hf, lm_config *c, lm_error *e)
{
    uint32_t v_dim;

    LM_TRY(lm_read_key_dim(s, hf, c, e));
    LM_TRY(lm_read_u32(s, NULL, "attention.value_length", 1, 65536, c->head_dim, &v_dim, e));
    return v_dim == c->head_dim
               ? LM_OK
               : lm_wrong(s, NULL, "attention.value_length", e,
                          "%u dimensions, but keys have %u: this family has no form for that", v_dim,
                          c->head_dim);
}

lm_status lm_expect_word(const lm_source *s, const char *key, const char *word, lm_error *e)
{
    lm_view found;

    if (s->kind == LM_GGUF || !lm_meta_has(s->meta, key))
        return LM_OK;
    LM_TRY(lm_meta_string(s->meta, key, &found, e));
    return lm_view_is(found, word) ? LM_OK
                                   : lm_no_form(s, key, "has a value that this family does not support", e);
}

lm_status lm_expect_bool(const lm_source *s, const char *key, bool value, lm_error *e)
{
    bool found;

    LM_TRY(lm_read_bool(s, key, NULL, value, &found, e));
    return found == value ? LM_OK
                          : lm_no_form(s, key, found ? "true is not supported; false is expected"
                                                     : "false is not supported; true is expected", e);
}

void lm_set_padding(lm_builder *b, const lm_config *c)
{
    if (*c->pad_token)
        lm_module_arguments(b, "padding_idx=%s", c->pad_token);
}

/* Activations as config.json spells them. class_name: transformers' class, if it is not that of the
 * function. */
static const struct {
    const char *name, *class_name;
    lm_act      act;
} spelled_acts[] = {
    { "silu", NULL, LM_ACT_SILU },
    { "swish", NULL, LM_ACT_SILU },
    { "gelu", NULL, LM_ACT_GELU },
    { "gelu_new", "NewGELUActivation", LM_ACT_GELU_TANH },
    { "gelu_fast", "FastGELUActivation", LM_ACT_GELU_TANH },
    { "gelu_pytorch_tanh", NULL, LM_ACT_GELU_TANH },
    { "quick_gelu", "QuickGELUActivation", LM_ACT_GELU_QUICK },
    { "relu", NULL, LM_ACT_RELU },
    { "relu2", "ReLUSquaredActivation", LM_ACT_RELU2 },
};

static size_t find_act(lm_view word)
{
    size_t i = 0;

    while (i < sizeof spelled_acts / sizeof *spelled_acts && !lm_view_is(word, spelled_acts[i].name))
        i++;
    return i;
}

bool lm_act_spelled(const char *word, lm_act *out)
{
    size_t i = find_act((lm_view){ word, strlen(word) });

    if (i == sizeof spelled_acts / sizeof *spelled_acts)
        return false;
    *out = spelled_acts[i].act;
    return true;
}

lm_status lm_read_act(const lm_source *s, const char *hf, lm_act fallback, lm_config *c, lm_error *e)
{
    lm_view word;

    c->act       = fallback;
    c->act_class = NULL;
    if (s->kind == LM_GGUF || !lm_meta_has(s->meta, hf))
        return LM_OK;
    LM_TRY(lm_meta_string(s->meta, hf, &word, e));
    size_t i = find_act(word);
    if (i < sizeof spelled_acts / sizeof *spelled_acts) {
        c->act       = spelled_acts[i].act;
        c->act_class = spelled_acts[i].class_name ? spelled_acts[i].class_name : lm_act_class(c->act);
        return LM_OK;
    }
    lm_fail(e, LM_UNSUPPORTED, hf, LM_NO_OFFSET, "unknown activation \"%.*s\"",
            (int)(word.size < 64 ? word.size : 64), word.data);
    return lm_fail_in(e, lm_meta_file(s->meta));
}

lm_attention_spec lm_plain_attention(const lm_config *c)
{
    return (lm_attention_spec){
        .n_heads    = c->n_heads,
        .n_kv_heads = c->n_kv_heads,
        .k_dim      = c->head_dim,
        .v_dim      = c->head_dim,
        .scale      = 1 / sqrtf((float)c->head_dim),
    };
}

lm_status lm_read_optional_f32(const lm_source *s, const char *hf, const char *gguf, double fallback,
                               float *out, lm_error *e)
{
    lm_meta_value v;

    if (s->kind != LM_GGUF && hf && lm_meta_get(s->meta, hf, &v) && v.kind == LM_META_NULL) {
        *out = 0;
        return LM_OK;
    }
    return lm_read_f32(s, hf, gguf, 1e-9, 1e9, fallback, out, e);
}
