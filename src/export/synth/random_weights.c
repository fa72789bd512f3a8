/* random_weights.c - random weights, packed in pieces by all threads. */
#include <math.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/number.h"
#include "base/os/cpu.h"
#include "base/rng.h"
#include "export/synth/synthesis.h"
#include "export/tensors/overflow.h"

#define PIECE (UINT64_C(1) << 22)    /* elements per write */
#define GRAIN (UINT64_C(1) << 14)    /* elements per task of a thread: whole blocks of every type, which fit
                                        its cache */

lm_made_tensor *lm_add_made(lm_synthesis *s, const char *name)
{
    if (s->n_tensors == s->capacity) {
        size_t          capacity = s->capacity ? 2 * s->capacity : 256;
        lm_made_tensor *grown    = lm_realloc(s->tensors, capacity * sizeof *grown);
        if (!grown)
            return NULL;
        s->tensors  = grown;
        s->capacity = capacity;
    }
    lm_made_tensor *t = &s->tensors[s->n_tensors];
    *t                = (lm_made_tensor){ .name = name ? lm_arena_strdup(&s->arena, name) : NULL };
    if (!t->name)
        return NULL;
    s->n_tensors++;
    return t;
}

/* ---- distribution of weights ---- */

/* FNV-1a: any hash that depends on the name alone would do. */
uint64_t lm_made_stream(const char *path)
{
    uint64_t h = UINT64_C(0xCBF29CE484222325);

    for (; *path; path++)
        h = (h ^ (uint8_t)*path) * UINT64_C(0x100000001B3);
    return h << 16;                  /* leaves room for the numbers of experts */
}

/* Return the operation that reads a weight, and which parameter of it the weight is. */
static const lm_node *reader(const lm_program *p, uint32_t weight, uint32_t *parameter)
{
    for (uint32_t i = 0; i < p->n_nodes; i++)
        for (uint32_t k = 0; k < LM_MAX_WEIGHTS; k++)
            if (p->nodes[i].weights[k] == weight) {
                *parameter = k;
                return &p->nodes[i];
            }
    return NULL;
}

static bool is_norm(const lm_node *n)
{
    return n->code == LM_OP_RMS_NORM || n->code == LM_OP_LAYER_NORM;
}

/* If the output head is tied to the embedding, each token finds its own row again in the residual stream. The
 * embedding's share of the stream must be small compared with what the layers add, otherwise every token
 * predicts itself. If the embedding is scaled or normalised before the first layer, its rows, or that norm,
 * are made small, and the norm before the head compensates. */
void lm_study_embedding(lm_synthesis *s)
{
    const lm_program *p = s->program;
    bool             *from_table = lm_arena_new(&s->arena, p->n_values + 1, bool);
    uint32_t          table = LM_NONE;

    s->embedding_norm = s->final_norm = LM_NONE;
    s->gain           = 1;
    for (uint32_t i = 0; from_table && i < p->n_nodes; i++) {
        const lm_node *n = &p->nodes[i];
        bool           on = n->n_in && from_table[n->in[0]];
        if (n->code == LM_OP_EMBED && p->weights[n->weights[0]].uses > 1) {
            table              = n->weights[0];
            from_table[n->out] = true;
        } else if (on && n->code == LM_OP_SCALE) {
            s->gain *= n->scale.factor;
            from_table[n->out] = true;
        } else if (on && is_norm(n) && n->layer < 0) {
            s->embedding_norm = n->weights[0];
        } else if (n->code == LM_OP_LINEAR && n->weights[0] == table &&
                   is_norm(&p->nodes[p->values[n->in[0]].producer])) {
            s->final_norm = p->nodes[p->values[n->in[0]].producer].weights[0];
        }
    }
    if (s->final_norm == LM_NONE || s->gain < 1)
        s->gain = 1;
    if (s->embedding_norm == s->final_norm)
        s->embedding_norm = LM_NONE;
}

/* Return whether a weight is a factor of single lanes, which is close to 1: of a norm, or D of Mamba-2. */
static bool is_factor(const lm_node *n, uint32_t parameter)
{
    return n && (is_norm(n) || n->code == LM_OP_SCALE_BY_WEIGHT) && parameter == 0;
}

/* Matrices and convolutions preserve the magnitude of their input; norms are close to 1; logits have a
 * deviation of 2. */
