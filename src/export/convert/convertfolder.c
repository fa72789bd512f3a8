/* convertfolder.c - create a Hugging Face folder from a GGUF file: config.json, a tokenizer, a card,
 * safetensors shards. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "export/keys/configjson.h"
#include "export/convert/conversion.h"
#include "export/vocabulary/folderfiles.h"
#include "export/tensors/foldertensors.h"
#include "export/files/newfolder.h"
#include "export/synth/synthesis.h"
#include "formats/safetensors.h"

#define MAKER "lamina convert"
#define SHARD (UINT64_C(5) * 1000 * 1000 * 1000)     /* the default of transformers */

typedef struct folding {
    lm_conversion     *c;
    const lm_family   *family;
    lm_config         *config;           /* of the file */
    lm_program        *program;
    lm_matrices       *matrices;
    lm_folder_model    model;
    const lm_config   *configs[2];       /* of the file and of the folder */
    lm_folder_tensors *tensors;
    lm_new_folder      folder;
    json_t            *tokenizer, *tokenizer_config, *ends;
    uint64_t           bytes;
} folding;

/* ---- planning ---- */

static void note_lost_keys(folding *f)
{
    static const char *const lost[] = { "quantize.imatrix.", "tokenizer.ggml.precompiled_charsmap", NULL };
    const lm_meta *m = lm_container_meta(f->c->container);
    lm_meta_value  v;
    lm_view        key;

    for (size_t i = 0; lm_meta_entry(m, i, &key, &v); i++)
        for (size_t k = 0; lost[k]; k++)
            if (lm_view_starts(key, lm_view_of(lost[k])))
                lm_text_printf(&f->c->notes, "key \"%.*s\" has no place in a folder: not carried\n",
                               (int)key.size, key.data);
}

static lm_status describe(folding *f, lm_error *e)
{
    lm_conversion *c      = f->c;
    lm_source source = { .kind = LM_GGUF, .meta = lm_container_meta(c->container), .tensors = c->container };
    size_t         unused = 0;

    f->config = lm_alloc_zero(1, sizeof *f->config);
    if (!f->config)
        return lm_fail_memory(e, "a configuration", sizeof *f->config);
    LM_TRY(lm_describe(&source, &f->family, f->config, &f->program, &c->notes, e));
    c->family = f->family->name;
    LM_TRY(lm_matrices_new(c->container, f->family, f->config, f->program, &f->matrices, e));
    const lm_tensor_info *first = lm_matrices_unused(f->matrices, &unused);
    if (unused)
        lm_text_printf(&c->notes, "%zu tensor%s that this model does not use, the first is %s: not carried\n",
                       unused, unused > 1 ? "s" : "", first->name);
    LM_TRY(lm_folder_model_new(c->container, f->family, f->config, f->program, &f->model, &c->notes, e));
    f->configs[0] = f->config;
    f->configs[1] = f->model.config;
    LM_TRY(lm_folder_tensors_new(f->program, f->matrices, f->model.program, f->configs, f->family, c->type,
                                 &c->arena, &f->tensors, e));
    c->tensors       = lm_folder_tensors_list(f->tensors, &c->n);
    c->moving.source = lm_folder_tensors_source(f->tensors);
    note_lost_keys(f);
    return lm_folder_tokenizer(lm_container_meta(c->container), &c->notes, &f->tokenizer,
                               &f->tokenizer_config, &f->ends, e);
}

static void plan_shards(folding *f)
{
    uint64_t max = f->c->o->part_bytes ? f->c->o->part_bytes : SHARD, sum = 0;
    uint32_t part = 0;

    f->bytes = 0;
    for (size_t i = 0; i < f->c->n; i++) {
        lm_moved *t = &f->c->tensors[i];
        if (sum && sum + t->bytes > max) {
            part++;
            sum = 0;
        }
        t->part = part;
        sum += t->bytes;
        f->bytes += t->bytes;
    }
    f->c->files = part + 1;
}

/* ---- files ---- */

static lm_status write_config(folding *f, lm_error *e)
{
    static const struct {
        lm_dtype type;
        const char *name;
    } names[] = { { LM_BF16, "bfloat16" }, { LM_F16, "float16" }, { LM_F32, "float32" } };

    for (size_t i = 0; i < 3; i++)
        if (names[i].type == lm_folder_tensors_type(f->tensors))
            json_object_set_new(f->model.json, "torch_dtype", json_string(names[i].name));
    if (lm_folder_tensors_have_codes(f->tensors))
        json_object_set_new(f->model.json, "quantization_config",
                            json_pack("{s:s, s:[s,s,s,s]}", "quant_method", "mxfp4", "modules_to_not_convert",
                                      "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens",
                                      "lm_head"));
    return lm_new_folder_json(&f->folder, "config.json", json_incref(f->model.json), e);
}

