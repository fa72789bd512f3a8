/* model.c - open a model. */
#include "runtime/model/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/language.h"
#include "base/alloc.h"
#include "base/os/logline.h"
#include "formats/configfile.h"
#include "formats/endkeys.h"
#include "lamina/describe.h"
#include "runtime/model/divide.h"
#include "runtime/model/fingerprint.h"
#include "runtime/model/open_tokenizer.h"

/* ---- the source ---- */

static bool ends_with(const char *s, const char *suffix)
{
    return lm_view_ends(lm_view_of(s), lm_view_of(suffix));
}

static lm_status open_config(lm_model *m, const char *path, lm_error *e)
{
    char     *text;
    size_t    size;
    lm_status status;

    LM_TRY(lm_config_read(path, &text, &size, e));
    status = lm_config_parse(text, size, lm_config_name(path), &m->warnings, &m->config_json, e);
    lm_free(text);
    return status;
}

/* Return the path of a file of the folder; NULL if it has none of this name. */
static const char *file_inside(lm_model *m, const char *folder, const char *name)
{
    char *path = lm_arena_printf(&m->arena, "%s/%s", folder, name);

    return path && lm_path_is_file(path) ? path : NULL;
}

/* Return the config.json to open by itself, also inside a folder whose weights must not be read or are
 * missing; NULL: none. */
static const char *config_path(lm_model *m, const char *path, const lm_model_options *o)
{
    if (lm_config_is_file(path) || ((o->structure_only || o->weights_optional) && lm_config_is_stream(path)))
        return path;
    if (!lm_path_is_folder(path))
        return NULL;
    bool weights = file_inside(m, path, "model.safetensors") ||
                   file_inside(m, path, "model.safetensors.index.json");
    return o->structure_only || (o->weights_optional && !weights) ? file_inside(m, path, "config.json")
                                                                  : NULL;
}

static lm_status open_preset(lm_model *m, const char *name, lm_error *e)
{
    LM_TRY(lm_preset_find(name, &m->preset, e));
    return lm_meta_from_json(m->preset->config, strlen(m->preset->config), m->preset->name, 32,
                             &m->config_json, e);
}

static lm_status without_weights(const char *path, const char *made_from, lm_error *e)
{
    lm_fail(e, LM_USAGE, path, LM_NO_OFFSET, "this model has no weights and cannot be run");
    return lm_fail_hint(e, "use `synth` %s OUT.gguf to create it with random weights", made_from);
}

static lm_container_options container_options(const lm_model_options *o)
{
    return (lm_container_options){ o->no_mmap, o->progress, o->progress_arg, o->structure_only };
}

static lm_status reject_adapter(const lm_container *c, const char *path, lm_error *e)
{
    const lm_meta *meta = lm_container_meta(c);
    lm_view        type = { 0 }, base = { 0 };

    if (lm_container_kind_of(c) != LM_GGUF || !meta || !lm_meta_has(meta, "general.type") ||
        lm_meta_string(meta, "general.type", &type, NULL) != LM_OK || !lm_view_is(type, "adapter"))
        return LM_OK;
    if (lm_meta_has(meta, "general.base_model.0.name"))
        lm_meta_string(meta, "general.base_model.0.name", &base, NULL);
    lm_fail(e, LM_BAD_MODEL, NULL, LM_NO_OFFSET, "an adapter%s%.*s, not a model", base.size ? " for " : "",
            (int)base.size, base.data ? base.data : "");
    return lm_fail_in(e, path);
}

