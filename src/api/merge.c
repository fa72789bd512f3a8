/* merge.c - write a model with merged adapters to a new file or folder. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "api/merging.h"
#include "base/alloc.h"
#include "base/os/clock.h"
#include "base/os/cpu.h"
#include "base/error.h"
#include "export/files/newfolder.h"
#include "export/synth/synthesis.h"
#include "formats/gguf.h"
#include "formats/safetensors.h"

#define MAKER       "lamina merge"
#define SAMPLE_ROWS 256              /* rows per tensor, if only measured */

/* ---- report ---- */

static double root(double x)
{
    return x > 0 ? sqrt(x) : 0;
}

static void figures(const lm_merging_sums *s, double *change, double *kept, double *noise)
{
    *change = s->w2 > 0 ? root(s->u2 / s->w2) : 0;
    *kept   = s->u2 > 0 ? s->du / s->u2 : 1;
    *noise  = s->u2 > 0 ? root((s->d2 - *kept * s->du) / s->u2) : 0;
}

static void add_result(lm_merging *g, size_t at, const lm_merging_tensor *t, const lm_merging_sums *s,
                       lm_merging_sums *all)
{
    lm_merged_tensor *r = &g->results[at];
    uint64_t          bytes = 0;

    lm_dtype_row_bytes(t->to, t->from->elements, &bytes);
    *r = (lm_merged_tensor){ .name = t->from->name,
                             .from = lm_dtype_of(t->from->type)->name,
                             .to = lm_dtype_of(t->to)->name,
                             .elements = t->from->elements,
                             .bytes = bytes };
    figures(s, &r->change, &r->kept, &r->noise);
    all->w2 += s->w2;
    all->u2 += s->u2;
    all->du += s->du;
    all->d2 += s->d2;
}

static lm_status went_on(lm_merging *g, uint64_t elements, lm_error *e)
{
    g->done += elements;
    if (g->o->progress &&
        !g->o->progress(g->o->progress_arg, g->elements ? (double)g->done / (double)g->elements : 1))
        return lm_fail(e, LM_CANCELLED, NULL, LM_NO_OFFSET, "interrupted");
    return LM_OK;
}

/* End a tensor: values that do not fit a type that was requested are an error; a stored type becomes
 * another. */
static lm_status end_tensor(lm_merging *g, lm_merging_tensor *t, lm_error *e)
{
    const lm_overflow_rule rule = { .clamp = g->o->clamp, .own = !g->o->type, .notes = &g->notes };
    lm_dtype               was  = t->to;
    uint64_t               before = 0, bytes = 0;

    LM_TRY(lm_overflows_end(&g->overflows, t->from->name, &t->to, &rule, e));
    lm_dtype_row_bytes(was, t->from->elements, &before);
    lm_dtype_row_bytes(t->to, t->from->elements, &bytes);
    g->bytes = g->bytes - before + bytes;
    g->again |= t->to != was;
    return LM_OK;
}

/* ---- measuring ---- */

typedef struct work {
    lm_merging      *g;
    lm_merging_sums  all;
    lm_status      (*put)(void *to, const void *data, size_t n, lm_error *e);
    void            *to;
    lm_error        *e;
} work;

static lm_status measure(void *arg)
{
    work       *k = arg;
    lm_merging *g = k->g;
    size_t      at = 0;

    for (size_t i = 0; i < g->n; i++) {
        lm_merging_tensor *t = &g->tensors[i];
        lm_merging_sums    s = { 0 };
        if (!t->addends)
            continue;
        uint64_t step = (t->rows + SAMPLE_ROWS - 1) / SAMPLE_ROWS, n = (t->rows + step - 1) / step,
                 piece = lm_merging_piece(t);
        for (uint64_t done = 0; done < n; done += piece)
            LM_TRY(lm_merging_rows(g, t, done * step, step, n - done < piece ? n - done : piece, &s, k->e));
        LM_TRY(end_tensor(g, t, k->e));
        add_result(g, at++, t, &s, &k->all);
    }
    return LM_OK;
}

