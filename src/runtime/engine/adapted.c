/* adapted.c - an engine with adapters: its program, their weights, and which rows have which adapter. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "program/adapt.h"
#include "runtime/engine/adapter.h"
#include "runtime/engine/engine_plan.h"
#include "runtime/engine/steps.h"

/* ---- the program ---- */

uint32_t lm_options_adapters(const lm_engine_options *o)
{
    uint32_t n = 0;

    while (o && o->adapters && o->adapters[n])
        n++;
    return n;
}

/* An adapter's weights have no number in their name if it is the only one. */
static const char *set_name(lm_arena *arena, uint32_t k, uint32_t n)
{
    return n == 1 ? NULL : lm_arena_printf(arena, "%u", k + 1);
}

static lm_status make_set(const lm_adapter *a, lm_arena *arena, lm_adapt_set *out, lm_error *e)
{
    lm_adapt_target *t = lm_arena_new(arena, a->n_parts + 1, lm_adapt_target);

    if (!t)
        return lm_fail_memory(e, "adapter", a->n_parts * sizeof *t);
    for (uint32_t i = 0; i < a->n_parts; i++)
        t[i] = (lm_adapt_target){ a->parts[i].node, a->parts[i].rank, a->parts[i].scale, a->parts[i].bias };
    out->targets = t;
    out->n       = a->n_parts;
    return LM_OK;
}

lm_status lm_engine_attach(const lm_model *m, const lm_engine_options *o, lm_program **out, lm_error *e)
{
    uint32_t      n      = lm_options_adapters(o);
    lm_arena      arena  = { 0 };
    lm_adapt_set *sets   = lm_arena_new(&arena, n + 1, lm_adapt_set);
    lm_status     status = sets ? LM_OK : lm_fail_memory(e, "adapters", n * sizeof *sets);

    *out = NULL;
    for (uint32_t k = 0; status == LM_OK && k < n; k++) {
        if (o->adapters[k]->model != m)
            status = lm_fail(e, LM_USAGE, o->adapters[k]->info.name, LM_NO_OFFSET,
                             "opened for another model");
        sets[k].name = set_name(&arena, k, n);
        if (status == LM_OK)
            status = make_set(o->adapters[k], &arena, &sets[k], e);
    }
    if (status == LM_OK && n)
        status = lm_program_adapt(m->program, sets, n, out, e);
    lm_arena_free(&arena);
    return status;
}

const float *lm_engine_adapter_weight(const lm_engine *g, uint32_t k, uint32_t i)
{
    const lm_adapter *a = g->adapters[k];
    char              number[16];

    snprintf(number, sizeof number, "%u", k + 1);
    for (uint32_t p = 0; p < a->n_parts; p++) {
        const lm_adapter_part *part = &a->parts[p];
        size_t                 n    = strlen(part->module);
        if (strncmp(g->program->weights[i].path, part->module, n) != 0 ||
            g->program->weights[i].path[n] != '.')
            continue;
        lm_adapt_weights w = lm_adapt_weights_of(g->program, part->module,
                                                 g->n_adapters == 1 ? NULL : number);
        if (i == w.a || i == w.b || i == w.bias)
            return i == w.a ? part->a : i == w.b ? part->b : part->bias;
    }
    return NULL;
}

/* ---- adapter scales of sequences and rows ---- */

void lm_engine_adapters_begin(lm_engine *g, const lm_engine_options *o)
{
    for (uint32_t s = 0; s < g->plan->options.sequences; s++)
        for (uint32_t k = 0; k < g->n_adapters; k++)
            g->seq_adapters[(size_t)s * g->n_adapters + k] = o->adapter_scales ? o->adapter_scales[k] : 1;
}

void lm_engine_adapt_rows(lm_engine *g)
{
    for (uint32_t k = 0; k < g->n_adapters; k++) {
        float *scale = g->row_adapters + (size_t)k * g->plan->options.max_rows;
        g->adapter_rows[k] = 0;
        for (uint32_t i = 0; i < g->n_rows; i++) {
            scale[i] = g->seq_adapters[(size_t)g->sequences[i] * g->n_adapters + k];
            g->adapter_rows[k] += scale[i] != 0;
        }
    }
}

/* ---- adapters as text ---- */

enum { HASH_BYTES = 16, HASH_DIGITS = 2 * HASH_BYTES };