static lm_status open_source(lm_model *m, const char *path, const lm_model_options *o, lm_error *e)
{
    bool        preset = strncmp(path, LM_PRESET_PREFIX, strlen(LM_PRESET_PREFIX)) == 0;
    const char *name   = preset ? path + strlen(LM_PRESET_PREFIX) : NULL;
    const char *config = preset ? NULL : config_path(m, path, o);

    if (config && !o->structure_only && !o->weights_optional) {
        LM_TRY(open_config(m, config, e));
        if (!lm_meta_has(m->config_json, "model_type"))
            return lm_fail(e, LM_BAD_MODEL, path, LM_NO_OFFSET,
                           "neither weights nor the config.json of a model");
    }
    if ((preset || config) && !o->structure_only && !o->weights_optional)
        return without_weights(preset ? name : path, preset ? name : config, e);
    if (preset)
        return open_preset(m, name, e);
    if (config && (config == path || !o->structure_only))
        return open_config(m, config, e);
    /* a folder whose weights must not be read is opened for its other files, such as the chat template */
    lm_container_options c = container_options(o);
    LM_TRY(lm_container_open(path, &c, &m->container, e));
    LM_TRY(reject_adapter(m->container, path, e));
    if (ends_with(path, ".safetensors") && lm_path_is_file(path))
        return lm_fail(e, LM_USAGE, path, LM_NO_OFFSET,
                       "weights alone: name the folder that has them and config.json");
    return LM_OK;
}

static bool has_latents(const lm_program *p)
{
    for (uint32_t i = 0; i < p->n_weights; i++)
        if (p->weights[i].kind == LM_HEADS && !p->weights[i].joint.by_head)
            return true;
    return false;
}

static bool changes_rope(const lm_model_options *o)
{
    return o->rope_scaling || o->rope_freq_base > 0 || o->rope_freq_scale > 0 || o->yarn_orig_ctx;
}

static lm_status check_options(const lm_model_options *o, lm_error *e)
{
    const char *scaling = o->rope_scaling;

    if (scaling && strcmp(scaling, "none") != 0 && strcmp(scaling, "linear") != 0 &&
        strcmp(scaling, "yarn") != 0)
        return lm_fail(e, LM_USAGE, "rope-scaling", LM_NO_OFFSET, "\"%s\" is not one of none, linear, yarn",
                       scaling);
    if (scaling && strcmp(scaling, "none") == 0 && (o->rope_freq_scale > 0 || o->yarn_orig_ctx))
        return lm_fail(e, LM_USAGE, "rope-scaling", LM_NO_OFFSET,
                       "\"none\" cannot be combined with a factor or an original context");
    if (o->mla && !o->adaptable && strcmp(o->mla, "naive") != 0 && strcmp(o->mla, "absorbed") != 0)
        return lm_fail(e, LM_USAGE, "mla", LM_NO_OFFSET, "\"%s\" is not one of absorbed, naive", o->mla);
    return LM_OK;
}

static lm_status describe(lm_model *m, const lm_model_options *o, lm_error *e)
{
    lm_source s = {
        .kind            = m->container ? lm_container_kind_of(m->container) : LM_SAFETENSORS,
        .meta            = m->container ? lm_container_meta(m->container) : m->config_json,
        .tensors         = m->container,
        .rope_scaling    = o->rope_scaling,
        .rope_freq_base  = o->rope_freq_base,
        .rope_freq_scale = o->rope_freq_scale,
        .yarn_orig_ctx   = o->yarn_orig_ctx,
        .sliding_window   = o->sliding_window,
        .latent_naive     = o->adaptable || (o->mla && strcmp(o->mla, "naive") == 0),
    };

    LM_TRY(check_options(o, e));
    LM_TRY(lm_describe(&s, &m->family, &m->config, &m->program, &m->warnings, e));
    if (m->config.ternary.class_name && m->container)
        LM_TRY(lm_container_ternary(m->container, m->config.ternary.online, e));
    if (changes_rope(o))
        lm_text_add_str(&m->warnings,
                        m->program->n_ropes
                            ? "the RoPE options replace the rotary embedding of the file\n"
                            : "the model has no rotary embedding: the RoPE options have no effect\n");
    if (o->yarn_orig_ctx && (m->config.rope.type == LM_ROPE_DEFAULT || m->config.rope.type == LM_ROPE_LINEAR))
        lm_text_add_str(&m->warnings,
                        "the rotation has no original context: `yarn_orig_ctx` has no effect\n");
    if (o->mla && !has_latents(m->program))
        lm_text_add_str(&m->warnings, "the model has no latent attention: the MLA option has no effect\n");
    return LM_OK;
}

