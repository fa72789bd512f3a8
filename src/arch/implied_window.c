/* implied_window.c - windows that GGUF files of architecture llama omit, inferred from the shape of the
 * model. */
#include "arch/families.h"

/* Mistral 7B v0.1 (arXiv 2310.06825). v0.2 has another rotary base and no window. */
static bool is_mistral_v01(const lm_config *c)
{
    return c->hidden == 4096 && c->intermediate == 14336 && c->n_layers == 32 && c->n_heads == 32 &&
           c->n_kv_heads == 8 && c->context_length == 32768 && c->rope.base == 10000;
}

void lm_implied_window(const lm_source *s, lm_config *c)
{
    char key[128];

    if (!is_mistral_v01(c) ||
        lm_meta_has(s->meta, lm_gguf_key(s, "attention.sliding_window", key, sizeof key)))
        return;
    c->attention.window = 4096;
    if (!s->sliding_window)
        lm_source_warn(
            s, "attention sees %u keys: the file does not say so, its shape does (`sliding_window` -1: all)",
            c->attention.window);
}
