/* Every tensor in every file type has the type that llama.cpp's quantiser chooses, and the bytes that lamina
 * reports for a precision are the bytes in such a file. The types are those that lm_quantize chooses without
 * packing; lm_synth, which packs, gives the same in the types that depend on all of a model's numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "arch/typemix.h"
#include "base/str.h"
#include "export/keys/ggufkeys.h"
#include "formats/filetype.h"
#include "formats/container.h"
#include "lamina/study/facts.h"
#include "lamina/preset.h"
#include "lamina/quantize.h"
#include "lamina/synth.h"
#include "runtime/model/model.h"
#include "../temporary.h"

/* The tensors of a file: its own, or as they would be in another type. */
typedef struct typed {
    const char *name, *type;
    uint64_t    bytes;
} typed;

static int by_name(const void *a, const void *b)
{
    const typed *x = a, *y = b;

    return strcmp(x->name, y->name);
}

/* Write the types run by run, in the order of the tensors' names: "3*f32 q6_k". */
static void runs(typed *list, size_t n, lm_text *out)
{
    size_t run = 0;

    qsort(list, n, sizeof *list, by_name);
    for (size_t i = 0; i < n; i++) {
        run++;
        if (i + 1 < n && strcmp(list[i + 1].type, list[i].type) == 0)
            continue;
        lm_text_add_str(out, out->size ? " " : "");
        if (run > 1)
            lm_text_printf(out, "%zu*", run);
        lm_text_add_str(out, list[i].type);
        run = 0;
    }
}

/* Return the bytes of the weights in a file; rotary factors do not count as weights. */
static uint64_t bytes_of(const typed *list, size_t n)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += strncmp(list[i].name, "rope_", 5) == 0 ? 0 : list[i].bytes;
    return sum;
}

static uint64_t said_of(lm_facts *f, const char *type)
{
    lm_error e;
    char     query[64] = "weights.as.";
    size_t   at        = strlen(query);

    for (const char *s = type; *s; s++)
        query[at++] = (char)(*s >= 'a' && *s <= 'z' ? *s - 32 : *s);
    snprintf(query + at, sizeof query - at, ".bytes");
    uint64_t n = lm_facts_count(f, "%s", query);
    if (lm_facts_check(f, &e) != LM_OK)
        fail_msg("%s", e.where);
    return n;
}

static uint64_t planned_bytes(const char *path, const char *type)
{
    lm_model *m = NULL;
    lm_facts *f = NULL;
    lm_error  e;

    if (lm_model_open(path, &(lm_model_options){ .structure_only = true }, &m, &e) != LM_OK ||
        lm_facts_new(m, NULL, &f, &e) != LM_OK)
        fail_msg("%s: %s: %s", path, e.where, e.message);
    uint64_t n = said_of(f, type);
    lm_facts_free(f);
    lm_model_close(m);
    return n;
}

static void check(const char *config, const char *type, typed *list, size_t n, const char *want)
{
    lm_text  got = { 0 };
    uint64_t planned = planned_bytes(config, type);

    runs(list, n, &got);
    if (strcmp(got.data, want) != 0)
        fail_msg("%s as %s\nllama.cpp %s\nhere      %s", config, type, want, got.data);
    if (planned != bytes_of(list, n))
        fail_msg("%s as %s: the file holds %llu bytes of weights, lamina says %llu", config, type,
                 (unsigned long long)bytes_of(list, n), (unsigned long long)planned);
    lm_text_free(&got);
}

/* Write a model with random weights to a new file. */
static void synth(const char *config, const char *type, char path[256])
{
    lm_error e;

    temporary_path(path, "types-XXXXXX.gguf");
    int fd = mkstemps(path, 5);
    assert_true(fd >= 0);
    close(fd);
    if (lm_synth(config, path, &(lm_synth_options){ .type = type, .threads = 1, .overwrite = true }, NULL,
                 &e) != LM_OK)
        fail_msg("%s %s: %s", config, type, e.message);
}

static void check_synth(const char *config, const char *type, const char *want)
{
    char          path[256];
    lm_container *c = NULL;
    lm_error      e;

    synth(config, type, path);
    assert_int_equal(lm_container_open(path, NULL, &c, &e), LM_OK);
    size_t n    = lm_container_n_tensors(c);
    typed *list = calloc(n, sizeof *list);
    assert_non_null(list);
    for (size_t i = 0; i < n; i++) {
        const lm_tensor_info *t = lm_container_tensor(c, i);
        list[i]                 = (typed){ t->name, lm_dtype_of(t->type)->name, t->bytes };
    }
    check(config, type, list, n, want);
    free(list);
    lm_container_close(c);
    unlink(path);
}

static void check_quantize(const char *config, const char *from, const char *type, const char *want)
{
    lm_quantize_options o = { .dry_run = true, .threads = 1 };
    lm_quantize_result  r = { 0 };
    lm_error            e;

    if (lm_quantize(from, NULL, type, &o, &r, &e) != LM_OK)
        fail_msg("%s %s: %s: %s", config, type, e.where, e.message);
    typed *list = calloc(r.n_tensors, sizeof *list);
    assert_non_null(list);
    for (size_t i = 0; i < r.n_tensors; i++)
        list[i] = (typed){ r.tensors[i].name, r.tensors[i].to, r.tensors[i].bytes };
    check(config, type, list, r.n_tensors, want);
    free(list);
    lm_quantize_free(&r);
}