static bool is_quantized(const lm_merging *g, const char **type)
{
    for (size_t i = 0; i < g->n; i++)
        if (g->tensors[i].addends && lm_dtype_of(g->tensors[i].to)->quantized) {
            *type = lm_dtype_of(g->tensors[i].to)->name;
            return true;
        }
    return false;
}

static lm_status refuse(const work *k, const char *type, lm_error *e)
{
    double change, kept, noise;

    figures(&k->all, &change, &kept, &noise);
    lm_fail(e, LM_USAGE, lm_container_path(k->g->c), LM_NO_OFFSET,
            "%s keeps %.3g %% of an update of %.2g %% of the weights, plus %.3g %% of noise", type,
            100 * kept, 100 * change, 100 * noise);
    return lm_fail_hint(e, "merge into the float original and quantise that; or a `type` of f16 keeps the "
                           "tensors that change whole; `lossy` writes it all the same");
}

/* ---- writing ---- */

static lm_status put_gguf(void *to, const void *data, size_t n, lm_error *e)
{
    return lm_gguf_write(to, data, n, e);
}
static lm_status put_safetensors(void *to, const void *data, size_t n, lm_error *e)
{
    return lm_safetensors_write(to, data, n, e);
}

static lm_status copy(work *k, const lm_merging_tensor *t)
{
    const uint8_t *data = lm_container_data(k->g->c, t->from);

    for (uint64_t at = 0, n; at < t->from->bytes; at += n) {
        n = t->from->bytes - at < (4 << 20) ? t->from->bytes - at : 4 << 20;
        LM_TRY(k->put(k->to, data + at, n, k->e));
    }
    return went_on(k->g, t->from->elements, k->e);
}

static lm_status write_tensors(void *arg)
{
    work       *k = arg;
    lm_merging *g = k->g;
    size_t      at = 0;

    for (size_t i = 0; i < g->n; i++) {
        lm_merging_tensor *t = &g->tensors[i];
        lm_merging_sums    s = { 0 };
        if (!t->addends) {
            LM_TRY(copy(k, t));
            continue;
        }
        for (uint64_t first = 0, n; first < t->rows; first += n) {
            n = t->rows - first < lm_merging_piece(t) ? t->rows - first : lm_merging_piece(t);
            LM_TRY(lm_merging_rows(g, t, first, 1, n, &s, k->e));
            LM_TRY(k->put(k->to, g->packed, n * g->stride, k->e));
            LM_TRY(went_on(g, n * t->cols, k->e));
        }
        LM_TRY(end_tensor(g, t, k->e));
        add_result(g, at++, t, &s, &k->all);
        lm_filemap_drop(lm_container_file(g->c, t->from->part), t->from->offset, t->from->bytes);
    }
    return LM_OK;
}

static lm_status check_unchanged(const lm_merging *g, lm_error *e)
{
    for (size_t i = 0; i < lm_container_n_files(g->c); i++)
        LM_TRY(lm_filemap_check(lm_container_file(g->c, i), e));
    return LM_OK;
}

static lm_status write_whole(work *k, lm_error *e)
{
    LM_TRY(lm_filemap_guard(write_tensors, k, lm_container_path(k->g->c), e));
    return k->g->again ? lm_overflows_again(e) : check_unchanged(k->g, e);
}

static lm_status write_gguf(work *k, const char *out, lm_error *e)
{
    lm_merging     *g = k->g;
    lm_gguf_writer *w = NULL;
    lm_status       status;

    LM_TRY(lm_check_space(out, g->bytes, e));
    LM_TRY(lm_gguf_create(out, &w, e));
    lm_gguf_add_some(w, lm_container_meta(g->c), "", NULL);
    for (size_t i = 0; i < g->n; i++)
        lm_gguf_add_tensor(w, g->tensors[i].from->name, g->tensors[i].to, g->tensors[i].from->n_dims,
                           g->tensors[i].from->dims);
    k->put = put_gguf;
    k->to  = w;
    status = lm_gguf_begin(w, e);
    if (status == LM_OK)
        status = write_whole(k, e);
    if (status == LM_OK)
        return lm_gguf_commit(w, e);
    lm_gguf_abort(w);
    return status;
}

