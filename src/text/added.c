/* added.c - leftmost-longest matching by narrowing a sorted list. */
#include "text/added.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

static int by_text(const void *a, const void *b)
{
    const lm_added *x = a, *y = b;
    size_t          n = x->text.size < y->text.size ? x->text.size : y->text.size;
    int             c = memcmp(x->text.data, y->text.data, n);

    if (c == 0)
        c = (x->text.size > y->text.size) - (x->text.size < y->text.size);
    return c ? c : (x->order > y->order) - (x->order < y->order);
}

lm_status lm_matcher_init(lm_matcher *m, const lm_added *list, uint32_t n, lm_error *e)
{
    *m = (lm_matcher){ 0 };
    for (uint32_t i = 0; i < n; i++)
        if (list[i].text.size > LM_MAX_ADDED)
            return lm_fail(e, LM_LIMIT, "added_tokens", LM_NO_OFFSET,
                           "an added token of %zu bytes, at most %d are read", list[i].text.size,
                           LM_MAX_ADDED);
    if (n == 0)
        return LM_OK;
    m->list = lm_alloc(n * sizeof *m->list);
    if (!m->list)
        return lm_fail_memory(e, "the added tokens", n * sizeof *m->list);
    memcpy(m->list, list, n * sizeof *m->list);
    qsort(m->list, n, sizeof *m->list, by_text);
    for (uint32_t i = 0; i < n; i++) {
        if (m->n > 0 && lm_view_equal(m->list[m->n - 1].text, m->list[i].text))
            continue;
        m->list[m->n++] = m->list[i];
        m->has_special |= m->list[i].special;
        m->first[(unsigned char)m->list[i].text.data[0] + 1]++;
    }
    for (unsigned c = 0; c < 256; c++)
        m->first[c + 1] += m->first[c];
    return LM_OK;
}

void lm_matcher_free(lm_matcher *m)
{
    lm_free(m->list);
    *m = (lm_matcher){ 0 };
}

/* Return the first entry of list[low, high) whose byte at `depth` is at least c; the entries agree before
 * `depth` and are longer. */
static uint32_t lower_bound(const lm_matcher *m, uint32_t low, uint32_t high, size_t depth, unsigned c)
{
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if ((unsigned char)m->list[middle].text.data[depth] < c)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static const lm_added *longest_at(const lm_matcher *m, const char *s, size_t n)
{
    unsigned        c    = (unsigned char)s[0];
    uint32_t        low  = m->first[c], high = m->first[c + 1];
    const lm_added *best = NULL;

    for (size_t depth = 1; low < high; depth++) {
        if (m->list[low].text.size == depth)
            best = &m->list[low++];
        if (depth == n)
            break;
        c    = (unsigned char)s[depth];
        low  = lower_bound(m, low, high, depth, c);
        high = lower_bound(m, low, high, depth, c + 1);
    }
    return best;
}

const lm_added *lm_matcher_find(const lm_matcher *m, lm_view text, size_t at, size_t *from)
{
    if (m->n == 0)
        return NULL;
    for (; at < text.size; at++) {
        unsigned        c   = (unsigned char)text.data[at];
        const lm_added *hit = m->first[c] < m->first[c + 1] ? longest_at(m, text.data + at, text.size - at)
                                                            : NULL;

        if (hit) {
            *from = at;
            return hit;
        }
    }
    return NULL;
}
