/* plan.c - buffers that live together never overlap, fusions happen, and sizes add up. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan/plan.h"
#include "plan/slab.h"
#include "program/builder.h"

enum { LAYERS = 3, WIDTH = 32, HEADS = 4, KV = 2, LANES = 8, VOCAB = 50 };

static lm_program *program(uint32_t window)
{
    static const lm_name none[] = { { NULL, NULL } };
    lm_rope_spec         r      = { .dim = LANES, .base = 10000, .factor = 1 };
    lm_attention_spec s = {
        .n_heads = HEADS, .n_kv_heads = KV, .k_dim = LANES, .v_dim = LANES, .scale = 0.35f, .window = window
    };
    lm_builder          *b      = lm_builder_new("test", "Test", NULL, none);
    lm_program          *p      = NULL;
    lm_value             x      = lm_embedding(b, "embed", VOCAB, WIDTH);

    lm_push(b, "layers", "ModuleList");
    for (uint32_t i = 0; i < LAYERS; i++) {
        lm_push_layer(b, i, "Layer");
        lm_value h = lm_rms_norm(b, "norm", x, 1e-5f);
        lm_value q = lm_rope(b, lm_linear(b, "q_proj", h, HEADS * LANES, false), HEADS, &r);
        lm_value k = lm_rope(b, lm_linear(b, "k_proj", h, KV * LANES, false), KV, &r);
        lm_value v = lm_linear(b, "v_proj", h, KV * LANES, false);
        x          = lm_add(b, x, lm_linear(b, "o_proj", lm_attention(b, q, k, v, &s), WIDTH, true));
        lm_pop(b);
    }
    lm_pop(b);
    lm_context_length(b, 1000, false);
    assert_int_equal(lm_builder_finish(b, lm_head(b, "head", x, VOCAB, NULL), &p, NULL), LM_OK);
    return p;
}

typedef struct fixture {
    lm_program *p;
    lm_kernels  k;
    lm_dtype    types[64];
    lm_plan    *plan;
} fixture;

static lm_status make(fixture *f, uint32_t window, const lm_plan_options *with, lm_error *e)
{
    lm_plan_options o = { .max_rows = 16,
                          .max_logits = 2,
                          .sequences = 2,
                          .context = 200,
                          .cache = { LM_F16, LM_F16 },
                          .exact = true,
                          .workers = 2 };

    memset(f, 0, sizeof *f);
    f->p = program(window);
    lm_kernels_init(&f->k, 0);
    if (with)
        o = *with;
    o.kernels = &f->k;
    o.types   = f->types;
    return lm_plan_new(f->p, &o, &f->plan, e);
}

static void drop(fixture *f)
{
    lm_plan_free(f->plan);
    lm_program_free(f->p);
}

static uint32_t steps_of(const lm_plan *p, lm_step_code code)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->n_steps; i++)
        n += p->steps[i].code == code;
    return n;
}

static uint32_t rows_of(const lm_plan *p, lm_op_code code)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->n_steps; i++)
        n += lm_step_is(p->program, &p->steps[i], code);
    return n;
}

static void live_buffers_do_not_overlap(void **state)
{
    fixture f;

    (void)state;
    assert_int_equal(make(&f, 0, NULL, NULL), LM_OK);
    for (uint32_t i = 0; i < f.plan->n_buffers; i++)
        for (uint32_t k = 0; k < i; k++) {
            const lm_buffer *a = &f.plan->buffers[i], *b = &f.plan->buffers[k];
            bool together = a->first <= b->last && b->first <= a->last;
            bool apart = a->offset + a->stride * a->rows <= b->offset ||
                         b->offset + b->stride * b->rows <= a->offset;
            assert_true(!together || apart);
            assert_true(a->offset + a->stride * a->rows <= f.plan->slab_bytes);
        }
    assert_int_equal(f.plan->buffers[f.plan->logits].last, f.plan->n_stages);
    drop(&f);
}

/* Residuals are fused into the preceding product; the rotation works in place on the output of the
 * projection. */
static void possible_fusions_are_made(void **state)
{
    fixture f;

    (void)state;
    assert_int_equal(make(&f, 0, NULL, NULL), LM_OK);
    assert_int_equal(rows_of(f.plan, LM_OP_ADD), 0);
    assert_int_equal(steps_of(f.plan, LM_STEP_MATMUL), 4 * LAYERS + 1);
    for (uint32_t i = 0; i < f.plan->n_steps; i++)
        if (lm_step_is(f.plan->program, &f.plan->steps[i], LM_OP_ROPE))
            assert_int_equal(f.plan->steps[i].in[0], f.plan->steps[i].out);
    drop(&f);
}

