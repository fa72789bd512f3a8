/* nested.c - convert the config.json of a vision-language model to that of its language model. */
#include "formats/nested.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "formats/containerimpl.h"
#include "formats/jsonread.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* Members of the whole model's config that apply to its language model if text_config lacks them. */
static const char *const shared[] = {
    "bos_token_id", "eos_token_id", "pad_token_id", "torch_dtype", "dtype", "quantization_config", "transformers_version",
};

typedef struct flattening {
    const lm_meta *meta;                 /* the whole config, parsed */
    const char    *text;                 /* its text */
    lm_json        j;                    /* over a copy, which reading modifies */
    bool           flat;
    lm_text        out, ignored;
} flattening;

static bool under(const flattening *f, const char *name)
{
    char          path[64];
    lm_meta_value v;

    snprintf(path, sizeof path, "%s%.40s", f->flat ? "" : "text_config/", name);
    return lm_meta_get(f->meta, path, &v);
}

static bool is_shared(lm_view name)
{
    for (size_t i = 0; i < COUNT(shared); i++)
        if (lm_view_is(name, shared[i]))
            return true;
    return false;
}

/* Return whether a member of the language model's object is copied. Those that are written separately are
 * not; in a flat config, neither are the token ids and configurations of other parts. */
static bool is_kept(const flattening *f, lm_view name)
{
    if (lm_view_is(name, "model_type") || lm_view_is(name, "tie_word_embeddings") ||
        lm_view_is(name, "architectures"))
        return false;
    return !f->flat || is_shared(name) ||
           !(lm_view_ends(name, LM_VIEW("_token_id")) || lm_view_ends(name, LM_VIEW("_config")));
}

static void ignore(flattening *f, lm_view name)
{
    if (lm_view_ends(name, LM_VIEW("_config")) && !is_shared(name))
        lm_text_printf(&f->ignored, "%s%.*s", f->ignored.size ? ", " : "",
                       (int)(name.size < 64 ? name.size : 64), name.data);
}

/* Copy the members of the object at the reader as they are. Of the `whole` config, copy only the shared
 * members and those of text_config. */
static lm_status copy_members(flattening *f, bool whole, lm_error *e)
{
    bool more;

    LM_TRY(lm_json_open(&f->j, '{', &more, e));
    while (more) {
        lm_view name;
        char    key[64];
        lm_json_peek(&f->j);
        size_t start = f->j.at;
        LM_TRY(lm_json_name(&f->j, &name, e));
        snprintf(key, sizeof key, "%.*s", (int)(name.size < sizeof key ? name.size : sizeof key - 1),
                 name.data);
        if (whole && lm_view_is(name, "text_config") && lm_json_peek(&f->j) == '{') {
            LM_TRY(copy_members(f, false, e));
        } else {
            LM_TRY(lm_json_skip(&f->j, e));
            if (whole ? is_shared(name) && !under(f, key) : is_kept(f, name)) {
                lm_text_add(&f->out, f->text + start, f->j.at - start);
                lm_text_add_str(&f->out, ",\n");
            } else if (whole || f->flat) {
                ignore(f, name);
            }
        }
        LM_TRY(lm_json_next(&f->j, '{', &more, e));
    }
    return LM_OK;
}

/* Add the sizes that the config leaves out to `out`. */
static void add_sizes(const flattening *f, const lm_nested_class *c, lm_text *out)
{
    const struct { const char *name; uint32_t n; } sizes[] = {
        { "vocab_size", c->vocab }, { "hidden_size", c->hidden }, { "intermediate_size", c->intermediate },
        { "num_hidden_layers", c->layers }, { "num_attention_heads", c->heads },
        { "num_key_value_heads", c->kv_heads }, { "max_position_embeddings", c->context },
    };

    for (size_t i = 0; i < COUNT(sizes); i++)
        if (sizes[i].n && !under(f, sizes[i].name))
            lm_text_printf(out, "\"%s\": %u,\n", sizes[i].name, sizes[i].n);
    if (!under(f, "rope_theta") && !under(f, "rope_parameters"))
        lm_text_printf(out, "\"rope_theta\": %.1f,\n", c->theta);
    if (c->eps > 0 && !under(f, "rms_norm_eps"))
        lm_text_printf(out, "\"rms_norm_eps\": %g,\n", c->eps);
}

/* The class of a type; NULL: none of the table. */
static const lm_nested_class *class_of(lm_view type)
{
    for (const lm_nested_class *c = lm_nested_classes; c->type; c++)
        if (lm_view_is(type, c->type))
            return c;
    return NULL;
}

/* Whether the config is a `text_config` that was taken out of the whole: its type is one of language models
 * of vision-language models, and no family reads it as it is. */
static bool is_language_model(flattening *f, lm_view *type)
{
    const lm_nested_class *c;
    lm_text missing = { 0 };

    f->flat = true;
    if (lm_meta_string(f->meta, "model_type", type, NULL) != LM_OK)
        return false;
    c = lm_view_ends(*type, LM_VIEW("_text")) ? class_of(*type) : NULL;
    if (!c)
        return false;
    add_sizes(f, c, &missing);
    bool is = missing.size || !lm_view_is(*type, c->family);
    lm_text_free(&missing);
    return is;
}

/* Write whether the embedding is tied, as the whole model or its language model says. If
 * neither does, it is tied if the weights have no head. */
