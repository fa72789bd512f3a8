/* registry.c - find the family of a description and build its program. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/families.h"
#include "base/os/filemap.h"

static const lm_family *const families[] = {
    &lm_family_mixtral,              /* before llama, because its GGUF files have that architecture */
    &lm_family_llama,
    &lm_family_internlm3,
    &lm_family_iquestcoder,
    &lm_family_helium,
    &lm_family_cwm,
    &lm_family_mistral,
    &lm_family_ministral,
    &lm_family_ministral3,
    &lm_family_mistral4,
    &lm_family_qwen2,
    &lm_family_qwen3,
    &lm_family_granite,
    &lm_family_gpt2,
    &lm_family_gpt3,
    &lm_family_gpt_neo,
    &lm_family_opt,
    &lm_family_bloom,
    &lm_family_gpt_bigcode,
    &lm_family_mpt,
    &lm_family_falcon,
    &lm_family_gpt_neox,
    &lm_family_gptj,
    &lm_family_glm4_moe_lite,        /* before DeepSeek's, because its GGUF files have that architecture */
    &lm_family_deepseek_v3,          /* before v2, because its GGUF files have that architecture */
    &lm_family_deepseek_v2,
    &lm_family_phi,
    &lm_family_stablelm,
    &lm_family_starcoder2,
    &lm_family_cohere,
    &lm_family_cohere2,
    &lm_family_cohere2_moe,
    &lm_family_xglm,
    &lm_family_ctrl,
    &lm_family_openai_gpt,
    &lm_family_gemma,
    &lm_family_gemma2,
    &lm_family_vaultgemma,
    &lm_family_gemma3,
    &lm_family_gemma3n,
    &lm_family_gemma4,
    &lm_family_gemma4_unified,
    &lm_family_olmo,
    &lm_family_olmoe,
    &lm_family_olmo3,                /* before olmo2, which has the same architecture in GGUF */
    &lm_family_olmo2,
    &lm_family_flex_olmo,
    &lm_family_axk1,
    &lm_family_exaone4,
    &lm_family_exaone_moe,
    &lm_family_seed_oss,
    &lm_family_arcee,
    &lm_family_jais2,
    &lm_family_nemotron,
    &lm_family_apertus,
    &lm_family_granitemoe_swa,       /* before granite_swa, which has the same architecture in GGUF */
    &lm_family_granite_swa,
    &lm_family_minicpm3,
    &lm_family_nanochat,
    &lm_family_bitnet,
    &lm_family_hunyuan,
    &lm_family_hunyuan_moe,
    &lm_family_hy_v3,
    &lm_family_minimax_m2,
    &lm_family_minimax_m3,
    &lm_family_dots1,
    &lm_family_llama4,
    &lm_family_afmoe,
    &lm_family_laguna,
    &lm_family_mimo_v2_flash,
    &lm_family_smollm3,
    &lm_family_ernie,
    &lm_family_ernie_moe,
    &lm_family_glm,
    &lm_family_glm4,
    &lm_family_phi3,
    &lm_family_phimoe,
    &lm_family_qwen2_moe,
    &lm_family_qwen3_moe,
    &lm_family_granite_moe,
    &lm_family_granite_4,            /* before the others, which have the same model_type */
    &lm_family_bamba,                /* before granite_hybrid, which has the same architecture in GGUF */
    &lm_family_granite_hybrid_moe,   /* before granite_hybrid, which has the same architecture in GGUF */
    &lm_family_granite_hybrid,
    &lm_family_nemotron_h_moe,       /* before nemotron_h, which has the same model_type */
    &lm_family_nemotron_h,
    &lm_family_falcon_h1,
    &lm_family_mamba2,
    &lm_family_kimi_linear,
    &lm_family_falcon_mamba,
    &lm_family_mamba,
    &lm_family_jamba,
    &lm_family_recurrent_gemma,
    &lm_family_bailing_hybrid,
    &lm_family_glm4_moe,
    &lm_family_deepseek_v32, &lm_family_deepseek_v4,
    &lm_family_glm_moe_dsa,
    &lm_family_gpt_oss,
    &lm_family_lfm2,
    &lm_family_lfm2_moe,
    &lm_family_lfm3,
    &lm_family_olmo_hybrid,
    &lm_family_qwen3_next,
    &lm_family_qwen3_5,
    &lm_family_qwen3_5_moe,
};

const lm_family *lm_family_at(size_t i)
{
    return i < sizeof families / sizeof *families ? families[i] : NULL;
}