/* ---- types ---- */

/* Find the type that holds most bytes of the program's weights. A weight that is part of a tensor counts by
 * itself, one that is split over several tensors as a whole. */
static void find_storage(lm_model *m)
{
    uint64_t bytes[256] = { 0 };
    lm_dtype best       = LM_F32;

    for (uint32_t i = 0; m->tensors && i < m->program->n_weights; i++) {
        lm_dtype             t = m->types[i];
        const lm_dtype_info *d = lm_dtype_of(t);
        bytes[t] += m->program->weights[i].elements / d->block * d->bytes;
        if (bytes[t] > bytes[best])
            best = t;
    }
    m->storage = m->tensors ? lm_arena_strdup(&m->arena, lm_dtype_of(best)->name) : NULL;
}

lm_dtype lm_model_published_type(const lm_model *m)
{
    static const struct { const char *name; lm_dtype type; } named[] = {
        { "float32", LM_F32 }, { "bfloat16", LM_BF16 }, { "float16", LM_F16 },
    };
    const lm_meta *config = m->container ? lm_container_meta(m->container) : m->config_json;
    lm_view        word   = { 0 };

    if (config && lm_meta_string(config, "torch_dtype", &word, NULL) != LM_OK)
        lm_meta_string(config, "dtype", &word, NULL);
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (lm_view_is(word, named[i].name))
            return named[i].type;
    return LM_F16;
}

/* Set the types of a description without weights; vectors are always float32 in memory. */
static void assume_types(lm_model *m)
{
    lm_dtype type = lm_model_published_type(m);

    for (uint32_t i = 0; i < m->program->n_weights; i++)
        m->types[i] = m->program->weights[i].kind == LM_VECTOR ? LM_F32 : type;
}

/* ---- end tokens ---- */

/* Like transformers, accept an id outside the vocabulary: it never occurs. */
static void add_end_id(lm_model *m, const lm_meta_value *v)
{
    if (v->kind == LM_META_UINT && v->u >= m->program->n_vocab)
        lm_text_printf(&m->warnings, "eos_token_id %llu is outside the vocabulary of %u and ends nothing\n",
                       (unsigned long long)v->u, m->program->n_vocab);
    else if (v->kind == LM_META_UINT && v->u < INT32_MAX && m->n_end_ids < LM_MAX_END_IDS)
        m->end_ids[m->n_end_ids++] = (lm_token)v->u;
}

static void add_end_ids(lm_model *m, const lm_meta *meta)
{
    lm_meta_value v, item;

    if (!meta || !lm_meta_get(meta, "eos_token_id", &v))
        return;
    add_end_id(m, &v);
    for (uint64_t i = 0; v.kind == LM_META_ARRAY && i < v.a.n; i++)
        if (lm_meta_at(&v, i, &item))
            add_end_id(m, &item);
}

/* The tokenizer has the end tokens of a GGUF file, unless there is none. */
static lm_status add_end_keys(lm_model *m, lm_error *e)
{
    const lm_meta *meta = lm_container_meta(m->container);
    lm_end_keys    keys;
    lm_meta_value  v;

    if (m->tokenizer)
        return LM_OK;
    if (lm_meta_get(meta, "tokenizer.ggml.eos_token_id", &v))
        add_end_id(m, &v);
    LM_TRY(lm_end_keys_read(meta, UINT32_MAX, &keys, e));
    for (uint32_t i = 0; i < keys.n; i++)
        add_end_id(m, &(lm_meta_value){ .kind = LM_META_UINT, .u = (uint64_t)keys.ids[i] });
    return LM_OK;
}

