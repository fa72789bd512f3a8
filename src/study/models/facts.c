/* facts.c - facts about an open model: pass what the runtime knows about files and plans to the analysis. */
#include "lamina/study/facts.h"

#include "lamina/answer.h"

#include <string.h>

#include "study/facts/fact.h"
#include "study/facts/ledger.h"
#include "study/facts/precision.h"
#include "base/alloc.h"
#include "runtime/engine/engine_plan.h"
#include "train/predict_memory.h"

#define MAX_WARNINGS 64

/* A plan that was requested. */
typedef struct made_plan {
    struct made_plan *next;
    const lm_dtype   *types;
    uint64_t          context, batch;
    lm_kernels        kernels;
    lm_arena          arena;
    lm_plan          *plan;
} made_plan;

/* What the facts of a model own or refer to. */
typedef struct holding {
    const lm_model   *model;
    lm_engine_options engine;
    lm_dtype         *types;             /* of the requested precision, or as stored */
    uint64_t         *bytes;
    const char       *warnings[MAX_WARNINGS + 1];
    lm_limits         limits;
    made_plan        *plans;
    lm_arena          arena;
} holding;

static void release_facts(void *arg)
{
    holding *h = arg;

    while (h->plans) {
        made_plan *p = h->plans;
        h->plans     = p->next;
        lm_plan_free(p->plan);
        lm_arena_free(&p->arena);
        lm_free(p);
    }
    lm_arena_free(&h->arena);
    lm_free(h);
}

static lm_status plan_for(void *arg, const lm_dtype *types, uint64_t context, uint64_t batch,
                          const lm_plan **out, lm_error *e)
{
    holding          *h = arg;
    lm_engine_options o = h->engine;

    types = types ? types : h->types;
    for (made_plan *p = h->plans; p; p = p->next)
        if (p->types == types && p->context == context && p->batch == batch) {
            *out = p->plan;
            return LM_OK;
        }
    if (context > UINT32_MAX || batch > UINT32_MAX)
        return lm_fail(e, LM_USAGE, "context", LM_NO_OFFSET, "too many positions or sequences");
    made_plan *p = lm_alloc_zero(1, sizeof *p);
    if (!p)
        return lm_fail_memory(e, "plan", sizeof *p);
    o.context   = (uint32_t)context;
    o.sequences = (uint32_t)batch;
    p->types    = types;
    p->context  = context;
    p->batch    = batch;
    /* The stored types are not passed as requested types, because files may store matrices transposed. */
    lm_engine_subject subject = { .model = h->model, .options = &o,
                                  .types = types == h->model->types ? NULL : types };
    lm_status         status  = lm_engine_plan(&subject, &p->kernels, &p->arena, &p->plan, e);
    if (status != LM_OK) {
        lm_arena_free(&p->arena);
        lm_free(p);
        return status;
    }
    p->next  = h->plans;
    h->plans = p;
    *out     = p->plan;
    return LM_OK;
}

static lm_status borrow_plan(void *arg, const lm_dtype *types, uint64_t context, uint64_t batch,
                             void (*use)(void *user, const lm_plan *p), void *user, lm_error *e)
{
    holding          *h = arg;
    lm_engine_options o = h->engine;
    lm_kernels        kernels;
    lm_arena          arena = { 0 };
    lm_plan          *plan  = NULL;

    if (context > UINT32_MAX || batch > UINT32_MAX)
        return lm_fail(e, LM_USAGE, "context", LM_NO_OFFSET, "too many positions or sequences");
    o.context        = (uint32_t)context;
    o.sequences      = (uint32_t)batch;
    types            = types ? types : h->types;
    lm_engine_subject subject = { .model = h->model, .options = &o,
                                  .types = types == h->model->types ? NULL : types };
    lm_status status = lm_engine_plan(&subject, &kernels, &arena, &plan, e);
    if (status == LM_OK)
        use(user, plan);
    lm_plan_free(plan);
    lm_arena_free(&arena);
    return status;
}

static lm_status need_to_train(void *arg, uint32_t rank, uint32_t tokens, bool checkpointed,
                               lm_training_need *out, lm_error *e)
{
    holding          *h = arg;
    lm_train_sizes f = { .rank = rank,
                         .tokens = tokens,
                         .checkpointed = checkpointed,
                         .compute = h->engine.compute,
                         .cpu = h->engine.cpu,
                         .threads = h->engine.threads,
                         .types = h->types == h->model->types ? NULL : h->types };
    lm_learner_memory m;
    uint64_t          numbers;

    LM_TRY(lm_train_predict_memory(h->model, &f, &m, &numbers, e));
    *out = (lm_training_need){ numbers, m.base, m.mapped, m.state, m.activations, m.scratch, m.total };
    return LM_OK;
}

/* ---- weights ---- */

