/* sheets_attention.c - the matrices of attention and their shapes: grouped heads, or one latent for all. */
#include <inttypes.h>

#include "study/draw/draw.h"
#include "study/explain/cards.h"
#include "study/facts/figure.h"

static void row(lm_sheet *s, lm_facts *f, const char *what, const char *symbols, const char *numbers)
{
    lm_sheet_row *r = lm_sheet_next(s, f);

    r->cells[0] = what;
    r->cells[1] = symbols;
    r->cells[2] = numbers;
}

static void begin(lm_sheet *s, const char *title)
{
    *s = (lm_sheet){ .title = title,
                     .columns = { _("what"), _("shape"), _("in this model") },
                     .align = "lll" };
}

/* Fill a table of shapes for T tokens, head by head, of the first layer with attention. */
lm_status lm_sheet_heads(lm_facts *f, const lm_explain_options *o, lm_sheet *out, lm_error *e)
{
    (void)o;
    (void)e;
    if (!lm_facts_has(f, "attention.heads") || lm_facts_has(f, "attention.latent"))
        return LM_OK;
    uint64_t hidden = lm_facts_count(f, "architecture.hidden"), heads = lm_facts_count(f, "attention.heads");
    uint64_t    groups = lm_facts_count(f, "attention.kv_heads"), k = lm_facts_count(f, "attention.head_dim");
    uint64_t    v = lm_facts_count(f, "attention.value_dim"), per = groups ? heads / groups : 0;
    const char *D = lm_grouped(f, hidden);
    begin(out, _("Head by head, T tokens in one layer"));
    row(out, f, "X", "[T, D]", lm_sheet_text(f, "[T, %s]", D));
    row(out, f, lm_sheet_text(f, "W_q,i   i = 1 … %" PRIu64, heads), "[D, K]",
        lm_sheet_text(f, "[%s, %" PRIu64 "]", D, k));
    row(out, f, "Q_i = X · W_q,i", "[T, K]", lm_sheet_text(f, "[T, %" PRIu64 "]", k));
    row(out, f, lm_sheet_text(f, "W_k,g, W_v,g   g = 1 … %" PRIu64, groups), "[D, K]",
        v == k ? lm_sheet_text(f, "[%s, %" PRIu64 "]", D, k)
               : lm_sheet_text(f, "[%s, %" PRIu64 "], [%s, %" PRIu64 "]", D, k, D, v));
    row(out, f, "K_g = X · W_k,g,   V_g = X · W_v,g", "[T, K]",
        v == k ? lm_sheet_text(f, "[T, %" PRIu64 "]", k)
               : lm_sheet_text(f, "[T, %" PRIu64 "], [T, %" PRIu64 "]", k, v));
    if (per > 1)
        row(out, f, _("repeat K and V per query head of a group"),
            "[G, T, K] → [G, H/G, T, K] → [H, T, K]",
            lm_sheet_text(f,
                          "[%" PRIu64 ", T, %" PRIu64 "] → [%" PRIu64 ", %" PRIu64 ", T, %" PRIu64
                          "] → [%" PRIu64 ", T, %" PRIu64 "]",
                          groups, k, groups, per, k, heads, k));
    row(out, f,
        per > 1 ? lm_sheet_text(f, "S_i = Q_i · K_gᵀ · scale,   g = ⌊(i − 1) / %" PRIu64 "⌋ + 1", per)
                : "S_i = Q_i · K_iᵀ · scale",
        "[T, T]", "[T, T]");
    row(out, f, per > 1 ? "head_i = softmax(S_i + mask) · V_g" : "head_i = softmax(S_i + mask) · V_i",
        "[T, K]", lm_sheet_text(f, "[T, %" PRIu64 "]", v));
    row(out, f, lm_sheet_text(f, "concat(head_1 … head_%" PRIu64 ")", heads), "[T, H · K]",
        lm_sheet_text(f, "[T, %s]", lm_grouped(f, heads * v)));
    row(out, f, "concat(…) · W_O", "[T, D]",
        lm_sheet_text(f, "[T, %s] · [%s, %s] = [T, %s]", lm_grouped(f, heads * v), lm_grouped(f, heads * v),
                      D, D));
    if (per > 1)
        out->note = _("lamina does not copy them: each query head reads the keys and values of its group "
                      "in place.");
    return LM_OK;
}

/* ---- latent attention: its matrices, then the two forms side by side ---- */

typedef struct latent { uint64_t hidden, heads, rank, q_rank, nope, rope, v; bool rotary; } latent;

static void matrix(lm_sheet *s, lm_facts *f, const char *what, const char *symbols, uint64_t in, uint64_t out)
{
    row(s, f, what, symbols,
        lm_sheet_text(f, "[%s, %s] = %s", lm_grouped(f, in), lm_grouped(f, out), lm_grouped(f, in * out)));
}