void lm_fill_made(const lm_synthesis *s, uint32_t weight, bool gguf, lm_made_tensor *t)
{
    const lm_weight *w = &s->program->weights[weight];
    uint32_t         parameter = 0;
    const lm_node   *n = reader(s->program, weight, &parameter);
    bool             norm = is_factor(n, parameter);
    float            size = weight == s->final_norm ? s->gain : weight == s->embedding_norm ? 0.05f : 1.0f;

    t->elements = w->elements;
    t->n_dims   = lm_weight_dims(w, gguf, t->dims);
    t->cols   = w->dims[w->n_dims - 1];
    t->part   = strchr(w->path, '*') ? w->elements / w->dims[0] : w->elements;
    t->stream = lm_made_stream(w->path);
    t->mean   = norm ? size : 0.0f;
    t->below  = w->below;
    if (norm)
        t->deviation = 0.1f * size;
    else if (w->kind == LM_VECTOR && !(n && n->code == LM_OP_CAUSAL_CONV && parameter == 0))
        t->deviation = 0.02f;
    else
        t->deviation = (w->kind == LM_TABLE ? 2.0f : 1.0f) / sqrtf((float)t->cols);
    if (w->kind == LM_TABLE && w->uses > 1)
        t->deviation /= s->gain;
    if (w->gguf_key && w->constant) {        /* of xIELU: beta and eps, as in the published models */
        t->mean      = parameter == 2 ? 0.5f : -1e-6f;
        t->deviation = 0;
    }
    if (w->kind != LM_HEADS)
        return;
    /* use the numbers of the joint matrix in a checkpoint */
    t->transposed  = w->joint.transposed;
    t->joint_first = w->joint.first;
    t->joint_of    = w->joint.of;
    t->stream      = lm_made_stream(w->joint.path);
    t->cols        = w->dims[w->joint.transposed ? 1 : 2];
    t->deviation   = 1.0f / sqrtf((float)t->cols);
}

void lm_fill_joint(const lm_weight *w, lm_made_tensor *t)
{
    t->n_dims     = 2;
    t->dims[0]    = w->dims[0] * w->joint.of;
    t->dims[1]    = t->cols;
    t->elements   = t->part = t->dims[0] * t->dims[1];
    t->joint_of   = 0;
    if (w->joint.by_head) {
        t->n_dims  = 3;
        t->dims[0] = w->dims[0];
        t->dims[1] = w->joint.of;
        t->dims[2] = t->cols;
    }
    t->transposed = false;
}

/* ---- generation ---- */

/* Return the index of the random number of element `at` of per-head matrices [head][out][in], cut from a
 * matrix [head × of][cols]. */
static uint64_t joint_number(const lm_made_tensor *t, uint64_t at)
{
    uint64_t in = t->dims[2], col = at % in, row = at / in % t->dims[1],
             first = at / in / t->dims[1] * t->joint_of + t->joint_first;

    return t->transposed ? (first + col) * t->cols + row : (first + row) * t->cols + col;
}

/* For element `at` of interleaved rows, return the index of its random number, and store the stream and the
 * number of consecutive ones. */
static uint64_t interleaved_number(const lm_made_tensor *t, uint64_t at, uint64_t *stream, uint64_t *run)
{
    uint64_t of = t->interleaved.of, cols = t->cols, e = at / (of * cols), r = at / cols % of, c = at % cols;

    *run = t->interleaved.transposed ? 1 : cols - c;
    if (t->interleaved.transposed) {
        r = at % of;
        c = at / of % cols;
    }
    uint64_t rows = t->interleaved.rows, second = t->interleaved.in_turns ? r % 2 : r / rows;
    uint64_t row  = t->interleaved.in_turns ? r / 2 : r % rows;
    *stream = t->interleaved.streams[second] + (t->interleaved.each ? e : 0);
    return (t->interleaved.each ? row : e * rows + row) * cols + c;
}

/* Give random numbers the distribution of a tensor. */
static void shape(const lm_made_tensor *t, uint64_t n, float *out)
{
    for (uint64_t i = 0; !t->below && i < n; i++)
        out[i] = t->mean + t->deviation * out[i];
    for (uint64_t i = 0; t->below && i < n; i++)         /* 4096 of a deviation: any of them is as likely */
        out[i] = fmodf(floorf(fabsf(out[i]) * 4096), (float)t->below);
    for (uint64_t i = 0; t->exponential && i < n; i++)
        out[i] = (float)t->exponential * expf(out[i]);
}

/* Compute elements [from, from + n) in storage order. */
static void values(const lm_made_tensor *t, uint64_t seed, uint64_t from, uint64_t n, float *out)
{
    if (t->values) {
        memcpy(out, t->values + from, n * sizeof *out);
        return;
    }
    for (uint64_t done = 0, take; done < n; done += take) {
        uint64_t part = (from + done) / t->part, at = (from + done) % t->part,
                 first = at + t->first_row * t->cols, step = 1;
        take          = t->part - at < n - done ? t->part - at : n - done;
        uint64_t stream = t->stream + part;
        if (t->interleaved.of) {
            uint64_t run;
            first = interleaved_number(t, at, &stream, &run);
            take  = run < take ? run : take;
        } else if (t->joint_of) {
            take  = t->dims[2] - at % t->dims[2] < take ? t->dims[2] - at % t->dims[2] : take;
            first = joint_number(t, at);
            step  = t->transposed ? t->cols : 1;
        } else if (t->order.layout && t->order.layout->columns) {
            take  = 1;
            first = at / t->cols * t->cols + lm_gguf_layout_from(t->order.layout, at % t->cols);
        } else if (t->transposed || lm_row_order_changes(&t->order)) {
            uint64_t width = t->transposed    ? t->dims[1]
                             : t->n_dims == 1 ? 1
                                              : t->cols,
                     row = t->first_row + at / width, col = at % width;
            take  = width - col < take ? width - col : take;
            first = t->transposed ? col * t->cols + row : lm_row_of_checkpoint(&t->order, row) * width + col;
            step  = t->transposed ? t->cols : 1;
        }
        lm_rng_irwin_hall(out + done, take, seed, stream, first, step);
    }
    shape(t, n, out);
    if (t->folded)                   /* lm_weight_fold has succeeded before */
        lm_weight_fold(t->folded, from, out, n, NULL);
}