static void add_tied(flattening *f, int has_head)
{
    bool tied = has_head == 0;

    if (lm_meta_bool(f->meta, "tie_word_embeddings", &tied, NULL) == LM_OK ||
        lm_meta_bool(f->meta, "text_config/tie_word_embeddings", &tied, NULL) == LM_OK || has_head == 0)
        lm_text_printf(&f->out, "\"tie_word_embeddings\": %s,\n", tied ? "true" : "false");
}

static lm_status flatten(flattening *f, lm_view text_type, int has_head, lm_error *e)
{
    const lm_nested_class *c = class_of(text_type);

    lm_text_add_str(&f->out, "{\n");
    LM_TRY(copy_members(f, !f->flat, e));
    if (c) {
        add_sizes(f, c, &f->out);
        text_type = lm_view_of(c->family);
    }
    add_tied(f, has_head);
    lm_text_printf(&f->out, "\"model_type\": \"%.*s\"\n}\n", (int)(text_type.size < 64 ? text_type.size : 64),
                   text_type.data);
    if (f->ignored.size == 0)
        lm_text_add_str(&f->ignored, "what is not of the language model");
    return f->out.failed || f->ignored.failed ? lm_fail_memory(e, "config.json", f->out.size) : LM_OK;
}

static lm_status not_known(const lm_meta *m, lm_view type, lm_error *e)
{
    lm_text list = { 0 };

    for (size_t i = 0; lm_nested_kinds[i].type; i++)
        lm_text_printf(&list, "%s%s", i ? ", " : "", lm_nested_kinds[i].type);
    lm_fail(e, LM_UNSUPPORTED, "text_config", LM_NO_OFFSET,
            "the language model of \"%.*s\" is not read alone (those of %s are)",
            (int)(type.size < 64 ? type.size : 64), type.data, list.data ? list.data : "");
    lm_text_free(&list);
    return lm_fail_in(e, lm_meta_file(m));
}

/* Find the kind of the whole model; NULL: a model that is not nested. */
static lm_status kind_of(const lm_meta *m, const lm_nested_kind **out, lm_error *e)
{
    lm_meta_value         v      = { 0 };
    bool                  nested = lm_meta_get(m, "text_config", &v) && v.kind == LM_META_OBJECT;
    lm_view               type;
    const lm_nested_kind *k = lm_nested_kinds;

    *out = NULL;
    if (lm_meta_string(m, "model_type", &type, NULL) != LM_OK)
        return LM_OK;
    while (k->type && !lm_view_is(type, k->type))
        k++;
    if (!k->type)
        return nested ? not_known(m, type, e) : LM_OK;
    *out = k;
    if (nested || k->flat)
        return LM_OK;
    lm_fail(e, LM_BAD_MODEL, "text_config", LM_NO_OFFSET,
            "missing; \"%s\" describes its language model there", k->type);
    return lm_fail_in(e, lm_meta_file(m));
}

lm_status lm_nested_config(char **text, size_t *size, const char *file, int has_head, lm_text *note,
                           lm_error *e)
{
    flattening f    = { .text = *text };
    lm_meta   *meta = NULL;
    lm_view    text_type;
    char      *copy = NULL;
    lm_status  status;

    const lm_nested_kind *kind = NULL;

    if (lm_meta_from_json(*text, *size, file, LM_JSON_DEPTH, &meta, NULL) != LM_OK)
        return LM_OK;
    f.meta = meta;
    LM_TRY_GOTO(status, kind_of(meta, &kind, e), done);
    if (!kind && !is_language_model(&f, &text_type))
        goto done;
    lm_meta_value nested;
    f.flat = !(lm_meta_get(meta, "text_config", &nested) && nested.kind == LM_META_OBJECT);
    if (kind && (f.flat || lm_meta_string(meta, "text_config/model_type", &text_type, NULL) != LM_OK))
        text_type = lm_view_of(kind->text_type);
    if (!(copy = lm_alloc(*size + 1)))
        LM_TRY_GOTO(status, lm_fail_memory(e, "config.json", *size), done);
    memcpy(copy, *text, *size + 1);
    f.j = (lm_json){ .text = copy, .size = *size, .file = file, .max_depth = LM_JSON_DEPTH };
    LM_TRY_GOTO(status, flatten(&f, text_type, has_head, e), done);
    if (note && kind)
        lm_text_printf(note, "%s: only its language model is read; ignored: %s", kind->type, f.ignored.data);
    lm_free(*text);
    *text      = f.out.data;
    *size      = f.out.size;
    f.out.data = NULL;

done:
    if (f.out.data)
        lm_text_free(&f.out);
    lm_text_free(&f.ignored);
    lm_free(copy);
    lm_meta_free(meta);
    return status;
}

static bool begins(const char *name, const char *with)
{
    return strncmp(name, with, strlen(with)) == 0;
}

bool lm_nested_prefix(const char *name)
{
    return begins(name, "language_model.") || begins(name, "model.language_model.") ||
           begins(name, "model.text_model.");
}

const char *lm_nested_name(const char *name, bool prefixed, char *buffer, size_t size)
{
    if (begins(name, "language_model."))
        return name + strlen("language_model.");
    if (begins(name, "model.language_model.") || begins(name, "model.text_model.")) {
        snprintf(buffer, size, "model.%s", strchr(name + strlen("model."), '.') + 1);
        return buffer;
    }
    if (strcmp(name, "lm_head.weight") == 0 ||
        (!prefixed && begins(name, "model.") && !begins(name, "model.visual.")))
        return name;
    return NULL;
}