static lm_status find_end_ids(lm_model *m, lm_error *e)
{
    const lm_meta *generation = NULL;

    if (!m->container) {
        add_end_ids(m, m->config_json);
    } else if (lm_container_kind_of(m->container) != LM_GGUF) {
        LM_TRY(lm_container_json(m->container, "generation_config.json", &generation, e));
        add_end_ids(m, generation);
        add_end_ids(m, lm_container_meta(m->container));
    } else {
        return add_end_keys(m, e);
    }
    return LM_OK;
}

/* ---- open, close, describe ---- */

/* Read the tokenizer. Counting, measuring and running ids do not need one: if it is optional, one of an
 * unsupported kind is left out. */
static lm_status read_tokenizer(lm_model *m, const lm_model_options *o, lm_error *e)
{
    lm_tokenizer_options t   = { .pre = o->pre };
    lm_error             why = { .offset = LM_NO_OFFSET };
    const char          *warning;

    if (!m->container)
        return LM_OK;
    lm_status status = lm_tokenizer_from_container(m->container, &t, &m->tokenizer, &why);
    if (status == LM_UNSUPPORTED && o->tokenizer_optional)
        lm_text_printf(&m->warnings, "the tokenizer is left out: %s%s%s\n", why.where, *why.where ? ": " : "",
                       why.message);
    else if (status != LM_OK && e)
        *e = why;
    for (size_t i = 0; status == LM_OK && m->tokenizer && (warning = lm_tokenizer_warning(m->tokenizer, i));
         i++)
        lm_text_printf(&m->warnings, "%s\n", warning);
    return status == LM_UNSUPPORTED && o->tokenizer_optional ? LM_OK : status;
}

/* Check that every token has a row of the embedding; more rows are padding. transformers runs a folder as
 * long as no such token is used; GGUF readers reject the file. */
static lm_status check_rows(lm_model *m, lm_error *e)
{
    uint32_t tokens = m->tokenizer ? lm_tokenizer_size(m->tokenizer) : 0, rows = m->program->n_vocab;

    if (tokens <= rows)
        return LM_OK;
    if (lm_container_kind_of(m->container) == LM_GGUF) {
        lm_fail(e, LM_BAD_MODEL, "tokenizer.ggml.tokens", LM_NO_OFFSET,
                "%u tokens, but token_embd.weight has %u rows", tokens, rows);
        return lm_fail_in(e, lm_container_path(m->container));
    }
    lm_text_printf(&m->warnings,
                   "the tokenizer has %u tokens, the embedding %u rows: the last cannot be used\n", tokens,
                   rows);
    return LM_OK;
}

static void log_model(const lm_model *m, const lm_log *log)
{
    const char *warning;

    for (size_t i = 0; (warning = lm_model_warning(m, i)); i++)
        lm_log_line(log, LM_LOG_WARNING, "%s", warning);
    lm_log_line(log, LM_LOG_INFO, "model: %s, %s, %s, %" PRIu64 " parameters", m->name, m->family->name,
                lm_model_container_name(m), lm_program_parameters(m->program));
}

