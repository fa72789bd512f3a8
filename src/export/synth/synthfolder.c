/* synthfolder.c - write a model with random weights as a Hugging Face folder: config.json, safetensors
 * shards, a tokenizer.
 *
 * Everything is written to a temporary folder next to OUT, which is renamed when it is complete. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/os/filemap.h"
#include "export/files/newfolder.h"
#include "export/synth/synthesis.h"
#include "export/vocabulary/tokenizerjson.h"
#include "formats/safetensors.h"

#define MAKER "lamina synth"

#define SHARD (UINT64_C(5) * 1000 * 1000 * 1000)     /* the default of transformers */

static lm_status write_config(lm_synthesis *s, lm_new_folder *folder, lm_error *e)
{
    static const struct {
        const char *type, *torch;
    } names[] = { { "bf16", "bfloat16" }, { "f16", "float16" }, { "f32", "float32" } };
    json_t *config = json_copy(s->json);

    json_object_del(config, "dtype");
    json_object_del(config, "quantization_config");      /* the output contains floats */
    if (s->config.ternary.class_name)                   /* which are rounded when they are read */
        json_object_set_new(config, "quantization_config",
                            json_pack("{s:s, s:s, s:s}", "quant_method", lm_ternary_method, "linear_class",
                                      "autobitlinear", "quantization_mode", "online"));
    for (size_t i = 0; i < 3; i++)
        if (strcmp(s->type, names[i].type) == 0)
            json_object_set_new(config, "torch_dtype", json_string(names[i].torch));
    return lm_new_folder_json(folder, "config.json", config, e);
}

/* Copy the files of a tokenizer, from a folder or a single tokenizer.json. */
static lm_status copy_tokenizer(lm_synthesis *s, lm_new_folder *folder, lm_error *e)
{
    static const char *const one[] = { "tokenizer.json", NULL };
    const char *from = s->o->tokenizer;
    bool        many = lm_path_is_folder(from), found = false;
    char       *text;
    size_t      n;

    if (!many && !lm_view_ends(lm_view_of(from), LM_VIEW(".json"))) {
        lm_fail(e, LM_USAGE, "tokenizer", LM_NO_OFFSET,
                "a folder requires another folder's tokenizer, or a tokenizer.json");
        return lm_fail_in(e, from);
    }
    /* config.json is already written */
    for (const char *const *name = many ? lm_folder_texts + 1 : one; *name; name++) {
        const char *path = many ? lm_arena_printf(&s->arena, "%s/%s", from, *name) : from;
        if (!path)
            return lm_fail_memory(e, from, 0);
        if (many && !lm_path_is_file(path))
            continue;
        LM_TRY(lm_file_read(path, UINT64_C(1) << 28, &text, &n, e));
        lm_status status = lm_new_folder_text(folder, *name, text, n, e);
        lm_free(text);
        LM_TRY(status);
        found = true;
    }
    if (found)
        return LM_OK;
    lm_fail(e, LM_USAGE, "tokenizer", LM_NO_OFFSET, "no tokenizer in this folder");
    return lm_fail_in(e, from);
}

static lm_status write_tokenizer(lm_synthesis *s, lm_new_folder *folder, lm_error *e)
{
    lm_invented v;

    if (s->o->tokenizer)
        return copy_tokenizer(s, folder, e);
    LM_TRY(lm_invent_for(s->meta, s->program->n_vocab, &s->arena, &v, e));
    if (!v.n)
        return LM_OK;
    LM_TRY(lm_new_folder_json(folder, "tokenizer.json", lm_tokenizer_json(&v), e));
    return lm_new_folder_json(folder, "tokenizer_config.json", lm_tokenizer_config_json(&v), e);
}

/* ---- tensors ---- */

