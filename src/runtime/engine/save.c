/* save.c - save a sequence to a file (restore.c reads it).
 *
 *   "lamina sequence\n"   16 bytes
 *   u32 version           of this layout
 *   strings               what the contents depend on, in the order of save.h, and the adapters: u64 length,
 *                         bytes
 *   u32 n                 positions
 *   u32 n_ids             tokens of the sequence: those of the positions, then those not yet processed
 *   u32 n_prompt          number of them that are the prompt, the others were chosen
 *   u32 stop              lm_stop of the sequence
 *   f64 mirostat          surprise that it allows next, bits; NaN: no mirostat
 *   u32 first [groups]    the first page that each group still has
 *   i32 tokens [n_ids]
 *   pages                 group by group, as in memory; slots past the last position are zero
 *   u8 [32]               BLAKE2b of all that
 *
 * Numbers are little-endian, as on every supported machine. */
#include "runtime/engine/save.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/os/filemap.h"
#include "base/hash.h"
#include "lamina/version.h"
#include "runtime/engine/adapter.h"
#include "runtime/engine/kv.h"

const char lm_save_magic[16] = "lamina sequence\n";

lm_status lm_save_bindings(lm_engine *g, lm_text *out, lm_error *e)
{
    const lm_plan_options *o = &g->plan->options;
    const char            *arithmetic = o->exact ? "f32" : o->fine ? "fine" : "auto";
    char                   types[LM_CACHE_TYPES_NAME];

    if (!g->fingerprint[0])
        LM_TRY(lm_model_fingerprint(g->model, g->fingerprint, e));
    lm_text_printf(out, "%s%c%s%c%s%c", g->fingerprint, 0, g->model->overrides, 0, arithmetic, 0);
    lm_text_printf(out, "%s%c%s%c", lm_cpu_name(g->kernels.cpu), 0, lm_cache_types_name(o->cache, types), 0);
    lm_text_printf(out, "%u positions", LM_PAGE);
    for (uint32_t i = 0; i < g->plan->n_groups; i++)
        lm_text_printf(out, ", window %u: %" PRIu64 " bytes", g->plan->groups[i].window,
                       g->plan->groups[i].page_bytes);
    lm_text_printf(out, "%c%s%c", 0, LAMINA_VERSION, 0);
    return out->failed ? lm_fail_memory(e, "sequence", 0) : LM_OK;
}

lm_status lm_save_check_slot(const lm_engine *g, uint32_t sequence, lm_error *e)
{
    if (g->model->exchange)
        return lm_fail(e, LM_UNSUPPORTED, "sequence", LM_NO_OFFSET,
                       "of a model that several ranks run: it cannot be saved or restored");
    if (sequence < g->plan->options.sequences)
        return LM_OK;
    return lm_fail(e, LM_USAGE, "sequence", LM_NO_OFFSET, "%u of %u", sequence, g->plan->options.sequences);
}

/* ---- writing a file ---- */

typedef struct writer {
    lm_outfile *file;
    lm_blake2b  hash;
} writer;

static lm_status put(writer *w, const void *data, size_t n, lm_error *e)
{
    lm_blake2b_add(&w->hash, data, n);
    return lm_outfile_write(w->file, data, n, e);
}

static lm_status put_u32(writer *w, uint32_t x, lm_error *e)
{
    return put(w, &x, sizeof x, e);
}

static lm_status put_string(writer *w, const char *text, lm_error *e)
{
    uint64_t n = strlen(text);

    LM_TRY(put(w, &n, sizeof n, e));
    return put(w, text, n, e);
}

static lm_status put_bindings(writer *w, const lm_engine *g, const lm_text *b, uint32_t sequence, lm_error *e)
{
    lm_text adapters = { 0 };

    for (size_t i = 0; i < LM_SAVE_BINDINGS; i++)
        LM_TRY(put_string(w, lm_text_string(b, i), e));
    lm_engine_adapters_text(g, lm_engine_adapters_of(g, sequence), &adapters);
    lm_status status = adapters.failed ? lm_fail_memory(e, "sequence", 0) : LM_OK;
    if (adapters.size > LM_SAVE_STRING)
        status = lm_fail(e, LM_LIMIT, "adapters", LM_NO_OFFSET, "%u: too many for a file", g->n_adapters);
    if (status == LM_OK)
        status = put_string(w, adapters.data ? adapters.data : "", e);
    lm_text_free(&adapters);
    return status;
}

/* Return the first page of a group that is saved, out of those for `n` positions. It does not depend on how
 * far the last steps reached. */
static uint32_t first_page(const lm_engine *g, uint32_t group, uint32_t sequence, uint32_t n)
{
    uint32_t first = lm_kv_passed(g, group, n);

    while (first < lm_save_pages(n) && !lm_kv_page(g, group, sequence, first))
        first++;
    return first;
}

/* Clear what an earlier sequence left past the last position. `row`: zeros, as many as the widest key or
 * value has. */