/* Copy the files next to the weights. */
static lm_status copy_files(lm_merging *g, lm_new_folder *f, lm_error *e)
{
    for (const char *const *name = lm_folder_texts; *name; name++) {
        lm_view text = { 0 };
        LM_TRY(lm_container_text(g->m->container, *name, &text, e));
        if (text.data)
            LM_TRY(lm_new_folder_text(f, *name, text.data, text.size, e));
    }
    return LM_OK;
}

static lm_status write_weights(work *k, lm_new_folder *f, lm_error *e)
{
    lm_merging            *g = k->g;
    lm_safetensors_writer *w = NULL;
    const char            *path = lm_new_folder_path(f, "model.safetensors", e);
    lm_status              status;

    if (!path)
        return LM_NO_MEMORY;
    LM_TRY(lm_safetensors_create(path, &w, e));
    lm_safetensors_add_meta(w, "format", "pt");
    lm_safetensors_add_meta(w, LM_MADE_BY, MAKER);
    for (size_t i = 0; i < g->n; i++)
        lm_safetensors_add_tensor(w, g->tensors[i].from->name, g->tensors[i].to, g->tensors[i].from->n_dims,
                                  g->tensors[i].from->dims);
    k->put = put_safetensors;
    k->to  = w;
    status = lm_safetensors_begin(w, e);
    if (status == LM_OK)
        status = write_whole(k, e);
    if (status == LM_OK)
        return lm_safetensors_commit(w, e);
    lm_safetensors_abort(w);
    return status;
}

static lm_status write_folder(work *k, const char *out, lm_error *e)
{
    lm_new_folder f;
    lm_status     status;

    LM_TRY(lm_new_folder_begin(&f, out, MAKER, &k->g->arena, e));
    status = lm_check_space(f.path, k->g->bytes, e);
    if (status == LM_OK)
        status = copy_files(k->g, &f, e);
    if (status == LM_OK)
        status = write_weights(k, &f, e);
    if (status == LM_OK)
        status = lm_new_folder_commit(&f, e);
    lm_new_folder_end(&f);
    return status;
}

static lm_status write_model(work *k, const char *out, lm_error *e)
{
    return lm_container_kind_of(k->g->c) == LM_GGUF ? write_gguf(k, out, e) : write_folder(k, out, e);
}

/* ---- entry point ---- */

static lm_status check_target(const lm_merging *g, const char *out, lm_error *e)
{
    const char *in = lm_container_path(g->c);
    size_t      n = out ? strlen(out) : 0;
    bool        named = n > 5 && strcmp(out + n - 5, ".gguf") == 0;
    struct stat a, b;

    if (g->o->dry_run)
        return LM_OK;
    if (!n)
        return lm_fail(e, LM_USAGE, "OUT", LM_NO_OFFSET, "the file name is empty");
    if (named != (lm_container_kind_of(g->c) == LM_GGUF)) {
        lm_fail(e, LM_USAGE, out, LM_NO_OFFSET,
                named ? "the model is a folder, so what is written is a folder"
                      : "the model is a GGUF file, so what is written is one: end the name in .gguf");
        return named ? lm_fail_hint(e, "it can be converted afterwards") : LM_USAGE;
    }
    if (stat(out, &b) != 0)
        return LM_OK;
    if (stat(in, &a) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
        return lm_fail(e, LM_USAGE, out, LM_NO_OFFSET, "the model would be written over itself");
    if (g->o->overwrite || (S_ISREG(b.st_mode) && !b.st_size))
        return LM_OK;
    lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "already exists");
    lm_fail_in(e, out);
    return lm_fail_hint(e, "use `overwrite` to replace it");
}

