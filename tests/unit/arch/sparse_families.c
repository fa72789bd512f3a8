/* sparse_families.c - descriptions with sparse attention: sizes of indexers, their rotation, and which layers
 * share a choice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "descriptions.h"

#define SPARSE(type, latent, heads, dim, k, rest) \
    "{\"model_type\": \"" type "\", \"vocab_size\": 64, \"hidden_size\": 32, \"num_hidden_layers\": 6, " \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 4, \"intermediate_size\": 40, " \
    "\"q_lora_rank\": " latent ", \"kv_lora_rank\": 16, \"qk_nope_head_dim\": 8, \"qk_rope_head_dim\": 4, \"v_head_dim\": 12, " \
    "\"index_n_heads\": " heads ", \"index_head_dim\": " dim ", \"index_topk\": " k ", \"n_routed_experts\": 8, " \
    "\"n_group\": 1, \"topk_group\": 1, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 16" rest "}"
#define DEEPSEEK(rest) SPARSE("deepseek_v32", "8", "2", "8", "5", rest)
#define GLM(rest)      SPARSE("glm_moe_dsa", "8", "2", "8", "5", rest)

#define BLOCKS(heads, dim, block, blocks, local, rest) \
    "{\"model_type\": \"minimax_m3_vl_text\", \"vocab_size\": 64, \"hidden_size\": 32, \"num_hidden_layers\": 6, " \
    "\"num_attention_heads\": 8, \"num_key_value_heads\": 4, \"head_dim\": 8, \"intermediate_size\": 16, " \
    "\"num_local_experts\": 8, \"num_experts_per_tok\": 2, \"partial_rotary_factor\": 0.5, " \
    "\"sparse_attention_config\": {\"sparse_num_index_heads\": " heads ", \"sparse_index_dim\": " dim ", " \
    "\"sparse_block_size\": " block ", \"sparse_topk_blocks\": " blocks ", \"sparse_local_block\": " local "" rest "}"
#define MINIMAX(rest) \
    BLOCKS("2", "8", "4", "3", "1", ", \"sparse_attention_freq\": [0, 1, 1, 0, 1, 1]}" rest)
#define OF(x)          "sparse_attention_config/sparse_" x

static void wrong_descriptions(void **state)
{
    static const rejected bad[] = {
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
        { BLOCKS("0", "8", "4", "3", "1", "}"), OF("num_index_heads") },
        { BLOCKS("3", "8", "4", "3", "1", "}"), OF("num_index_heads") },
        { BLOCKS("8", "8", "4", "3", "1", "}"), OF("num_index_heads") },
        { BLOCKS("2", "2", "4", "3", "1", "}"), OF("index_dim") },
        { BLOCKS("2", "8", "0", "3", "1", "}"), OF("block_size") },
        { BLOCKS("2", "8", "65537", "3", "1", "}"), OF("block_size") },
        { BLOCKS("2", "8", "4", "0", "1", "}"), OF("topk_blocks") },
        { BLOCKS("2", "8", "65536", "17", "1", "}"), OF("topk_blocks") },
        { BLOCKS("2", "8", "4", "3", "4", "}"), OF("local_block") },
        { BLOCKS("2", "8", "4", "3", "-1", "}"), OF("local_block") },
        { BLOCKS("2", "8", "4", "3", "1", ", \"sparse_attention_freq\": [1, 1]}"), OF("attention_freq") },
        { BLOCKS("2", "8", "4", "3", "1", ", \"sparse_attention_freq\": [1, 1, 1, 1, 1, 2]}"), OF("attention_freq") },
        { BLOCKS("2", "8", "4", "3", "1", ", \"sparse_score_type\": \"mean\"}"), OF("score_type") },
        { BLOCKS("2", "8", "4", "3", "1", ", \"sparse_init_block\": 1}"), OF("init_block") },
        { BLOCKS("2", "8", "4", "3", "1", ", \"use_sparse_attention\": false}"), "sparse_attention_config/use_sparse_attention" },
        { BLOCKS("2", "8", "4", "3", "1", ", \"sparse_attention_freq\": [0, 0, 0, 0, 0, 1], "
                 "\"sparse_disable_index_value\": [0, 0, 0, 0, 0, 0]}"), OF("disable_index_value") },
        { MINIMAX(", \"moe_layer_freq\": [1]"), "moe_layer_freq" },
        { MINIMAX(", \"layer_types\": [\"full_attention\"]"), "layer_types" },
        { MINIMAX(", \"rotary_dim\": 8"), "rotary_dim" },
        { MINIMAX(", \"hidden_act\": \"gelu\""), "hidden_act" },
        { MINIMAX(", \"swiglu_alpha\": 1.0"), "swiglu_alpha" },
        { MINIMAX(", \"use_gemma_norm\": false"), "use_gemma_norm" },
        { MINIMAX(", \"attention_output_gate\": true"), "attention_output_gate" },
        { MINIMAX(", \"norm_topk_prob\": false"), "norm_topk_prob" },
        { MINIMAX(", \"n_shared_experts\": 2"), "n_shared_experts" },
    };

    (void)state;
    are_rejected(bad, sizeof bad / sizeof *bad);
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

/* Return of each layer whether it has an indexer (c) or attention to all keys (.), and experts (E) or not. */
static const char *kinds(const char *json)
{
    static char letters[16];
    lm_program *p = program(json);

    memset(letters, 0, sizeof letters);
    memset(letters, '.', 2 * p->n_layers);
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const lm_node *n = &p->nodes[i];
        if (n->code == LM_OP_EXPERTS)
            letters[2 * n->layer + 1] = 'E';
        else if (n->code == LM_OP_SELECT_KEYS)
            letters[2 * n->layer] = 'c';
        else if (n->code == LM_OP_ATTENTION)
            assert_int_equal(n->attention.spec.top_k, letters[2 * n->layer] == 'c' ? 12 : 0);
    }
    lm_program_free(p);
    return letters;
}

