/* quantization.c - quantize a GGUF file, or a folder presented as one: tensor by tensor, the rows of each by
 * all threads. */
#include "lamina/quantize.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/os/clock.h"
#include "base/os/cpu.h"
#include "export/quantize/quantizing.h"
#include "export/synth/synthesis.h"

#define PIECE (UINT64_C(1) << 22)    /* elements packed per write */
#define CHUNK (UINT64_C(1) << 14)    /* elements per task of a thread */

/* ---- packing ---- */

static bool all_finite(const float *x, uint64_t n)
{
    uint32_t worst = 0;

    for (uint64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        worst |= (bits & 0x7f800000) == 0x7f800000;
    }
    return !worst;
}

static void note_bad_row(lm_quantizing *q, uint64_t row)
{
    uint64_t seen = __atomic_load_n(&q->bad_row, __ATOMIC_RELAXED);

    while (row < seen &&
           !__atomic_compare_exchange_n(&q->bad_row, &seen, row, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

static double squares_of(const lm_dtype_info *to, const uint8_t *packed, const float *x, float *y, uint64_t n)
{
    double sum = 0;

    to->unpack(y, packed, n);
    for (uint64_t i = 0; i < n; i++)
        sum += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
    return sum;
}

static void quantize_rows(void *arg, unsigned worker, unsigned chunk)
{
    lm_quantizing       *q = arg;
    const lm_dtype_info *to = lm_dtype_of(q->to);
    float               *x = q->scratch + worker * (q->room + q->cols), *y = x + q->room;
    uint64_t begin = chunk * q->grain, end = begin + q->grain < q->rows ? begin + q->grain : q->rows;
    uint64_t             stride = q->cols / to->block * to->bytes;
    lm_error             why = { 0 };

    if (__atomic_load_n(&q->failed, __ATOMIC_RELAXED))
        return;
    if (lm_feed_floats(&q->in, q->tensor, q->first_row + begin, end - begin, x, &why) != LM_OK) {
        if (!__atomic_exchange_n(&q->failed, 1, __ATOMIC_RELAXED))
            q->why = why;
        return;
    }
    for (uint64_t r = begin; r < end; r++, x += q->cols) {
        uint64_t     row = q->first_row + r;
        const float *w = q->importance ? q->importance + row / q->rows_of_one * q->cols : NULL;
        if (!all_finite(x, q->cols)) {
            note_bad_row(q, row);
            continue;
        }
        lm_pack_checked(q->quantize, q->to, q->packed + r * stride, x, q->cols, w, q->o->clamp,
                        &q->overflows);
        if (q->o->measure)
            q->errors[worker] += squares_of(to, q->packed + r * stride, x, y, q->cols);
    }
}

static lm_status report_progress(lm_quantizing *q, uint64_t elements, lm_error *e)
{
    q->done += elements;
    if (q->o->progress &&
        !q->o->progress(q->o->progress_arg, q->elements ? (double)q->done / (double)q->elements : 1))
        return lm_fail(e, LM_CANCELLED, NULL, LM_NO_OFFSET, "interrupted");
    return LM_OK;
}

static lm_status copy_tensor(lm_quantizing *q, const lm_quantizing_tensor *p, lm_gguf_writer *w, lm_error *e)
{
    const lm_tensor_info *t    = p->from;
    uint64_t cols = t->n_dims ? t->dims[t->n_dims - 1] : 1, rows = t->elements / cols, row = t->bytes / rows;
    uint64_t              max = PIECE / (row ? row : 1) ? PIECE / row : 1;

    for (uint64_t at = 0, n; at < rows; at += n) {
        n = rows - at < max ? rows - at : max;
        LM_TRY(lm_feed_bytes(&q->in, p->index, at, n, q->packed, e));
        LM_TRY(lm_gguf_write(w, q->packed, n * row, e));
    }
    lm_feed_drop(&q->in, p->index);
    return report_progress(q, t->elements, e);
}

/* End a tensor: values that did not fit are an error, or its type is another from now on. */
static lm_status end_tensor(lm_quantizing *q, lm_quantizing_tensor *p, lm_quantized_tensor *r, lm_error *e)
{
    const lm_overflow_rule rule = { .clamp = q->o->clamp, .own = p->own, .notes = &q->notes };
    lm_dtype               was  = p->to;
    uint64_t               before = r->bytes;

    LM_TRY(lm_overflows_end(&q->overflows, p->from->name, &p->to, &rule, e));
    if (p->to == was)
        return LM_OK;
    lm_dtype_row_bytes(p->to, p->from->elements, &r->bytes);
    r->to    = lm_dtype_of(p->to)->name;
    q->bytes = q->bytes - before + r->bytes;
    q->again = true;
    return LM_OK;
}

static lm_status quantize_tensor(lm_quantizing *q, lm_quantizing_tensor *p, lm_quantized_tensor *r,
                                 lm_gguf_writer *w, lm_error *e)
{
    const lm_tensor_info *t = p->from;
    const unsigned        threads = lm_pool_threads(q->pool);
    double                squares = 0;

    q->tensor      = p->index;
    q->importance  = p->importance;
    q->cols        = t->dims[t->n_dims - 1];
    q->rows_of_one = t->n_dims > 1 ? t->dims[t->n_dims - 2] : 1;
    q->to          = p->to;
    q->bad_row     = UINT64_MAX;
    memset(q->errors, 0, threads * sizeof *q->errors);
    uint64_t rows = t->elements / q->cols, max = PIECE / q->cols ? PIECE / q->cols : 1, bytes;
    q->grain = CHUNK / q->cols ? CHUNK / q->cols : 1;
    for (q->first_row = 0; q->first_row < rows; q->first_row += q->rows) {
        q->rows = rows - q->first_row < max ? rows - q->first_row : max;
        lm_pool_run_chunks(q->pool, quantize_rows, q, (unsigned)((q->rows + q->grain - 1) / q->grain));
        if (q->failed) {
            if (e)
                *e = q->why;
            return q->why.code;
        }
        if (q->bad_row != UINT64_MAX)
            return lm_fail(e, LM_BAD_MODEL, t->name, LM_NO_OFFSET,
                           "row %" PRIu64 " has a number that is not finite", q->bad_row);
        if (!lm_dtype_row_bytes(p->to, q->rows * q->cols, &bytes))
            return lm_fail(e, LM_UNSUPPORTED, t->name, LM_NO_OFFSET,
                           "a row is not a whole number of %s blocks", lm_dtype_of(p->to)->name);
        LM_TRY(lm_gguf_write(w, q->packed, bytes, e));
        LM_TRY(report_progress(q, q->rows * q->cols, e));
    }
    for (unsigned i = 0; i < threads; i++)
        squares += q->errors[i];
    r->rmse = sqrt(squares / (double)t->elements);
    lm_feed_drop(&q->in, p->index);
    return end_tensor(q, p, r, e);
}

/* ---- output file ---- */

static void add_keys(void *arg, lm_gguf_writer *w)
{
    const lm_quantizing *q = arg;

    lm_gguf_add_u32(w, "general.quantization_version", 2);
    lm_gguf_add_u32(w, "general.file_type", q->chooser.type->id);
    if (!q->imatrix)
        return;
    const char *set = lm_imatrix_dataset(q->imatrix, 0);
    lm_view     file = lm_view_of(q->o->imatrix);
    lm_gguf_add_string(w, "quantize.imatrix.file", (lm_view){ file.data, file.size < 127 ? file.size : 127 });
    if (set)
        lm_gguf_add_string(w, "quantize.imatrix.dataset", (lm_view){ set, strnlen(set, 127) });
    lm_gguf_add_u32(w, "quantize.imatrix.entries_count", (uint32_t)lm_imatrix_entries(q->imatrix));
    lm_gguf_add_u32(w, "quantize.imatrix.chunks_count", lm_imatrix_chunks(q->imatrix));
}

/* Split the tensors into parts, in the order of the file. */
static lm_status plan_parts(lm_quantizing *q, const char *out, lm_error *e)
{
    static const char *const replaced[] = { "general.file_type", "general.quantization_version",
                                            "quantize.imatrix.", NULL };

    q->parts = (lm_parts_plan){ .path = out ? out : "",
                                .keys = lm_container_meta(q->in.seen),
                                .except = replaced,
                                .file_type = -1,
                                .more_keys = add_keys,
                                .max_bytes = q->o->part_bytes,
                                .max_tensors = q->o->part_tensors };
    q->moved = lm_arena_new(&q->arena, q->n + 1, lm_moved);
    if (!q->moved)
        return lm_fail_memory(e, "tensors", q->n * sizeof *q->moved);
    for (size_t i = 0; i < q->n; i++) {
        const lm_tensor_info *t = q->plan[i].from;
        q->moved[i] = (lm_moved){ .name = t->name,
                                  .from = t->type,
                                  .to = q->plan[i].to,
                                  .n_dims = t->n_dims,
                                  .elements = t->elements,
                                  .bytes = q->tensors[i].bytes };
        memcpy(q->moved[i].dims, t->dims, t->n_dims * sizeof *t->dims);
    }
    lm_plan_parts(&q->parts, q->moved, q->n);
    for (size_t i = 0; i < q->n; i++)
        q->tensors[i].part = q->moved[i].part;
    return LM_OK;
}

typedef struct one_tensor { lm_quantizing *q; size_t i; lm_gguf_writer *w; lm_error *e; } one_tensor;

static lm_status write_guarded(void *arg)
{
    one_tensor                 *t = arg;
    lm_quantizing              *q = t->q;
    lm_quantizing_tensor       *p = &q->plan[t->i];

    return p->to == p->from->type ? copy_tensor(q, p, t->w, t->e)
                                  : quantize_tensor(q, p, &q->tensors[t->i], t->w, t->e);
}

static lm_status write_tensor(void *arg, size_t i, lm_gguf_writer *w, lm_error *e)
{
    lm_quantizing *q = arg;

    return lm_filemap_guard(write_guarded, &(one_tensor){ q, i, w, e }, lm_feed_path(&q->in), e);
}

static lm_status check_inputs(void *arg, lm_error *e)
{
    lm_quantizing *q = arg;

    return q->again ? lm_overflows_again(e) : lm_feed_check(&q->in, e);
}

static lm_status take_memory(lm_quantizing *q, lm_error *e)
{
    uint64_t              longest = 0;
    unsigned              threads = q->o->threads ? q->o->threads : lm_cpu_cores();

    for (size_t i = 0; i < q->n; i++) {
        const lm_tensor_info *t = q->plan[i].from;
        uint64_t              cols = t->dims[t->n_dims ? t->n_dims - 1 : 0];
        longest = cols > longest ? cols : longest;
    }
    LM_TRY(lm_pool_new(threads, &q->pool, e));
    q->packed = lm_alloc(PIECE * sizeof(float) > longest * sizeof(double) ? PIECE * sizeof(float)
                                                                          : longest * sizeof(double));
    q->room    = longest > CHUNK ? longest : CHUNK;
    q->scratch = lm_alloc(threads * (q->room + longest) * sizeof(float));
    q->errors  = lm_alloc(threads * sizeof *q->errors);
    if (!q->packed || !q->scratch || !q->errors)
        return lm_fail_memory(e, "rows", longest * sizeof(float));
    q->quantize = lm_quantizer(lm_cpu_usable());
    return LM_OK;
}

static lm_status write_files(lm_quantizing *q, lm_error *e)
{
    const lm_parts_source source = { q, write_tensor, check_inputs };

    LM_TRY(lm_check_space(q->parts.path, q->bytes, e));
    return lm_write_parts(&q->parts, &source, q->moved, q->n, &q->arena, e);
}

/* ---- entry point ---- */

/* Refuse a file that exists, unless it may be replaced. */
static lm_status check_free(const char *out, const lm_quantize_options *o, lm_error *e)
{
    struct stat b;

    if (o->overwrite || stat(out, &b) != 0 || !S_ISREG(b.st_mode) || !b.st_size)
        return LM_OK;
    lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "already exists");
    lm_fail_in(e, out);
    return lm_fail_hint(e, "use `overwrite` to replace it");
}

/* Check that no part is one of the input files, and that the first part, or the only one, may be written.
 * Later parts without a first one are left over from an interrupted run and may be replaced. */
static lm_status check_targets(lm_quantizing *q, lm_error *e)
{
    for (uint32_t k = 0; k < q->parts.n; k++) {
        const char *path = lm_part_path(&q->parts, k, &q->arena);
        if (!path)
            return lm_fail_memory(e, "a path", strlen(q->parts.path));
        LM_TRY(lm_feed_refuse(&q->in, path, e));
        if (k == 0)
            LM_TRY(check_free(path, q->o, e));
    }
    return LM_OK;
}

/* Make the checks that need only the name, before the input is read: OUT is taken, if it is not split. */
static lm_status check_name(const char *in, const char *out, const lm_quantize_options *o, lm_error *e)
{
    struct stat a, b;

    if (o->dry_run)
        return LM_OK;
    if (!out || !*out)
        return lm_fail(e, LM_USAGE, "OUT", LM_NO_OFFSET, "the file name is empty");
    if (stat(in, &a) == 0 && stat(out, &b) == 0 && S_ISREG(b.st_mode) && a.st_dev == b.st_dev &&
        a.st_ino == b.st_ino)
        return lm_fail(e, LM_USAGE, out, LM_NO_OFFSET, "input and output are the same file");
    return o->part_bytes || o->part_tensors ? LM_OK : check_free(out, o, e);
}

static lm_status run(lm_quantizing *q, const char *in, const char *out, const char *type, lm_error *e)
{
    const lm_file_type *t;

    LM_TRY(lm_file_type_named(type, &t, e));
    LM_TRY(check_name(in, out, q->o, e));
    LM_TRY(lm_quantizing_read_keep(q, e));
    LM_TRY(lm_feed_open(in, &q->in, e));
    if (q->o->imatrix)
        LM_TRY(lm_imatrix_open(q->o->imatrix, &q->imatrix, e));
    LM_TRY(lm_quantizing_study(q, t, e));
    LM_TRY(lm_quantizing_choose(q, e));
    LM_TRY(plan_parts(q, out, e));
    if (q->o->dry_run)
        return LM_OK;
    LM_TRY(check_targets(q, e));
    LM_TRY(take_memory(q, e));
    lm_status status = write_files(q, e);
    if (!q->again)
        return status;
    q->again = false;                        /* the types are final: bf16 and f32 hold what did not fit */
    q->done  = 0;
    LM_TRY(plan_parts(q, out, e));
    LM_TRY(check_targets(q, e));
    return write_files(q, e);
}

static lm_status give_result(lm_quantizing *q, double seconds, lm_quantize_result *r, lm_error *e)
{
    size_t n;

    lm_text_add_view(&q->notes, lm_feed_notes(&q->in));
    const char *const *notes = lm_arena_lines(&q->arena, q->notes.data, q->notes.size, &n);
    if (!notes || q->notes.failed)
        return lm_fail_memory(e, "a result", n);
    *r = (lm_quantize_result){
        .notes           = notes,
        .n_notes         = n,
        .tensors         = q->tensors,
        .n_tensors       = q->n,
        .bytes           = q->bytes,
        .was             = q->was,
        .bits_per_weight = q->elements ? 8.0 * (double)q->bytes / (double)q->elements : 0,
        .seconds         = seconds,
        .path            = *q->parts.path ? lm_part_path(&q->parts, 0, &q->arena) : NULL,
    };
    snprintf(r->type, sizeof r->type, "%s", q->chooser.type->name);
    r->impl = q;
    return LM_OK;
}

static void end(lm_quantizing *q)
{
    lm_pool_free(q->pool);
    lm_free(q->packed);
    lm_free(q->scratch);
    lm_free(q->errors);
    for (size_t i = 0; q->keep && i < q->o->n_keep; i++)
        lm_regex_free(q->keep[i].pattern);
    lm_regex_work_free(&q->work);
    lm_imatrix_free(q->imatrix);
    lm_feed_close(&q->in);
    lm_text_free(&q->notes);
    lm_arena_free(&q->arena);
    lm_free(q);
}

lm_status lm_quantize(const char *in, const char *out, const char *type, const lm_quantize_options *o,
                      lm_quantize_result *result, lm_error *e)
{
    LM_REQUIRE(e, in && type);
    LM_CHECK_RESERVED(e, o);
    static const lm_quantize_options defaults;
    lm_quantizing *q     = lm_alloc_zero(1, sizeof *q);
    double         start = lm_clock_seconds();

    if (!q)
        return lm_fail_memory(e, in, sizeof *q);
    q->o             = o ? o : &defaults;
    lm_status status = run(q, in, out, type, e);
    if (status == LM_OK && result) {
        status = give_result(q, lm_clock_seconds() - start, result, e);
        if (status == LM_OK)
            return LM_OK;
    }
    end(q);
    return status;
}

void lm_quantize_free(lm_quantize_result *r)
{
    if (r && r->impl)
        end(r->impl);
    if (r)
        *r = (lm_quantize_result){ 0 };
}