static lm_status take_memory(lm_merging *g, lm_error *e)
{
    unsigned threads = g->o->threads ? g->o->threads : lm_cpu_cores();
    uint64_t max = 1, bytes = 0, b;

    for (size_t i = 0; i < g->n; i++) {
        const lm_merging_tensor *t = &g->tensors[i];
        uint64_t                 rows = t->addends ? lm_merging_piece(t) : 0;
        max = rows > max ? rows : max;
        if (rows && lm_dtype_row_bytes(g->o->type ? t->to : LM_F32, rows * t->cols, &b))   /* it may change */
            bytes = b > bytes ? b : bytes;
    }
    LM_TRY(lm_pool_new(threads, &g->pool, e));
    g->packed   = lm_alloc(bytes + 1);
    g->scratch  = lm_alloc_zero(threads * g->longest + 1, sizeof *g->scratch);
    g->floats   = lm_alloc_zero(3 * threads * g->longest + 1, sizeof *g->floats);
    g->sums     = lm_alloc_zero(max, sizeof *g->sums);
    g->results  = lm_arena_new(&g->arena, g->n_changed + 1, lm_merged_tensor);
    g->quantize = lm_quantizer(lm_cpu_usable());
    return g->packed && g->scratch && g->floats && g->sums && g->results
               ? LM_OK
               : lm_fail_memory(e, "rows", g->longest * sizeof(float));
}

static lm_status run(lm_merging *g, const lm_adapter *const *adapters, const char *out, work *k, lm_error *e)
{
    const char *type;

    if (!g->m->tensors || !g->m->container) {
        lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "this model has no weights");
        return lm_fail_in(e, g->m->source);
    }
    g->c = g->m->container;
    if (!adapters[0])
        return lm_fail(e, LM_USAGE, "adapters", LM_NO_OFFSET, "none is given");
    LM_TRY(check_target(g, out, e));
    LM_TRY(lm_merging_plan(g, adapters, e));
    LM_TRY(take_memory(g, e));
    bool refused = is_quantized(g, &type) && !g->o->lossy;
    if (refused || g->o->dry_run)
        LM_TRY(lm_filemap_guard(measure, k, lm_container_path(g->c), e));
    if (g->o->dry_run)
        return LM_OK;
    if (refused)
        return refuse(k, type, e);
    lm_status status = write_model(k, out, e);
    if (!g->again)
        return status;
    g->again = false;                        /* the types are final: bf16 and f32 hold what did not fit */
    g->done  = 0;
    k->all   = (lm_merging_sums){ 0 };
    return write_model(k, out, e);
}

static void end(lm_merging *g)
{
    lm_pool_free(g->pool);
    lm_free(g->packed);
    lm_free(g->scratch);
    lm_free(g->floats);
    lm_free(g->sums);
    lm_text_free(&g->notes);
    lm_arena_free(&g->arena);
    lm_free(g);
}

lm_status lm_merge(const lm_model *m, const lm_adapter *const *adapters, const char *out,
                   const lm_merge_options *o, lm_merge_result *result, lm_error *e)
{
    LM_REQUIRE(e, m && adapters);
    LM_CHECK_RESERVED(e, o);
    static const lm_merge_options defaults;
    double      start = lm_clock_seconds();
    lm_merging *g     = lm_alloc_zero(1, sizeof *g);

    if (!g)
        return lm_fail_memory(e, "a merge", sizeof *g);
    g->m             = m;
    g->o             = o ? o : &defaults;
    work      k      = { .g = g, .e = e };
    lm_status status = run(g, adapters, out, &k, e);
    size_t    n_notes;
    const char *const *notes = lm_arena_lines(&g->arena, g->notes.data, g->notes.size, &n_notes);
    if (status == LM_OK && (!notes || g->notes.failed))
        status = lm_fail_memory(e, "a result", g->notes.size);
    if (status != LM_OK || !result) {
        end(g);
        return status;
    }
    *result = (lm_merge_result){ .tensors = g->results,
                                 .n_tensors = g->n_changed,
                                 .bytes = g->bytes,
                                 .seconds = lm_clock_seconds() - start,
                                 .notes = notes,
                                 .n_notes = n_notes,
                                 .impl = g };
    figures(&k.all, &result->change, &result->kept, &result->noise);
    return LM_OK;
}

void lm_merge_free(lm_merge_result *r)
{
    if (r && r->impl)
        end(r->impl);
    if (r)
        *r = (lm_merge_result){ 0 };
}
