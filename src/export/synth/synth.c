/* synth.c - create a model with random weights from a preset or a config.json. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/clock.h"
#include "base/os/filemap.h"
#include "base/jsontext.h"
#include "export/synth/synthesis.h"
#include "formats/configfile.h"
#include "formats/nested.h"
#include "lamina/preset.h"

const char *lm_synth_type(uint32_t i)
{
    const lm_file_type *t = lm_file_type_at(i);

    return t ? t->name : NULL;
}

/* ---- configuration ---- */

static lm_status parse(lm_synthesis *s, const char *text, size_t size, const char *where, lm_error *e)
{
    lm_meta *checked;

    /* stricter than jansson, with offsets in errors */
    LM_TRY(lm_meta_from_json(text, size, where, 32, &checked, e));
    lm_meta_free(checked);
    s->json = json_loadb(text, size, 0, NULL);
    if (json_is_object(s->json))
        return LM_OK;
    lm_fail(e, LM_BAD_MODEL, NULL, LM_NO_OFFSET, "is not a JSON object");
    return lm_fail_in(e, where);
}

static lm_status read_description(lm_synthesis *s, const char *model, const char **where, lm_error *e)
{
    const lm_preset *preset;
    const char      *slash = strrchr(model, '/');
    char            *text;
    size_t           size;
    lm_status        status;

    if (strncmp(model, LM_PRESET_PREFIX, strlen(LM_PRESET_PREFIX)) == 0) {
        LM_TRY(lm_preset_find(model + strlen(LM_PRESET_PREFIX), &preset, e));
        s->name = preset->title;
        *where  = preset->name;
        return parse(s, preset->config, strlen(preset->config), preset->name, e);
    }
    s->name = lm_arena_strdup(&s->arena, slash && slash[1] && lm_config_name(model) == model
                                             ? slash + 1
                                             : lm_config_name(model));
    *where = lm_path_is_folder(model) ? lm_arena_printf(&s->arena, "%s/config.json", model)
                                      : lm_arena_strdup(&s->arena, model);
    if (!*where || !s->name)
        return lm_fail_memory(e, model, 0);
    LM_TRY(lm_config_read(*where, &text, &size, e));
    *where = lm_config_name(*where);
    status = lm_nested_config(&text, &size, *where, -1, NULL, e);
    if (status == LM_OK)
        status = parse(s, text, size, *where, e);
    lm_free(text);
    return status;
}

/* [[["global", "local"], 6]]: kinds of layers, repeated that many times; the last repetition may be
 * incomplete. */
static void set_turns(json_t *config, size_t layers)
{
    json_t *turns = json_array_get(json_object_get(config, "attention_types"), 0),
           *kinds = json_array_get(turns, 0);
    size_t  n     = json_array_size(kinds);

    if (!n)
        return;
    json_t *whole = json_pack("[[O, i]]", kinds, (int)(layers / n)), *rest = json_array();
    for (size_t i = 0; i < layers % n; i++)
        json_array_append(rest, json_array_get(kinds, i));
    if (layers < n)
        json_array_clear(whole);
    if (layers % n)
        json_array_append_new(whole, json_pack("[O, i]", rest, 1));
    json_decref(rest);
    json_object_set_new(config, "attention_types", whole);
}

/* Change the number of layers: the count, and the length of lists with an entry per layer. */
static lm_status set_layers(json_t *config, uint32_t layers, const char *where, lm_error *e)
{
    static const char *const counts[] = { "num_hidden_layers", "n_layer", "num_layers", "n_layers" };
    json_int_t  had = 0;
    const char *name;
    void       *next;
    json_t     *v;

    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        v = json_object_get(config, counts[i]);
        if (json_is_integer(v) && !had)
            had = json_integer_value(v);
        if (json_is_integer(v))
            json_object_set_new(config, counts[i], json_integer(layers));
    }
    if (had < 1) {
        lm_fail(e, LM_BAD_MODEL, counts[0], LM_NO_OFFSET, "is missing");
        return lm_fail_in(e, where);
    }
    set_turns(config, layers);
    json_object_foreach_safe(config, next, name, v) {
        if (!json_is_array(v) || (json_int_t)json_array_size(v) != had)
            continue;
        for (size_t i = (size_t)had; i < layers; i++)
            json_array_append(v, json_array_get(v, i % (size_t)had));
        while (json_array_size(v) > layers)
            json_array_remove(v, json_array_size(v) - 1);
    }
    return LM_OK;
}

static lm_status describe(lm_synthesis *s, const char *where, lm_error *e)
{
    lm_source source = { .kind = LM_SAFETENSORS };

    if (s->o->layers)
        LM_TRY(set_layers(s->json, s->o->layers, where, e));
    lm_text   text    = { 0 };
    bool      printed = lm_json_print_exact(s->json, JSON_COMPACT, &text);
    lm_status status  = printed ? lm_meta_from_json(text.data, text.size, where, 32, &s->meta, e)
                                : lm_fail_memory(e, "config.json", text.size);
    lm_text_free(&text);
    LM_TRY(status);
    source.meta = s->meta;
    return lm_describe(&source, &s->family, &s->config, &s->program, NULL, e);
}

/* ---- entry point ---- */

static lm_status check_target(const char *out, const lm_synth_options *o, lm_error *e)
{
    if (o->overwrite || access(out, F_OK) != 0)
        return LM_OK;
    lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "already exists");
    lm_fail_in(e, out);
    return lm_fail_hint(e, "use `overwrite` to replace it");
}

static lm_status synthesize(lm_synthesis *s, const char *model, const char *out, lm_error *e)
{
    const char *where;

    LM_TRY(check_target(out, s->o, e));
    LM_TRY(read_description(s, model, &where, e));
    LM_TRY(describe(s, where, e));
    lm_study_embedding(s);
    return lm_view_ends(lm_view_of(out), LM_VIEW(".gguf")) ? lm_synth_gguf(s, out, e)
                                                           : lm_synth_folder(s, out, e);
}

lm_status lm_synth(const char *model, const char *out, const lm_synth_options *o, lm_synth_result *result,
                   lm_error *e)
{
    LM_REQUIRE(e, model && out);
    LM_CHECK_RESERVED(e, o);
    static const lm_synth_options defaults;
    lm_synthesis                 *s     = lm_alloc_zero(1, sizeof *s);
    double                        start = lm_clock_seconds();

    if (!s)
        return lm_fail_memory(e, model, sizeof *s);
    s->o             = o ? o : &defaults;
    lm_status status = synthesize(s, model, out, e);
    if (status == LM_OK && result) {
        *result = (lm_synth_result){
            .parameters = lm_program_parameters(s->program),
            .bytes      = s->written,
            .layers     = s->program->n_layers,
            .tensors    = (uint32_t)s->n_tensors,
            .files      = s->files,
            .seconds    = lm_clock_seconds() - start,
        };
        snprintf(result->type, sizeof result->type, "%s", s->type);
    }
    lm_end_synthesis(s);
    lm_program_free(s->program);
    lm_meta_free(s->meta);
    json_decref(s->json);
    lm_arena_free(&s->arena);
    lm_free(s);
    return status;
}
