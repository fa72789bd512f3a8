/* keep.c - what a run writes: adapters, models, its log. Each file is either complete or unchanged. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/os/filemap.h"
#include "base/jsontext.h"
#include "base/number.h"
#include "formats/gguf.h"
#include "formats/safetensors.h"
#include "runtime/adapters/adapters.h"
#include "runtime/model/model.h"
#include "train/run.h"

enum { PATH = 4096, LOG_BYTES = 1 << 30 };

lm_status lm_train_make_folder(const char *path, lm_error *e)
{
    char   part[PATH];
    size_t n = strlen(path);

    if (n >= sizeof part)
        return lm_fail(e, LM_USAGE, "folder", LM_NO_OFFSET, "the path is too long");
    for (size_t i = 1; i <= n; i++)
        if (path[i] == '/' || i == n) {
            snprintf(part, sizeof part, "%.*s", (int)i, path);
            if (mkdir(part, 0777) != 0 && errno != EEXIST)
                return lm_fail_errno(e, part, "cannot be made");
        }
    return lm_path_is_folder(path) ? LM_OK : lm_fail(e, LM_USAGE, path, LM_NO_OFFSET, "is not a folder");
}

/* ---- row order of B ---- */

/* Return the target of a trained weight. */
static uint32_t target_of(const lm_train_run *r, const lm_weight *w)
{
    for (uint32_t i = 0; i < r->n_targets; i++) {
        size_t n = strlen(r->modules[i]);
        if (strncmp(w->path, r->modules[i], n) == 0 && strncmp(w->path + n, ".lora_", 6) == 0)
            return i;
    }
    return LM_NONE;
}

/* Copy the values of a weight as in a checkpoint's adapter: for a GGUF file the rows of B and the columns of
 * A are put in checkpoint order. */
static void to_checkpoint(const lm_train_run *r, const lm_weight *w, const float *from, float *to)
{
    bool     is_b   = strstr(w->path, ".lora_B.");
    uint32_t target = target_of(r, w);
    uint64_t cols   = w->dims[1];

    if (target == LM_NONE || !lm_adapter_in_gguf_order(r->model)) {
        memcpy(to, from, w->elements * sizeof *to);
        return;
    }
    lm_gguf_rows order = lm_adapter_rows(r->model, r->targets[target].node);
    for (uint64_t i = 0; is_b && i < w->dims[0]; i++)
        memcpy(to + lm_gguf_row_from(&order, i) * cols, from + i * cols, cols * sizeof *to);
    for (uint64_t i = 0; !is_b && i < w->elements; i++)
        to[i - i % cols + lm_gguf_column_from(&order, i % cols)] = from[i];
}

/* ---- tensors of a run ---- */

/* Return whether checkpoints store the matrices of heads transposed, each for itself. */
static bool turned_in_files(const lm_weight *w)
{
    return w->kind == LM_HEADS && w->joint.by_head && w->joint.transposed;
}

/* Convert the values, or gradients, of a trained weight to those of the file: `out` [elements]. */
static void as_stored(const lm_train_run *r, const lm_trained *t, const float *values, bool gradient,
                      float *out)
{
    const lm_weight *w     = &r->program->weights[t->weight];
    bool             heads = w->kind == LM_HEADS;
    bool turned = heads ? turned_in_files(w)
                        : r->model->transposed && t->weight < r->model->program->n_weights && w->transposed;
    uint64_t rows = w->dims[heads], each = w->elements / (heads ? w->dims[0] : 1), cols = each / rows;

    if (r->adapted) {
        to_checkpoint(r, w, values, out);
        return;
    }
    for (uint64_t i = 0; i < w->elements; i++) {
        uint64_t at = i % each;
        out[i - at + (turned ? at % cols * rows + at / cols : at)] = values[i];
    }
    if (!gradient)
        lm_weight_to_stored(w, false, out, w->elements);
}

/* Add the tensors of a weight: one, or one for each head where checkpoints store heads apart
 * ("….norms.*.weight"). */
