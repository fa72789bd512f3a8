/* fitting.c - compare plans with the memory of a machine. */
#include "lamina/study/fit.h"

#include <string.h>

#include "study/facts/devices.h"
#include "study/facts/ledger.h"
#include "study/facts/precision.h"
#include "study/facts/predict.h"
#include "base/language.h"
#include "base/alloc.h"
#include "lamina/machine.h"
#include "runtime/engine/engine_plan.h"

enum { PROMPT = 512, MAX_SEQUENCES = 65536, MAX_POSITIONS = 1 << 24 };

/* What all rows have in common. */
typedef struct fitting {
    const lm_model   *m;
    lm_engine_options engine;
    lm_ledger        *ledger;
    lm_dtype         *types;             /* of the current row */
    lm_peaks          peaks;
    bool              speed;             /* peaks are known */
    bool              sizes_only;
    lm_fit           *out;
} fitting;

/* ---- sizes ---- */

static void sizes_of(const lm_plan *p, lm_fit_row *out)
{
    out->weights = p->weight_bytes + p->mapped_bytes;
    out->kv      = p->kv_bytes;
    out->scratch = p->slab_bytes;
    out->total   = out->weights + out->kv + out->scratch;
}

static lm_fit_speed speed_of(const lm_prediction *p)
{
    return p->known ? (lm_fit_speed){ .rate = p->tokens_per_second, .limited_by = p->limited_by }
                    : (lm_fit_speed){ .limited_by = "" };
}

static void predict(const fitting *f, const lm_plan *p, lm_fit_row *row)
{
    lm_prediction x;

    lm_predict_prompt(p, &f->peaks, f->out->prompt, &x);
    row->prompt = speed_of(&x);
    lm_predict_token(p, &f->peaks, f->out->context, f->out->sequences, &x);
    row->token = speed_of(&x);
}

/* Plan for a context and a number of sequences: compute the sizes and, with `speed`, the predicted speed.
 * LM_NO_FIT: not addressable. */
static lm_status measure(const fitting *f, const lm_dtype *types, uint64_t context, uint64_t sequences,
                         bool speed, lm_fit_row *row, lm_error *e)
{
    lm_engine_options o     = f->engine;
    lm_arena          arena = { 0 };
    lm_plan          *plan  = NULL;
    lm_kernels        k;

    o.context   = (uint32_t)context;
    o.sequences = (uint32_t)sequences;
    lm_engine_subject subject = { .model = f->m, .options = &o, .types = types };
    lm_status         status  = lm_engine_plan(&subject, &k, &arena, &plan, e);
    if (status == LM_OK) {
        sizes_of(plan, row);
        if (speed)
            predict(f, plan, row);
    }
    lm_plan_free(plan);
    lm_arena_free(&arena);
    return status;
}

static bool fits(const fitting *f, const lm_dtype *types, uint64_t context, uint64_t sequences)
{
    lm_fit_row row;

    return measure(f, types, context, sequences, false, &row, NULL) == LM_OK && row.total <= f->out->memory;
}

/* ---- largest plan that fits ---- */

/* Return the largest n of 1 … most for which a plan fits: positions with `of_context`, otherwise sequences.
 * 0: none fits. */
static uint64_t largest(const fitting *f, const lm_dtype *types, bool of_context, uint64_t max)
{
    uint64_t low = 0, high = max + 1;        /* low fits, high does not */

    while (high - low > 1) {
        uint64_t n = low + (high - low) / 2;
        if (low == 0 && high == max + 1)
            n = max;                         /* usually everything fits */
        if (fits(f, types, of_context ? n : f->out->context, of_context ? f->out->sequences : n))
            low = n;
        else
            high = n;
    }
    return low;
}

/* ---- rows ---- */

static lm_status add_row(fitting *f, const char *name, const lm_dtype *types, lm_error *e)
{
    lm_fit_row *row    = &f->out->rows[f->out->n];
    uint64_t    length = f->out->context_length;

    *row = (lm_fit_row){ .precision = name };
    LM_TRY(measure(f, types, f->out->context, f->out->sequences, f->speed, row, e));
    row->fits  = row->total <= f->out->memory;
    row->tight = lm_is_tight(f->out->memory, row->total);
    f->out->n++;
    if (f->sizes_only)
        return LM_OK;
    row->longest = largest(f, types, true, length ? length : MAX_POSITIONS);
    row->max_sequences = largest(f, types, false, MAX_SEQUENCES);
    return LM_OK;
}

