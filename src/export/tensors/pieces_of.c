/* pieces_of.c - split a fused product into its column ranges. */
#include "export/tensors/pieces_of.h"

#include <stdlib.h>
#include <string.h>

/* Return whether a path matches, and the layer number: "model.layers.3.shared_mlp.gate" matches
 * "model.layers.*.shared_mlp.gate_linear". */
static bool matches(const char *pattern, const char *path, unsigned long *layer)
{
    const char *star = strchr(pattern, '*');
    size_t      head = star ? (size_t)(star - pattern) : 0;
    char       *rest;

    if (!star || strncmp(pattern, path, head) != 0 || path[head] < '0' || path[head] > '9')
        return false;
    *layer   = strtoul(path + head, &rest, 10);
    size_t n = strlen(rest);
    return strncmp(star + 1, rest, n) == 0 && (star[1 + n] == '_' || !star[1 + n]);
}

static const char *name_of(const lm_family *f, const char *path, lm_arena *arena)
{
    unsigned long layer;

    for (const lm_name *n = f->names; n->module; n++) {
        const char *star = matches(n->module, path, &layer) ? strchr(n->gguf, '*') : NULL;
        if (star)
            return lm_arena_printf(arena, "%.*s%lu%s.weight", (int)(star - n->gguf), n->gguf, layer,
                                   star + 1);
    }
    return NULL;
}

uint32_t lm_pieces_of(const lm_program *p, const lm_family *f, uint32_t weight, lm_arena *arena,
                      lm_piece_of out[LM_MAX_PIECES])
{
    const lm_gguf_layout *l = p->weights[weight].layout;
    uint32_t         n = 0;
    uint64_t         rows = 0;

    for (; l && n < 2 && l->gguf[n]; n++, rows += l->rows[n - 1])
        out[n] = (lm_piece_of){ l->gguf[n], rows, l->rows[n] };
    if (n)
        return n;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const lm_node *node = &p->nodes[i],
                      *from = node->n_in ? &p->nodes[p->values[node->in[0]].producer] : node;
        if (from->code != LM_OP_LINEAR || from->weights[0] != weight)
            continue;
        const char *name = node->code == LM_OP_COLUMNS && node->columns.groups == 1
                               ? name_of(f, node->path, arena)
                               : NULL;
        if (!name || n == LM_MAX_PIECES)
            return 0;
        out[n++] = (lm_piece_of){ name, node->columns.offset, p->values[node->out].width };
        rows += p->values[node->out].width;
    }
    return n && rows == p->weights[weight].dims[0] ? n : 0;
}