void lm_made_number(const lm_synthesis *s, uint32_t weight, float *out)
{
    lm_made_tensor t = { 0 };

    lm_fill_made(s, weight, true, &t);
    values(&t, s->o->seed, 0, 1, out);
}

typedef struct builder {
    lm_synthesis         *s;
    const lm_made_tensor *t;
    uint64_t              from, n;
} builder;

static void make(void *arg, unsigned worker, unsigned workers)
{
    const builder        *m   = arg;
    const lm_dtype_info *type = lm_dtype_of(m->t->type);
    float               *mine = m->s->scratch + worker * GRAIN;
    uint64_t             at, end;

    for (lm_pool_range(m->n, GRAIN, worker, workers, &at, &end); at < end; at += GRAIN) {
        uint64_t n = end - at < GRAIN ? end - at : GRAIN;
        values(m->t, m->s->o->seed, m->from + at, n, mine);
        if (m->t->below)
            lm_pack_whole(m->t->type, m->s->packed + at * type->bytes, mine, n);
        else
            lm_pack_quickly(m->t->type, m->s->packed + at / type->block * type->bytes, mine, n);
    }
}

lm_status lm_make_tensor(lm_synthesis *s, const lm_made_tensor *t, lm_made_sink sink, void *file, lm_error *e)
{
    uint64_t bytes;

    for (uint64_t at = 0; at < t->elements; at += PIECE) {
        builder m = { .s = s, .t = t, .from = at, .n = t->elements - at < PIECE ? t->elements - at : PIECE };
        lm_pool_run(s->pool, make, &m);
        if (!lm_dtype_row_bytes(t->type, m.n, &bytes))
            return lm_fail(e, LM_UNSUPPORTED, t->name, LM_NO_OFFSET,
                           "a row is not a whole number of %s blocks", lm_dtype_of(t->type)->name);
        LM_TRY(sink(file, s->packed, bytes, e));
        s->written += bytes;
        if (s->o->progress && !s->o->progress(s->o->progress_arg, (double)s->written / (double)s->bytes))
            return lm_fail(e, LM_CANCELLED, NULL, LM_NO_OFFSET, "interrupted");
    }
    return LM_OK;
}

lm_status lm_prepare_synthesis(lm_synthesis *s, lm_error *e)
{
    unsigned threads = s->o->threads ? s->o->threads : lm_cpu_cores();
    uint64_t bytes;

    s->bytes = 0;
    for (size_t i = 0; i < s->n_tensors; i++) {
        const lm_made_tensor *t = &s->tensors[i];
        if (!lm_dtype_row_bytes(t->type, t->elements, &bytes) || !lm_add_u64(s->bytes, bytes, &s->bytes))
            return lm_fail(e, LM_UNSUPPORTED, t->name, LM_NO_OFFSET,
                           "a row is not a whole number of %s blocks", lm_dtype_of(t->type)->name);
    }
    LM_TRY(lm_pool_new(threads, &s->pool, e));
    s->packed  = lm_alloc(PIECE * sizeof(float));
    s->scratch = lm_alloc(threads * GRAIN * sizeof(float));
    return s->packed && s->scratch ? LM_OK : lm_fail_memory(e, "weights", PIECE * sizeof(float));
}

void lm_end_synthesis(lm_synthesis *s)
{
    lm_pool_free(s->pool);
    lm_free(s->packed);
    lm_free(s->scratch);
    lm_free(s->tensors);
}

lm_status lm_check_space(const char *path, uint64_t bytes, lm_error *e)
{
    struct statvfs disk;
    const char    *slash = strrchr(path, '/');
    char          *folder = slash ? lm_strdup(path) : lm_strdup(".");

    if (!folder)
        return lm_fail_memory(e, "a path", 0);
    if (slash)
        folder[slash == path ? 1 : slash - path] = '\0';
    bool known = statvfs(folder, &disk) == 0;
    lm_free(folder);
    if (!known || (double)disk.f_bavail * (double)disk.f_frsize >= (double)bytes)
        return LM_OK;                /* opening the file reports what is wrong with the folder */
    lm_fail(e, LM_IO, NULL, LM_NO_OFFSET, "%s needed, %s free",
            lm_size_text((char[LM_SIZE_TEXT]){ 0 }, bytes),
            lm_size_text((char[LM_SIZE_TEXT]){ 0 }, (uint64_t)disk.f_bavail * disk.f_frsize));
    return lm_fail_in(e, path);
}
