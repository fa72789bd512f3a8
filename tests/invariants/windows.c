/* windows.c - a sliding window frees its pages: pages, planned bytes and the process's memory stay constant
 * from the first window to the fourth, and results without the freed pages equal results with all pages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "lamina/generate.h"
#include "models.h"
#include "runtime/engine/state.h"

#define WINDOW 512
#define STEP   32

static lm_model *open_model(const char *golden, int64_t window)
{
    const char      *root = getenv("LAMINA_TESTS");
    lm_model_options o    = { .sliding_window = window };
    lm_model        *m    = NULL;
    lm_error         e    = { 0 };
    char             path[600];

    snprintf(path, sizeof path, "%.400s/golden/%.100s", root ? root : "tests", golden);
    if (lm_model_open(path, &o, &m, &e) != LM_OK)
        fail_msg("%s: %s: %s", golden, e.where, e.message);
    return m;
}

static lm_engine *start(const lm_model *m, uint32_t context, uint32_t rows, uint32_t threads)
{
    lm_engine_options o = { .context = context,
                            .max_rows = rows,
                            .max_logits = 1,
                            .kv = LM_KV_F32,
                            .compute = LM_COMPUTE_F32,
                            .threads = threads };
    lm_engine *g = NULL;
    lm_error   e = { 0 };

    if (lm_engine_new(m, &o, &g, &e) != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
    return g;
}

/* Run positions [from, to) in one step. Returns the logits of the last. */
static const float *feed(lm_engine *g, uint32_t from, uint32_t to)
{
    static lm_row rows[4 * WINDOW];
    lm_error      e = { 0 };

    for (uint32_t i = from; i < to; i++)
        rows[i - from] = (lm_row){ 0, (lm_token)((i * 2654435761u + 17) % g->program->n_vocab), i,
                                   i + 1 == to };
    if (lm_engine_step(g, rows, to - from, &e) != LM_OK)
        fail_msg("position %u: %s", from, e.message);
    return lm_engine_logits(g, to - from - 1);
}

static uint64_t used(const lm_engine *g)
{
    uint64_t n, total;

    lm_engine_pages(g, &n, &total);
    return n;
}

/* Return the maximum pages of a window group: its keys, the page in which its end falls, and the rows of a
 * step. */
static uint64_t max_pages(void)
{
    return WINDOW / LM_PAGE + 1 + (STEP + LM_PAGE - 1) / LM_PAGE;
}

static void pages_and_memory_stay_flat_past_the_window(void **state)
{
    lm_model  *m = open_model("mistral/window", WINDOW);
    lm_engine *g = start(m, 8 * WINDOW, STEP, 1), *longer = start(m, 64 * WINDOW, STEP, 1);
    lm_memory  planned, for_longer;
    uint64_t   first = 0, last = 0, before = 0;

    (void)state;
    lm_engine_allocated(g, &planned);
    lm_engine_allocated(longer, &for_longer);
    assert_int_equal(planned.kv, for_longer.kv);             /* a longer context needs no larger cache */
    assert_int_equal(g->plan->groups[0].n_pages, max_pages());
    lm_engine_free(longer);
    for (uint32_t at = 0; at < 4 * WINDOW; at += STEP) {
        if (at == WINDOW)
            before = lm_alloc_statistics().live_bytes;
        feed(g, at, at + STEP);
        uint64_t n = used(g);
        assert_true(n <= max_pages());
        if (at >= WINDOW && at < 2 * WINDOW)
            first = n > first ? n : first;
        if (at >= 3 * WINDOW)
            last = n > last ? n : last;
    }
    printf("  window %d: %llu pages most from W to 2W, %llu from 3W to 4W\n", WINDOW,
           (unsigned long long)first, (unsigned long long)last);
    assert_int_equal(first, last);
    assert_int_equal(lm_alloc_statistics().live_bytes, before);
    lm_engine_free(g);
    lm_model_close(m);
}

