/* breakers.c - find DRY's breakers in a vocabulary. */
#include "runtime/sample/breakers.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

/* The limits of llama.cpp. */
enum { BREAKER_BYTES_MAX = 40, BREAKER_TAIL_MAX = 20 };

static const char *const default_breakers[] = { "\n", ":", "\"", "*", NULL };

/* Find what `id` adds to the output: its spelling after an ordinary token, since some decoders strip the
 * first token's space. It begins at *from in `out`. */
static lm_status spelling(const lm_tokenizer *t, const lm_tokens *before, size_t before_size, lm_token id,
                          lm_text *out, size_t *from, lm_error *e)
{
    lm_token pair[2] = { before->n ? before->ids[before->n - 1] : id, id };

    out->size = 0;
    *from = before->n ? before_size : 0;
    LM_TRY(lm_detokenize(t, before->n ? pair : pair + 1, before->n ? 2 : 1, 0, out, e));
    if (out->size < *from)
        *from = out->size;
    return LM_OK;
}

static bool known_breaker(const lm_breakers *b, lm_token head, const lm_token *tail, size_t n)
{
    for (size_t i = b->n; i-- > 0;) {
        const lm_dry_breaker *x = &b->items[i];
        if (x->head != head)
            return false;                                /* they are added head by head */
        if (x->n_tail == n && (n == 0 || memcmp(x->tail, tail, n * sizeof *tail) == 0))
            return true;
    }
    return false;
}

static lm_status add_breaker(lm_breakers *b, lm_token head, lm_tokens *tail, lm_error *e)
{
    size_t n = tail->n < BREAKER_TAIL_MAX ? tail->n : BREAKER_TAIL_MAX;
    lm_token *copy = NULL;

    if (known_breaker(b, head, tail->ids, n))
        return LM_OK;
    if ((b->n & (b->n - 1)) == 0) {      /* full whenever the count is a power of two */
        size_t bytes = (b->n ? 2 * b->n : 1) * sizeof *b->items;
        lm_dry_breaker *grown = lm_realloc(b->items, bytes);
        if (!grown)
            return lm_fail_memory(e, "DRY breakers", bytes);
        b->items = grown;
    }
    if (n) {
        copy = lm_alloc(n * sizeof *copy);
        if (!copy)
            return lm_fail_memory(e, "DRY breakers", n * sizeof *copy);
        memcpy(copy, tail->ids, n * sizeof *copy);
    }
    b->items[b->n++] = (lm_dry_breaker){ head, (uint32_t)n, copy };
    return LM_OK;
}

/* Match breaker `s` with the token `id` spelled `w`: whole inside it, or beginning in it and continued by
 * further tokens. */
static lm_status match_breaker(lm_breakers *b, const lm_tokenizer *t, lm_token id, const char *w, size_t n_w,
                               const char *s, lm_tokens *tail, lm_error *e)
{
    size_t n_s = strnlen(s, BREAKER_BYTES_MAX);

    tail->n = 0;
    if (memmem(w, n_w, s, n_s))
        return add_breaker(b, id, tail, e);
    for (size_t at = n_w < n_s ? 0 : n_w - n_s + 1; at < n_w; at++) {
        if (memcmp(w + at, s, n_w - at) != 0)
            continue;
        tail->n = 0;
        LM_TRY(lm_tokenize(t, s + (n_w - at), n_s - (n_w - at), LM_NO_PARSE_SPECIAL, tail, e));
        LM_TRY(add_breaker(b, id, tail, e));
    }
    return LM_OK;
}

static lm_status find_all(lm_breakers *b, const lm_tokenizer *t, uint32_t n_vocab, const char *const *list,
                          lm_error *e)
{
    lm_tokens before = { 0 }, tail = { 0 };
    lm_text text = { 0 };
    size_t before_size, from;
    lm_status status;

    LM_TRY_GOTO(status, lm_tokenize(t, "a", 1, 0, &before, e), done);
    if (before.n)
        LM_TRY_GOTO(status, lm_detokenize(t, &before.ids[before.n - 1], 1, 0, &text, e), done);
    before_size = text.size;

    for (uint32_t id = 0; id < n_vocab && id < lm_tokenizer_size(t); id++) {
        LM_TRY_GOTO(status, spelling(t, &before, before_size, (lm_token)id, &text, &from, e), done);
        for (size_t i = 0; list[i]; i++)
            if (*list[i] && text.size > from)
                LM_TRY_GOTO(status,
                            match_breaker(b, t, (lm_token)id, text.data + from, text.size - from, list[i],
                                          &tail, e),
                            done);
    }
    status = LM_OK;
done:
    lm_tokens_free(&before);
    lm_tokens_free(&tail);
    lm_text_free(&text);
    return status;
}

