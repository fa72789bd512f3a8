/* intervene.c - apply interventions to rows of values while they are computed. */
#include <string.h>

#include "program/edited.h"
#include "runtime/engine/steps.h"

/* Scale the weight of an expert if the row is routed to it. */
static void weigh_expert(const lm_edit *x, float *route, uint32_t k)
{
    for (uint32_t i = 0; i < k; i++)
        if (route[k + i] == (float)x->from)
            route[i] *= x->factor;
}

static void edit_row(const lm_engine *g, const lm_edit *x, float *y, uint64_t width)
{
    switch (x->kind) {
    case LM_EDIT_SCALE:
        for (uint32_t i = x->from; i < x->to; i++)
            y[i] = x->factor == 0 ? 0 : y[i] * x->factor;        /* a factor of 0 removes infinities too */
        return;
    case LM_EDIT_ADD:
        g->kernels.row.add(y, y, x->vector, x->factor, width);
        return;
    case LM_EDIT_SET:
        memcpy(y + x->from, x->vector + x->from, (x->to - x->from) * sizeof *y);
        return;
    case LM_EDIT_EXPERT:
        weigh_expert(x, y, (uint32_t)width / 2);
        return;
    }
}

void lm_run_edit(const stage_chunk *p, const lm_step *s, uint64_t from, uint64_t to)
{
    const lm_node *n     = &p->g->program->nodes[s->node];
    uint64_t       width = width_of(p->g, n->out);

    for (uint64_t i = from; i < to; i++) {
        float   *y        = floats_at(p->g, s->out, i);
        uint32_t position = p->g->positions[row_number(p->g, s->domain, i)];
        if (s->out != s->in[0])
            memcpy(y, floats_at(p->g, s->in[0], i), width * sizeof *y);
        for (uint32_t k = 0; k < n->edits.n; k++) {
            const lm_edit *x = &n->edits.list[k];
            if (position >= x->first && position <= x->last)
                edit_row(p->g, x, y, width);
        }
    }
}