static bool listed(const char *const *list, lm_view word)
{
    for (; list && *list; list++)
        if (lm_view_is(word, *list))
            return true;
    return false;
}

/* Return whether the key of the family is present, for families that share a GGUF architecture. */
static bool has_key(const lm_source *s, const lm_family *f, lm_view arch)
{
    lm_meta_value v;
    char          key[128];

    if (s->kind != LM_GGUF || !f->gguf_key)
        return true;
    bool        absent = *f->gguf_key == '!';
    const char *name   = f->gguf_key + absent;
    int         size   = (int)strcspn(name, "=");
    const char *value = name[size] ? name + size + 1 : NULL;
    snprintf(key, sizeof key, "%.*s.%.*s", (int)(arch.size < 64 ? arch.size : 64), arch.data, size,
             name);
    if (absent)
        return !lm_meta_has(s->meta, key);
    if (!lm_meta_get(s->meta, key, &v) || (v.kind != LM_META_UINT && v.kind != LM_META_BOOL))
        return false;
    if (v.kind == LM_META_BOOL)
        return v.b;
    return value ? v.u == strtoull(value, NULL, 10) : v.u > 0;
}

static bool unsuited(const lm_source *s, bool (*suits)(const lm_source *s))
{
    return suits && !suits(s);
}

/* Return the first class that config.json names; empty: none. */
static lm_view class_of(const lm_source *s)
{
    lm_view name = { NULL, 0 };

    return s->kind != LM_GGUF && lm_meta_string(s->meta, "architectures/0", &name, NULL) == LM_OK
               ? name
               : (lm_view){ NULL, 0 };
}

/* Warn if config.json names the class of another family: transformers goes by model_type too. */
static void compare_classes(const lm_source *s, const lm_family *f)
{
    lm_view made = class_of(s);
    char    class[64];

    lm_root_class(f, class, sizeof class);
    if (!made.size || lm_view_is(made, class))
        return;
    for (size_t i = 0; lm_family_at(i); i++) {
        lm_root_class(lm_family_at(i), class, sizeof class);
        if (lm_view_is(made, class)) {
            lm_source_warn(s, "architectures names %s, a class of family %s; the model is read as "
                           "model_type says: %s", class, lm_family_at(i)->name, f->name);
            return;
        }
    }
}

/* A configuration without model_type: its class is all that names the model. */
static lm_status lack_type(const lm_source *s, lm_error *e)
{
    lm_view made = class_of(s);

    lm_fail(e, LM_BAD_MODEL, "model_type", LM_NO_OFFSET, "missing, expected the family of %.*s",
            (int)(made.size < 64 ? made.size : 64), made.data);
    return lm_fail_in(e, lm_meta_file(s->meta));
}

lm_status lm_family_find(const lm_source *s, const lm_family **out, lm_error *e)
{
    const char *key = s->kind == LM_GGUF ? "general.architecture" : "model_type";
    lm_view     type;
    lm_text      known = { 0 };

    if (s->kind != LM_GGUF && !lm_meta_has(s->meta, key) && class_of(s).size)
        return lack_type(s, e);
    LM_TRY(lm_meta_string(s->meta, key, &type, e));
    for (size_t i = 0; lm_family_at(i); i++) {
        const lm_family *f = lm_family_at(i);
        if (listed(s->kind == LM_GGUF ? f->gguf_archs : f->hf_types, type) && has_key(s, f, type) &&
            !unsuited(s, s->kind == LM_GGUF ? f->gguf_suits : f->suits)) {
            *out = f;
            lm_text_free(&known);
            return LM_OK;
        }
        if (!i || strcmp(f->name, lm_family_at(i - 1)->name) != 0)
            lm_text_printf(&known, "%s%s", i ? ", " : "", f->name);
    }
    lm_view   made  = class_of(s);
    lm_status status = lm_fail(e, LM_UNSUPPORTED, key, LM_NO_OFFSET,
                               "unknown model family \"%.*s\"%s%.*s (supported: %s)",
                               (int)(type.size < 64 ? type.size : 64), type.data, made.size ? ", class " : "",
                               (int)(made.size < 64 ? made.size : 64), made.size ? made.data : "",
                               known.data ? known.data : "");
    lm_fail_in(e, lm_meta_file(s->meta));
    lm_text_free(&known);
    return status;
}

