/* moving.c - copy a tensor in pieces: all threads read and pack rows, then the piece is written. */
#include "export/tensors/moving.h"

#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/os/cpu.h"
#include "export/tensors/overflow.h"

enum { PIECE = 8 << 20, GRAIN = 1 << 14 };       /* bytes of a piece; elements per task of a thread */

typedef struct job {
    const lm_moving *m;
    const lm_moved  *t;
    lm_quantize_fn  *quantize;
    size_t           i;
    uint64_t         from, n, grain, row_bytes;
    lm_overflows       overflows;
    _Atomic int      failed;
    lm_error         why;
} job;

lm_status lm_moved_measure(lm_moved *t, lm_error *e)
{
    if (lm_dtype_row_bytes(t->to, t->cols, &t->bytes) && lm_dtype_row_bytes(t->to, t->elements, &t->bytes))
        return LM_OK;
    return lm_fail(e, LM_UNSUPPORTED, t->name, LM_NO_OFFSET, "a row is not a whole number of %s blocks",
                   lm_dtype_of(t->to)->name);
}

static uint64_t row_bytes(const lm_moved *t)
{
    return t->bytes / (t->rows ? t->rows : 1);
}

/* The same in any type that the tensor may get. */
static uint64_t longest_row(const lm_moved *t)
{
    return t->own && t->cols * sizeof(float) > row_bytes(t) ? t->cols * sizeof(float) : row_bytes(t);
}

lm_status lm_moving_begin(lm_moving *m, const lm_moved *tensors, size_t n, uint32_t threads, lm_error *e)
{
    uint64_t longest = GRAIN;

    if (!threads)
        threads = lm_cpu_cores();
    m->room  = PIECE;
    m->total = 0;
    for (size_t i = 0; i < n; i++) {
        m->total += tensors[i].bytes;
        m->room = longest_row(&tensors[i]) > m->room ? longest_row(&tensors[i]) : m->room;
        if (!tensors[i].raw && tensors[i].cols > longest)
            longest = tensors[i].cols;
    }
    LM_TRY(lm_pool_new(threads, &m->pool, e));
    m->piece   = lm_alloc(m->room);
    m->scratch = lm_alloc(threads * longest * sizeof(float));
    return m->piece && m->scratch ? LM_OK
                                  : lm_fail_memory(e, "rows", m->room + threads * longest * sizeof(float));
}

void lm_moving_end(lm_moving *m)
{
    lm_pool_free(m->pool);
    lm_free(m->piece);
    lm_free(m->scratch);
    *m = (lm_moving){ 0 };
}

static void pack(job *j, uint8_t *out, float *x, uint64_t rows)
{
    const lm_dtype  to       = j->t->to;
    lm_quantize_fn *quantize = lm_dtype_of(to)->quantized ? j->quantize : NULL;

    for (uint64_t r = 0; r < rows; r++)
        lm_pack_checked(quantize, to, out + r * j->row_bytes, x + r * j->t->cols, j->t->cols, NULL,
                        j->m->clamp, &j->overflows);
}

static void fail(job *j, const lm_error *why)
{
    int none = 0;

    if (atomic_compare_exchange_strong(&j->failed, &none, (int)why->code))
        j->why = *why;
}

static bool all_finite(const float *x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        if ((bits & 0x7f800000) == 0x7f800000)
            return false;
    }
    return true;
}

static void move_chunk(void *arg, unsigned worker, unsigned chunk)
{
    job       *j   = arg;
    uint64_t   at  = chunk * j->grain, n = j->n - at < j->grain ? j->n - at : j->grain;
    uint8_t   *out = j->m->piece + at * j->row_bytes;
    lm_error   why = { 0 };
    lm_status  status;

    if (atomic_load(&j->failed))
        return;
    if (j->t->raw) {
        status = j->m->source.bytes(j->m->source.arg, j->i, j->from + at, n, out, &why);
    } else {
        float *x = j->m->scratch + worker * (j->grain * j->t->cols);
        status   = j->m->source.floats(j->m->source.arg, j->i, j->from + at, n, x, &why);
        if (status == LM_OK && lm_dtype_of(j->t->to)->quantized && !all_finite(x, n * j->t->cols))
            status = lm_fail(&why, LM_BAD_MODEL, j->t->name, LM_NO_OFFSET, "has a number that is not finite");
        if (status == LM_OK)
            pack(j, out, x, n);
    }
    if (status != LM_OK)
        fail(j, &why);
}

lm_status lm_move_tensor(lm_moving *m, lm_moved *t, size_t i, lm_sink sink, void *file, lm_error *e)
{
    uint64_t bytes = row_bytes(t), max = bytes && m->room / bytes ? m->room / bytes : 1;
    job j = { .m = m, .t = t, .i = i, .row_bytes = bytes, .quantize = lm_quantizer(lm_cpu_usable()) };

    j.grain = t->cols && GRAIN / t->cols ? GRAIN / t->cols : 1;
    for (j.from = 0; j.from < t->rows; j.from += j.n) {
        j.n = t->rows - j.from < max ? t->rows - j.from : max;
        lm_pool_run_chunks(m->pool, move_chunk, &j, (unsigned)((j.n + j.grain - 1) / j.grain));
        if (atomic_load(&j.failed)) {
            if (e)
                *e = j.why;
            return j.why.code;
        }
        LM_TRY(sink(file, m->piece, j.n * bytes, e));
        m->done += j.n * bytes;
        if (m->progress && !m->progress(m->progress_arg, m->total ? (double)m->done / (double)m->total : 1))
            return lm_fail(e, LM_CANCELLED, NULL, LM_NO_OFFSET, "interrupted");
    }
    if (m->source.drop)
        m->source.drop(m->source.arg, i);
    lm_overflow_rule rule = { .clamp = m->clamp, .own = t->own, .notes = m->notes };
    lm_dtype         was  = t->to;
    LM_TRY(lm_overflows_end(&j.overflows, t->name, &t->to, &rule, e));
    m->again |= t->to != was;
    return lm_moved_measure(t, e);
}