static void as_llama_cpp_chooses(void **state)
{
    char   path[512], config[512], from[256] = "", made[64] = "", *line = NULL, *rest;
    size_t size = 0;
    int    rows = 0;
    FILE  *f;

    (void)state;
    snprintf(path, sizeof path, "%s/golden/filetypes/types.tsv", getenv("LAMINA_TESTS"));
    f = fopen(path, "r");
    assert_non_null(f);
    for (; getline(&line, &size, f) > 0; rows++) {
        line[strcspn(line, "\n")] = '\0';
        rest                      = line;
        char *model = strsep(&rest, "\t"), *type = strsep(&rest, "\t");
        assert_non_null(rest);
        snprintf(config, sizeof config, "%s/golden/filetypes/%s.json", getenv("LAMINA_TESTS"), model);
        if (strcmp(model, made) != 0) {          /* the rows of a model follow one another */
            unlink(from);
            synth(config, "f16", from);
            snprintf(made, sizeof made, "%s", model);
        }
        check_quantize(config, from, type, rest);
        /* these depend on layers, heads, experts, the architecture and whether the embedding is tied */
        if (strcmp(type, "q4_k_m") == 0 || strcmp(type, "q2_k") == 0)
            check_synth(config, type, rest);
    }
    unlink(from);
    free(line);
    fclose(f);
    assert_true(rows >= 152);
}

/* ---- every published model in every type: the writer's choice, from the configuration ---- */

static uint64_t written(const lm_model *m, const lm_file_type *type)
{
    const lm_program *p     = m->program;
    const lm_config  *c     = &m->config;
    uint64_t          sum   = 0, row;
    lm_type_chooser types = {
        .type = type,
        .coarse = m->family->coarse_mixture,
        .tied = c->tied,
        .n_layers = c->n_layers,
        .n_heads = c->n_heads,
        .n_kv_heads = lm_first_kv_heads(m->family, c),
        .n_experts = c->route.n_experts,
        .big = lm_mixture_is_big(lm_gguf_arch_of(m->family), c->n_layers, c->n_heads, c->n_kv_heads),
    };

    for (uint32_t i = 0; i < p->n_weights; i++)
        types.n_values += lm_holds_values(p->weights[i].gguf);
    for (uint32_t i = 0; i < p->n_weights; i++) {
        const lm_weight *w    = &p->weights[i];
        uint64_t         cols = w->dims[w->n_dims - 1];
        lm_dtype         chosen = lm_choose_type(&types, w->gguf, w->n_dims, w->dims);
        /* kept as it is published */
        assert_true(lm_dtype_row_bytes(w->interleaved.codes ? LM_MXFP4 : chosen, cols, &row));
        sum += w->constant ? 0 : row * (w->elements / cols);
    }
    return sum;
}

static bool has_names(const lm_model *m)
{
    if (!lm_gguf_arch_of(m->family))
        return false;
    for (uint32_t i = 0; i < m->program->n_weights; i++)
        if (!m->program->weights[i].gguf)
            return false;
    return true;
}

static void sizes_of_published_models(void **state)
{
    int models = 0, files = 0;

    (void)state;
    for (size_t i = 0; lm_preset_at(i); i++) {
        char      path[128];
        lm_model *m = NULL;
        lm_facts *f = NULL;
        lm_error  e;
        snprintf(path, sizeof path, LM_PRESET_PREFIX "%s", lm_preset_at(i)->name);
        assert_int_equal(lm_model_open(path, &(lm_model_options){ .structure_only = true }, &m, &e), LM_OK);
        assert_int_equal(lm_facts_new(m, NULL, &f, &e), LM_OK);
        for (size_t k = 0; has_names(m) && lm_file_type_at(k); k++) {
            const lm_file_type *t = lm_file_type_at(k);
            if (!lm_dtype_of(t->base)->quantized)
                continue;                /* in files vectors stay f32; "f16" as a precision is every weight in
                                            2 bytes */
            if (written(m, t) != said_of(f, t->name))
                fail_msg("%s as %s: a file holds %llu bytes of weights, lamina says %llu", path, t->name,
                         (unsigned long long)written(m, t), (unsigned long long)said_of(f, t->name));
            files++;
        }
        models += has_names(m);
        lm_facts_free(f);
        lm_model_close(m);
    }
    printf("%d models, %d files\n", models, files);
    assert_true(models > 100 && files > 1700);
}

static void names_of_types(void **state)
{
    const lm_file_type *t;
    lm_error            e;

    (void)state;
    assert_int_equal(lm_file_type_named("Q4_K", &t, &e), LM_OK);
    assert_string_equal(t->name, "q4_k_m");
    assert_int_equal(lm_file_type_named("MXFP4", &t, &e), LM_OK);
    assert_string_equal(t->name, "mxfp4_moe");
    assert_int_equal(lm_file_type_named("iq3", &t, &e), LM_USAGE);           /* which one? */
    assert_int_equal(lm_file_type_named("q1_0", &t, &e), LM_USAGE);          /* lamina cannot pack it */
    assert_int_equal(lm_file_type_named("", &t, &e), LM_USAGE);
    for (size_t i = 0; lm_file_type_at(i); i++)
        assert_non_null(lm_dtype_of(lm_file_type_at(i)->base)->pack);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(names_of_types),
                                        cmocka_unit_test(as_llama_cpp_chooses),
                                        cmocka_unit_test(sizes_of_published_models) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