/* Match a pattern: '*' stands for digits between dots, or at the beginning or the end for anything. */
static bool matches(const char *pattern, const char *name)
{
    if (pattern[0] == '*') {
        size_t n = strlen(name), tail = strlen(pattern + 1);
        return n >= tail && strcmp(name + n - tail, pattern + 1) == 0;
    }
    const char *star = strchr(pattern, '*');
    if (!star)
        return strcmp(pattern, name) == 0;
    size_t head = (size_t)(star - pattern);
    if (strncmp(pattern, name, head) != 0)
        return false;
    if (!star[1])
        return true;
    size_t digits = strspn(name + head, "0123456789");
    return digits && strcmp(name + head + digits, star + 1) == 0;
}

/* Return whether a tensor belongs to a layer after the last, such as "model.layers.61.…" of a model with 61
 * layers. */
static bool is_later_layer(const char *prefix, uint32_t n_layers, const char *tensor)
{
    size_t n = prefix ? strlen(prefix) : 0;

    if (!prefix || strncmp(tensor, prefix, n) != 0 || tensor[n] < '0' || tensor[n] > '9')
        return false;
    return strtoul(tensor + n, NULL, 10) >= n_layers;
}

bool lm_family_ignores(const lm_family *f, uint32_t n_layers, const char *tensor)
{
    /* prefix in checkpoints of the bare decoder */
    const char *bare = f->layers ? strchr(f->layers, '.') + 1 : NULL;

    if (is_later_layer(f->layers, n_layers, tensor) || is_later_layer(bare, n_layers, tensor) ||
        (f->layers && is_later_layer("blk.", n_layers, tensor)))
        return true;
    for (const char *const *i = f->ignorable; i && *i; i++)
        if (matches(*i, tensor))
            return true;
    return false;
}

/* Find the embedding. Checkpoints of the bare decoder omit the first path component. */
static const lm_tensor_info *embedding(const lm_source *s, const char *path)
{
    const lm_tensor_info *t = lm_container_find(s->tensors, path);

    return t || !strchr(path, '.') ? t : lm_container_find(s->tensors, strchr(path, '.') + 1);
}

typedef struct two_heads {
    const void *head, *table;
    uint64_t    bytes;
    bool        differ;
} two_heads;

static lm_status compare_heads(void *arg)
{
    two_heads *t = arg;

    t->differ = memcmp(t->head, t->table, t->bytes) != 0;
    return LM_OK;
}

/* Set *own if a model that ties its head has a stored head that differs from the embedding; transformers then
 * uses the stored one. */
static lm_status find_own_head(const lm_source *s, const lm_program *p, bool *own, lm_error *e)
{
    const lm_tensor_info *head = s->tensors && s->kind != LM_GGUF
                                     ? lm_container_find(s->tensors, "lm_head.weight")
                                     : NULL;
    const lm_tensor_info *table = NULL;

    *own = false;
    if (head)
        table = embedding(s, p->weights[p->nodes[lm_program_head(p)].weights[0]].path);
    if (!head || !table)
        return LM_OK;
    if (head->type != table->type || head->bytes != table->bytes) {
        *own = true;
        return LM_OK;
    }
    two_heads t = { lm_container_data(s->tensors, head), lm_container_data(s->tensors, table), head->bytes,
                    false };
    LM_TRY(lm_filemap_guard(compare_heads, &t, lm_container_file_of(s->tensors, head), e));
    *own = t.differ;
    return LM_OK;
}

/* Read whether the head is tied: GGUF files omit a tied head; config.json has a key for it. */
static lm_status read_tied(const lm_source *s, lm_config *c, lm_error *e)
{
    if (s->kind != LM_GGUF)
        return lm_read_bool(s, "tie_word_embeddings", NULL, false, &c->tied, e);
    c->tied = s->tensors && !lm_has_tensor(s, "output.weight");
    return LM_OK;
}

/* Read what is printed with the model but not needed in the forward pass. */
static lm_status read_printed(const lm_source *s, const lm_family *f, lm_config *c, lm_error *e)
{
    uint32_t pad;

    if (f->pad_token)
        snprintf(c->pad_token, sizeof c->pad_token, "%s", f->pad_token);
    if (s->kind != LM_GGUF && lm_read_u32(s, "pad_token_id", NULL, 0, UINT32_MAX, -1, &pad, NULL) == LM_OK)
        snprintf(c->pad_token, sizeof c->pad_token, "%u", pad);
    for (int i = 0; f->dropout_keys && i < 3; i++)
        LM_TRY(lm_read_f32(s, f->dropout_keys[i], NULL, 0, 1, (double)f->dropout, &c->dropout[i], e));
    return LM_OK;
}

