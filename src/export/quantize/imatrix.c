/* imatrix.c - sums per tensor name. */
#include "export/quantize/imatrix.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

lm_status lm_imatrix_new(lm_imatrix **out, lm_error *e)
{
    LM_REQUIRE(e, out);
    lm_imatrix *m = lm_alloc_zero(1, sizeof *m);

    if (!m || !(m->names = lm_map_new(256))) {
        lm_free(m);
        return lm_fail_memory(e, "importance", sizeof *m);
    }
    *out = m;
    return LM_OK;
}

void lm_imatrix_free(lm_imatrix *m)
{
    if (!m)
        return;
    lm_map_free(m->names);
    lm_free(m->entries);
    lm_free(m->datasets);
    lm_arena_free(&m->arena);
    lm_free(m);
}

/* ---- entries ---- */

static lm_status add_entry(lm_imatrix *m, lm_view name, uint64_t cols, uint64_t matrices,
                           lm_imatrix_sums **out, lm_error *e)
{
    if (m->n_entries == m->capacity) {
        size_t           capacity = m->capacity ? 2 * m->capacity : 256;
        lm_imatrix_sums *grown    = lm_realloc(m->entries, capacity * sizeof *grown);
        if (!grown)
            return lm_fail_memory(e, "importance", capacity * sizeof *grown);
        m->entries  = grown;
        m->capacity = capacity;
    }
    lm_imatrix_sums *s   = &m->entries[m->n_entries];
    char            *own = lm_arena_strndup(&m->arena, name.data, name.size);
    *s = (lm_imatrix_sums){ own, cols, (uint32_t)matrices, lm_arena_new(&m->arena, matrices * cols, double),
                            lm_arena_new(&m->arena, matrices, uint64_t), NULL };
    if (!own || !s->sums || !s->rows)
        return lm_fail_memory(e, "importance", matrices * cols * sizeof *s->sums);
    memset(s->sums, 0, matrices * cols * sizeof *s->sums);
    memset(s->rows, 0, matrices * sizeof *s->rows);
    if (!lm_map_add(m->names, (lm_view){ own, name.size }, m->n_entries))
        return lm_fail_memory(e, "importance", name.size);
    m->n_entries++;
    *out = s;
    return LM_OK;
}

lm_status lm_imatrix_entry_of(lm_imatrix *m, lm_view name, uint64_t cols, uint64_t matrices,
                              lm_imatrix_sums **out, lm_error *e)
{
    uint64_t i;

    if (!lm_map_get(m->names, name, &i))
        return add_entry(m, name, cols, matrices, out, e);
    *out = &m->entries[i];
    if ((*out)->cols == cols && (*out)->matrices == matrices)
        return LM_OK;
    return lm_fail(e, LM_BAD_MODEL, (*out)->name, LM_NO_OFFSET,
                   "importance of %u × %llu inputs and of %llu × %llu", (*out)->matrices,
                   (unsigned long long)(*out)->cols, (unsigned long long)matrices, (unsigned long long)cols);
}

lm_status lm_imatrix_add_dataset(lm_imatrix *m, lm_view name, lm_error *e)
{
    for (size_t i = 0; i < m->n_datasets; i++)
        if (lm_view_is(name, m->datasets[i]))
            return LM_OK;
    const char **grown = lm_realloc(m->datasets, (m->n_datasets + 1) * sizeof *grown);
    char        *own   = lm_arena_strndup(&m->arena, name.data, name.size);
    m->datasets        = grown ? grown : m->datasets;
    if (!grown || !own)
        return lm_fail_memory(e, "importance", name.size);
    m->datasets[m->n_datasets++] = own;
    return LM_OK;
}

lm_status lm_imatrix_merge(lm_imatrix *m, const lm_imatrix *from, lm_error *e)
{
    LM_REQUIRE(e, m && from);
    for (size_t i = 0; i < from->n_entries; i++) {
        const lm_imatrix_sums *f = &from->entries[i];
        lm_imatrix_sums       *s;
        LM_TRY(lm_imatrix_entry_of(m, lm_view_of(f->name), f->cols, f->matrices, &s, e));
        f = &from->entries[i];
        for (uint64_t k = 0; k < f->matrices * f->cols; k++)
            s->sums[k] += f->sums[k];
        for (uint32_t k = 0; k < f->matrices; k++)
            s->rows[k] += f->rows[k];
        s->means = NULL;
    }
    for (size_t i = 0; i < from->n_datasets; i++)
        LM_TRY(lm_imatrix_add_dataset(m, lm_view_of(from->datasets[i]), e));
    m->chunks += from->chunks;
    m->chunk_size = from->chunk_size > m->chunk_size ? from->chunk_size : m->chunk_size;
    return LM_OK;
}