static lm_status add_precision(fitting *f, const lm_precision *x, lm_error *e)
{
    lm_precision_types(x, f->ledger, f->types);
    return add_row(f, x->name, f->types, e);
}

static lm_status add_rows(fitting *f, const char *only, lm_error *e)
{
    static const char *const usual[] = { "f32", "", "Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q4_0", "IQ4_XS" };
    const char *native = lm_dtype_of(lm_model_published_type(f->m))->name;
    lm_fit     *out    = f->out;

    out->best = -1;
    if (only) {
        const lm_precision *x = lm_precision_named(only);
        if (!x || x->bits > 0)
            return lm_fail(
                e, LM_USAGE, "precision", LM_NO_OFFSET,
                "unknown precision \"%s\"; use f32, f16, bf16, Q8_0, Q6_K, Q5_K_M, Q4_K_M, Q4_0 or IQ4_XS",
                only);
        LM_TRY(add_precision(f, x, e));
    } else {
        if (f->m->tensors)
            LM_TRY(add_row(f, N_("as stored"), NULL, e));
        bool coded = lm_has_coded_experts(f->m->program);
        for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
            const char *name = *usual[i] ? usual[i] : strcmp(native, "f32") == 0 ? "f16" : native;
            LM_TRY(add_precision(f, lm_precision_named(name), e));
            out->rows[out->n - 1].larger = coded ? i < 2 : i == 0 && strcmp(native, "f32") != 0;
            if (coded && i == 1)
                LM_TRY(add_precision(f, lm_precision_named("MXFP4"), e));
        }
    }
    for (size_t i = 0; i < out->n && out->best < 0; i++)
        if (out->rows[i].fits && !out->rows[i].larger)
            out->best = (int)i;
    if (f->m->tensors && !only)
        out->best = out->rows[0].fits ? 0 : -1;
    return LM_OK;
}

/* ---- machines ---- */

static lm_status describe(fitting *f, const lm_fit_options *o, lm_error *e)
{
    lm_fit    *out = f->out;
    lm_machine machine;

    out->memory = o->memory;
    if (o->device || o->no_speed) {
        f->engine.cpu     = "ref";               /* weights as stored, not in the layout of some kernel */
        f->engine.threads = o->device && o->device->cores ? o->device->cores : 1;
        f->speed          = !o->no_speed;
        if (f->speed)
            f->peaks = lm_peaks_published(o->device);
        if (!out->memory && o->device) {
            out->memory  = lm_device_usable(o->device);
            out->reserve = lm_device_reserve(o->device, NULL);
        }
        out->level = "ref";
        return LM_OK;
    }
    LM_TRY(lm_machine_describe(&machine, e));
    f->speed = o->limits != NULL;
    if (f->speed)
        f->peaks = lm_peaks_measured(o->limits);
    if (!out->memory)
        out->memory = machine.available;
    out->level = o->engine.cpu ? o->engine.cpu : machine.usable;
    return LM_OK;
}

lm_status lm_fit_model(const lm_model *m, const lm_fit_options *o, lm_fit *out, lm_error *e)
{
    static const lm_fit_options defaults;

    LM_REQUIRE(e, m && out);
    LM_CHECK_RESERVED(e, o);
    o = o ? o : &defaults;
    lm_fit fit = {
        .context_length = m->program->context_length,
        .context        = lm_program_context(m->program, o->engine.context),
        .sequences      = o->engine.sequences ? o->engine.sequences : 1,
        .prompt         = o->prompt ? o->prompt : PROMPT,
    };
    fitting f = { .m = m, .engine = o->engine, .sizes_only = o->sizes_only, .out = &fit };

    if (fit.prompt > fit.context)
        fit.prompt = fit.context;
    LM_TRY(describe(&f, o, e));
    LM_TRY(lm_ledger_new(m->program, &f.ledger, e));
    f.types          = lm_alloc(((size_t)m->program->n_weights + 1) * sizeof *f.types);
    lm_status status = f.types ? add_rows(&f, o->precision, e) : lm_fail_memory(e, "fit", 0);
    lm_free(f.types);
    lm_ledger_free(f.ledger);
    if (status == LM_OK)
        *out = fit;
    return status;
}
