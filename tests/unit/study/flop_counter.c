/* FLOPs as torch.utils.flop_counter counts them in transformers' models (tools/oracle/flops.py), module by
 * module. Lamina's counts are exactly the same, except for differences that are named and computed here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "program/op.h"
#include "study/facts/ledger.h"
#include "lamina/study/facts.h"
#include "runtime/model/model.h"

typedef struct row {
    char     name[64], path[128];
    uint32_t tokens;
    uint64_t flops;
} row;

/* The reasons why the counts differ, in FLOPs of the whole pass. transformers computes scores with eager
 * attention. */
typedef struct reasons {
    uint64_t masked;             /* keys outside a window: multiplied, then masked */
    uint64_t latent;             /* scores on latents, which transformers expands into heads first: lamina
                                    counts more */
    uint64_t unchosen;           /* experts that a token did not choose, in families that run them all */
    uint64_t predicted;          /* sums of streams: not products with a matrix */
    uint64_t convolved;          /* convolutions, also over the zeros after the end: not matrix products */
} reasons;

/* Return the width of a head before a latent model folds the up-projections of keys and values into queries
 * and results: the heads' own lanes, derived from the products that fold them. */
static uint64_t lanes_in_heads(const lm_program *p, uint32_t attention)
{
    const lm_attention_spec *s = &p->nodes[attention].attention.spec;
    uint64_t                 lanes = 0;

    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->nodes[i].code == LM_OP_HEAD_LINEAR && p->nodes[i].layer == p->nodes[attention].layer) {
            const lm_weight *w   = &p->weights[p->nodes[i].weights[0]];
            /* a matrix: latent lanes x lanes of a head */
            uint64_t         own = w->elements / s->n_heads / s->v_dim;
            lanes += own;
        }
    return lanes + (s->k_dim - s->v_dim);    /* plus the rotated lanes, which are stored next to the latent */
}

static reasons why(const lm_program *p, uint32_t m, uint64_t tokens)
{
    reasons r = { 0 };
    lm_cost c;

    for (uint32_t i = lm_module_op(p, m, 0); i != LM_NONE; i = lm_module_op(p, m, i + 1)) {
        const lm_node *n = &p->nodes[i];
        if (n->code == LM_OP_MIX && n->n_in > 2 && n->in[0] == n->in[1])
            r.predicted += 2 * (uint64_t)n->mix.streams * lm_width_out(p, n) * tokens;
        if (n->code == LM_OP_MERGE)          /* a product with a matrix in torch, too */
            r.predicted += 2 * (uint64_t)n->blend.streams * lm_width_out(p, n) * tokens;
        if (n->code == LM_OP_CAUSAL_CONV)
            r.convolved += 2 * (uint64_t)n->conv.taps * lm_width_out(p, n) * (tokens + n->conv.taps - 1);
        if (n->code == LM_OP_EXPERTS && n->experts.scaled_input) {       /* every expert for every token */
            lm_node_cost(p, n, &c);
            r.unchosen += 2 * tokens * (c.mult_adds / n->experts.top_k) *
                          (n->experts.n_experts - n->experts.top_k);
        }
        if (n->code != LM_OP_ATTENTION)
            continue;
        const lm_attention_spec *s = &n->attention.spec;
        lm_node_cost(p, n, &c);
        if (lm_node_reach(n) && lm_node_reach(n) < tokens)
            r.masked += 2 * c.key_mult_adds * tokens * (tokens - lm_node_reach(n));
        if (s->v_in_k)
            r.latent += 2 * tokens * tokens * s->n_heads * (s->k_dim + s->v_dim - lanes_in_heads(p, i));
    }
    return r;
}

/* Find a module by its name in transformers, which may differ from the name in checkpoints. Returns false if
 * only transformers has it: in the model that represents a family without its own class (GPT-3: three
 * matrices q, k and v there, one in the folder), or around the matrices of a decay. */
static bool place(const lm_program *p, const char *path, uint32_t *m)
{
    static const char *const renamed[][2] = {
        { ".attn.attention.out_proj", ".attn.c_proj" }, { ".attn.attention", ".attn" }, { ".mlp", ".block_sparse_moe" },
        { ".mlp.router", ".block_sparse_moe.gate" },
        { "lm_head", "embed_out" }, { "model", "backbone" }, { ".self_attn.forget_gate.", ".self_attn." },
        { ".self_attn.forget_gate.", ".attention." }, { ".self_attn.o_proj", ".attention.dense" },
        { ".self_attn", ".attention" },
        { ".g_proj", ".gate_proj" }, { ".mlp.gate", ".mlp.router.gate" }, { ".indexer.", ".index_" },
        { ".mlp.shared_experts", ".mlp.shared_mlp" },
        { ".mlp.shared_experts", ".mlp.shared_expert" },
    };
    static const char suffix[] = ".forget_gate";
    size_t            length   = strlen(path), end = sizeof suffix - 1;

    *m = strcmp(path, ".") == 0 ? 0 : lm_program_module(p, path);
    for (size_t i = 0; *m == LM_NONE && i < sizeof renamed / sizeof *renamed; i++) {
        const char *at = strstr(path, renamed[i][0]);
        char        other[160];
        if (!at)
            continue;
        snprintf(other, sizeof other, "%.*s%s%s", (int)(at - path), path, renamed[i][1],
                 at + strlen(renamed[i][0]));
        *m = lm_program_module(p, other);
    }
    return *m != LM_NONE || (!strstr(path, ".attn.attention.") &&
                             (length < end || strcmp(path + length - end, suffix) != 0));
}