/* Build the model from an opened source. */
static lm_status make_model(lm_model *m, const char *path, const lm_model_options *o, lm_error *e)
{
    if (m->container && lm_container_warning(m->container))
        lm_text_printf(&m->warnings, "%s\n", lm_container_warning(m->container));
    LM_TRY(describe(m, o, e));
    m->types       = lm_arena_new(&m->arena, m->program->n_weights + 1, lm_dtype);
    m->transposed  = lm_arena_new(&m->arena, m->program->n_weights + 1, bool);
    m->jointly     = lm_arena_new(&m->arena, m->program->n_weights + 1, bool);
    m->interleaved = lm_arena_new(&m->arena, m->program->n_weights + 1, bool);
    if (!m->types || !m->transposed || !m->jointly || !m->interleaved)
        return lm_fail_memory(e, "model", 0);
    if (m->container && lm_container_n_tensors(m->container))
        LM_TRY(lm_model_bind(m, o->allow_unused, e));
    else if (!o->structure_only && m->container) {
        lm_fail(e, LM_BAD_MODEL, NULL, LM_NO_OFFSET, "there are no weights");
        return lm_fail_in(e, path);
    }
    if (!m->tensors)
        assume_types(m);
    lm_model_find_name(m, path);
    find_storage(m);
    m->overrides = lm_model_overrides(&m->arena, o);
    if (m->container && lm_container_kind_of(m->container) != LM_GGUF)
        LM_TRY(lm_container_text(m->container, "config.json", &m->config_text, e));
    LM_TRY(lm_model_find_templates(m, e));
    LM_TRY(read_tokenizer(m, o, e));
    LM_TRY(find_end_ids(m, e));
    LM_TRY(lm_model_read_sampling(m, e));
    LM_TRY(check_rows(m, e));
    if (!m->name || !m->source || !m->overrides || m->warnings.failed)
        return lm_fail_memory(e, "model", 0);
    for (size_t i = 0; i < m->warnings.size; i++)
        if (m->warnings.data[i] == '\n')
            m->warnings.data[i] = '\0';
    log_model(m, &o->log);
    return LM_OK;
}

/* Keep only the part of this rank if the model is divided. */
static lm_status divide(lm_model *m, const lm_model_options *o, lm_error *e)
{
    const lm_cluster *c = o->cluster;

    if (!c || c->x.ranks < 2)
        return LM_OK;
    lm_division d = { c->x.parts, c->x.ranks / c->x.parts, c->x.rank, c->exact };
    return lm_model_divide(m, &d, c->x.gather ? &c->x : NULL, e);
}

static lm_status open_model(lm_model *m, const char *path, const lm_model_options *o, lm_error *e)
{
    LM_TRY(open_source(m, path, o, e));
    LM_TRY(make_model(m, path, o, e));
    return divide(m, o, e);
}

lm_status lm_model_open_config(const char *json, size_t n, const char *name, lm_model **out, lm_error *e)
{
    LM_REQUIRE(e, json && out);
    static const lm_model_options options = { .structure_only = true };
    lm_model                     *m = lm_alloc_zero(1, sizeof *m);

    name = name ? name : "config.json";
    if (!m)
        return lm_fail_memory(e, name, sizeof *m);
    lm_status status = lm_config_parse(json, n, name, &m->warnings, &m->config_json, e);
    if (status == LM_OK)
        status = make_model(m, name, &options, e);
    if (status != LM_OK) {
        lm_model_close(m);
        return status;
    }
    *out = m;
    return LM_OK;
}

static const lm_model_options defaults;

lm_status lm_model_open(const char *path, const lm_model_options *o, lm_model **out, lm_error *e)
{
    LM_REQUIRE(e, path && out);
    LM_CHECK_RESERVED(e, o);
    lm_model *m = lm_alloc_zero(1, sizeof *m);

    if (!m)
        return lm_fail_memory(e, path, sizeof *m);
    lm_status status = open_model(m, path, o ? o : &defaults, e);
    if (status != LM_OK) {
        lm_model_close(m);
        return status;
    }
    *out = m;
    return LM_OK;
}

/* Make a model of a file. Takes ownership of the file, also on failure. */
static lm_status open_file(lm_filemap *file, const lm_model_options *o, lm_model **out, lm_error *e)
{
    lm_container_options c = container_options(o);
    lm_model            *m = lm_alloc_zero(1, sizeof *m);

    if (!m) {
        lm_filemap_close(file);
        return lm_fail_memory(e, "model", sizeof *m);
    }
    lm_status status = lm_container_open_file(file, &c, &m->container, e);
    if (status == LM_OK)
        status = make_model(m, lm_container_path(m->container), o, e);
    if (status != LM_OK) {
        lm_model_close(m);
        return status;
    }
    *out = m;
    return LM_OK;
}

