/* sparse_families.c - descriptions with sparse attention: sizes of indexers, their rotation, and which layers
 * share a choice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "arch/config.h"

#define SPARSE(type, latent, heads, dim, k, rest) \
    "{\"model_type\": \"" type "\", \"vocab_size\": 64, \"hidden_size\": 32, \"num_hidden_layers\": 6, " \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 4, \"intermediate_size\": 40, " \
    "\"q_lora_rank\": " latent ", \"kv_lora_rank\": 16, \"qk_nope_head_dim\": 8, \"qk_rope_head_dim\": 4, \"v_head_dim\": 12, " \
    "\"index_n_heads\": " heads ", \"index_head_dim\": " dim ", \"index_topk\": " k ", \"n_routed_experts\": 8, " \
    "\"n_group\": 1, \"topk_group\": 1, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 16" rest "}"
#define DEEPSEEK(rest) SPARSE("deepseek_v32", "8", "2", "8", "5", rest)
#define GLM(rest)      SPARSE("glm_moe_dsa", "8", "2", "8", "5", rest)

static lm_status describe(const char *json, lm_program **p, lm_error *e)
{
    static lm_config c;
    lm_meta         *meta = NULL;
    const lm_family *f;

    memset(e, 0, sizeof *e);
    assert_int_equal(lm_meta_from_json(json, strlen(json), "config.json", 16, &meta, e), LM_OK);
    lm_status status = lm_describe(&(lm_source){ .kind = LM_SAFETENSORS, .meta = meta }, &f, &c, p, NULL, e);
    lm_meta_free(meta);
    return status;
}

static lm_program *program(const char *json)
{
    lm_program *p = NULL;
    lm_error    e;

    if (describe(json, &p, &e) != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
    return p;
}

static void wrong_descriptions(void **state)
{
    static const struct { const char *json, *where; } bad[] = {
        { SPARSE("deepseek_v32", "null", "2", "8", "5", ""), "q_lora_rank" },
        { SPARSE("deepseek_v32", "8", "0", "8", "5", ""), "index_n_heads" },
        { SPARSE("deepseek_v32", "8", "2", "2", "5", ""), "index_head_dim" },
        { SPARSE("deepseek_v32", "8", "2", "8", "0", ""), "index_topk" },
        { SPARSE("deepseek_v32", "8", "2", "8", "1048577", ""), "index_topk" },
        { DEEPSEEK(", \"max_position_embeddings\": 4"), "index_topk" },
        { DEEPSEEK(", \"mlp_bias\": true"), "mlp_bias" },
        { DEEPSEEK(", \"layer_types\": [\"full_attention\"]"), "layer_types" },
        { DEEPSEEK(", \"scoring_func\": \"softmax\""), "scoring_func" },
        { GLM(", \"index_topk_pattern\": \"FSF\""), "index_topk_pattern" },
        { GLM(", \"index_topk_pattern\": \"FSFSFX\""), "index_topk_pattern" },
        { GLM(", \"index_topk_pattern\": \"SFFFFF\""), "indexer_types" },
        { GLM(", \"indexer_types\": [\"full\"]"), "indexer_types" },
        { GLM(", \"index_topk_freq\": 0"), "index_topk_freq" },
    };
    lm_program *p;
    lm_error    e;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (describe(bad[i].json, &p, &e) == LM_OK)
            fail_msg("accepted: %s", bad[i].json);
        assert_string_equal(e.where, bad[i].where);
    }
}

/* Return as letters which layers have an indexer of their own. */
static const char *choices(const char *json)
{
    static char letters[8];
    lm_program *p = program(json);

    memset(letters, 0, sizeof letters);
    memset(letters, 'S', p->n_layers);
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->nodes[i].code == LM_OP_SELECT_KEYS)
            letters[p->nodes[i].layer] = 'F';
        else if (p->nodes[i].code == LM_OP_ATTENTION)
            assert_true(p->nodes[i].attention.spec.top_k == 5 && p->nodes[i].n_in == 4);
    lm_program_free(p);
    return letters;
}

static void layers_with_an_indexer(void **state)
{
    (void)state;
    assert_string_equal(choices(DEEPSEEK("")), "FFFFFF");
    assert_string_equal(choices(GLM("")), "FFFFFF");
    assert_string_equal(choices(GLM(", \"index_topk_pattern\": \"FFSSFS\"")), "FFSSFS");
    /* full if max(i - 2 + 1, 0) % 3 is 0 */
    assert_string_equal(choices(GLM(", \"index_topk_freq\": 3")), "FFSSFS");
    assert_string_equal(choices(GLM(", \"index_topk_freq\": 2, \"index_skip_topk_offset\": 4")), "FFFFSF");
}

static uint32_t rotations(const lm_program *p, lm_rope_pairing pairing)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->n_ropes; i++)
        n += p->ropes[i].spec.pairing == pairing;
    return n;
}

/* The indexer's keys are beside the latents; it rotates halves in DeepSeek-V3.2 only. Its scores cost as much
 * as its heads are wide, for every key; attention costs as much as the chosen keys. */
static void caches_rotations_and_costs(void **state)
{
    lm_program *p = program(DEEPSEEK(""));
    lm_cost     c;

    (void)state;
    assert_int_equal(p->n_caches, 12);
    assert_true(rotations(p, LM_ROPE_PAIR) == 1 && rotations(p, LM_ROPE_HALF) == 1);
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const lm_node *n = &p->nodes[i];
        lm_node_cost(p, n, &c);
        if (n->code == LM_OP_SELECT_KEYS) {
            assert_int_equal(lm_cache_elements(&p->caches[n->attention.cache]), 8);
            assert_true(c.key_mult_adds == 2 * (8 + 1) && lm_node_reach(n) == 0);
        } else if (n->code == LM_OP_ATTENTION) {
            assert_int_equal(lm_cache_elements(&p->caches[n->attention.cache]), 16 + 4);
            assert_true(c.key_mult_adds == 4 * (20 + 16) && lm_node_reach(n) == 5);
        }
    }
    lm_program_free(p);
    p = program(GLM(""));
    assert_true(rotations(p, LM_ROPE_PAIR) == 1 && rotations(p, LM_ROPE_HALF) == 0);
    lm_program_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_descriptions),
        cmocka_unit_test(layers_with_an_indexer),
        cmocka_unit_test(caches_rotations_and_costs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
