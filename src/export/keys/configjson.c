/* configjson.c - convert GGUF keys back to config.json, with the member names that the families read. */
#include "export/keys/configjson.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/jsontext.h"
#include "base/map.h"
#include "export/keys/configwords.h"
#include "export/keys/ggufkeys.h"
#include "export/keys/program_difference.h"
#include "export/tensors/pieces_of.h"

typedef struct builder {
    const lm_container *stored;
    const lm_meta      *keys;
    const lm_family    *family;
    const lm_config    *c;
    const lm_program   *p;
    const char         *arch;
    json_t             *json;
    lm_arena            arena;
} builder;

/* ---- pairs of key names ---- */

static json_t *as_json(const lm_meta_value *v)
{
    lm_meta_value first;

    switch (v->kind) {
    case LM_META_BOOL:
        return json_boolean(v->b);
    case LM_META_UINT:
        return json_integer((json_int_t)v->u);
    case LM_META_INT:
        return json_integer((json_int_t)v->i);
    case LM_META_FLOAT:
        return lm_json_float(v->f);
    case LM_META_ARRAY:          /* one element per layer, all equal except 0: the reader has checked this */
        for (uint64_t i = 0; lm_meta_at(v, i, &first); i++)
            if (first.kind != LM_META_UINT || first.u || i + 1 == v->a.n)
                return first.kind != LM_META_ARRAY ? as_json(&first) : NULL;
        return NULL;
    default:
        return NULL;
    }
}

/* Set a member, or a nested member: "attn_config/alibi". */
static void set(json_t *json, const char *path, json_t *value)
{
    const char *slash = strchr(path, '/');
    char        name[96];

    if (!value)
        return;
    if (!slash) {
        json_object_set_new(json, path, value);
        return;
    }
    snprintf(name, sizeof name, "%.*s", (int)(slash - path), path);
    json_t *inner = json_object_get(json, name);
    if (!inner)
        json_object_set_new(json, name, inner = json_object());
    set(inner, slash + 1, value);
}

static void take_pair(void *arg, const char *hf, const char *gguf)
{
    builder       *m = arg;
    char          key[128];
    lm_meta_value v;

    if (strcmp(gguf, "rope.dimension_count%") == 0) {    /* config.json contains the rotated share of a head's
                                                            lanes */
        if (m->c->rope.dim && m->c->head_dim)
            set(m->json, hf, json_real((double)m->c->rope.dim / m->c->head_dim));
        return;
    }
    if (strcmp(gguf, "block_count") == 0) {      /* without those that predict further tokens */
        set(m->json, hf, json_integer(m->c->n_layers));
        return;
    }
    snprintf(key, sizeof key, "%s.%s", m->arch, gguf);
    if (lm_meta_get(m->keys, key, &v))
        set(m->json, hf, as_json(&v));
}

static lm_status trace(builder *m, lm_error *e)
{
    const lm_family *f;
    lm_program      *again = NULL;
    lm_config       *c     = lm_alloc_zero(1, sizeof *c);
    lm_source s = {
        .kind = LM_GGUF, .meta = m->keys, .tensors = m->stored, .pair = take_pair, .pair_arg = m
    };

    if (!c)
        return lm_fail_memory(e, "a configuration", sizeof *c);
    lm_status status = lm_describe(&s, &f, c, &again, NULL, e);
    lm_program_free(again);
    lm_free(c);
    return status;
}

/* ---- comparing models ---- */

/* Count the weights that do not match: every weight of the folder's program must be in the file's program,
 * whole or in pieces, and none may be left over. */
static uint32_t count_unknown(builder *m, const lm_program *folder)
{
    lm_map  *known    = lm_map_new(m->p->n_weights + 1);
    uint32_t found    = 0, strange = 0;
    uint64_t hit;

    for (uint32_t i = 0; known && i < m->p->n_weights; i++)
        lm_map_add(known, lm_view_of(m->p->weights[i].gguf ? m->p->weights[i].gguf : m->p->weights[i].path),
                   i);
    for (uint32_t i = 0; known && i < folder->n_weights; i++) {
        const lm_weight *w = &folder->weights[i];
        lm_piece_of      pieces[LM_MAX_PIECES];
        uint32_t         n = w->gguf ? 0 : lm_pieces_of(folder, m->family, i, &m->arena, pieces);
        bool here = w->gguf && lm_map_get(known, lm_view_of(w->gguf), &hit) &&
                    m->p->weights[hit].elements == w->elements;
        for (uint32_t k = 0; k < n; k++) {
            bool piece = lm_map_get(known, lm_view_of(pieces[k].gguf), &hit);
            found += piece;
            here |= piece;
        }
        found += here && !n;
        strange += !here;
    }
    uint32_t left = 0;
    for (uint32_t i = 0; i < m->p->n_weights; i++)
        left += !m->p->weights[i].gguf_only;
    lm_map_free(known);
    return known ? strange + (left > found ? left - found : found - left) : UINT32_MAX;
}

