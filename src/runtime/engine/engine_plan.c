/* engine_plan.c - make a plan from options, and report what it needs before anything is allocated. */
#include "runtime/engine/engine_plan.h"

#include "runtime/engine/adapter.h"

static lm_status dtype_of(lm_kv_type kv, lm_dtype *out, lm_error *e)
{
    static const lm_dtype types[] = {
        [LM_KV_F16] = LM_F16,   [LM_KV_F32] = LM_F32,   [LM_KV_BF16] = LM_BF16, [LM_KV_Q8_0] = LM_Q8_0,
        [LM_KV_Q4_0] = LM_Q4_0, [LM_KV_Q4_1] = LM_Q4_1, [LM_KV_Q5_0] = LM_Q5_0, [LM_KV_Q5_1] = LM_Q5_1,
    };

    if ((unsigned)kv >= sizeof types / sizeof *types)
        return lm_fail(e, LM_USAGE, "engine options", LM_NO_OFFSET, "unknown cache type");
    *out = types[kv];
    return LM_OK;
}

lm_status lm_options_cache(const lm_engine_options *o, lm_cache_types *out, lm_error *e)
{
    LM_TRY(dtype_of(o->kv, &out->k, e));
    return dtype_of(o->kv_apart ? o->kv_values : o->kv, &out->v, e);
}

/* List the values to keep: those of the probe paths, `kept`, and the last hidden state if it is requested. */
static lm_status find_probes(const lm_engine_subject *s, const lm_program *p, const lm_engine_options *o,
                             lm_arena *arena, lm_value **out, uint32_t *n, lm_error *e)
{
    *n = 0;
    while (o->probes && o->probes[*n])
        ++*n;
    *out = lm_arena_new(arena, *n + s->n_kept + 2, lm_value);
    if (!*out)
        return lm_fail_memory(e, "probes", 0);
    for (uint32_t i = 0; i < *n; i++) {
        (*out)[i] = lm_program_value(p, o->probes[i]);
        if ((*out)[i] == LM_NONE)
            return lm_fail(e, LM_USAGE, o->probes[i], LM_NO_OFFSET, "unknown module path");
    }
    for (uint32_t i = 0; i < s->n_kept; i++)
        (*out)[(*n)++] = s->kept[i];
    if (o->hidden)
        (*out)[(*n)++] = lm_program_hidden(p);
    return LM_OK;
}

uint32_t lm_options_threads(const lm_engine_options *o)
{
    return o->threads ? o->threads : lm_cpu_cores();
}

uint32_t lm_options_threads_batch(const lm_engine_options *o)
{
    return o->threads_batch ? o->threads_batch : lm_options_threads(o);
}

lm_status lm_engine_plan(const lm_engine_subject *s, lm_kernels *k, lm_arena *arena, lm_plan **out,
                         lm_error *e)
{
    static const lm_engine_options defaults;
    const lm_engine_options       *o       = s->options ? s->options : &defaults;
    const lm_program              *program = s->program ? s->program : s->model->program;
    lm_plan_options                p       = { 0 };
    lm_cpu                         cpu;
    lm_value                      *probes;

    if ((unsigned)o->compute > LM_COMPUTE_FINE)
        return lm_fail(e, LM_USAGE, "engine options", LM_NO_OFFSET, "unknown arithmetic");
    LM_TRY(lm_options_cache(o, &p.cache, e));
    LM_TRY(lm_cpu_choose(o->cpu, &cpu, e));
    lm_kernels_init(k, cpu);
    LM_TRY(find_probes(s, program, o, arena, &probes, &p.n_probes, e));
    p.probes       = probes;
    p.sequences    = o->sequences ? o->sequences : 1;
    p.max_rows         = o->max_rows ? o->max_rows : 512;
    p.max_logits   = o->max_logits ? o->max_logits : p.sequences < p.max_rows ? p.sequences : p.max_rows;
    p.context      = o->context ? o->context : program->context_length;
    p.kv_positions = o->kv_positions;
    p.rollback     = o->rollback;
    p.checkpoints  = o->checkpoints < UINT32_MAX ? (uint32_t)o->checkpoints : UINT32_MAX;
    p.exact        = o->compute == LM_COMPUTE_F32;
    p.fine         = o->compute == LM_COMPUTE_FINE;
    p.no_repack    = o->no_repack;
    p.workers = lm_options_threads(o) > lm_options_threads_batch(o) ? lm_options_threads(o)
                                                                    : lm_options_threads_batch(o);
    p.kernels      = k;
    p.types        = s->types ? s->types : s->model->types;
    p.transposed   = s->types ? NULL : s->model->transposed;
    p.caller_weights        = s->caller_weights;
    return lm_plan_new(program, &p, out, e);
}

lm_memory lm_plan_memory(const lm_plan *p)
{
    return (lm_memory){ .weights = p->weight_bytes,
                        .mapped = p->mapped_bytes,
                        .kv = p->kv_bytes,
                        .scratch = p->slab_bytes,
                        .total = p->weight_bytes + p->kv_bytes + p->slab_bytes };
}

/* Make a plan, pass it to `look`, and free it. */
static lm_status with_plan(const lm_model *m, const lm_engine_options *o,
                           void (*look)(const lm_plan *plan, void *arg), void *arg, lm_error *e)
{
    lm_kernels  k;
    lm_arena    arena   = { 0 };
    lm_plan    *plan    = NULL;
    lm_program *adapted = NULL;
    lm_status   status  = lm_engine_attach(m, o, &adapted, e);

    if (status == LM_OK)
        status = lm_engine_plan(&(lm_engine_subject){ .model = m, .program = adapted, .options = o }, &k,
                                &arena, &plan, e);
    if (status == LM_OK)
        look(plan, arg);
    lm_plan_free(plan);
    lm_program_free(adapted);
    lm_arena_free(&arena);
    return status;
}

static void look_at_memory(const lm_plan *plan, void *arg)
{
    *(lm_memory *)arg = lm_plan_memory(plan);
}

lm_status lm_engine_predict(const lm_model *m, const lm_engine_options *o, lm_memory *out, lm_error *e)
{
    LM_REQUIRE(e, m && out);
    LM_CHECK_RESERVED(e, o);
    return with_plan(m, o, look_at_memory, out, e);
}

static void print(const lm_plan *plan, void *arg)
{
    lm_plan_print(plan, arg);
}

lm_status lm_engine_plan_text(const lm_model *m, const lm_engine_options *o, lm_text *out, lm_error *e)
{
    LM_REQUIRE(e, m && out);
    LM_CHECK_RESERVED(e, o);
    lm_text   b      = { 0 };
    lm_status status = with_plan(m, o, print, &b, e);

    return lm_text_deliver(&b, status, "plan", out, e);
}