static void add_tensors(const lm_train_run *r, const lm_weight *x, lm_safetensors_writer *w)
{
    uint64_t    dims[4] = { x->dims[0], x->dims[1], x->dims[2] };
    uint32_t    n       = r->adapted ? x->n_dims : lm_weight_dims(x, false, dims);
    const char *star    = x->kind == LM_EXPERTS ? NULL : strchr(x->path, '*');
    char        name[512];

    if (turned_in_files(x))
        memcpy(dims + 1, (uint64_t[]){ x->dims[2], x->dims[1] }, 2 * sizeof *dims);
    for (uint64_t i = 0; i < (star ? dims[0] : 1); i++) {
        snprintf(name, sizeof name, "%s%.480s", r->adapted ? "base_model.model." : "", x->path);
        if (star)
            snprintf(name, sizeof name, "%.*s%" PRIu64 "%.200s", (int)(star - x->path), x->path, i, star + 1);
        lm_safetensors_add_tensor(w, name, x->below ? LM_I64 : LM_F32, star ? n - 1 : n,
                                  star ? dims + 1 : dims);
    }
}

/* Write trained weights, or their gradients. */
static lm_status write_trained(const lm_train_run *r, bool gradients, lm_safetensors_writer *w, lm_error *e)
{
    lm_status status = LM_OK;

    for (uint32_t i = 0; status == LM_OK && i < r->learner->n_trained; i++) {
        const lm_trained *t   = &r->learner->trained[i];
        float            *out = lm_alloc(t->elements * sizeof *out + 4);
        if (!out)
            return lm_fail_memory(e, "a tensor", t->elements * sizeof *out);
        as_stored(r, t, gradients ? t->gradient : t->value, gradients, out);
        status = lm_safetensors_write(w, out, t->elements * sizeof *out, e);
        lm_free(out);
    }
    return status;
}

/* Return whether a whole model needs a vector that is not trained, such as the constants of an activation. */
static bool is_kept(const lm_train_run *r, uint32_t i)
{
    const lm_weight *w = &r->program->weights[i];

    return !r->adapted && !r->wanted[i] && w->kind == LM_VECTOR && w->path && !w->gguf_only;
}

/* Write a vector as checkpoints store it: whole numbers as i64. */
static lm_status write_kept(const lm_train_run *r, uint32_t i, lm_safetensors_writer *w, lm_error *e)
{
    const lm_weight *x    = &r->program->weights[i];
    const float     *from = r->learner->engine->weight[i];
    int64_t         *whole = x->below ? lm_alloc(x->elements * sizeof *whole) : NULL;

    if (!x->below)
        return lm_safetensors_write(w, from, x->elements * sizeof *from, e);
    if (!whole)
        return lm_fail_memory(e, "a tensor", x->elements * sizeof *whole);
    for (uint64_t k = 0; k < x->elements; k++)
        whole[k] = (int64_t)from[k];
    lm_status status = lm_safetensors_write(w, whole, x->elements * sizeof *whole, e);
    lm_free(whole);
    return status;
}

/* Write trained weights and the constants beside them, or gradients, under their public names; `meta` in
 * pairs. */
static lm_status write_tensors(const lm_train_run *r, const char *path, bool gradients,
                               const char *const *meta, lm_error *e)
{
    lm_safetensors_writer *w    = NULL;
    uint32_t               kept = gradients ? 0 : r->program->n_weights;
    lm_status              status;

    LM_TRY(lm_safetensors_create(path, &w, e));
    for (; meta && *meta; meta += 2)
        lm_safetensors_add_meta(w, meta[0], meta[1]);
    for (uint32_t i = 0; i < r->learner->n_trained; i++)
        add_tensors(r, &r->program->weights[r->learner->trained[i].weight], w);
    for (uint32_t i = 0; i < kept; i++)
        if (is_kept(r, i))
            add_tensors(r, &r->program->weights[i], w);
    status = lm_safetensors_begin(w, e);
    if (status == LM_OK)
        status = write_trained(r, gradients, w, e);
    for (uint32_t i = 0; status == LM_OK && i < kept; i++)
        if (is_kept(r, i))
            status = write_kept(r, i, w, e);
    if (status == LM_OK)
        return lm_safetensors_commit(w, e);
    lm_safetensors_abort(w);
    return status;
}

lm_status lm_train_save_gradients(const lm_train_run *r, const char *path, lm_error *e)
{
    char        loss[40];
    const char *meta[] = { "format", "pt", "loss", loss, NULL };

    lm_print(loss, sizeof loss, "%.9g", r->result->loss_first);
    return write_tensors(r, path, true, meta, e);
}

/* ---- adapters ---- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Return the module paths, sorted. */
static json_t *target_names(const lm_train_run *r)
{
    json_t      *out = json_array();
    const char **names = lm_alloc_zero(r->n_targets + 1, sizeof *names);

    for (uint32_t i = 0; names && i < r->n_targets; i++)
        names[i] = r->modules[i];
    if (names)
        qsort(names, r->n_targets, sizeof *names, by_text);
    for (uint32_t i = 0; names && i < r->n_targets; i++)
        json_array_append_new(out, json_string(names[i]));
    lm_free(names);
    return out;
}