static void matrices(lm_sheet *s, lm_facts *f, const latent *x)
{
    if (x->q_rank) {
        matrix(s, f, "W_DQ:   c_Q = Norm(W_DQ · h)", "[D, R_Q]", x->hidden, x->q_rank);
        matrix(s, f, "W_UQ:   q_N = W_UQ · c_Q", "[R_Q, H · K_N]", x->q_rank, x->heads * x->nope);
        matrix(s, f, x->rotary ? "W_QR:   q_R = RoPE(W_QR · c_Q)" : "W_QR:   q_R = W_QR · c_Q",
               "[R_Q, H · K_R]", x->q_rank, x->heads * x->rope);
    } else {
        matrix(s, f, x->rotary ? "W_Q:   [q_N ; q_R],  q_R ← RoPE(q_R)" : "W_Q:   [q_N ; q_R]",
               "[D, H · (K_N + K_R)]", x->hidden, x->heads * (x->nope + x->rope));
    }
    matrix(s, f, "W_DKV:   c = Norm(W_DKV · h)", "[D, R]", x->hidden, x->rank);
    matrix(s, f, x->rotary ? "W_KR:   k_R = RoPE(W_KR · h)" : "W_KR:   k_R = W_KR · h", "[D, K_R]",
           x->hidden, x->rope);
    matrix(s, f, "W_UK:   k_N,i = W_UK,i · c", "[R, H · K_N]", x->rank, x->heads * x->nope);
    matrix(s, f, "W_UV:   v_i = W_UV,i · c", "[R, H · K_V]", x->rank, x->heads * x->v);
    matrix(s, f, "W_O:   o = W_O · [o_1 … o_H]", "[H · K_V, D]", x->heads * x->v, x->hidden);
}

lm_status lm_sheet_latent(lm_facts *f, const lm_explain_options *o, lm_sheet *out, lm_error *e)
{
    (void)o;
    (void)e;
    if (!lm_facts_has(f, "attention.latent"))
        return LM_OK;
    lm_traits t;
    lm_find_traits(f->ledger, &t);
    latent x = { .rotary = t.rotary,
                 .hidden = lm_facts_count(f, "architecture.hidden"),
                 .heads = lm_facts_count(f, "attention.latent.heads"),
                 .rank = lm_facts_count(f, "attention.latent.kv_rank"),
                 .q_rank = lm_facts_count(f, "attention.latent.q_rank"),
                 .nope = lm_facts_count(f, "attention.latent.nope_dim"),
                 .rope = lm_facts_count(f, "attention.latent.rope_dim"),
                 .v = lm_facts_count(f, "attention.latent.v_dim") };
    begin(out, _("All matrices, and both forms of the scores"));
    matrices(out, f, &x);
    row(out, f, _("naive: the keys and values of every head are computed"),
        "s_i = (q_N,i · W_UK,i c + q_R,i · k_R) · scale",
        lm_sheet_text(f, "%" PRIu64 " + %" PRIu64, x.nope, x.rope));
    row(out, f, _("naive: values"), "o_i = Σ p · W_UV,i c", lm_sheet_text(f, "%" PRIu64, x.v));
    row(out, f, _("absorbed: the query is projected to the latent"),
        "q′_i = W_UK,iᵀ · q_N,i,   s_i = (q′_i · c + q_R,i · k_R) · scale",
        lm_sheet_text(f, "%" PRIu64 " + %" PRIu64, x.rank, x.rope));
    row(out, f, _("absorbed: the result is projected from the latent"), "o_i = W_UV,i · Σ p · c",
        lm_sheet_text(f, "%" PRIu64, x.rank));
    out->note = _("Both give the same sums: q · (W c) = (Wᵀ q) · c. The last rows say how many products each "
                  "key costs in one head.");
    return LM_OK;
}

/* ---- sparse attention: a token at several contexts, beside attention to all keys ---- */

static const char *cost(lm_facts *f, uint64_t context, const char *member, char *(*figure)(char *, double))
{
    double x = lm_facts_number(f, "attention.indexer.at[%" PRIu64 "].%s", context, member);
    char   text[LM_FIG];

    return lm_sheet_text(f, "%s", figure(text, x));
}

lm_status lm_sheet_sparse(lm_facts *f, const lm_explain_options *o, lm_sheet *out, lm_error *e)
{
    static const uint64_t contexts[] = { 2048, 8192, 32768, 131072 };

    (void)o, (void)e;
    if (!lm_facts_has(f, "attention.indexer"))
        return LM_OK;
    *out = (lm_sheet){ .title = _("Cost of a token in all layers with sparse attention, by the context"),
                       .columns = { _("context"), _("choosing"), _("chosen keys"), _("all keys"),
                                    _("bytes read"), _("of all keys") },
                       .align = "rrrrrr" };
    for (size_t i = 0; i < sizeof contexts / sizeof *contexts; i++) {
        lm_sheet_row *r = lm_sheet_next(out, f);
        r->cells[0] = lm_grouped(f, contexts[i]);
        r->cells[1] = cost(f, contexts[i], "choosing", lm_fig_flops);
        r->cells[2] = cost(f, contexts[i], "attending", lm_fig_flops);
        r->cells[3] = cost(f, contexts[i], "attending_all", lm_fig_flops);
        r->cells[4] = cost(f, contexts[i], "bytes", lm_fig_size);
        r->cells[5] = cost(f, contexts[i], "bytes_all", lm_fig_size);
    }
    out->note = _("Choosing: products of the indexer and its scores. The columns of all keys are the same model "
                  "without an indexer.");
    return LM_OK;
}