static lm_status add_one(lm_synthesis *s, uint32_t i, const char *name, uint64_t expert, lm_dtype type,
                         lm_error *e)
{
    const lm_weight *w = &s->program->weights[i];
    char             published[256];
    lm_made_tensor  *t = lm_add_made(s, lm_published_name(s->family, name, published, sizeof published));

    if (!t)
        return lm_fail_memory(e, "tensors", 0);
    lm_fill_made(s, i, false, t);
    t->type = w->below ? LM_I64 : type;
    t->mean -= w->plus_one ? 1.0f : 0.0f;
    if (strchr(w->path, '*')) {          /* one of several tensors that are stored separately */
        t->n_dims   = w->n_dims - 1;
        t->dims[0]  = w->dims[1];
        t->dims[1]  = w->n_dims == 3 ? w->dims[2] : 0;
        t->elements = t->part;
        t->stream += expert;
    }
    if (w->kind == LM_HEADS)
        lm_fill_joint(w, t);
    t->transposed |= w->transposed && t->n_dims == 2;
    return LM_OK;
}

/* Return the weight whose rows follow, or alternate with, those of weight `w` in one tensor. */
static const lm_weight *partner(const lm_program *p, const lm_weight *w)
{
    for (uint32_t k = 0; k < p->n_weights; k++)
        if (p->weights[k].interleaved.path && p->weights[k].interleaved.first &&
            strcmp(p->weights[k].interleaved.path, w->interleaved.path) == 0)
            return &p->weights[k];
    return NULL;
}

static lm_status add_interleaved(lm_synthesis *s, uint32_t i, lm_dtype type, lm_error *e)
{
    const lm_weight *w = &s->program->weights[i], *other = partner(s->program, w);
    lm_made_tensor  *t = lm_add_made(s, w->interleaved.path);

    if (!t)
        return lm_fail_memory(e, "tensors", 0);
    lm_fill_made(s, i, false, t);
    t->type                   = type;
    t->cols                   = w->n_dims == 3 ? w->dims[2] : 1;
    t->interleaved.of         = w->interleaved.of;
    t->interleaved.rows       = w->dims[1];
    t->interleaved.in_turns   = w->interleaved.step == 2;
    t->interleaved.transposed = w->interleaved.transposed;
    t->interleaved.each       = strchr(w->path, '*') != NULL;
    t->interleaved.streams[0] = t->stream;
    t->interleaved.streams[1] = other ? lm_made_stream(other->path) : 0;
    t->dims[1]                = w->interleaved.transposed ? t->cols : w->interleaved.of;
    t->dims[2]                = w->interleaved.transposed ? w->interleaved.of : t->cols;
    t->elements               = t->part = w->dims[0] * w->interleaved.of * t->cols;
    return LM_OK;
}

/* Return whether a weight is the factor of a matrix of -1, 0 and 1, which follows from its floats. */
static bool is_of_matrix(const lm_program *p, uint32_t weight)
{
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->nodes[i].code == LM_OP_LINEAR && p->nodes[i].weights[2] == weight)
            return true;
    return false;
}

static lm_status list_tensors(lm_synthesis *s, lm_dtype type, lm_error *e)
{
    char name[256];

    for (uint32_t i = 0; i < s->program->n_weights; i++) {
        const lm_weight *w    = &s->program->weights[i];
        const char      *star = strchr(w->path, '*');
        if (w->gguf_only || is_of_matrix(s->program, i) || (w->kind == LM_HEADS && w->joint.first) ||
            (w->interleaved.path && w->interleaved.first))
            continue;
        if (w->interleaved.path) {
            LM_TRY(add_interleaved(s, i, type, e));
            continue;
        }
        if (!star)
            LM_TRY(add_one(s, i, w->kind == LM_HEADS ? w->joint.path : w->path, 0, type, e));
        for (uint64_t k = 0; star && k < w->dims[0]; k++) {
            snprintf(name, sizeof name, "%.*s%" PRIu64 "%s", (int)(star - w->path), w->path, k, star + 1);
            LM_TRY(add_one(s, i, name, k, type, e));
        }
    }
    return LM_OK;
}

/* Return the end of the shard that begins with tensor `from`. */
static size_t shard_end(const lm_synthesis *s, size_t from)
{
    uint64_t max = s->o->shard_bytes ? s->o->shard_bytes : SHARD, sum = 0;
    size_t   i    = from;

    for (; i < s->n_tensors; i++) {
        uint64_t bytes = s->tensors[i].elements * lm_dtype_of(s->tensors[i].type)->bytes;
        if (i > from && sum + bytes > max)
            break;
        sum += bytes;
    }
    return i;
}