/* Return the last names of the modules, if these select exactly the targets; otherwise the full paths. */
static json_t *target_words(const lm_train_run *r)
{
    json_t *words = json_object(), *out = json_array();
    void   *at;

    for (uint32_t i = 0; i < r->n_targets; i++) {
        const char *dot = strrchr(r->modules[i], '.');
        json_object_set_new(words, dot ? dot + 1 : r->modules[i], json_true());
    }
    for (uint32_t node = 0; node < r->model->program->n_nodes; node++) {
        lm_adapt_shape shape;
        if (!lm_adapt_possible(r->model->program, node, &shape) || shape.table)
            continue;
        const char *dot = strrchr(shape.module, '.');
        bool        is  = false;
        for (uint32_t i = 0; i < r->n_targets; i++)
            is |= strcmp(r->modules[i], shape.module) == 0;
        if (!is)
            json_object_del(words, dot ? dot + 1 : shape.module);
    }
    for (at = json_object_iter(words); at; at = json_object_iter_next(words, at))
        json_array_append_new(out, json_string(json_object_iter_key(at)));
    bool whole = true;
    for (uint32_t i = 0; i < r->n_targets; i++) {
        const char *dot = strrchr(r->modules[i], '.');
        whole &= json_object_get(words, dot ? dot + 1 : r->modules[i]) != NULL;
    }
    json_decref(words);
    if (whole)
        return out;
    json_decref(out);
    return target_names(r);
}

static lm_status write_config(const lm_train_run *r, const char *folder, lm_error *e)
{
    char    path[PATH];
    lm_text text = { 0 };
    json_t *c = json_pack("{s:s, s:s, s:i, s:f, s:f, s:o, s:s, s:b, s:b, s:n, s:b, s:b, s:s, s:b}",
                          "peft_type", "LORA", "task_type", "CAUSAL_LM", "r", (int)r->o->rank, "lora_alpha",
                          r->o->alpha, "lora_dropout", r->o->dropout, "target_modules", target_words(r),
                          "bias", "none", "use_rslora", r->o->rslora, "use_dora", 0, "modules_to_save",
                          "fan_in_fan_out", 0, "inference_mode", 1, "base_model_name_or_path",
                          r->model->source ? r->model->source : "", "init_lora_weights", 1);

    for (uint32_t i = 0; c && i < r->n_targets; i++)     /* Conv1D: GPT-2's layers */
        if (r->model->program->weights[r->model->program->nodes[r->targets[i].node].weights[0]].transposed)
            json_object_set_new(c, "fan_in_fan_out", json_true());
    bool made = c && lm_json_print(c, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_REAL_PRECISION(9), &text);
    json_decref(c);
    if (!made) {
        lm_text_free(&text);
        return lm_fail_memory(e, "adapter_config.json", 0);
    }
    lm_text_add_char(&text, '\n');
    snprintf(path, sizeof path, "%.3900s/adapter_config.json", folder);
    lm_status status = text.failed ? lm_fail_memory(e, "adapter_config.json", 0)
                                   : lm_file_write(path, text.data, text.size, e);
    lm_text_free(&text);
    return status;
}

/* Write llama.cpp's format. Its tensors are those of the base's GGUF file, so the base must be one. */
static lm_status write_gguf(const lm_train_run *r, const char *folder, lm_error *e)
{
    char             path[PATH], name[300];
    lm_gguf_writer  *w = NULL;
    lm_view          arch = { 0 };
    lm_status        status;

    if (lm_container_kind_of(r->model->container) != LM_GGUF)
        return LM_OK;
    snprintf(path, sizeof path, "%.3900s/adapter.gguf", folder);
    LM_TRY(lm_meta_string(lm_container_meta(r->model->container), "general.architecture", &arch, e));
    LM_TRY(lm_gguf_create(path, &w, e));
    lm_gguf_add_string(w, "general.type", LM_VIEW("adapter"));
    lm_gguf_add_string(w, "general.architecture", arch);
    lm_gguf_add_string(w, "adapter.type", LM_VIEW("lora"));
    lm_gguf_add_f32(w, "adapter.lora.alpha", (float)(lm_train_scale(r->o) * r->o->rank));
    for (uint32_t i = 0; i < r->learner->n_trained; i++) {
        const lm_weight *x      = &r->program->weights[r->learner->trained[i].weight];
        uint32_t         target = target_of(r, x);
        lm_adapt_shape   shape  = { 0 };
        if (target == LM_NONE || !lm_adapt_possible(r->model->program, r->targets[target].node, &shape) ||
            !shape.gguf) {
            lm_gguf_abort(w);
            return LM_OK;                        /* the format cannot represent it */
        }
        snprintf(name, sizeof name, "%.280s.lora_%c", shape.gguf, strstr(x->path, ".lora_A.") ? 'a' : 'b');
        lm_gguf_add_tensor(w, name, LM_F32, 2, x->dims);
    }
    status = lm_gguf_begin(w, e);
    for (uint32_t i = 0; status == LM_OK && i < r->learner->n_trained; i++)
        status = lm_gguf_write(w, r->learner->trained[i].value,
                               r->learner->trained[i].elements * sizeof(float), e);
    if (status == LM_OK)
        return lm_gguf_commit(w, e);
    lm_gguf_abort(w);
    return status;
}