static lm_status build(const lm_source *s, const lm_family *f, const lm_config *c, lm_program **out,
                       lm_error *e)
{
    lm_builder *b = lm_builder_new(f->name, f->class_prefix, f->root_class, f->names);

    if (!b)
        return lm_fail_memory(e, "program", 0);
    lm_context_length(b, c->context_length, false);
    lm_made_in_order(b, f->orders);
    lm_activations_are(b, f->act_name, c->act_class ? c->act_class : f->act_class);
    if (s->latent_naive)
        lm_latent_naive(b);
    lm_ternary_linears(b, &c->ternary);
    lm_value logits = f->build(b, c);
    lm_status status = lm_builder_finish(b, logits, out, e);
    if (status != LM_OK)
        lm_fail_in(e, lm_meta_file(s->meta));
    return status;
}

/* Set the window requested by the caller; warn if it changes the attention of a layer. */
static void set_window(const lm_source *s, lm_config *c, lm_text *warnings)
{
    uint32_t window = s->sliding_window < 0 ? 0 : (uint32_t)s->sliding_window;
    bool     used   = false;

    for (uint32_t i = 0; i < c->n_layers; i++)
        used |= !c->full[i];
    if (used && window != c->attention.window && warnings)
        lm_text_add_str(warnings, "the attention window was set to a value that differs from the file's\n");
    c->attention.window = window;
    c->attention.chunked &= window > 0;
}

/* Warn about layers after the last, which predict further tokens. */
static void report_further(const lm_source *s, const lm_config *c)
{
    const char *form = s->kind == LM_GGUF ? "blk.%u.attn_norm.weight" : "model.layers.%u.input_layernorm.weight";
    char        name[64];

    snprintf(name, sizeof name, form, c->n_layers);
    if (lm_has_tensor(s, name))
        lm_source_warn(s, "layers from %u on predict further tokens: they are not run", c->n_layers);
    else if (c->n_further && s->tensors)
        lm_source_warn(s, "nextn_predict_layers is %u, but the file contains no such layers", c->n_further);
}

/* Configure with the family; for a GGUF file, also check the keys that it has not read. */
static lm_status configure(const lm_source *s, const lm_family *f, lm_config *c, lm_error *e)
{
    lm_text    keys_read = { 0 };
    lm_source noted = *s;

    noted.keys_read = &keys_read;
    lm_status status = f->configure(&noted, c, e);
    if (status == LM_OK && s->kind == LM_GGUF)
        status = keys_read.failed ? lm_fail_memory(e, "keys", keys_read.size)
                                  : lm_check_gguf_keys(&noted, f, e);
    lm_text_free(&keys_read);
    return status;
}

lm_status lm_describe(const lm_source *s, const lm_family **family, lm_config *config, lm_program **out,
                      lm_text *warnings, lm_error *e)
{
    const lm_family *f;
    lm_source        source = *s;
    char             arch[64];
    lm_view          name;

    LM_TRY(lm_family_find(s, &f, e));
    if (s->kind == LM_GGUF) {
        LM_TRY(lm_meta_string(s->meta, "general.architecture", &name, e));
        memcpy(arch, name.data, name.size < sizeof arch ? name.size : sizeof arch - 1);
        arch[name.size < sizeof arch ? name.size : sizeof arch - 1] = '\0';
        source.arch = arch;
    } else {
        LM_TRY(lm_check_keys(s, f, warnings, e));
    }
    source.defaults = f->defaults;
    source.warnings = warnings;
    compare_classes(&source, f);
    memset(config, 0, sizeof *config);
    LM_TRY(read_tied(&source, config, e));
    LM_TRY(read_printed(&source, f, config, e));
    LM_TRY(configure(&source, f, config, e));
    if (f->ternary)
        LM_TRY(lm_read_ternary(&source, config, e));
    if (f->layers)
        report_further(&source, config);
    if (s->kind == LM_GGUF && f->gguf_implied)
        f->gguf_implied(&source, config);
    if (s->sliding_window)
        set_window(s, config, warnings);

    bool own_head = false;
    LM_TRY(build(s, f, config, out, e));
    lm_status status = config->tied ? find_own_head(s, *out, &own_head, e) : LM_OK;
    if (status != LM_OK || own_head) {
        lm_program_free(*out);
        *out = NULL;
        LM_TRY(status);
        config->tied = false;
        if (warnings)
            lm_text_add_str(warnings,
                            "config.json ties the head to the embedding, but the file holds a different "
                            "lm_head.weight: it is used\n");
        LM_TRY(build(s, f, config, out, e));
    }
    *family = f;
    return LM_OK;
}
