/* divide.c - the part of a model that one rank runs. */
#include "runtime/model/divide.h"

#include <string.h>

#include "base/alloc.h"
#include "program/split.h"

/* Copy a per-weight array for another program's weights: element i is element source[i] of `from`. NULL:
 * `from` is NULL, or no memory. */
static void *carried(lm_model *m, const void *from, size_t size, const uint32_t *source, uint32_t n)
{
    uint8_t *to = from ? lm_arena_alloc(&m->arena, (n + 1) * size) : NULL;

    for (uint32_t i = 0; to && i < n; i++)
        memcpy(to + i * size, (const uint8_t *)from + source[i] * size, size);
    return to;
}

static bool carry(lm_model *m, const uint32_t *source, uint32_t n)
{
#define CARRY(member)                                                              \
    do {                                                                           \
        void *to_ = carried(m, m->member, sizeof *m->member, source, n);           \
        if (m->member && !to_)                                                     \
            return false;                                                          \
        m->member = to_;                                                           \
    } while (0)
    CARRY(tensors);
    CARRY(types);
    CARRY(each);
    CARRY(transposed);
    CARRY(exponents);
    CARRY(interleaved);
    CARRY(jointly);
#undef CARRY
    return true;
}

static lm_status take(lm_model *m, lm_program *p, const uint32_t *source, lm_error *e)
{
    m->program = p;
    return carry(m, source, p->n_weights) ? LM_OK : lm_fail_memory(e, "split", 0);
}

static lm_status divide_layers(lm_model *m, const lm_division *d, const uint32_t *edges, lm_error *e)
{
    uint32_t        ranks = d->parts * d->stages;
    lm_layers_spec spec = { .stages = d->stages,
                            .stage = d->rank / d->parts,
                            .edges = edges,
                            .from = (d->rank + ranks - d->parts) % ranks,
                            .to = (d->rank + d->parts) % ranks };
    lm_program     *p;
    const uint32_t *source;

    LM_TRY(lm_program_layers(m->program, &spec, &p, &source, e));
    m->between = m->program != m->undivided ? m->program : NULL;
    return take(m, p, source, e);
}

lm_status lm_model_divide(lm_model *m, const lm_division *d, const lm_rank_exchange *x, lm_error *e)
{
    lm_split_spec   spec = { d->parts, d->rank % d->parts, d->exact, m->types, m->interleaved };
    uint32_t        edges[LM_MAX_RANKS + 1] = { 0 };
    lm_program     *p = NULL;
    const uint32_t *source;

    if (m->undivided)
        return lm_fail(e, LM_USAGE, "split", LM_NO_OFFSET, "the model is split already");
    if (d->stages > 1)                       /* the edges are the same for every part */
        LM_TRY(lm_split_layers(m->program, m->types, d->stages, edges, e));
    if (d->parts > 1)
        LM_TRY(lm_program_split(m->program, &spec, &p, &source, e));
    m->undivided = m->program;
    m->exchange  = x;
    if (d->parts > 1)
        LM_TRY(take(m, p, source, e));
    return d->stages > 1 ? divide_layers(m, d, edges, e) : LM_OK;
}

void lm_model_undivide(lm_model *m)
{
    if (!m->undivided)
        return;
    if (m->program != m->undivided)
        lm_program_free(m->program);
    lm_program_free(m->between);
    m->program = m->undivided;
    m->undivided = m->between = NULL;
}
