/* costs.c - all code that counts a model's costs agrees to the last operation and byte: the analysis of its
 * program, the limit and the prediction from its plan, and the profile of executed steps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "study/facts/counts.h"
#include "study/facts/predict.h"
#include "models.h"
#include "plan/cost.h"
#include "runtime/engine/state.h"

enum { MAX = 1024, PROMPT = 40, ROWS = 16, FAR = 1 << 30 };          /* FAR: past all windows */

static golden_model models[MAX];
static size_t       n_models;

static const lm_peaks peaks = { .int8 = 1e12, .bf16 = 1e12, .f32 = 1e12, .memory = 1e11 };

static const struct {
    const char *cpu;
    lm_compute compute;
    lm_kv_type kv;
    lm_kv_type values;
    lm_cache_types types;
} settings[] = {
    { "ref", LM_COMPUTE_F32, LM_KV_F32, LM_KV_F32, { LM_F32, LM_F32 } },
    { NULL, LM_COMPUTE_AUTO, LM_KV_F16, LM_KV_F16, { LM_F16, LM_F16 } },
    { NULL, LM_COMPUTE_AUTO, LM_KV_F32, LM_KV_BF16, { LM_F32, LM_BF16 } },
    { NULL, LM_COMPUTE_AUTO, LM_KV_Q5_1, LM_KV_Q4_0, { LM_Q5_1, LM_Q4_0 } },
};
enum { SETTINGS = sizeof settings / sizeof *settings };

/* One model with one setting. */
typedef struct subject {
    const char *name;
    lm_engine  *g;
    lm_cache_types kv;
} subject;

static void same(const subject *s, const char *what, lm_wide a, lm_wide b)
{
    if (a != b)
        fail_msg("%s, %s: %llu and %llu", s->name, what, (unsigned long long)a, (unsigned long long)b);
}

/* Run rows [first, first + n) of sequence 0 with the logits of the last one, or of none. */
static void step(const subject *s, uint32_t first, uint32_t n, bool logits)
{
    lm_row   rows[ROWS] = { 0 };
    lm_error e = { 0 };

    for (uint32_t i = 0; i < n; i++)
        rows[i] = (lm_row){ 0, (lm_token)((first + i) % s->g->program->n_vocab), first + i,
                            logits && i + 1 == n };
    if (lm_engine_step(s->g, rows, n, &e) != LM_OK)
        fail_msg("%s: %s: %s", s->name, e.where, e.message);
}

static lm_wide profiled(const subject *s)
{
    lm_profile p;
    lm_wide    ops = 0;

    lm_engine_profile_stop(s->g, &p);
    for (uint32_t i = 0; i < p.n_kinds; i++)
        ops += p.kinds[i].ops;
    return ops;
}

/* Return the operations of a step's attention scores for these rows, counted row by row. */
static lm_wide scores(const subject *s, const lm_step *a, uint64_t first, uint64_t n)
{
    const lm_node *node = &s->g->program->nodes[a->node];
    uint64_t       window = lm_node_reach(node), keys = 0;
    lm_cost        c;

    lm_node_cost(s->g->program, node, &c);
    for (uint64_t i = first; i < first + n; i++)
        if (lm_node_rate(node))
            keys += lm_node_keys_at(node, i + 1);
        else
            keys += node->attention.spec.chunked ? i % window + 1 : window && i + 1 > window ? window : i + 1;
    return 2 * (lm_wide)c.key_mult_adds * keys;
}

/* ---- the counts compared ---- */

/* The steps of the plan cost as much as the operation of the program that they implement. */
static void check_steps(const subject *s)
{
    const lm_forward f = { .rows = 1, .first = PROMPT, .sequences = 1, .wanted = 1 };
    const lm_plan   *p = s->g->plan;

    for (uint32_t n = 0; n < p->program->n_nodes; n++) {
        const lm_node *node = &p->program->nodes[n];
        uint64_t keys = lm_node_keys_seen(node, PROMPT + 1) - lm_node_keys_seen(node, PROMPT);
        lm_wide        sum = 0;
        lm_cost        of_node;
        lm_step_costs  c;
        lm_node_cost(p->program, node, &of_node);
        for (uint32_t i = 0; i < p->n_steps; i++)
            if (p->steps[i].node == n) {
                lm_step_cost(p, &p->steps[i], &f, &c);
                sum += c.operations;
            }
        same(s, node->path, sum,
             2 * ((lm_wide)of_node.mult_adds + of_node.key_mult_adds * keys));
    }
}