static lm_status choose_types(holding *h, const char *wanted, lm_subject *s, lm_error *e)
{
    const lm_model *m = h->model;

    if (!wanted && m->tensors) {
        h->types     = m->types;
        s->precision = N_("as stored");
        return LM_OK;
    }
    const char *name = wanted                             ? wanted
                       : lm_has_coded_experts(m->program) ? "MXFP4"
                                                          : lm_dtype_of(lm_model_published_type(m))->name;
    const lm_precision *x    = lm_precision_named(name);
    lm_ledger          *l;
    if (!x)
        return lm_fail(
            e, LM_USAGE, "precision", LM_NO_OFFSET,
            "unknown precision \"%s\"; use f32, f16, bf16, Q8_0, Q6_K, Q5_K_M, Q4_K_M, Q4_0 or IQ4_XS", name);
    h->types = lm_arena_new(&h->arena, m->program->n_weights + 1, lm_dtype);
    if (!h->types)
        return lm_fail_memory(e, "facts", 0);
    LM_TRY(lm_ledger_new(m->program, &l, e));
    lm_precision_types(x, l, h->types);
    lm_ledger_free(l);
    s->precision = x->name;
    return LM_OK;
}

static lm_status measure_bytes(holding *h, lm_error *e)
{
    const lm_model *m = h->model;

    if (!m->tensors)
        return LM_OK;
    h->bytes = lm_arena_new(&h->arena, m->program->n_weights + 1, uint64_t);
    if (!h->bytes)
        return lm_fail_memory(e, "facts", 0);
    for (uint32_t i = 0; i < m->program->n_weights; i++)
        h->bytes[i] = m->tensors[i]->bytes * (m->each[i] ? m->program->weights[i].dims[0] : 1);
    return LM_OK;
}

static lm_status describe_sampling(holding *h, lm_subject *s, lm_error *e)
{
    lm_text text = { 0 };

    lm_model_sampling_text(h->model, &text);
    s->sampling = text.size ? lm_arena_strdup(&h->arena, text.data) : NULL;
    bool held   = !text.failed && !text.size == !s->sampling;
    lm_text_free(&text);
    return held ? LM_OK : lm_fail_memory(e, "facts", 0);
}

/* How outputs are divided into reasoning, content and calls. The texts are constants. */
static void describe_answers(const lm_model *m, lm_subject *s)
{
    lm_answer_style style;

    if (!s->words)                       /* a description without files */
        return;
    lm_answer_style_of(lm_model_chat_template(m, NULL), &style);
    s->calls        = lm_answer_style_name(&style);
    s->unread       = style.unread;
    s->reasoning[0] = style.reasoning;
    s->reasoning[1] = style.reasoning_end;
    lm_answer_style_free(&style);
}

static lm_status describe(holding *h, const lm_facts_options *o, lm_facts **out, lm_error *e)
{
    const lm_model       *m = h->model;
    lm_subject s = { .program = m->program,
                     .plan = plan_for,
                     .borrow = borrow_plan,
                     .train = need_to_train,
                     .release = release_facts,
                     .arg = h };

    if (o->engine.context && lm_plan_context(m->program, o->engine.context, e) != LM_OK)
        return lm_fail_in(e, m->name);
    LM_TRY(lm_options_cache(&o->engine, &s.cache, e));
    LM_TRY(choose_types(h, o->precision, &s, e));
    LM_TRY(measure_bytes(h, e));
    for (size_t i = 0; i < MAX_WARNINGS && (h->warnings[i] = lm_model_warning(m, i)); i++)
        ;
    h->engine   = o->engine;
    s.name      = o->name ? lm_arena_strdup(&h->arena, o->name) : m->name;
    if (!s.name)
        return lm_fail_memory(e, "facts", 0);
    s.source    = m->source;
    s.container = lm_model_container_name(m);
    s.tokenizer = lm_model_tokenizer(m) ? lm_tokenizer_summary(lm_model_tokenizer(m)) : NULL;
    s.words     = lm_model_tokenizer(m);
    LM_TRY(describe_sampling(h, &s, e));
    describe_answers(m, &s);
    s.meta      = m->container ? lm_container_meta(m->container) : m->config_json;
    s.tensors   = m->tensors ? m->container : NULL;
    s.types     = h->types;
    s.bytes     = h->bytes;
    s.stored    = h->bytes ? m->types : NULL;
    s.warnings  = h->warnings;
    s.context   = lm_program_context(m->program, o->engine.context);
    s.batch     = o->engine.sequences ? o->engine.sequences : 1;
    s.tokens    = o->tokens ? o->tokens : 4;
    s.rank      = o->rank ? o->rank : 16;
    s.device = o->device;
    if (o->device) {
        h->engine.cpu     = "ref";               /* weights as stored, not in the layout of some kernel */
        h->engine.threads = o->device->cores ? o->device->cores : 1;
    }
    lm_measure_options kept = { .cpu = o->engine.cpu, .threads = o->engine.threads, .kept_only = true };
    if (o->limits)
        h->limits = *o->limits;
    if (o->limits || (!o->device && lm_machine_measure(&kept, &h->limits, NULL) == LM_OK))
        s.limits = &h->limits;
    return lm_facts_of(&s, out, e);
}

lm_status lm_facts_new(const lm_model *m, const lm_facts_options *o, lm_facts **out, lm_error *e)
{
    LM_REQUIRE(e, m && out);
    LM_CHECK_RESERVED(e, o);
    static const lm_facts_options defaults;
    holding                      *h = lm_alloc_zero(1, sizeof *h);

    if (!h)
        return lm_fail_memory(e, "facts", sizeof *h);
    h->model         = m;
    lm_status status = describe(h, o ? o : &defaults, out, e);
    if (status != LM_OK)
        release_facts(h);
    return status;
}