static void layers_that_choose_blocks(void **state)
{
    (void)state;
    assert_string_equal(kinds(MINIMAX("")), ".EcEcE.EcEcE");
    assert_string_equal(kinds(MINIMAX(", \"moe_layer_freq\": [0, 1, 0, 1, 1, 0]")), ".." "cE" "c." ".E" "cE" "c.");
    /* transformers' list wins */
    assert_string_equal(kinds(MINIMAX(", \"layer_types\": [\"minimax_m3_sparse\", \"full_attention\", \"full_attention\", "
                                      "\"full_attention\", \"full_attention\", \"full_attention\"]")), "cE.E.E.E.E.E");
}

/* Every head of the indexer chooses for two key/value heads; its scores have no weights. */
static void choices_of_blocks(void **state)
{
    lm_program *p = program(MINIMAX(""));
    lm_cost     c;

    (void)state;
    assert_int_equal(p->n_caches, 10);
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const lm_node           *n = &p->nodes[i];
        const lm_attention_spec *s = &n->attention.spec;
        lm_node_cost(p, n, &c);
        if (n->code == LM_OP_SELECT_KEYS) {
            assert_true(p->values[n->out].width == 2 * 3 && n->n_in == 2);
            assert_true(s->n_choices == 2 && s->local == 1);
            assert_true(c.key_mult_adds == 2 * 8 && lm_node_reach(n) == 0);
        } else if (n->code == LM_OP_ATTENTION && s->top_k) {
            assert_true(s->block == 4 && lm_node_reach(n) == 12);
            assert_true(lm_seen_choice(s, 1) == 0 && lm_seen_choice(s, 2) == 1);
        }
    }
    lm_program_free(p);
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
        cmocka_unit_test(layers_that_choose_blocks),
        cmocka_unit_test(choices_of_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