enum { NOT_READ = 1 << 30, DIFFERENT = 1 << 20 };

/* Return how far the folder's model is from the file's model; 0 means identical. `what` names the
 * difference. */
static uint32_t distance(builder *m, lm_folder_model *out, const char **what, lm_error *why)
{
    const lm_family *f;
    lm_text          text = { 0 };
    lm_source        s    = { .kind = LM_SAFETENSORS };
    uint32_t         far  = NOT_READ;

    lm_folder_model_free(out);
    *what       = NULL;
    out->config = lm_alloc_zero(1, sizeof *out->config);
    if (out->config && lm_json_print(m->json, JSON_COMPACT | JSON_REAL_PRECISION(17), &text) &&
        lm_meta_from_json(text.data, text.size, "config.json", 32, &out->meta, why) == LM_OK) {
        s.meta = out->meta;
        if (lm_describe(&s, &f, out->config, &out->program, NULL, why) == LM_OK && f == m->family) {
            far   = count_unknown(m, out->program);
            *what = lm_program_difference(out->program, out->config, m->p, m->c);
            far += *what ? DIFFERENT : 0;
        }
    }
    lm_text_free(&text);
    return far;
}

/* Keep the new value of a member, or give it back the one that it had. Returns the value that it has now, or
 * NULL; the caller owns it in place of `was`. */
static json_t *keep_or_restore(builder *m, const char *key, json_t *was, bool keep)
{
    if (keep) {
        json_decref(was);
        return json_incref(json_object_get(m->json, key));
    }
    if (was)
        json_object_set(m->json, key, was);
    else
        json_object_del(m->json, key);
    return was;
}

/* Try each value of a member that GGUF does not contain, and keep the one that brings the model closest. */
static void try_values(builder *m, const lm_config_word *w, lm_folder_model *out, uint32_t *best)
{
    json_t     *was = json_incref(json_object_get(m->json, w->key));
    const char *what;

    for (size_t i = 0; *best && i < LM_CONFIG_VALUES && w->values[i]; i++) {
        json_t *v = json_loads(w->values[i], JSON_DECODE_ANY, NULL);
        if (!v)
            continue;
        json_object_set_new(m->json, w->key, v);
        uint32_t far = distance(m, out, &what, NULL);
        bool nearer = far < *best;
        *best = nearer ? far : *best;
        was = keep_or_restore(m, w->key, was, nearer);
    }
    json_decref(was);
}

static bool knows(const lm_family *f, const char *member)
{
    for (const char *const *k = f->keys; k && *k; k++)
        if (strcmp(*k, member) == 0)
            return true;
    return false;
}

/* Try two members that match the file only together. */
static void try_pairs(builder *m, const lm_config_word *w, lm_folder_model *out, uint32_t *best)
{
    json_t *was = json_incref(json_object_get(m->json, w->key));

    for (size_t i = 0; *best && i < LM_CONFIG_VALUES && w->values[i]; i++) {
        uint32_t before = *best;
        json_object_set_new(m->json, w->key, json_loads(w->values[i], JSON_DECODE_ANY, NULL));
        for (const lm_config_word *x = w + 1; x->key && *best; x++)
            if (knows(m->family, x->key))
                try_values(m, x, out, best);
        was = keep_or_restore(m, w->key, was, *best < before);
    }
    json_decref(was);
}

static void try_plain_rotation(builder *m, lm_folder_model *out, uint32_t *best)
{
    const char *what;

    if (json_object_get(m->json, "rope_scaling"))
        return;
    json_object_set_new(m->json, "rope_parameters",
                        json_pack("{s:O, s:s}", "rope_theta", json_object_get(m->json, "rope_theta"),
                                  "rope_type", "default"));
    uint32_t far = distance(m, out, &what, NULL);
    if (far < *best)
        *best = far;
    else
        json_object_del(m->json, "rope_parameters");
}

