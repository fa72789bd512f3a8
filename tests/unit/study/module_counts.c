/* Parameters as transformers counts them (tools/oracle/modules.py), module by module, for one published model
 * of each kind: the matrices of each module, the weights that a token reads, and the linear layers in the
 * tree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "study/facts/fact.h"
#include "study/facts/ledger.h"
#include "lamina/study/facts.h"
#include "lamina/preset.h"
#include "runtime/model/model.h"

typedef struct row {
    char     preset[64], path[128];
    bool     in_stack;
    uint32_t first, last;
    uint64_t parameters;
} row;

typedef struct opened {
    char      name[64];
    lm_model *model;
    lm_facts *facts;
    uint64_t  experts;           /* of all routed experts, as transformers counts */
} opened;

static bool next_row(FILE *f, row *r)
{
    char line[512], first[16], last[16];

    while (fgets(line, sizeof line, f))
        if (*line != '#') {
            int n = sscanf(line, "%63[^\t]\t%127[^\t]\t%15[^\t]\t%15[^\t]\t%lu", r->preset, r->path, first,
                           last, &r->parameters);
            r->in_stack = strcmp(first, "-") != 0;
            r->first    = r->in_stack ? (uint32_t)strtoul(first, NULL, 10) : 0;
            r->last     = r->in_stack ? (uint32_t)strtoul(last, NULL, 10) : 0;
            return n == 5;
        }
    return false;
}

/* Find a module by its name in transformers, which differs for some modules from the name in the
 * checkpoints. */
static uint32_t module_at(const lm_program *p, const char *path)
{
    static const char *const renamed[][2] = { { ".mlp", ".block_sparse_moe" },
                                              { ".mlp.router", ".block_sparse_moe.gate" }, { "lm_head", "embed_out" },
                                              { "model", "backbone" },
                                              { ".self_attn.forget_gate.", ".self_attn." },
                                              { ".g_proj", ".gate_proj" }, { ".mlp.gate", ".mlp.router.gate" }, { ".indexer.", ".index_" },
                                              { ".mlp.shared_experts", ".mlp.shared_mlp" },
                                              { ".mlp.shared_experts", ".mlp.shared_expert" },
                                              { ".input_layernorm", ".attention_layer_norm" },
                                              { ".post_attention_layernorm",
                                                ".feedforward_layer_norm" } };
    uint32_t                 m            = strcmp(path, ".") == 0 ? 0 : lm_program_module(p, path);

    for (size_t i = 0; m == LM_NONE && i < sizeof renamed / sizeof *renamed; i++) {
        const char *at = strstr(path, renamed[i][0]);
        char        other[192];
        if (!at)
            continue;
        snprintf(other, sizeof other, "%.*s%s%s", (int)(at - path), path, renamed[i][1],
                 at + strlen(renamed[i][0]));
        m = lm_program_module(p, other);
    }
    return m;
}

/* Count the weights that the module's operations read, each once. A tied head counts its matrix too, as in
 * frameworks. */
static uint64_t weights_of(const lm_program *p, uint32_t m, bool *seen)
{
    uint64_t sum = 0;

    memset(seen, 0, p->n_weights * sizeof *seen);
    for (uint32_t i = lm_module_op(p, m, 0); i != LM_NONE; i = lm_module_op(p, m, i + 1))
        for (uint32_t k = 0; k < LM_MAX_WEIGHTS; k++) {
            uint32_t w = p->nodes[i].weights[k];
            if (w == LM_NONE || seen[w] || p->weights[w].constant)
                continue;
            seen[w] = true;
            sum += p->weights[w].elements;
        }
    return sum;
}

/* Return the elements of a gate's selection bias: it is stored with the gate, or beside it, but read by the
 * routing after it, an operation of the MLP. transformers has it in the gate, or in the MLP. */
static uint64_t correction(const lm_program *p, uint32_t m)
{
    const char *gate = p->modules[m].path, *end = strstr(gate, ".gate");
    char        path[192];
    uint32_t    w;

    if (!end || end[5])
        return 0;
    snprintf(path, sizeof path, "%s.e_score_correction_bias", gate);
    w = lm_program_weight(p, path);
    static const char *const places[] = { "", "moe_statics.", "experts." };
    for (size_t i = 0; w == LM_NONE && i < 3; i++) {
        snprintf(path, sizeof path, "%.*s.%se_score_correction_bias", (int)(end - gate), gate, places[i]);
        w = lm_program_weight(p, path);
    }
    return w == LM_NONE ? 0 : p->weights[w].elements;
}