/* Return the last operation that every token of a prompt needs: an attention with its own keys before some
 * that share them; LM_NONE: all are needed. */
static uint32_t last_of_all(const lm_program *p)
{
    uint32_t own = LM_NONE;

    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->nodes[i].code == LM_OP_ATTENTION && p->nodes[i].attention.stored)
            return own;
        else if (p->nodes[i].code == LM_OP_ATTENTION)
            own = i;
    return LM_NONE;
}

/* Return the FLOPs of a prompt as lamina processes it: keys that are masked for a token are not multiplied,
 * and the head, and what only reads earlier caches, run for the last token only. */
static uint64_t prefill(const lm_program *p, uint64_t tokens, uint64_t pass)
{
    lm_flop_counts flops;
    lm_cost        c;
    uint32_t       last = last_of_all(p), head = lm_program_head(p);

    lm_count_flops(p, &flops);
    for (uint32_t i = last; i < p->n_nodes; i++) {
        lm_node_cost(p, &p->nodes[i], &c);
        pass -= i > last && i != head ? (tokens - 1) * 2 * c.mult_adds : 0;
    }
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const lm_node *n = &p->nodes[i];
        uint64_t window = lm_node_reach(n), seen = 0;
        for (uint64_t t = 0; t < tokens; t++)
            if (last == LM_NONE || i <= last || t + 1 == tokens)
                seen += lm_node_chunked(n)       ? t % window + 1
                        : window && t + 1 > window      ? window
                                                        : t + 1;
        lm_node_cost(p, n, &c);
        pass -= 2 * c.key_mult_adds * (tokens * (window && window < tokens ? window : tokens) - seen);
    }
    return pass - (tokens - 1) * flops.head;
}

static bool next_row(FILE *f, row *r)
{
    char line[512];

    while (fgets(line, sizeof line, f))
        if (*line != '#')
            return sscanf(line, "%63[^\t]\t%u\t%127[^\t]\t%lu", r->name, &r->tokens, r->path, &r->flops) == 4;
    return false;
}

static int compare(lm_facts *f, const lm_program *p, const row *r)
{
    uint32_t m;

    if (!place(p, r->path, &m))
        return 0;
    if (m == LM_NONE) {
        printf("%s %s: no such module; %lu\n", r->name, r->path, r->flops);
        return 1;
    }
    uint64_t ours = 2 * lm_facts_count(f, "modules[%u].pass_mult_adds", m);
    reasons  x    = why(p, m, r->tokens);
    if (m == 0)
        assert_int_equal(lm_facts_count(f, "flops.prefill_of[%u].total", r->tokens),
                         prefill(p, r->tokens, ours));
    if (r->flops + x.latent == ours + x.masked + x.convolved + x.unchosen + x.predicted)
        return 0;
    printf("%s %s: %lu, lamina counts %lu (+ masked %lu + convolved %lu + unchosen %lu + predicted %lu - "
           "latent %lu)\n",
           r->name, r->path, r->flops, ours, x.masked, x.convolved, x.unchosen, x.predicted, x.latent);
    return 1;
}

static void every_module(void **state)
{
    char path[512], open[64] = "";
    lm_model *m = NULL;
    lm_facts *facts = NULL;
    lm_error e;
    row r;
    int wrong = 0, rows = 0, models = 0;

    (void)state;
    snprintf(path, sizeof path, "%s/golden/flops/torch.tsv", getenv("LAMINA_TESTS"));
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    for (; next_row(f, &r); rows++) {
        if (strcmp(open, r.name) != 0) {
            lm_facts_free(facts);
            lm_model_close(m);
            snprintf(open, sizeof open, "%s", r.name);
            snprintf(path, sizeof path, "%s/golden/%s/config.json", getenv("LAMINA_TESTS"), r.name);
            if (lm_model_open(path, &(lm_model_options){ .structure_only = true }, &m, &e) != LM_OK ||
                lm_facts_new(m, &(lm_facts_options){ .tokens = r.tokens }, &facts, &e) != LM_OK)
                fail_msg("%s: %s: %s", r.name, e.where, e.message);
            models++;
        }
        wrong += compare(facts, m->program, &r);
    }
    lm_facts_free(facts);
    lm_model_close(m);
    fclose(f);
    printf("%d models, %d modules\n", models, rows);
    assert_int_equal(wrong, 0);
    assert_true(models >= 174 && rows >= 5100);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_module) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