lm_status lm_breakers_find(const lm_tokenizer *t, uint32_t n_vocab, const char *const *list,
                           lm_breakers **out, lm_error *e)
{
    lm_breakers *b = lm_alloc_zero(1, sizeof *b);

    if (!b)
        return lm_fail_memory(e, "DRY breakers", sizeof *b);
    atomic_init(&b->owners, 1);
    lm_status status = find_all(b, t, n_vocab, list ? list : default_breakers, e);
    if (status != LM_OK)
        lm_breakers_drop(b);
    else
        *out = b;
    return status;
}

lm_breakers *lm_breakers_retain(lm_breakers *b)
{
    if (b)
        atomic_fetch_add(&b->owners, 1);
    return b;
}

void lm_breakers_drop(lm_breakers *b)
{
    if (!b || atomic_fetch_sub(&b->owners, 1) != 1)
        return;
    for (size_t i = 0; i < b->n; i++)
        lm_free(b->items[i].tail);
    lm_free(b->items);
    lm_free(b);
}

const lm_dry_breaker *lm_breakers_of(const lm_breakers *b, lm_token id, size_t *n)
{
    size_t lo = 0, hi = b ? b->n : 0, end = hi;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (b->items[mid].head < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (hi = lo; hi < end && b->items[hi].head == id;)
        hi++;
    *n = hi - lo;
    return b ? b->items + lo : NULL;
}

/* ---- the cache of the last set ---- */

void lm_breaker_cache_open(lm_breaker_cache *c)
{
    *c = (lm_breaker_cache){ 0 };
    pthread_mutex_init(&c->lock, NULL);
}

static void forget(lm_breaker_cache *c)
{
    for (size_t i = 0; c->list && c->list[i]; i++)
        lm_free(c->list[i]);
    lm_free(c->list);
    lm_breakers_drop(c->set);
    c->list = NULL;
    c->set  = NULL;
}

void lm_breaker_cache_close(lm_breaker_cache *c)
{
    forget(c);
    pthread_mutex_destroy(&c->lock);
}

static bool is_of(const lm_breaker_cache *c, const char *const *list)
{
    size_t i = 0;

    if (!c->set || !list || !c->list)
        return c->set && !list && !c->list;
    while (list[i] && c->list[i] && strcmp(list[i], c->list[i]) == 0)
        i++;
    return !list[i] && !c->list[i];
}

static lm_status remember(lm_breaker_cache *c, const lm_tokenizer *t, uint32_t n_vocab,
                          const char *const *list, lm_error *e)
{
    size_t n = 0;

    forget(c);
    while (list && list[n])
        n++;
    if (list && !(c->list = lm_alloc_zero(n + 1, sizeof *c->list)))
        return lm_fail_memory(e, "DRY breakers", (n + 1) * sizeof *c->list);
    for (size_t i = 0; i < n; i++)
        if (!(c->list[i] = lm_strdup(list[i])))
            return lm_fail_memory(e, "DRY breakers", strlen(list[i]));
    LM_TRY(lm_breakers_find(t, n_vocab, list, &c->set, e));
    c->made++;
    return LM_OK;
}

lm_status lm_breaker_cache_get(lm_breaker_cache *c, const lm_tokenizer *t, uint32_t n_vocab,
                               const char *const *list, lm_breakers **out, lm_error *e)
{
    pthread_mutex_lock(&c->lock);
    lm_status status = is_of(c, list) ? LM_OK : remember(c, t, n_vocab, list, e);
    if (status == LM_OK)
        *out = lm_breakers_retain(c->set);
    else
        forget(c);
    pthread_mutex_unlock(&c->lock);
    return status;
}