/* Return the bytes of the window and of the entries, all or the chosen ones, that a token reads. */
static lm_wide entries_seen(const subject *s, const lm_node *x, uint64_t keys)
{
    const lm_cache          *caches = s->g->program->caches;
    const lm_attention_spec *a      = &x->attention.spec;
    uint64_t                 whole = keys / a->rate, window = keys < a->window ? keys : a->window;

    if (x->code == LM_OP_SELECT_KEYS)
        return (lm_wide)lm_cache_bytes(&caches[x->attention.cache], s->kv) * whole;
    return (lm_wide)lm_cache_bytes(&caches[x->attention.cache], s->kv) * window +
           (lm_wide)lm_cache_bytes(&caches[x->attention.entries], s->kv) *
               (a->top_k && a->top_k < whole ? a->top_k : whole);
}

/* Return the bytes of keys and values that a token reads: several layers may read one cache, and those of
 * sparse attention see only the keys that an indexer chooses, which reads all of its own. */
static lm_wide bytes_seen(const subject *s, uint64_t keys)
{
    const lm_program *p   = s->g->program;
    lm_wide           sum = 0;

    for (uint32_t n = 0; n < p->n_nodes; n++) {
        const lm_node *x     = &p->nodes[n];
        uint64_t       reach = lm_node_reach(x), seen = reach && reach < keys ? reach : keys;
        if (lm_node_chunked(x) && keys < FAR)    /* far away, chunks as a whole do not grow */
            seen = (keys - 1) % reach + 1;
        if (lm_node_rate(x))
            sum += entries_seen(s, x, keys);
        else if (x->code == LM_OP_ATTENTION || x->code == LM_OP_SELECT_KEYS)
            sum += (lm_wide)lm_cache_bytes(&p->caches[x->attention.cache], s->kv) * seen;
    }
    return sum;
}

/* Return how many bytes more a token reads for each position before it; of an entry, its share. */
static lm_wide bytes_per_position(const subject *s)
{
    const lm_program *p   = s->g->program;
    lm_wide           sum = bytes_seen(s, FAR + 1) - bytes_seen(s, FAR);

    for (uint32_t n = 0; n < p->n_nodes; n++) {
        const lm_node *x = &p->nodes[n];
        if (lm_node_rate(x) && !lm_node_reach(x))        /* an entry now and then */
            sum += lm_cache_bytes(
                       &p->caches[x->code == LM_OP_ATTENTION ? x->attention.entries : x->attention.cache],
                       s->kv) /
                       x->attention.spec.rate -
                   (entries_seen(s, x, FAR + 1) - entries_seen(s, x, FAR));
    }
    return sum;
}

static void check_token(const subject *s)
{
    const lm_program *p = s->g->program;
    lm_work           work;
    lm_flop_counts    flops;
    lm_prediction     x;

    lm_engine_work(s->g, &work);
    lm_count_flops(p, &flops);
    lm_predict_token(s->g->plan, &peaks, PROMPT + 1, 1, &x);
    assert_int_equal(lm_engine_profile_start(s->g, NULL), LM_OK);
    step(s, PROMPT, 1, true);
    same(s, "products of a step", profiled(s), flops.per_token_matmul);
    same(s, "products of the limit",
         (lm_wide)work.row.int8 + work.row.bf16 + work.row.f32 + work.logits.int8 + work.logits.bf16 +
             work.logits.f32,
         flops.per_token_matmul);
    same(s, "operations of a token", x.operations, lm_flops_at(p, PROMPT + 1));
    same(s, "bytes of a token", x.bytes, work.weight_bytes + bytes_seen(s, PROMPT + 1));
    same(s, "bytes of a position", work.kv_bytes, bytes_per_position(s));
}

