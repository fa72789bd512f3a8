/* listing_words.c - words and names in listings. */
#include <stdio.h>
#include <string.h>

#include "study/listing/listing.h"

void lm_listing_add(const lm_listing *l, lm_text *out, const char *text)
{
    bool torch = l->in == LM_LISTING_PYTORCH;

    for (; *text; text++) {
        if (*text != '$') {
            lm_text_add_char(out, *text);
        } else if (strncmp(text, "$cat", 4) == 0) {
            lm_text_add_str(out, torch ? "torch.cat" : "np.concatenate");
            text += 3;
        } else if (strncmp(text, "$array", 6) == 0) {
            lm_text_add_str(out, torch ? "torch.tensor" : "np.array");
            text += 5;
        } else {
            lm_text_add_str(out, torch ? "torch" : "np");
        }
    }
}

const lm_node *lm_listing_first(const lm_listing *l, lm_op_code code)
{
    for (uint32_t i = l->from; i < l->to; i++)
        if (l->p->nodes[i].code == code)
            return &l->p->nodes[i];
    return NULL;
}

void lm_listing_rotary(const lm_listing *l, uint32_t table, char out[LM_LISTING_NAME])
{
    snprintf(out, LM_LISTING_NAME, l->p->n_ropes > 1 ? "rotary_%u" : "rotary", table + 1);
}

bool lm_listing_own(const lm_listing *l, const char **path)
{
    if (l->layer < 0)
        return false;
    const char *prefix = l->p->modules[l->f->ledger->layer[l->layer]].path;
    size_t      n      = strlen(prefix);
    if (strncmp(*path, prefix, n) != 0 || (*path)[n] != '.')
        return false;
    *path += n + 1;
    return true;
}
