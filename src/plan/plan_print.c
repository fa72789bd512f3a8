/* plan_print.c - print a plan in readable form. */
#include <inttypes.h>

#include "plan/plan.h"
#include "program/op.h"

static const char *const step_names[] = {
    [LM_STEP_TABLE] = "table",       [LM_STEP_GATHER] = "gather",     [LM_STEP_PACK] = "pack",
    [LM_STEP_MATMUL] = "matmul",     [LM_STEP_STORE] = "store",       [LM_STEP_ATTENTION] = "attention", [LM_STEP_SELECT] = "select",
    [LM_STEP_KEEP] = "keep",
    [LM_STEP_STATE] = "state",
    [LM_STEP_SORT] = "sort",         [LM_STEP_DISPATCH] = "dispatch", [LM_STEP_EXPERTS] = "experts",
    [LM_STEP_GATED] = "glu",         [LM_STEP_COMBINE] = "combine",   [LM_STEP_HEADS] = "heads",
    [LM_STEP_SEND] = "send",         [LM_STEP_RECEIVE] = "receive",   [LM_STEP_EXCHANGE] = "exchange",
    [LM_STEP_RANK_SUM] = "sum",      [LM_STEP_RANK_LANES] = "lanes",
};

static void print_step(const lm_plan *p, const lm_step *s, lm_text *out)
{
    static const char *const kinds[] = { "mapped", "packed", "float32", "transposed", "copied" };
    const lm_node           *n       = s->node != LM_NONE ? &p->program->nodes[s->node] : NULL;

    const char              *name = s->code == LM_STEP_ROWS ? lm_op_of(n->code)->name : step_names[s->code];

    lm_text_printf(out, "    %-10s %-46s", name, n ? n->path : "rotary table");
    for (uint32_t k = 0; k < LM_MAX_INPUTS; k++)
        if (s->in[k] != LM_NONE)
            lm_text_printf(out, "%s#%u", k ? ", " : " ", s->in[k]);
    if (s->out != LM_NONE)
        lm_text_printf(out, " → #%u", s->out);
    if (s->add != LM_NONE)
        lm_text_printf(out, " + #%u", s->add);
    if (s->code == LM_STEP_PACK)
        lm_text_printf(out, "  as %s", s->matmul->x->name);
    if (s->weight != LM_NONE) {
        const lm_placement *w = &p->weights[s->weight];
        lm_text_printf(out, "  %s, %s, %" PRIu64 " bytes", s->matmul->name, kinds[w->kind], w->bytes);
    }
    lm_text_add_char(out, '\n');
}

void lm_plan_print(const lm_plan *p, lm_text *out)
{
    static const char *const splits[] = { "by rows", "by outputs", "by heads", "by lanes", "by one thread",
                                          "between ranks" };
    char types[LM_CACHE_TYPES_NAME];

    lm_text_printf(out,
                   "plan of %s: %u rows a pass, %u with logits, %u sequences of %u positions, cache %s, %s, "
                   "%s, %u threads\n",
                   p->program->class_name, p->options.max_rows, p->options.max_logits, p->options.sequences,
                   p->options.context, lm_cache_types_name(p->options.cache, types),
                   p->options.exact  ? "float32"
                   : p->options.fine ? "fine"
                                     : "fast",
                   lm_cpu_name(p->options.kernels->cpu), p->options.workers);
    for (uint32_t i = 0; i < p->n_stages; i++) {
        const lm_stage *s = &p->stages[i];
        lm_text_printf(out, "  stage %u, %s%s\n", i, splits[s->split],
                       s->domain == LM_WANTED_ROWS ? ", rows that want logits" : "");
        for (uint32_t k = s->first; k < s->end; k++)
            print_step(p, &p->steps[k], out);
    }
    lm_text_printf(out, "  buffers\n");
    for (uint32_t i = 0; i < p->n_buffers; i++) {
        const lm_buffer *b = &p->buffers[i];
        lm_text_printf(out, "    #%-4u %10" PRIu64 " bytes at %-12" PRIu64 " stages %u–%u  %s\n", i,
                       b->stride * b->rows, b->offset, b->first, b->last, b->name);
    }
    for (uint32_t i = 0; i < p->n_groups; i++) {
        const lm_kv_group *g = &p->groups[i];
        lm_text_printf(out, "  cache group %u: %" PRIu64 " pages of ", i, g->n_pages);
        if (g->states)
            lm_text_add_str(out, "states");
        else
            lm_text_printf(out, "%u positions", LM_PAGE);
        lm_text_printf(out, ", %" PRIu64 " bytes each", g->page_bytes);
        if (g->window)
            lm_text_printf(out, g->chunked ? ", chunks of %u" : ", window %u", g->window);
        lm_text_add_char(out, '\n');
    }
    lm_text_printf(out,
                   "  bytes: weights %" PRIu64 " of our own and %" PRIu64 " mapped, cache %" PRIu64 ", scratch %" PRIu64 "\n",
                   p->weight_bytes, p->mapped_bytes, p->kv_bytes, p->slab_bytes);
}