static void blank_tail(const lm_engine *g, uint32_t group, uint8_t *page, uint32_t number, uint32_t slot,
                       const float *row)
{
    for (uint32_t i = 0; i < g->program->n_caches; i++) {
        const lm_kv_layer *l = &g->plan->layers[i];
        if (l->group == group && l->rate)
            lm_clear_entries(l, page + l->offset, number, slot);
        else if (l->group == group)
            g->plan->attention->store(&l->shape, page + l->offset, slot, LM_PAGE - slot, row, 0,
                                      l->shape.v_in_k ? NULL : row, 0);
    }
}

static lm_status put_last_page(writer *w, const lm_engine *g, uint32_t group, const uint8_t *page, uint32_t n,
                               lm_error *e)
{
    uint64_t bytes = g->plan->groups[group].page_bytes, lanes = 1;

    for (uint32_t i = 0; i < g->program->n_caches; i++) {
        const lm_cache *c = &g->program->caches[i];
        uint64_t        k = (uint64_t)c->n_kv_heads * c->k_dim, v = (uint64_t)c->n_kv_heads * c->v_dim;
        lanes = k > lanes ? k : lanes;
        lanes = v > lanes ? v : lanes;
    }
    uint8_t  *copy   = lm_alloc_aligned(bytes, 64);
    float    *row    = lm_alloc_zero(lanes, sizeof *row);
    lm_status status = copy && row ? LM_OK : lm_fail_memory(e, "sequence", bytes);
    if (status == LM_OK) {
        memcpy(copy, page, bytes);
        blank_tail(g, group, copy, n / LM_PAGE, n % LM_PAGE, row);
        status = put(w, copy, bytes, e);
    }
    lm_free_aligned(copy, bytes);
    lm_free(row);
    return status;
}

static lm_status put_pages(writer *w, const lm_engine *g, uint32_t group, uint32_t sequence, uint32_t n,
                           lm_error *e)
{
    for (uint32_t i = first_page(g, group, sequence, n); i < lm_save_pages(n); i++) {
        const uint8_t *page = lm_kv_page(g, group, sequence, i);
        if ((i + 1) * (uint64_t)LM_PAGE > n && !g->plan->groups[group].states)
            LM_TRY(put_last_page(w, g, group, page, n, e));
        else
            LM_TRY(put(w, page, g->plan->groups[group].page_bytes, e));
    }
    return LM_OK;
}

static lm_status put_head(writer *w, const lm_engine *g, const lm_text *b, uint32_t sequence,
                          const lm_saved *t, lm_error *e)
{
    LM_TRY(put(w, lm_save_magic, sizeof lm_save_magic, e));
    LM_TRY(put_u32(w, LM_SAVE_VERSION, e));
    LM_TRY(put_bindings(w, g, b, sequence, e));
    LM_TRY(put_u32(w, t->n_held, e));
    LM_TRY(put_u32(w, t->n, e));
    LM_TRY(put_u32(w, t->n_prompt, e));
    LM_TRY(put_u32(w, t->stop, e));
    LM_TRY(put(w, &t->mirostat, sizeof t->mirostat, e));
    for (uint32_t i = 0; i < g->plan->n_groups; i++)
        LM_TRY(put_u32(w, first_page(g, i, sequence, t->n_held), e));
    return put(w, t->ids, t->n * sizeof *t->ids, e);
}

static lm_status write_all(writer *w, const lm_engine *g, const lm_text *b, uint32_t sequence,
                           const lm_saved *t, lm_error *e)
{
    uint8_t digest[LM_BLAKE2B_BYTES];

    lm_blake2b_begin(&w->hash);
    LM_TRY(put_head(w, g, b, sequence, t, e));
    for (uint32_t i = 0; i < g->plan->n_groups; i++)
        LM_TRY(put_pages(w, g, i, sequence, t->n_held, e));
    lm_blake2b_end(&w->hash, digest);
    return lm_outfile_write(w->file, digest, sizeof digest, e);
}

lm_status lm_save_text(lm_engine *g, uint32_t sequence, const lm_saved *t, const char *path, lm_error *e)
{
    writer    w = { 0 };
    lm_text    b = { 0 };
    lm_status status;

    LM_TRY_GOTO(status, lm_save_bindings(g, &b, e), done);
    LM_TRY_GOTO(status, lm_outfile_open(path, &w.file, e), done);
    LM_TRY_GOTO(status, write_all(&w, g, &b, sequence, t, e), done);
    status = lm_outfile_commit(w.file, e);
    w.file = NULL;
done:
    lm_outfile_abort(w.file);
    lm_text_free(&b);
    return status;
}

lm_status lm_engine_save(lm_engine *g, uint32_t sequence, const lm_token *tokens, size_t n, const char *path,
                         lm_error *e)
{
    LM_REQUIRE(e, g && (tokens || !n) && path);
    LM_TRY(lm_save_check_slot(g, sequence, e));
    if (n != g->seq_length[sequence])
        return lm_fail(e, LM_USAGE, "tokens", LM_NO_OFFSET, "%zu; the sequence holds %u", n,
                       (uint32_t)g->seq_length[sequence]);
    lm_saved t = { .ids = (lm_token *)tokens,
                   .n = (uint32_t)n,
                   .n_held = (uint32_t)n,
                   .n_prompt = (uint32_t)n,
                   .mirostat = (double)NAN };
    return lm_save_text(g, sequence, &t, path, e);
}