static int compare(opened *o, const row *r, const char *path)
{
    const lm_program *p    = o->model->program;
    uint32_t          m    = module_at(p, path);
    bool             *seen = calloc(p->n_weights + 1, sizeof *seen);
    uint64_t          ours = 0;
    lm_module_sums    sums;

    assert_non_null(seen);
    if (m != LM_NONE) {
        lm_module_sum(o->facts->ledger, m, &sums);
        ours = p->modules[m].share ? sums.parameters : weights_of(p, m, seen);
        assert_int_equal(lm_facts_count(o->facts, "modules[%u].parameters", m), sums.parameters);
        if (sums.parameters != ours &&
            !(sums.parameters < ours && p->nodes[o->facts->ledger->head].module == m))
            fail_msg("%s %s: %lu parameters, its operations read %lu", r->preset, path, sums.parameters,
                     ours);
    }
    free(seen);
    if (m != LM_NONE && ours != r->parameters)
        ours += correction(p, m);
    if (m != LM_NONE && ours == r->parameters)
        return 0;
    printf("%s %s: transformers counts %lu, lamina %s%lu\n", r->preset, path, r->parameters,
           m == LM_NONE ? "has no such module " : "", ours);
    return 1;
}

/* A token visits k of E equal experts; the others are not read. */
static void compare_active(opened *o)
{
    uint64_t n, k;

    if (!o->experts)
        return;
    n = lm_facts_count(o->facts, "mlp.experts");
    k = lm_facts_count(o->facts, "mlp.experts_per_token");
    assert_int_equal(lm_facts_count(o->facts, "parameters.experts"), o->experts);
    assert_int_equal(lm_facts_count(o->facts, "parameters.active"),
                     lm_facts_count(o->facts, "parameters.total") - o->experts / n * (n - k));
}

static void shut(opened *o)
{
    if (o->facts)
        compare_active(o);
    lm_facts_free(o->facts);
    lm_model_close(o->model);
    *o = (opened){ 0 };
}

static void open_preset(opened *o, const char *name)
{
    char     path[128];
    lm_error e;

    shut(o);
    snprintf(o->name, sizeof o->name, "%s", name);
    snprintf(path, sizeof path, LM_PRESET_PREFIX "%s", name);
    if (lm_model_open(path, &(lm_model_options){ .structure_only = true }, &o->model, &e) != LM_OK ||
        lm_facts_new(o->model, NULL, &o->facts, &e) != LM_OK)
        fail_msg("%s: %s: %s", name, e.where, e.message);
}

static bool ends(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

static void every_module(void **state)
{
    char   path[512];
    opened o = { 0 };
    row    r;
    int    wrong = 0, modules = 0, presets = 0;

    (void)state;
    snprintf(path, sizeof path, "%s/golden/presets/modules.tsv", getenv("LAMINA_TESTS"));
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (next_row(f, &r)) {
        if (strcmp(o.name, r.preset) != 0) {
            open_preset(&o, r.preset);
            presets++;
        }
        const char *star = strchr(r.path, '*');
        /* modules in transformers only: one for the matrices of a decay, one for three convolutions */
        if (ends(r.path, ".forget_gate") || ends(r.path, ".self_attn.conv1d") || ends(r.path, ".moe_statics"))
            continue;
        if (r.in_stack && !star)
            fail_msg("%s: no star", r.path);
        for (uint32_t i = r.first; i <= r.last; i++, modules++) {
            if (r.in_stack)
                snprintf(path, sizeof path, "%.*s%u%s", (int)(star - r.path), r.path, i, star + 1);
            else
                snprintf(path, sizeof path, "%s", r.path);
            wrong += compare(&o, &r, path);
            o.experts += ends(path, "mlp.experts") || ends(path, "block_sparse_moe.experts") ? r.parameters
                                                                                             : 0;
        }
    }
    shut(&o);
    fclose(f);
    printf("%d presets, %d modules\n", presets, modules);
    assert_int_equal(wrong, 0);
    assert_true(presets >= 30 && modules > 5000);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_module) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