static void hash_of(const lm_adapter *a, char out[HASH_DIGITS + 1])
{
    for (size_t i = 0; i < HASH_BYTES; i++)
        snprintf(out + 2 * i, 3, "%02x", a->hash[i]);
}

void lm_engine_adapters_text(const lm_engine *g, const float *scales, lm_text *out)
{
    char hash[HASH_DIGITS + 1];

    for (uint32_t k = 0; scales && k < g->n_adapters; k++) {
        if (scales[k] == 0)
            continue;
        uint32_t bits;
        memcpy(&bits, &scales[k], sizeof bits);
        hash_of(g->adapters[k], hash);
        lm_text_printf(out, "%s*%08x ", hash, bits);
    }
}

lm_status lm_engine_adapters_read(const lm_engine *g, const char *text, float *scales, lm_error *e)
{
    char     hash[HASH_DIGITS + 1], *end;
    uint32_t k = 0;

    memset(scales, 0, g->n_adapters * sizeof *scales);
    for (const char *at = text; *at; at = end + 1, k++) {
        for (; k < g->n_adapters; k++) {
            hash_of(g->adapters[k], hash);
            if (strncmp(at, hash, HASH_DIGITS) == 0 && at[HASH_DIGITS] == '*')
                break;
        }
        if (k == g->n_adapters)
            return lm_fail(e, LM_DIFFERS, "adapters", LM_NO_OFFSET,
                           "%.*s of the file is none of those here, or comes earlier", (int)strcspn(at, "* "),
                           at);
        uint32_t bits = (uint32_t)strtoul(at + HASH_DIGITS + 1, &end, 16);
        memcpy(&scales[k], &bits, sizeof bits);
        if (*end != ' ' || !isfinite(scales[k]))
            return lm_fail(e, LM_BAD_MODEL, "adapters", LM_NO_OFFSET, "\"%.60s\" is not a scale",
                           at + HASH_DIGITS + 1);
    }
    return LM_OK;
}

uint64_t lm_engine_adapters_key(const lm_engine *g, const float *scales)
{
    uint8_t    digest[LM_BLAKE2B_BYTES];
    uint64_t   out = 0;
    lm_blake2b h;

    lm_blake2b_begin(&h);
    for (uint32_t k = 0; scales && k < g->n_adapters; k++) {
        if (scales[k] == 0)
            continue;
        lm_blake2b_add(&h, g->adapters[k]->hash, sizeof g->adapters[k]->hash);
        lm_blake2b_add(&h, &scales[k], sizeof scales[k]);
        out = 1;
    }
    if (!out)
        return 0;
    lm_blake2b_end(&h, digest);
    memcpy(&out, digest, sizeof out);
    return out ? out : 1;
}

/* ---- queries and the public interface ---- */

bool lm_engine_idle(const lm_engine *g, const lm_stage *t)
{
    for (uint32_t i = t->first; i < t->end; i++) {
        uint32_t a = g->plan->steps[i].adapter;
        if (!a || g->adapter_rows[a - 1])
            return false;
    }
    return true;
}

uint32_t lm_engine_n_adapters(const lm_engine *g)
{
    return g ? g->n_adapters : 0;
}

const lm_adapter *lm_engine_adapter(const lm_engine *g, uint32_t i)
{
    return g && i < g->n_adapters ? g->adapters[i] : NULL;
}

const float *lm_engine_adapters_of(const lm_engine *g, uint32_t sequence)
{
    return g && g->n_adapters && sequence < g->plan->options.sequences
               ? g->seq_adapters + (size_t)sequence * g->n_adapters
               : NULL;
}

lm_status lm_engine_set_adapters(lm_engine *g, uint32_t sequence, const float *scales, lm_error *e)
{
    LM_REQUIRE(e, g && (scales || !g->n_adapters));
    if (sequence >= g->plan->options.sequences)
        return lm_fail(e, LM_USAGE, "adapters", LM_NO_OFFSET, "sequence %u of %u", sequence,
                       g->plan->options.sequences);
    for (uint32_t k = 0; k < g->n_adapters; k++)
        if (!isfinite(scales[k]))
            return lm_fail(e, LM_USAGE, g->adapters[k]->info.name, LM_NO_OFFSET,
                           "the scale of an adapter is not a finite number");
    if (g->n_adapters)
        memcpy(g->seq_adapters + (size_t)sequence * g->n_adapters, scales, g->n_adapters * sizeof *scales);
    return LM_OK;
}