const float *lm_imatrix_of(lm_imatrix *m, const char *tensor, uint64_t *n)
{
    uint64_t i;

    *n = 0;
    if (!lm_map_get(m->names, lm_view_of(tensor), &i))
        return NULL;
    lm_imatrix_sums *s = &m->entries[i];
    if (!s->means) {
        s->means = lm_arena_new(&m->arena, s->matrices * s->cols, float);
        for (uint64_t k = 0; s->means && k < s->matrices * s->cols; k++)
            s->means[k] = s->rows[k / s->cols] ? (float)(s->sums[k] / (double)s->rows[k / s->cols]) : 1.0f;
    }
    *n = s->means ? s->matrices * s->cols : 1;
    return s->means;
}

size_t      lm_imatrix_entries(const lm_imatrix *m) { return m->n_entries; }
uint32_t    lm_imatrix_chunks(const lm_imatrix *m) { return m ? m->chunks : 0; }
uint32_t    lm_imatrix_chunk_size(const lm_imatrix *m) { return m ? m->chunk_size : 0; }
const char *lm_imatrix_dataset(const lm_imatrix *m, size_t i)
{
    return m && i < m->n_datasets ? m->datasets[i] : NULL;
}

/* ---- statistics ---- */

static int by_name(const void *a, const void *b)
{
    const lm_imatrix_sums *const *x = a, *const *y = b;

    return strcmp((*x)->name, (*y)->name);
}

static double mean_of(const lm_imatrix_sums *s, uint64_t k)
{
    uint64_t rows = s->rows[k / s->cols];

    return rows ? s->sums[k] / (double)rows : 0;
}

/* Return the entry of the same tensor in the previous layer: "blk.7.attn_q.weight" for
 * "blk.8.attn_q.weight". */
static const lm_imatrix_sums *before(const lm_imatrix *m, const lm_imatrix_sums *s)
{
    char          name[160], *end;
    unsigned long layer;
    uint64_t      i;

    if (strncmp(s->name, "blk.", 4) != 0 || (layer = strtoul(s->name + 4, &end, 10)) == 0 || *end != '.')
        return NULL;
    snprintf(name, sizeof name, "blk.%lu%s", layer - 1, end);
    if (!lm_map_get(m->names, lm_view_of(name), &i) || m->entries[i].cols != s->cols ||
        m->entries[i].matrices != s->matrices)
        return NULL;
    return &m->entries[i];
}

static double cosine_of(const lm_imatrix_sums *a, const lm_imatrix_sums *b)
{
    double dot = 0, aa = 0, bb = 0;

    for (uint64_t k = 0; k < a->matrices * a->cols; k++) {
        double x = mean_of(a, k), y = mean_of(b, k);
        dot += x * y;
        aa += x * x;
        bb += y * y;
    }
    return aa > 0 && bb > 0 ? dot / sqrt(aa * bb) : NAN;
}

static void add_statistics(const lm_imatrix_sums *s, lm_imatrix_entry *out)
{
    uint64_t n = s->matrices * s->cols, active = 0, high = 0;
    double   squares = 0;

    out->min = INFINITY;
    for (uint64_t k = 0; k < n; k++) {
        double x = mean_of(s, k);
        out->sum += x;
        squares += x * x;
        out->min = fmin(out->min, x);
        out->max = fmax(out->max, x);
        active += x > 1e-5;
    }
    out->mean      = out->sum / (double)n;
    out->deviation = sqrt(fmax(0, squares / (double)n - out->mean * out->mean));
    for (uint64_t k = 0; k < n; k++) {
        double x = mean_of(s, k), p = out->sum > 0 ? x / out->sum : 0;
        out->entropy -= p > 0 ? p * log2(p) : 0;
        high += out->deviation > 0 && x - out->mean > out->deviation;
    }
    out->active   = (double)active / (double)n;
    out->outliers = (double)high / (double)n;
}

bool lm_imatrix_at(const lm_imatrix *m, size_t i, lm_imatrix_entry *out)
{
    const lm_imatrix_sums **sorted = m && i < m->n_entries ? lm_alloc(m->n_entries * sizeof *sorted) : NULL;

    if (!sorted || !out) {
        lm_free(sorted);
        return false;
    }
    for (size_t k = 0; k < m->n_entries; k++)
        sorted[k] = &m->entries[k];
    qsort(sorted, m->n_entries, sizeof *sorted, by_name);
    const lm_imatrix_sums *s = sorted[i], *last = before(m, s);
    lm_free(sorted);
    *out = (lm_imatrix_entry){
        .name = s->name, .cols = s->cols, .matrices = s->matrices, .sums = s->sums, .rows = s->rows
    };
    for (uint32_t k = 0; k < s->matrices; k++)
        out->unseen += !s->rows[k];
    add_statistics(s, out);
    out->cosine = last ? cosine_of(s, last) : NAN;
    return true;
}
