/* candidates.c - the sampler's list of tokens: sorting without allocating, and softmax. */
#include "runtime/sample/sampler.h"

#include <math.h>
#include <string.h>

/* Map floats to unsigned integers in the same order (IEEE 754: flip the sign bit, and all bits of negatives).
 * -0 and +0 are the same number, so they get the same key. */
static uint32_t rising(float x)
{
    uint32_t u;

    x += 0.0f;
    memcpy(&u, &x, sizeof u);
    return u & UINT32_C(0x80000000) ? ~u : u | UINT32_C(0x80000000);
}

/* Greater is better. */
static uint64_t rank(const lm_candidate *c)
{
    return (uint64_t)rising(c->logit) << 32 | (uint32_t)~(uint32_t)c->id;
}

/* Rank scores (not logits): smaller first. Narrowing to float only merges scores that differ by less than its
 * epsilon. */
static uint64_t score_rank(const lm_candidate *c)
{
    return (uint64_t)~rising((float)c->p) << 32 | (uint32_t)~(uint32_t)c->id;
}

typedef uint64_t (*rank_of)(const lm_candidate *);

static void insertion_sort(lm_candidate *a, size_t n, rank_of key)
{
    for (size_t i = 1; i < n; i++) {
        lm_candidate x = a[i];
        uint64_t r = key(&x);
        size_t j = i;
        for (; j > 0 && key(&a[j - 1]) < r; j--)
            a[j] = a[j - 1];
        a[j] = x;
    }
}

/* Sort, best first: least significant digit first, 11 bits per pass; passes in which all keys share the digit
 * are skipped. */
static void radix_sort(lm_candidate *a, lm_candidate *spare, size_t n, rank_of key)
{
    enum { BITS = 11, BUCKETS = 1 << BITS };
    lm_candidate *from = a, *to = spare;

    for (unsigned shift = 0; shift < 64; shift += BITS) {
        size_t start[BUCKETS] = { 0 }, at = 0;

        for (size_t i = 0; i < n; i++)
            start[~(key(&from[i]) >> shift) & (BUCKETS - 1)]++;
        if (start[~(key(&from[0]) >> shift) & (BUCKETS - 1)] == n)
            continue;
        for (size_t b = 0; b < BUCKETS; b++) {
            size_t count = start[b];
            start[b] = at;
            at += count;
        }
        for (size_t i = 0; i < n; i++)
            to[start[~(key(&from[i]) >> shift) & (BUCKETS - 1)]++] = from[i];

        lm_candidate *swap = from;
        from = to;
        to = swap;
    }
    if (from != a)
        memcpy(a, from, n * sizeof *a);
}

static void sort(lm_candidate *a, lm_candidate *spare, size_t n, rank_of key)
{
    if (n < 128)
        insertion_sort(a, n, key);
    else
        radix_sort(a, spare, n, key);
}

void lm_candidates_sort(lm_candidates *c)
{
    if (!c->sorted)
        sort(c->items, c->spare, c->n, rank);
    c->sorted = true;
}

void lm_candidates_sort_by_p(lm_candidate *items, lm_candidate *spare, size_t n)
{
    sort(items, spare, n, score_rank);
}

/* A heap of the k best seen so far, the worst of them at the root. */
static void sift_down(lm_candidate *heap, size_t n, size_t i)
{
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= n)
            return;
        if (child + 1 < n && rank(&heap[child + 1]) < rank(&heap[child]))
            child++;
        if (rank(&heap[i]) <= rank(&heap[child]))
            return;
        lm_candidate swap = heap[i];
        heap[i] = heap[child];
        heap[child] = swap;
        i = child;
    }
}

static void make_heap(lm_candidate *heap, size_t k)
{
    for (size_t i = k / 2; i-- > 0;)
        sift_down(heap, k, i);
}

void lm_candidates_best(lm_candidates *c, size_t k)
{
    if (k < c->n && !c->sorted && k <= LM_HEAP_MAX) {
        lm_candidate *heap = c->items;

        make_heap(heap, k);
        for (size_t i = k; i < c->n; i++) {
            if (rank(&c->items[i]) <= rank(&heap[0]))
                continue;
            heap[0] = c->items[i];
            sift_down(heap, k, 0);
        }
        c->n = k;
    }
    lm_candidates_sort(c);
    if (k < c->n)
        c->n = k;
}

size_t lm_candidates_list_best(lm_candidates *c, const float *logits, size_t n, size_t k)
{
    lm_candidate *heap = c->items;
    float min = -INFINITY;

    c->n = 0;
    for (size_t i = 0; i < n; i++) {
        if (logits[i] <= min)
            continue;                                    /* the usual case; not true of NaN */
        if (isnan(logits[i]) || logits[i] == INFINITY)
            return i;
        lm_candidate x = { .id = (lm_token)i, .logit = logits[i] };
        if (c->n < k) {
            heap[c->n++] = x;
            if (c->n < k)
                continue;
            make_heap(heap, k);
        } else {
            heap[0] = x;
            sift_down(heap, k, 0);
        }
        min = heap[0].logit;
    }
    return n;
}

void lm_candidates_softmax(lm_candidates *c)
{
    float best = c->items[0].logit;
    double sum = 0;

    for (size_t i = 1; i < c->n && !c->sorted; i++)
        best = c->items[i].logit > best ? c->items[i].logit : best;
    for (size_t i = 0; i < c->n; i++) {
        c->items[i].p = exp((double)c->items[i].logit - (double)best);
        sum += c->items[i].p;
    }
    for (size_t i = 0; i < c->n; i++)
        c->items[i].p /= sum;
}

double lm_candidates_entropy(const lm_candidates *c)
{
    double h = 0;

    for (size_t i = 0; i < c->n; i++)
        if (c->items[i].p > 0)
            h -= c->items[i].p * log(c->items[i].p);
    return h;
}