/* After the keys of the last layer only rows whose logits are requested are computed. */
static void the_tail_runs_for_wanted_rows(void **state)
{
    fixture f;

    (void)state;
    assert_int_equal(make(&f, 0, NULL, NULL), LM_OK);
    for (uint32_t i = 0; i < f.plan->n_steps; i++) {
        const lm_step *s = &f.plan->steps[i];
        const char    *path = s->node == LM_NONE ? "" : f.p->nodes[s->node].path;
        if (s->code != LM_STEP_MATMUL)
            continue;
        bool wanted = !strcmp(path, "head") || !strcmp(path, "layers.2.o_proj") ||
                      !strcmp(path, "layers.2.q_proj");
        assert_int_equal(s->domain, wanted ? LM_WANTED_ROWS : LM_ALL_ROWS);
    }
    assert_true(steps_of(f.plan, LM_STEP_GATHER) >= 2);
    drop(&f);
}

/* A probed value is available for every row until the next step; operations that would be fused with it are
 * not. */
static void probes_are_kept(void **state)
{
    fixture         f;
    lm_value        probe = 0;
    lm_program     *p     = program(0);
    lm_plan_options o = { .max_rows = 16,
                          .max_logits = 2,
                          .sequences = 2,
                          .context = 200,
                          .cache = { LM_F16, LM_F16 },
                          .exact = true,
                          .workers = 2,
                          .probes = &probe,
                          .n_probes = 1 };

    (void)state;
    probe = lm_program_value(p, "layers.2.o_proj");
    lm_program_free(p);
    assert_int_equal(make(&f, 0, &o, NULL), LM_OK);
    const lm_buffer *b = &f.plan->buffers[f.plan->value_buffer[probe]];
    assert_int_equal(b->rows, 16);
    assert_int_equal(b->last, f.plan->n_stages);
    assert_int_equal(rows_of(f.plan, LM_OP_ADD), 1);
    drop(&f);
}

static void the_cache_is_pages(void **state)
{
    fixture f;

    (void)state;
    assert_int_equal(make(&f, 0, NULL, NULL), LM_OK);
    assert_int_equal(f.plan->n_groups, 1);
    assert_int_equal(f.plan->groups[0].n_pages, 2 * 4);      /* 200 positions are 4 pages of 64 */
    assert_int_equal(f.plan->groups[0].page_bytes,
                     LAYERS * f.k.attention.page_bytes(&f.plan->layers[0].shape));
    assert_int_equal(f.plan->kv_bytes, f.plan->groups[0].n_pages * f.plan->groups[0].page_bytes);
    drop(&f);
    /* a window stores its own keys, in each sequence, and the rows of a step */
    assert_int_equal(make(&f, 10, NULL, NULL), LM_OK);
    assert_int_equal(f.plan->groups[0].n_pages, 2 * 2 + 1);
    drop(&f);
}

static void impossible_options_are_rejected(void **state)
{
    static const lm_plan_options good = { .max_rows = 16, .max_logits = 2, .sequences = 2, .context = 200,
                                          .cache = { LM_F16, LM_F16 }, .exact = true,
                                          .workers = 2 };
    lm_plan_options o;
    lm_error        e;
    fixture         f;

    (void)state;
#define REFUSED(status, field, value) \
    do {                                               \
        o = good;                                      \
        o.field = (value);                             \
        assert_int_equal(make(&f, 0, &o, &e), status); \
        drop(&f);                                      \
    } while (0)
    REFUSED(LM_USAGE, max_rows, 0);
    REFUSED(LM_USAGE, max_rows, 100000);
    REFUSED(LM_USAGE, max_logits, 0);
    REFUSED(LM_USAGE, max_logits, 17);
    REFUSED(LM_USAGE, sequences, 0);
    REFUSED(LM_USAGE, context, 0);
    REFUSED(LM_USAGE, workers, 0);
    REFUSED(LM_UNSUPPORTED, cache.k, LM_Q8_0);               /* heads of 8 lanes are not whole blocks */
    REFUSED(LM_UNSUPPORTED, cache.v, LM_Q5_1);
#undef REFUSED
}

/* A plan resized to another context and cache type has the sizes of a plan made for them, and shares the
 * steps of the original. */
