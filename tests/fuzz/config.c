/* config.c - fuzz target: config.json as a description of a model, for every family that has a golden. */
#include "arch/config.h"
#include "json_mutator.h"
#include "walk.h"

enum { DEPTH = 64 };

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    return json_mutate(data, size, max_size, seed);
}

/* Compute the costs and the printed form of a program. */
static void look_at(const lm_program *p)
{
    lm_text  text = { 0 };
    lm_cost cost;

    PROMISE(p->n_nodes > 0 && p->n_vocab > 0 && p->logits < p->n_values);
    for (uint32_t i = 0; i < p->n_nodes; i++)
        lm_node_cost(p, &p->nodes[i], &cost);
    if (p->n_nodes < 2000)
        lm_program_print(p, &text);
    lm_text_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static lm_config config;
    const lm_family *family = NULL;
    lm_program      *program = NULL;
    lm_meta         *m = NULL;
    lm_error         e = { 0 };
    lm_text           warnings = { 0 };

    if (lm_meta_from_json((const char *)data, size, "config.json", DEPTH, &m, &e) != LM_OK)
        return 0;
    lm_source s = { .kind = LM_SAFETENSORS, .meta = m };
    lm_status status = lm_describe(&s, &family, &config, &program, &warnings, &e);
    check_open(status, &e);
    if (status == LM_OK)
        look_at(program);
    if (program)
        lm_program_free(program);
    lm_text_free(&warnings);
    lm_meta_free(m);
    return 0;
}