/* Steps of seven rows that free pages give the same bits as one step with all pages. */
static void freed_pages_do_not_change_the_bits(void **state)
{
    static const char *const goldens[] = { "mistral/window", "qwen2/windows", "llama4_text/chunks" };

    (void)state;
    for (size_t k = 0; k < sizeof goldens / sizeof *goldens; k++) {
        lm_model    *m     = open_model(goldens[k], 100);
        lm_engine   *whole = start(m, 600, 600, 2), *g = start(m, 600, 7, 2);
        uint32_t     from  = 0;
        const float *y     = NULL, *x = feed(whole, 0, 600);
        uint64_t     max  = 0;
        while (from < 600) {
            uint32_t to = from + 7 < 600 ? from + 7 : 600;
            y           = feed(g, from, to);
            from        = to;
            max        = used(g) > max ? used(g) : max;
        }
        assert_true(max < used(whole));
        assert_memory_equal(x, y, m->program->n_vocab * sizeof *x);
        lm_engine_free(g);
        lm_engine_free(whole);
        lm_model_close(m);
    }
}

/* Layers without a window keep every page, although other layers of the model have a window. */
static void other_layers_keep_their_pages(const char *golden)
{
    lm_model  *m = open_model(golden, WINDOW);
    lm_engine *g = start(m, 4 * WINDOW, STEP, 2), *longer = start(m, 8 * WINDOW, STEP, 2);
    uint32_t   full = LM_NONE;

    assert_int_equal(g->plan->n_groups, 2);
    for (uint32_t i = 0; i < 2; i++)
        full = g->plan->groups[i].window ? full : i;
    assert_int_not_equal(full, LM_NONE);
    assert_int_equal(g->plan->groups[1 - full].n_pages, max_pages());
    assert_int_equal(longer->plan->groups[1 - full].n_pages, max_pages());
    lm_engine_free(longer);
    for (uint32_t at = 0; at < 4 * WINDOW; at += STEP) {
        feed(g, at, at + STEP);
        uint64_t kept = g->plan->groups[full].n_pages - g->pages[full].n_free;
        assert_int_equal(kept, (at + STEP + LM_PAGE - 1) / LM_PAGE);
        assert_true(used(g) - kept <= max_pages());
    }
    assert_int_equal(g->plan->groups[1 - full].window, WINDOW);
    lm_engine_free(g);
    lm_model_close(m);
}

static void layers_without_a_window_keep_their_pages(void **state)
{
    (void)state;
    other_layers_keep_their_pages("qwen2/windows");
    other_layers_keep_their_pages("llama4_text/chunks");
}

/* A conversation restarts from its beginning after the window has passed it: dropped tokens are processed
 * again. */
static void positions_outside_a_window_are_recomputed(void **state)
{
    enum { LONG = 500, SAME = 50, SHORT = 60, NEW = 8 };
    lm_model           *m = open_model("mistral/window", 100);
    lm_token            text[LONG];
    lm_generate_options o = { .sequence = { .max_tokens = NEW, .ignore_eos = true } };
    lm_sampler_options  greedy = { .greedy = true };
    lm_sampler         *s = NULL;
    lm_generation       x[2];
    lm_error            e = { 0 };

    (void)state;
    assert_int_equal(lm_sampler_new(&greedy, m->program->n_vocab, NULL, &s, &e), LM_OK);
    for (int fresh = 0; fresh < 2; fresh++) {
        lm_engine *g = start(m, 600, 64, 2);
        for (uint32_t i = 0; i < LONG; i++)
            text[i] = (lm_token)(i * 31 % m->program->n_vocab);
        if (!fresh) {
            assert_int_equal(lm_generate(g, s, text, LONG, 0, &o, &x[0], &e), LM_OK);
            lm_generation_free(&x[0]);
        }
        for (uint32_t i = SAME; i < SHORT; i++)
            text[i] = 3;
        if (lm_generate(g, s, text, SHORT, fresh ? 0 : SAME, &o, &x[fresh], &e) != LM_OK)
            fail_msg("%s", e.message);
        assert_int_equal(x[fresh].n_reused, 0);
        lm_engine_free(g);
    }
    assert_int_equal(x[0].ids.n, NEW);
    assert_int_equal(x[1].ids.n, NEW);
    assert_memory_equal(x[0].ids.ids, x[1].ids.ids, NEW * sizeof *x[0].ids.ids);
    lm_generation_free(&x[0]);
    lm_generation_free(&x[1]);
    lm_sampler_free(s);
    lm_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_and_memory_stay_flat_past_the_window),
        cmocka_unit_test(freed_pages_do_not_change_the_bits),
        cmocka_unit_test(layers_without_a_window_keep_their_pages),
        cmocka_unit_test(positions_outside_a_window_are_recomputed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
