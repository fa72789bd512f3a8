/* describe_match.c - find the published model of a module tree by building the published models of its
 * family. */
#include <string.h>

#include "arch/describe_match.h"
#include "arch/presets.h"
#include "base/str.h"

/* Count the parameters that frameworks print without sizes: experts in one tensor, routers with their own
 * class. */
static void count_unseen(const lm_program *p, uint64_t *experts, uint64_t *routers)
{
    *experts = *routers = 0;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const lm_node *n = &p->nodes[i];
        for (uint32_t k = 0; k < LM_MAX_WEIGHTS; k++) {
            uint64_t elements = n->weights[k] == LM_NONE ? 0 : p->weights[n->weights[k]].elements;
            if (n->code == LM_OP_EXPERTS || n->code == LM_OP_ATTENTION || n->code == LM_OP_ROUTE)
                *experts += elements;
            else if (n->code == LM_OP_LINEAR && i + 1 < p->n_nodes && p->nodes[i + 1].code == LM_OP_ROUTE)
                *routers += elements;
        }
    }
}

static uint32_t width_of(const lm_program *p)
{
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->nodes[i].code == LM_OP_EMBED)
            return p->values[p->nodes[i].out].width;
    return 0;
}

/* Return whether a program has the parameters of a tree. A tied head is printed as a separate module. */
static bool explains(const lm_program *p, uint64_t seen, uint64_t *unseen)
{
    uint64_t total = lm_program_parameters(p), experts, routers, head = (uint64_t)p->n_vocab * width_of(p);

    count_unseen(p, &experts, &routers);
    const uint64_t missing[] = { 0, experts, experts + routers, routers };
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
        if (seen + missing[i] == total || seen + missing[i] == total + head) {
            *unseen = missing[i];
            return true;
        }
    return false;
}

const lm_preset *lm_preset_of_tree(const lm_family *f, const lm_tree_shape *s, uint64_t *unseen)
{
    const lm_preset *found = NULL;

    for (size_t i = 0; i < lm_n_presets && !found; i++) {
        const lm_family *family  = NULL;
        lm_config        config  = { 0 };
        lm_program      *program = NULL;
        if (lm_preset_program(&lm_preset_table[i], &family, &config, &program, NULL) != LM_OK)
            continue;
        bool same = family == f && program->n_layers == s->layers && program->n_vocab == s->vocab &&
                    width_of(program) == s->hidden;
        if (same && explains(program, s->parameters, unseen))
            found = &lm_preset_table[i];
        lm_program_free(program);
    }
    return found;
}