lm_status lm_model_open_fd(int fd, const char *name, const lm_model_options *o, lm_model **out, lm_error *e)
{
    LM_REQUIRE(e, out);
    LM_CHECK_RESERVED(e, o);
    lm_filemap file;
    char       number[32];

    o = o ? o : &defaults;
    snprintf(number, sizeof number, "descriptor %d", fd);
    name = name ? name : number;
    LM_TRY(lm_filemap_of_fd(fd, name, &(lm_filemap_options){ o->no_mmap, o->progress, o->progress_arg },
                            &file, e));
    return open_file(&file, o, out, e);
}

lm_status lm_model_open_memory(const void *data, size_t size, const char *name, const lm_model_options *o,
                               lm_model **out, lm_error *e)
{
    LM_REQUIRE(e, out);
    LM_CHECK_RESERVED(e, o);
    lm_filemap file;

    name = name ? name : "memory";
    if (!data || !size) {
        lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "there are no bytes");
        return lm_fail_in(e, name);
    }
    LM_TRY(lm_filemap_of_memory(data, size, name, &file, e));
    return open_file(&file, o ? o : &defaults, out, e);
}

void lm_model_close(lm_model *m)
{
    if (!m)
        return;
    lm_tokenizer_free(m->tokenizer);
    lm_model_undivide(m);
    lm_program_free(m->program);
    lm_container_close(m->container);
    lm_meta_free(m->config_json);
    lm_text_free(&m->warnings);
    lm_arena_free(&m->arena);
    lm_free(m);
}

const char *lm_model_container_name(const lm_model *m)
{
    if (!m->container)
        return m->preset ? N_("preset") : "config";
    return lm_container_kind_of(m->container) == LM_GGUF ? "gguf" : "safetensors";
}

void lm_model_describe(const lm_model *m, lm_model_info *out)
{
    if (out)
        *out = (lm_model_info){ 0 };
    if (!m || !out)
        return;
    const lm_config *c = &m->config;
    *out = (lm_model_info){
        .name           = m->name,
        .family         = m->family->name,
        .source         = m->source,
        .container      = lm_model_container_name(m),
        .n_vocab        = m->program->n_vocab,
        .n_layers       = m->program->n_layers,
        .n_heads        = c->n_heads,
        .n_kv_heads     = c->n_kv_heads,
        .head_dim       = c->head_dim,
        .hidden         = c->hidden,
        .intermediate   = c->intermediate,
        .context_length = m->program->context_length,
        .tied           = c->tied,
        .parameters     = lm_program_parameters(m->program),
        .active         = lm_program_active(m->program),
        .weight_bytes   = m->weight_bytes,
        .storage        = m->storage,
    };
}

const char *lm_model_warning(const lm_model *m, size_t i)
{
    return m ? lm_text_string(&m->warnings, i) : NULL;
}

const lm_tokenizer *lm_model_tokenizer(const lm_model *m)
{
    return m ? m->tokenizer : NULL;
}

bool lm_model_is_end(const lm_model *m, lm_token id)
{
    if (!m)
        return false;
    for (size_t i = 0; i < m->n_end_ids; i++)
        if (m->end_ids[i] == id)
            return true;
    return m->tokenizer && lm_tokenizer_is_end(m->tokenizer, id);
}

bool lm_model_length_dependent(const lm_model *m, const char **why)
{
    for (uint32_t i = 0; i < m->program->n_ropes; i++) {
        lm_rope_type t = m->program->ropes[i].spec.type;
        if (lm_rope_depends_on_length(&m->program->ropes[i].spec)) {
            if (why)
                *why = t == LM_ROPE_DYNAMIC ? "dynamic rotary scaling depends on the length of the forward"
                                            : "longrope chooses its factors by the length of the forward";
            return true;
        }
    }
    return false;
}

lm_status lm_model_program_text(const lm_model *m, lm_text *out, lm_error *e)
{
    LM_REQUIRE(e, m && out);
    lm_text b = { 0 };

    lm_program_print(m->program, &b);
    return lm_text_deliver(&b, LM_OK, "program", out, e);
}
