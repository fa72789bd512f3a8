/* tail.c - make a separate program from the end of a program. */
#include "base/alloc.h"
#include "program/edited.h"

/* Mark the operations that compute the logits from `from`; return false if the logits depend on more. */
static bool mark(const lm_program *p, lm_value from, bool *needed)
{
    needed[p->values[p->logits].producer] = true;
    for (uint32_t i = p->n_nodes; i-- > 0;) {
        const lm_node *n = &p->nodes[i];
        if (!needed[i])
            continue;
        if (n->n_in == 0 || n->code == LM_OP_ATTENTION || n->code == LM_OP_ROPE)
            return false;
        for (uint32_t k = 0; k < n->n_in; k++)
            if (n->in[k] != from)
                needed[p->values[n->in[k]].producer] = true;
    }
    return true;
}

lm_status lm_program_tail(const lm_program *p, lm_value from, lm_program **out, lm_error *e)
{
    bool       *needed = lm_alloc_zero(p->n_nodes + 1, sizeof *needed);
    lm_program *c      = lm_program_copy(p, 1, 0);
    lm_status   status = LM_OK;

    if (!needed || !c)
        status = lm_fail_memory(e, "the end of a program", p->n_nodes);
    else if (p->logits == from || !mark(p, from, needed))
        status = lm_fail(e, LM_UNSUPPORTED, p->family, LM_NO_OFFSET,
                         "the logits are not made of the last hidden state alone");
    if (status == LM_OK) {
        uint32_t at = 1;
        c->nodes[0] = (lm_node){ .code = LM_OP_INPUT, .path = "given", .layer = -1, .out = from };
        for (uint32_t k = 0; k < LM_MAX_WEIGHTS; k++)
            c->nodes[0].weights[k] = LM_NONE;
        c->values[from].producer = 0;
        for (uint32_t i = 0; i < p->n_nodes; i++)
            if (needed[i]) {
                c->nodes[at]                        = p->nodes[i];
                c->values[p->nodes[i].out].producer = at++;
            }
        c->n_nodes   = at;
        c->n_modules = c->n_caches = c->n_states = c->n_ropes = 0;
        c->context_is_hard = false;
        *out = c;
    } else {
        lm_program_free(c);
    }
    lm_free(needed);
    return status;
}
