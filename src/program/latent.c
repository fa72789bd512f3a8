/* latent.c - record latent attention (arXiv 2405.04434, 2.1) in its two forms.
 *
 * With the keys' part A_h [n][c] and the values' part B_h [v][c] of a head's projection, and a latent z_j of
 * c lanes:
 *     q_h . (A_h z_j)  =  (A_h^T q_h) . z_j              sum_j p_j (B_h z_j)  =  B_h (sum_j p_j z_j)
 * The left sides are the naive form, the right sides the absorbed one, whose keys are the latents
 * themselves. */
#include <stdio.h>

#include "program/record.h"

void lm_latent_naive(lm_builder *b)
{
    b->latent_naive = true;
}

/* Record a product with one matrix per head, for module `module`. The weight is named after the module and
 * the part, `word`. It is stored as part of a whole ("….kv_b_proj.weight"), described by `joint`, or as a
 * separate tensor named `alone`. */
static lm_value head_linear(lm_builder *b, uint32_t module, const char *word, lm_value x, uint32_t n_heads,
                            uint32_t out, bool shared, const char *alone, lm_joint joint)
{
    if (b->failed)
        return LM_NONE;
    uint32_t w = lm_record_weight(b, lm_record_path(b, word), "weight", LM_HEADS, 1, n_heads, 1);

    if (w == LM_NONE)
        return LM_NONE;
    b->p->weights[w].gguf  = lm_record_gguf(b, lm_record_path(b, alone), "weight");
    b->p->weights[w].joint = joint;
    lm_node *n             = lm_record_heads(b, w, lm_record_path(b, word), x, n_heads, out, shared);
    n->module              = module;
    return n->out;
}

lm_value lm_latent_attention(lm_builder *b, const char *name, const char *const names[2], lm_value q_nope,
                             lm_value q_pe, lm_value latent, lm_value k_pe, lm_value chosen,
                             const lm_attention_spec *spec)
{
    lm_leaf(b, name, "Linear");
    if (b->failed)
        return LM_NONE;
    uint32_t          own = b->p->n_modules - 1;
    uint32_t h = spec->n_heads, c = lm_record_width(b, latent), n = lm_record_width(b, q_nope) / h,
             v = spec->v_dim;
    const char       *module = lm_record_path(b, name);
    lm_attention_spec s      = *spec;
    lm_joint keys = { lm_record_text(b, "%s.weight", module),
                      lm_record_gguf(b, module, "weight"),
                      0,
                      n,
                      n + v,
                      !b->latent_naive,
                      b->latent_naive,
                      false, false };
    lm_joint values = { keys.path, keys.gguf, n, v, n + v, false, false, false, false };
    char     k_word[64], v_word[64];

    snprintf(k_word, sizeof k_word, "%.50s.k", name);
    snprintf(v_word, sizeof v_word, "%.50s.v", name);
    if (b->latent_naive) {
        lm_value k   = head_linear(b, own, k_word, latent, h, n, true, names[0], keys);
        lm_value val = head_linear(b, own, v_word, latent, h, v, true, names[1], values);
        s.n_kv_heads = h;
        return lm_sparse_attention(b, lm_join(b, "q", q_nope, q_pe, h, false),
                                   lm_join(b, "k", k, k_pe, h, true), val, chosen, &s);
    }
    lm_value q   = head_linear(b, own, k_word, q_nope, h, c, false, names[0], keys);
    s.n_kv_heads = 1;
    s.k_dim      = c + lm_record_width(b, k_pe);
    s.v_dim      = c;
    s.v_in_k     = true;
    lm_value sum = lm_sparse_attention(b, lm_join(b, "q", q, q_pe, h, false),
                                       lm_join(b, "k", latent, k_pe, 1, true), LM_NONE, chosen, &s);
    return head_linear(b, own, v_word, sum, h, v, false, names[1], values);
}