static lm_status settle(builder *m, lm_folder_model *out, lm_error *e)
{
    const char *what = NULL;
    lm_error    why  = { 0 };
    uint32_t    best = distance(m, out, &what, &why);

    if (best && what && strcmp(what, "rotary embedding") == 0)           /* some classes scale by default */
        try_plain_rotation(m, out, &best);
    for (int round = 0; round < 2 && best; round++)
        for (const lm_config_word *w = lm_config_words; w->key && best; w++)
            if (knows(m->family, w->key))
                try_values(m, w, out, &best);
    for (const lm_config_word *w = lm_config_words; w->key && best && best < NOT_READ; w++)
        if (knows(m->family, w->key))
            try_pairs(m, w, out, &best);
    if (distance(m, out, &what, &why) == 0)
        return LM_OK;
    if (what)
        lm_fail(e, LM_UNSUPPORTED, m->family->name, LM_NO_OFFSET,
                "config.json cannot express its %s, as far as this file shows", what);
    else if (out->program)
        lm_fail(e, LM_UNSUPPORTED, m->family->name, LM_NO_OFFSET,
                "config.json cannot express its tensors, as far as this file shows");
    else
        lm_fail(e, LM_UNSUPPORTED, why.where, LM_NO_OFFSET, "no config.json for this file: %s", why.message);
    return lm_fail_in(e, lm_container_path(m->stored));
}

/* ---- the document ---- */

static void add_token_ids(builder *m)
{
    static const struct { const char *key, *member; } ids[] = {
        { "tokenizer.ggml.bos_token_id", "bos_token_id" }, { "tokenizer.ggml.eos_token_id", "eos_token_id" },
        { "tokenizer.ggml.padding_token_id", "pad_token_id" },
    };
    lm_meta_value v;

    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        if (lm_meta_get(m->keys, ids[i].key, &v) && v.kind == LM_META_UINT && v.u < m->p->n_vocab)
            set(m->json, ids[i].member, json_integer((json_int_t)v.u));
}

/* Write the base of the rotation of each layer, 0 where there is none. */
static void add_rotations(builder *m)
{
    bool    list[LM_MAX_LAYERS];
    json_t *bases = json_array();
    bool    some  = m->family->lists_rotations && lm_layers_that_rotate(m->p, list);

    for (uint32_t i = 0; some && i < m->p->n_layers; i++)
        json_array_append_new(bases, list[i] ? lm_json_float(m->c->rope.base) : json_integer(0));
    if (json_array_size(bases))
        json_object_set(m->json, "layer_rope_theta", bases);
    json_decref(bases);
}

static lm_status make_as(builder *m, const lm_family *f, lm_folder_model *out, lm_error *e)
{
    char class[96];

    m->family = f;
    json_object_clear(m->json);
    lm_root_class(f, class, sizeof class);
    set(m->json, "architectures", json_pack("[s]", class));
    set(m->json, "model_type", json_string(m->family->hf_types[0]));
    set(m->json, "vocab_size", json_integer(m->c->vocab_size));
    LM_TRY(trace(m, e));
    add_token_ids(m);
    set(m->json, "tie_word_embeddings", json_boolean(m->c->tied));
    LM_TRY(lm_add_config_words(m->json, m->stored, m->family, m->c, m->p, e));
    add_rotations(m);
    return settle(m, out, e);
}

/* Try the family that reads the file, then other families whose files use its architecture. */
static lm_status make(builder *m, lm_folder_model *out, lm_error *e)
{
    const lm_family *own    = m->family, *f;
    lm_status        status = make_as(m, own, out, e);

    for (size_t i = 0; status == LM_UNSUPPORTED && (f = lm_family_at(i)); i++)
        if (f != own && lm_gguf_arch_of(f) && strcmp(lm_gguf_arch_of(f), m->arch) == 0 &&
            make_as(m, f, out, NULL) == LM_OK)
            status = LM_OK;
    return status;
}

lm_status lm_folder_model_new(const lm_container *stored, const lm_family *f, const lm_config *c,
                              const lm_program *p, lm_folder_model *out, lm_text *notes, lm_error *e)
{
    builder  m = { .stored = stored, .keys = lm_container_meta(stored), .family = f, .c = c, .p = p };
    lm_view arch;
    char    name[64];

    (void)notes;
    *out = (lm_folder_model){ 0 };
    LM_TRY(lm_meta_string(m.keys, "general.architecture", &arch, e));
    snprintf(name, sizeof name, "%.*s", (int)(arch.size < 63 ? arch.size : 63), arch.data);
    m.arch           = name;
    m.json           = json_object();
    lm_status status = m.json ? make(&m, out, e) : lm_fail_memory(e, "config.json", 0);
    lm_arena_free(&m.arena);
    if (status == LM_OK) {
        out->json = m.json;
        return LM_OK;
    }
    json_decref(m.json);
    lm_folder_model_free(out);
    return status;
}

void lm_folder_model_free(lm_folder_model *m)
{
    json_decref(m->json);
    lm_program_free(m->program);
    lm_meta_free(m->meta);
    lm_free(m->config);
    *m = (lm_folder_model){ 0 };
}
