/* sparse.c - the choice of keys: ties fall to the lowest positions, blocks by their best key, and every
 * instruction set scores keys and copies positions to the bit. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/kernels.h"
#include "runtime/ops/best.h"
#include "runtime/ops/chosen.h"

static void expect_best(const float *x, uint32_t n, uint32_t k, const float *expected)
{
    float out[16] = { 0 };

    lm_best(x, n, k, out);
    for (uint32_t i = 0; i < k; i++)
        assert_true(out[i] == expected[i]);
    assert_true(out[k] == 0);
}

static void the_best_in_rising_order(void **state)
{
    (void)state;
    expect_best((float[]){ 3, -1, 7, 2, 7.5f, -9 }, 6, 3, (float[]){ 0, 2, 4 });
    expect_best((float[]){ -3, -1, -7, -2, -7.5f, -9 }, 6, 2, (float[]){ 1, 3 });
    expect_best((float[]){ 1, 2, 3 }, 3, 3, (float[]){ 0, 1, 2 });
    expect_best((float[]){ INFINITY, 0, -INFINITY, 1e-45f }, 4, 2, (float[]){ 0, 3 });
}

/* Scores whose maximum with 0 is 0 in all heads are equal; of those the first positions are chosen. */
static void ties_fall_to_the_lowest(void **state)
{
    (void)state;
    expect_best((float[]){ 0, 5, 0, 0, 5, 0 }, 6, 4, (float[]){ 0, 1, 2, 4 });
    expect_best((float[]){ -0.0f, 0, -0.0f, 0 }, 4, 2, (float[]){ 0, 1 });
    expect_best((float[]){ -1, 0, 0, 2, 0, 2 }, 6, 3, (float[]){ 1, 3, 5 });
    expect_best((float[]){ 4, 4, 4, 4 }, 4, 1, (float[]){ 0 });
}

/* Against sorting, for many lengths. */
static void as_by_sorting(void **state)
{
    static float x[3000], out[3000];
    uint32_t     seed = 1;

    (void)state;
    for (uint32_t n = 1; n <= 3000; n += 171)
        for (uint32_t k = 1; k <= n; k += n / 3 + 1) {
            for (uint32_t i = 0; i < n; i++)
                x[i] = (float)((seed = seed * 1664525 + 1013904223) >> 24) - 128;
            lm_best(x, n, k, out);
            for (uint32_t i = 0; i < k; i++) {
                uint32_t at = (uint32_t)out[i], better = 0;
                for (uint32_t j = 0; j < n; j++)
                    better += x[j] > x[at] || (x[j] == x[at] && j < at);
                assert_true(better < k);
                assert_true(i == 0 || out[i] > out[i - 1]);
            }
        }
}

static void expect_choice(lm_attention_spec s, uint32_t position, const float *expected, const uint32_t *seen)
{
    float    scores[12] = { 1, 9, -1, 2, 3, -8, 5, 5, 4, -2, 8, 7 }, out[8];
    uint32_t keys[12], n = 0;

    lm_choose_keys(&s, scores, position + 1, out);
    for (uint32_t i = 0; i < lm_choice_width(&s); i++)
        assert_true(out[i] == expected[i]);
    while (seen[n] <= position)
        n++;
    assert_int_equal(lm_chosen_keys(&s, out, position, keys), n);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(keys[i], seen[i]);
}

/* Of blocks of 3 keys, with the highest scores 9, 3, 5 and 8, those after `position` unseen. */
static void blocks_by_their_best_key(void **state)
{
    enum { END = UINT32_MAX };
    lm_attention_spec two = { .top_k = 6, .block = 3 }, last = two, both = two, keys = { .top_k = 3 };

    (void)state;
    last.local = 1;
    both.local = 2;
    expect_choice(two, 11, (float[]){ 0, 3 }, (uint32_t[]){ 0, 1, 2, 9, 10, 11, END });
    expect_choice(two, 9, (float[]){ 0, 2 }, (uint32_t[]){ 0, 1, 2, 6, 7, 8, END });
    expect_choice(last, 9, (float[]){ 0, 3 }, (uint32_t[]){ 0, 1, 2, 9, END });
    expect_choice(both, 10, (float[]){ 2, 3 }, (uint32_t[]){ 6, 7, 8, 9, 10, END });
    expect_choice(last, 5, (float[]){ 0, 1 }, (uint32_t[]){ 0, 1, 2, 3, 4, 5, END });
    expect_choice(last, 2, (float[]){ 0, -1 }, (uint32_t[]){ 0, 1, 2, END });
    expect_choice(keys, 11, (float[]){ 1, 10, 11 }, (uint32_t[]){ 1, 10, 11, END });
    expect_choice(keys, 1, (float[]){ 0, 1, -1 }, (uint32_t[]){ 0, 1, END });
}