static lm_status write_small_files(folding *f, lm_error *e)
{
    const lm_meta *m    = lm_container_meta(f->c->container);
    lm_text        card = { 0 };

    LM_TRY(write_config(f, e));
    if (f->tokenizer)
        LM_TRY(lm_new_folder_json(&f->folder, "tokenizer.json", json_incref(f->tokenizer), e));
    if (f->tokenizer_config)
        LM_TRY(lm_new_folder_json(&f->folder, "tokenizer_config.json", json_incref(f->tokenizer_config), e));
    LM_TRY(lm_new_folder_json(&f->folder, "generation_config.json", lm_generation_config(m, f->ends), e));
    lm_folder_card(m, &card);
    lm_status status = card.failed ? lm_fail_memory(e, "README.md", card.size) : LM_OK;
    if (status == LM_OK && card.size)
        status = lm_new_folder_text(&f->folder, "README.md", card.data, card.size, e);
    lm_text_free(&card);
    return status;
}

static lm_status sink(void *file, const void *data, size_t n, lm_error *e)
{
    return lm_safetensors_write(file, data, n, e);
}

static lm_status write_shard(folding *f, uint32_t part, const char *path, lm_error *e)
{
    lm_conversion         *c = f->c;
    lm_safetensors_writer *w;

    LM_TRY(lm_safetensors_create(path, &w, e));
    lm_safetensors_add_meta(w, "format", "pt");
    lm_safetensors_add_meta(w, LM_MADE_BY, MAKER);
    for (size_t i = 0; i < c->n; i++)
        if (c->tensors[i].part == part)
            lm_safetensors_add_tensor(w, c->tensors[i].name, c->tensors[i].to, c->tensors[i].n_dims,
                                      c->tensors[i].dims);
    lm_status status = lm_safetensors_begin(w, e);
    for (size_t i = 0; i < c->n && status == LM_OK; i++)
        if (c->tensors[i].part == part)
            status = lm_move_tensor(&c->moving, &c->tensors[i], i, sink, w, e);
    if (status == LM_OK)
        return lm_safetensors_commit(w, e);
    lm_safetensors_abort(w);
    return status;
}

static lm_status write_weights(folding *f, lm_error *e)
{
    lm_conversion *c      = f->c;
    json_t        *map    = json_object();
    lm_status      status = LM_OK;

    for (uint32_t part = 0; part < c->files && status == LM_OK; part++) {
        char name[64] = "model.safetensors";
        if (c->files > 1)
            snprintf(name, sizeof name, "model-%05u-of-%05u.safetensors", part + 1, c->files);
        for (size_t i = 0; i < c->n; i++)
            if (c->tensors[i].part == part)
                json_object_set_new(map, c->tensors[i].name, json_string(name));
        const char *path = lm_new_folder_path(&f->folder, name, e);
        status           = path ? write_shard(f, part, path, e) : LM_NO_MEMORY;
    }
    if (status == LM_OK && c->files > 1)
        return lm_new_folder_json(&f->folder, "model.safetensors.index.json",
                                  json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)f->bytes,
                                            "weight_map", map),
                                  e);
    json_decref(map);
    return status;
}

/* ---- conversion ---- */

/* Check that an existing OUT may be replaced: only if requested, and only if it was created by this
 * command. */
static lm_status check_target(folding *f, lm_error *e)
{
    struct stat st;

    LM_TRY(lm_new_folder_check(&f->folder, f->c->out, MAKER, &f->c->arena, e));
    f->c->path = lm_arena_strdup(&f->c->arena, f->folder.path);
    if (!f->c->path)
        return lm_fail_memory(e, f->c->out, 0);
    char *config = lm_arena_printf(&f->c->arena, "%s/config.json", f->folder.path);
    if (!config)
        return lm_fail_memory(e, f->c->out, 0);
    if (stat(config, &st) == 0 && !f->c->o->overwrite) {
        lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "already exists");
        lm_fail_in(e, f->c->out);
        return lm_fail_hint(e, "use `overwrite` to replace it");
    }
    return lm_check_space(f->folder.path, f->bytes, e);
}

static lm_status write_folder(folding *f, lm_error *e)
{
    lm_conversion *c = f->c;

    LM_TRY(lm_new_folder_begin(&f->folder, c->out, MAKER, &c->arena, e));
    lm_status status = write_small_files(f, e);
    if (status == LM_OK)
        status = write_weights(f, e);
    if (status == LM_OK)
        status = c->moving.again ? lm_overflows_again(e) : lm_check_inputs(c->container, e);
    if (status == LM_OK)
        status = lm_new_folder_commit(&f->folder, e);
    lm_new_folder_end(&f->folder);
    return status;
}

static lm_status fold(folding *f, lm_error *e)
{
    lm_conversion *c = f->c;

    LM_TRY(describe(f, e));
    plan_shards(f);
    LM_TRY(check_target(f, e));
    if (c->o->dry_run)
        return LM_OK;
    LM_TRY(lm_moving_begin(&c->moving, c->tensors, c->n, c->o->threads, e));
    lm_status status = write_folder(f, e);
    if (!c->moving.again)
        return status;
    c->moving.again = false;
    c->moving.done  = 0;
    plan_shards(f);
    return write_folder(f, e);
}

lm_status lm_convert_to_folder(lm_conversion *c, lm_error *e)
{
    folding   f      = { .c = c, .folder = { .lock = -1 } };
    lm_status status = fold(&f, e);

    lm_matrices_free(f.matrices);
    lm_folder_model_free(&f.model);
    lm_program_free(f.program);
    lm_free(f.config);
    json_decref(f.tokenizer);
    json_decref(f.tokenizer_config);
    json_decref(f.ends);
    return status;
}