static void a_resized_engine_equals_a_new_one(void **state)
{
    static const uint32_t contexts[] = { 1, 64, 65, 900, 4000 };
    static const lm_cache_types types[] = {
        { LM_F16, LM_F16 }, { LM_F32, LM_F32 }, { LM_BF16, LM_BF16 }, { LM_F32, LM_F16 }
    };
    static const lm_cache_types half = { LM_F16, LM_F16 }, blocks = { LM_F16, LM_Q4_0 };
    lm_error              e;

    (void)state;
    for (uint32_t window = 0; window <= 100; window += 100)
        for (size_t c = 0; c < sizeof contexts / sizeof *contexts; c++)
            for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
                fixture  from, anew;
                lm_plan *resized = NULL;
                assert_int_equal(make(&from, window, NULL, NULL), LM_OK);
                lm_plan_options o = from.plan->options;
                o.context         = contexts[c];
                o.cache           = types[t];
                assert_int_equal(make(&anew, window, &o, NULL), LM_OK);
                assert_int_equal(lm_plan_resized(from.plan, contexts[c], types[t], &resized, NULL), LM_OK);
                assert_int_equal(resized->kv_bytes, anew.plan->kv_bytes);
                assert_int_equal(resized->slab_bytes, anew.plan->slab_bytes);
                assert_int_equal(resized->weight_bytes, anew.plan->weight_bytes);
                assert_int_equal(resized->n_groups, anew.plan->n_groups);
                assert_memory_equal(&resized->state, &anew.plan->state, sizeof resized->state);
                assert_memory_equal(resized->layers, anew.plan->layers, LAYERS * sizeof *resized->layers);
                assert_memory_equal(resized->groups, anew.plan->groups,
                                    resized->n_groups * sizeof *resized->groups);
                assert_ptr_equal(resized->steps, from.plan->steps);
                lm_plan_free(resized);
                assert_int_equal(lm_plan_resized(from.plan, contexts[c], blocks, &resized, &e),
                                 LM_UNSUPPORTED);
                assert_int_equal(lm_plan_resized(from.plan, 0, half, &resized, &e), LM_USAGE);
                drop(&from);
                drop(&anew);
            }
}

/* ---- the slab ---- */

static bool collide(const lm_buffer *a, uint64_t offset, const lm_buffer *b)
{
    return a->first <= b->last && b->first <= a->last && offset < b->offset + b->stride * b->rows &&
           b->offset < offset + a->stride * a->rows;
}

/* Return the offset by definition: the lowest multiple of 64 at which the buffer collides with none of the
 * larger ones. */
static uint64_t by_definition(const lm_buffer *buffers, uint32_t n, uint32_t which)
{
    const lm_buffer *b = &buffers[which];

    for (uint64_t offset = 0;; offset += 64) {
        bool free_here = true;
        for (uint32_t i = 0; i < n && free_here; i++) {
            uint64_t size = b->stride * b->rows, other = buffers[i].stride * buffers[i].rows;
            bool     before = other > size || (other == size && i < which);
            free_here = i == which || !before || !collide(b, offset, &buffers[i]);
        }
        if (free_here)
            return offset;
    }
}

static void each_buffer_lies_as_low_as_it_can(void **state)
{
    enum { MAX = 200 };
    static lm_buffer buffers[MAX];
    static uint64_t  scratch[4 * MAX];
    uint64_t         bytes, random = 7;

    (void)state;
    for (uint32_t round = 0; round < 60; round++) {
        uint32_t n = 1 + round * 3, stages = round % 3 == 0 ? 5 : round % 3 == 1 ? 200 : 3000;
        for (uint32_t i = 0; i < n; i++) {
            random       = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
            uint32_t now = (uint32_t)(random >> 33), life = now % 7 == 0 ? now / 7 % stages : now % 4;
            buffers[i] = (lm_buffer){ .stride = 1 + now % 300,
                                      .rows = 1 + now % 3,
                                      .first = now / 11 % stages };
            buffers[i].last = buffers[i].first + life;
        }
        assert_int_equal(lm_slab_place(buffers, n, scratch, &bytes, NULL), LM_OK);
        for (uint32_t i = 0; i < n; i++) {
            assert_int_equal(buffers[i].offset, by_definition(buffers, n, i));
            assert_true(buffers[i].offset + buffers[i].stride * buffers[i].rows <= bytes);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(live_buffers_do_not_overlap),
        cmocka_unit_test(possible_fusions_are_made),
        cmocka_unit_test(the_tail_runs_for_wanted_rows),
        cmocka_unit_test(probes_are_kept),
        cmocka_unit_test(the_cache_is_pages),
        cmocka_unit_test(impossible_options_are_rejected),
        cmocka_unit_test(a_resized_engine_equals_a_new_one),
        cmocka_unit_test(each_buffer_lies_as_low_as_it_can),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
