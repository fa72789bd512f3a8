/* attention_run.h - the order of tiles, ranges, pages and partials, and the kernels built from it. An
 * attention file includes it at its end, after these definitions:
 *   TILE                                            rows that process the pages together
 *   workspace, workspace_at(kv, group, scratch, &bytes)     a worker's memory, with `states`
 *                                                           [2][TILE][group], of all ranges so far and of
 *                                                   the current one, and `partial` [TILE][group][v_dim]
 *   begin(a, w)                                     done once for the rows of a tile; may redirect a->q
 *   page_against_rows(a, w, states, number)         processes a page for a tile
 *   join, finish                                    see attention_parts.h */
#ifndef LM_KERNELS_X86_ATTENTION_RUN_H
#define LM_KERNELS_X86_ATTENTION_RUN_H

#include "kernels/attention_parts.h"

static uint64_t scratch_bytes(const lm_kv_shape *kv, uint32_t group)
{
    uint64_t bytes;
    _Alignas(64) uint8_t none[64];

    workspace_at(kv, group, none, &bytes);
    return bytes;
}

/* Return up to TILE rows of `a`, from row `from` on. */
static lm_attention_args tile_of(const lm_attention_args *a, uint32_t from)
{
    lm_attention_args t = *a;

    t.rows = a->rows - from < TILE ? a->rows - from : TILE;
    t.position += from;
    t.q += from * a->q_stride;
    t.out += from * a->out_stride;
    return t;
}

/* Return the same rows with values [rows][group][v_dim] as their output. */
static lm_attention_args aside(const lm_attention_args *a, float *values)
{
    lm_attention_args t = *a;

    t.out = values;
    t.out_stride = (uint64_t)a->group * a->kv->v_dim;
    return t;
}

/* Process the pages of a range that are visible to a tile, from an empty state. */
static void pages_of_range(const lm_attention_args *t, const workspace *w, running *states, uint32_t range)
{
    const uint32_t pages = LM_RANGE / LM_PAGE;
    uint32_t page = lm_first_seen(t->window, t->chunked, t->position) / LM_PAGE,
             end = (t->position + t->rows - 1) / LM_PAGE + 1;

    page = page > range * pages ? page : range * pages;
    end = end < (range + 1) * pages ? end : (range + 1) * pages;
    for (uint32_t r = 0; r < t->rows; r++) {
        for (uint32_t g = 0; g < t->group; g++)
            states[r * t->group + g] = NOTHING_SEEN;
        memset(out_of(t, r, 0), 0, (uint64_t)t->group * t->kv->v_dim * sizeof(float));
    }
    for (; page < end; page++)
        page_against_rows(t, w, states, page);
}

static void run(const lm_attention_args *a)
{
    uint64_t  bytes;
    workspace w = workspace_at(a->kv, a->group, a->scratch, &bytes);

    for (uint32_t from = 0; from < a->rows; from += TILE) {
        lm_attention_args t = tile_of(a, from), partial;
        uint32_t range = lm_first_seen(t.window, t.chunked, t.position) / LM_RANGE,
                 last = (t.position + t.rows - 1) / LM_RANGE;
        uint32_t n = t.rows * t.group, width = t.kv->v_dim;
        begin(&t, &w);
        partial = aside(&t, w.partial);
        pages_of_range(&t, &w, w.states, range);
        while (range++ < last) {
            pages_of_range(&partial, &w, w.states + n, range);
            for (uint32_t i = 0; i < n; i++)
                join_partial(&w.states[i], out_of(&t, i / t.group, i % t.group), &w.states[n + i],
                             w.partial + (uint64_t)i * width, width, join);
        }
        for (uint32_t i = 0; i < n; i++)
            end_query(a, &w.states[i], i % t.group, out_of(&t, i / t.group, i % t.group), finish);
    }
}

static void run_range(const lm_attention_args *a, uint32_t range, void *partial)
{
    uint64_t  bytes;
    workspace w = workspace_at(a->kv, a->group, a->scratch, &bytes);

    for (uint32_t from = 0; from < a->rows; from += TILE) {
        lm_attention_args t = tile_of(a, from);
        t = aside(&t, (float *)partial + (uint64_t)from * a->group * a->kv->v_dim);
        begin(&t, &w);
        pages_of_range(&t, &w, states_of(a, partial) + from * a->group, range);
    }
}

static void merge(const lm_attention_args *a, const void *partials, uint32_t n)
{
    merge_partials(a, partials, n, join, finish);
}

/* Set all kernels except those for the layout of pages. */
static void set_runs(lm_attention_kernels *k)
{
    k->scratch_bytes = scratch_bytes;
    k->run = run;
    k->run_range = run_range;
    k->merge = merge;
}

#endif