static lm_status sink(void *file, const void *data, size_t n, lm_error *e)
{
    return lm_safetensors_write(file, data, n, e);
}

static lm_status write_shard(lm_synthesis *s, const char *path, size_t from, size_t end, lm_error *e)
{
    lm_safetensors_writer *w;
    lm_status              status;

    LM_TRY(lm_safetensors_create(path, &w, e));
    lm_safetensors_add_meta(w, "format", "pt");
    lm_safetensors_add_meta(w, LM_MADE_BY, MAKER);
    for (size_t i = from; i < end; i++)
        lm_safetensors_add_tensor(w, s->tensors[i].name, s->tensors[i].type, s->tensors[i].n_dims,
                                  s->tensors[i].dims);
    status = lm_safetensors_begin(w, e);
    for (size_t i = from; i < end && status == LM_OK; i++)
        status = lm_make_tensor(s, &s->tensors[i], sink, w, e);
    if (status == LM_OK)
        return lm_safetensors_commit(w, e);
    lm_safetensors_abort(w);
    return status;
}

static lm_status write_weights(lm_synthesis *s, lm_new_folder *folder, lm_error *e)
{
    json_t   *map = json_object();
    uint32_t  n = 0, k = 0;
    lm_status status = LM_OK;

    for (size_t at = 0; at < s->n_tensors; at = shard_end(s, at))
        n++;
    s->files = n;
    for (size_t at = 0, end; at < s->n_tensors && status == LM_OK; at = end) {
        char name[64] = "model.safetensors";
        if (n > 1)
            snprintf(name, sizeof name, "model-%05u-of-%05u.safetensors", ++k, n);
        const char *path = lm_new_folder_path(folder, name, e);
        end              = shard_end(s, at);
        for (size_t i = at; i < end; i++)
            json_object_set_new(map, s->tensors[i].name, json_string(name));
        status = path ? write_shard(s, path, at, end, e) : LM_NO_MEMORY;
    }
    if (status == LM_OK && n > 1)
        return lm_new_folder_json(folder, "model.safetensors.index.json",
                                  json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)s->bytes,
                                            "weight_map", map),
                                  e);
    json_decref(map);
    return status;
}

static lm_status write_folder(lm_synthesis *s, lm_new_folder *folder, lm_error *e)
{
    LM_TRY(lm_check_space(folder->path, s->bytes, e));
    LM_TRY(write_config(s, folder, e));
    LM_TRY(write_tokenizer(s, folder, e));
    return write_weights(s, folder, e);
}

static lm_status choose_type(lm_synthesis *s, lm_dtype *out, lm_error *e)
{
    const lm_dtype_info *d = lm_dtype_named(s->o->type ? s->o->type : "bf16");

    if (!d || (d->type != LM_BF16 && d->type != LM_F16 && d->type != LM_F32))
        return lm_fail(e, LM_USAGE, "type", LM_NO_OFFSET,
                       "unknown type \"%s\" for a folder; use bf16, f16 or f32, or a name ending in .gguf to "
                       "write a GGUF file",
                       s->o->type);
    *out = d->type;
    s->type = d->name;
    return LM_OK;
}

lm_status lm_synth_folder(lm_synthesis *s, const char *path, lm_error *e)
{
    lm_dtype type = LM_BF16;
    lm_new_folder folder;

    LM_TRY(choose_type(s, &type, e));
    LM_TRY(lm_new_folder_check(&folder, path, MAKER, &s->arena, e));
    LM_TRY(list_tensors(s, type, e));
    LM_TRY(lm_prepare_synthesis(s, e));
    LM_TRY(lm_new_folder_begin(&folder, path, MAKER, &s->arena, e));
    lm_status status = write_folder(s, &folder, e);
    if (status == LM_OK)
        status = lm_new_folder_commit(&folder, e);
    lm_new_folder_end(&folder);
    return status;
}