enum { DIM = 64, HEADS = 5, MOST = 1 << 18 };

static uint8_t pages[2][2][MOST];
static float   keys[LM_PAGE * 3 * DIM], values[LM_PAGE * 3 * DIM], q[HEADS * DIM], w[HEADS];

static void fill(float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        x[i] = (float)(rand() % 4001 - 2000) / 1000;
}

/* Check scores of all heads together, computed from those of each. */
static void weigh(float by_head[HEADS][LM_PAGE], const float *scores)
{
    for (uint32_t j = 0; j < LM_PAGE; j++) {
        float sum = 0;
        for (uint32_t h = 0; h < HEADS; h++)
            sum += w[h] * (by_head[h][j] > 0 ? by_head[h][j] : 0);
        assert_true(sum == scores[j]);
    }
}

/* Copy even positions to the front of a page and odd ones behind; then both back, each time in parts that end
 * within eight entries. */
static void copy_in_parts(const lm_attention_kernels *k, const lm_kv_shape *kv, const uint8_t *page,
                          uint64_t bytes)
{
    const uint64_t even = UINT64_C(0x5555555555555555), few = UINT64_C(0x1fffff);
    uint8_t       *turned = calloc(2, bytes), *again = turned + bytes;

    assert_non_null(turned);
    k->copy(kv, turned, 0, page, even);
    k->copy(kv, turned, 32, page, ~even & few);
    k->copy(kv, turned, 42, page, ~even & ~few);
    assert_memory_not_equal(turned, page, bytes);
    for (uint32_t i = 0; i < LM_PAGE; i++)
        k->copy(kv, again, i, turned, UINT64_C(1) << (i / 2 + i % 2 * 32));
    assert_memory_equal(again, page, bytes);
    free(turned);
}

static void levels_agree(const lm_kernels *level, lm_kv_shape kv)
{
    static float scores[2][LM_PAGE], by_head[2][HEADS][LM_PAGE], scratch[LM_PAGE * DIM];
    lm_kernels   ref;

    lm_kernels_init(&ref, 0);
    const lm_attention_kernels *of[2] = { &ref.attention, &level->attention };
    uint64_t bytes = level->attention.page_bytes(&kv);
    assert_true(bytes <= MOST);
    for (int i = 0; i < 2; i++) {
        memset(pages[i], 0, sizeof pages[i]);
        of[i]->store(&kv, pages[i][0], 0, LM_PAGE, keys, kv.n_kv_heads * DIM, values, kv.n_kv_heads * DIM);
        if (kv.n_kv_heads == 1) {
            of[i]->index(&kv, pages[i][0], q, w, HEADS, scratch, scores[i], 0);
            of[i]->index(&kv, pages[i][0], q, NULL, HEADS, scratch, by_head[i][0], LM_PAGE);
            weigh(by_head[i], scores[i]);
        }
        copy_in_parts(of[i], &kv, pages[i][0], bytes);
    }
    assert_memory_equal(scores[0], scores[1], sizeof scores[0]);
    assert_memory_equal(by_head[0], by_head[1], sizeof by_head[0]);
}

static void every_level_scores_and_copies_alike(void **state)
{
    static const lm_cpu   masks[] = { LM_CPU_SSE41, LM_CPU_SSE41 | LM_CPU_AVX2, (lm_cpu)-1 };
    static const lm_dtype types[] = { LM_F32, LM_F16, LM_BF16, LM_Q8_0, LM_Q4_0, LM_Q4_1, LM_Q5_0, LM_Q5_1 };

    (void)state;
    srand(7);
    fill(keys, sizeof keys / sizeof *keys);
    fill(values, sizeof values / sizeof *values);
    fill(q, HEADS * DIM);
    fill(w, HEADS);
    for (size_t m = 0; m < sizeof masks / sizeof *masks; m++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            lm_kernels k;
            lm_kernels_init(&k, lm_cpu_detected() & masks[m]);
            levels_agree(&k, (lm_kv_shape){ 1, DIM, DIM, types[t], types[t], true });
            levels_agree(&k, (lm_kv_shape){ 3, DIM, DIM, types[t], types[t], false });
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_in_rising_order),
        cmocka_unit_test(ties_fall_to_the_lowest),
        cmocka_unit_test(as_by_sorting),
        cmocka_unit_test(blocks_by_their_best_key),
        cmocka_unit_test(every_level_scores_and_copies_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