/* A prompt in steps with the logits of its last row: all counts omit what the plan skips for the other
 * rows. */
static void check_prompt(const subject *s)
{
    const lm_plan *p = s->g->plan;
    lm_wide        ops = 0;
    lm_prediction  x;

    assert_int_equal(lm_engine_profile_start(s->g, NULL), LM_OK);
    for (uint32_t at = 0; at < PROMPT; at += ROWS) {
        uint32_t n    = PROMPT - at < ROWS ? PROMPT - at : ROWS;
        bool     last = at + n == PROMPT;
        step(s, at, n, last);
        for (uint32_t i = 0; i < p->n_steps; i++)
            if (p->steps[i].code != LM_STEP_ATTENTION && p->steps[i].code != LM_STEP_SELECT)
                continue;
            else if (p->steps[i].domain == LM_ALL_ROWS)
                ops += scores(s, &p->steps[i], at, n);
            else if (last)
                ops += scores(s, &p->steps[i], at + n - 1, 1);
    }
    lm_predict_prompt(p, &peaks, PROMPT, &x);
    same(s, "operations of a prompt", x.operations, ops + profiled(s));
}

/* The counted bytes of a page are those of the kernels' layout. */
static void check_pages(const subject *s)
{
    const lm_plan *p = s->g->plan;

    for (uint32_t i = 0; i < p->program->n_caches; i++)
        if (!p->layers[i].rate)
            same(s, "a page", p->attention->page_bytes(&p->layers[i].shape),
                 LM_PAGE * (lm_wide)lm_cache_bytes(&p->program->caches[i], s->kv));
}

static bool open_subject(size_t model, size_t k, lm_model **m, subject *s)
{
    lm_error          e = { 0 };
    lm_engine_options o = { .context = PROMPT + 1,
                            .max_rows = ROWS,
                            .kv = settings[k].kv,
                            .kv_values = settings[k].values,
                            .kv_apart = true,
                            .compute = settings[k].compute,
                            .threads = 1,
                            .cpu = settings[k].cpu };

    *s = (subject){ .name = models[model].name, .kv = settings[k].types };
    if (lm_model_open(models[model].path, NULL, m, &e) != LM_OK)
        fail_msg("%s: %s: %s", s->name, e.where, e.message);
    if ((*m)->program->context_is_hard && (*m)->program->context_length < o.context)
        return false;                    /* fewer learned positions than the prompt has */
    lm_status status = lm_engine_new(*m, &o, &s->g, &e);
    if (status != LM_OK && status != LM_UNSUPPORTED)
        fail_msg("%s: %s: %s", s->name, e.where, e.message);
    return status == LM_OK;              /* otherwise heads are not whole blocks, or a latent would have two
                                            types */
}

static size_t steps_of(const subject *s, lm_step_code code)
{
    size_t n = 0;

    for (uint32_t i = 0; i < s->g->plan->n_steps; i++)
        n += s->g->plan->steps[i].code == code;
    return n;
}

static void every_reader_counts_the_same(void **state)
{
    size_t ran = 0, latent = 0, experts = 0;

    (void)state;
    for (size_t i = 0; i < n_models * SETTINGS; i++) {
        lm_model *m = NULL;
        subject   s;
        if (i / SETTINGS % EVERY)
            continue;
        if (open_subject(i / SETTINGS, i % SETTINGS, &m, &s)) {
            check_steps(&s);
            check_prompt(&s);
            check_token(&s);
            check_pages(&s);
            latent += steps_of(&s, LM_STEP_HEADS);
            experts += steps_of(&s, LM_STEP_EXPERTS);
            lm_engine_free(s.g);
            ran++;
        }
        lm_model_close(m);
    }
    print_message("             %zu models and settings\n", ran);
    assert_true(ran > 0 && latent > 0 && experts > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_reader_counts_the_same) };

    n_models = golden_models(models, MAX);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
