/* breakers.c - DRY's sequence breakers: found in a vocabulary of words and parts of words, whose functions
 * replace the tokenizer's, and once for all samplers with the same list. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <string.h>

#include "base/alloc.h"
#include "runtime/sample/sampler.h"

static const char *const spellings[] = { "a", ":", "b:", "\n", "en", "d", "end", "e", "n", "", "xen", "nd" };
enum { WORDS = sizeof spellings / sizeof *spellings };

uint32_t lm_tokenizer_size(const lm_tokenizer *t)
{
    (void)t;
    return WORDS;
}

/* Tokenize greedily, the longest word first. */
lm_status lm_tokenize(const lm_tokenizer *t, const char *text, size_t size, unsigned flags, lm_tokens *out,
                      lm_error *e)
{
    (void)t, (void)e;
    assert_true(flags == 0 || flags == LM_NO_PARSE_SPECIAL);
    while (size) {
        size_t longest = 0;
        lm_token best = -1;
        for (lm_token i = 0; i < WORDS; i++) {
            size_t n = strlen(spellings[i]);
            if (n > longest && n <= size && memcmp(text, spellings[i], n) == 0) {
                longest = n;
                best = i;
            }
        }
        assert_true(best >= 0);
        out->ids = lm_realloc(out->ids, (out->n + 1) * sizeof *out->ids);
        out->ids[out->n++] = best;
        text += longest;
        size -= longest;
    }
    return LM_OK;
}

lm_status lm_detokenize(const lm_tokenizer *t, const lm_token *ids, size_t n, unsigned flags, lm_text *out,
                        lm_error *e)
{
    (void)t, (void)flags, (void)e;
    for (size_t i = 0; i < n; i++) {
        size_t size = strlen(spellings[ids[i]]);
        out->data = lm_realloc(out->data, out->size + size + 1);
        memcpy(out->data + out->size, spellings[ids[i]], size);
        out->size += size;
    }
    return LM_OK;
}

void lm_tokens_free(lm_tokens *t)
{
    lm_free(t->ids);
    *t = (lm_tokens){ 0 };
}

static void breakers_are_found_in_the_vocabulary(void **state)
{
    static const char *const breakers[] = { ":", "\n", "end", NULL };
    const struct { lm_token head, tail[3]; size_t n_tail; } expected[] = {
        { 1, { 0 }, 0 }, { 2, { 0 }, 0 }, { 3, { 0 }, 0 }, { 4, { 5 }, 1 },      /* ":" "b:" "\n" "en"+"d" */
        /* "end" "e"+"nd" "xen"+"d" */
        { 6, { 0 }, 0 }, { 7, { 11 }, 1 }, { 10, { 5 }, 1 },
    };
    /* only its existence matters */
    const lm_tokenizer *t = (const lm_tokenizer *)breakers;
    lm_breakers *found;

    (void)state;
    assert_int_equal(lm_breakers_find(t, WORDS, breakers, &found, NULL), LM_OK);
    assert_int_equal(found->n, sizeof expected / sizeof *expected);
    for (size_t i = 0; i < found->n; i++) {
        assert_int_equal(found->items[i].head, expected[i].head);
        assert_int_equal(found->items[i].n_tail, expected[i].n_tail);
        if (expected[i].n_tail)
            assert_memory_equal(found->items[i].tail, expected[i].tail,
                                expected[i].n_tail * sizeof(lm_token));
    }
    lm_breakers_drop(found);
}

/* Breakers shared by many samplers with the same list are found once, and freed with the last sampler. */
static void breakers_are_found_once(void **state)
{
    static const char *const lists[][3] = { { ":", "end", NULL }, { ":", NULL, NULL }, { NULL, NULL, NULL } };
    lm_sampler_options o = lm_sampler_defaults();
    const lm_tokenizer *t = (const lm_tokenizer *)&o;
    lm_breaker_cache c;
    lm_sampler *s[64];

    (void)state;
    lm_breaker_cache_open(&c);
    o.dry_multiplier = 1;
    for (size_t k = 0; k < 4; k++) {
        o.dry_breakers = k < 3 ? lists[k] : NULL;
        for (size_t i = 0; i < 16; i++)
            assert_int_equal(lm_sampler_prepare(&o, WORDS, t, &c, &s[16 * k + i], NULL), LM_OK);
        assert_int_equal(c.made, k + 1);
    }
    lm_breaker_cache_close(&c);
    for (size_t i = 0; i < 64; i++) {
        assert_int_equal(lm_sampler_open(s[i], NULL), LM_OK);
        lm_sampler_accept(s[i], 1);
        lm_sampler_free(s[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(breakers_are_found_in_the_vocabulary),
        cmocka_unit_test(breakers_are_found_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