/* ---- whole models ---- */

static lm_status copy_files(const lm_train_run *r, const char *folder, lm_error *e)
{
    char path[PATH];

    for (const char *const *name = lm_folder_texts; *name; name++) {
        lm_view text = { 0 };
        LM_TRY(lm_container_text(r->model->container, *name, &text, e));
        snprintf(path, sizeof path, "%.3900s/%s", folder, *name);
        if (text.data)
            LM_TRY(lm_file_write(path, text.data, text.size, e));
    }
    return LM_OK;
}

lm_status lm_train_save(const lm_train_run *r, const char *folder, lm_error *e)
{
    static const char *const meta[] = { "format", "pt", NULL };
    char path[PATH];

    LM_TRY(lm_train_make_folder(folder, e));
    snprintf(path, sizeof path, "%.3900s/%s", folder,
             r->adapted ? "adapter_model.safetensors" : "model.safetensors");
    if (!r->adapted)
        LM_TRY(copy_files(r, folder, e));
    LM_TRY(write_tensors(r, path, false, meta, e));
    if (!r->adapted)
        return LM_OK;
    LM_TRY(write_config(r, folder, e));
    return write_gguf(r, folder, e);
}

/* ---- the log ---- */

lm_status lm_train_trim_log(const char *folder, uint32_t step, lm_error *e)
{
    char   path[PATH], *data = NULL;
    size_t size = 0, keep = 0;

    snprintf(path, sizeof path, "%.3900s/log.jsonl", folder);
    if (!lm_path_is_file(path))
        return LM_OK;
    LM_TRY(lm_file_read(path, LOG_BYTES, &data, &size, e));
    for (size_t at = 0; at < size;) {
        const char *end = memchr(data + at, '\n', size - at);
        json_t     *line = end ? json_loadb(data + at, (size_t)(end - data) - at, 0, NULL) : NULL;
        json_t     *number = json_object_get(line, "step");
        bool        is_old = json_is_integer(number) && json_integer_value(number) <= (json_int_t)step;
        json_decref(line);
        if (!is_old)
            break;
        at = keep = (size_t)(end - data) + 1;
    }
    lm_status status = keep == size ? LM_OK : lm_file_write(path, data, keep, e);
    lm_free(data);
    return status;
}

lm_status lm_train_log(const char *folder, const lm_train_step *s, lm_error *e)
{
    char    path[PATH];
    lm_text line = { 0 };

    snprintf(path, sizeof path, "%.3900s/log.jsonl", folder);
    lm_text_printf(&line,
                   "{\"step\": %u, \"epoch\": %u, \"loss\": %.9g, \"lr\": %.9g, \"grad_norm\": %.9g, "
                   "\"tokens\": %" PRIu64 ", \"trained\": %" PRIu64 ", \"seconds\": %.4f",
                   s->step, s->epoch, isfinite(s->loss) ? s->loss : -1, s->rate,
                   isfinite(s->grad_norm) ? s->grad_norm : -1, s->tokens, s->trained, s->seconds);
    if (isfinite(s->valid))
        lm_text_printf(&line, ", \"valid\": %.9g", s->valid);
    lm_text_add_str(&line, s->skipped ? ", \"skipped\": true}\n" : "}\n");
    FILE *f = line.failed ? NULL : fopen(path, "ae");
    bool  good = f && fwrite(line.data, 1, line.size, f) == line.size;
    good = (!f || fclose(f) == 0) && good;
    lm_text_free(&line);
    return good ? LM_OK : lm_fail_errno(e, path, "cannot be written");
}
