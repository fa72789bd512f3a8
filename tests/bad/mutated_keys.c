/* mutated_keys.c - every key of every golden GGUF file with other values: missing, of another type, zero,
 * negative, huge, not a number, off by one, longer, shorter. Either the file is rejected with an error that
 * names a key or tensor, both for inspection and for running; or a warning names what is ignored; or the
 * model is a different one. A change without any effect fails the test, except for keys that describe the
 * file and not the model. A key and value that many goldens of a family share is changed once. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf_edit.h"
#include "lamina/error.h"
#include "models.h"
#include "mutants.h"

#define MAX 1024

/* Keys that describe the file; no reader computes with them. */
static const char *const informational[] = {
    "general.type", "general.name", "general.file_type", "general.quantization_version", "general.size_label", "general.description", "general.author",
    "general.license", "general.languages", "general.tags", "general.basename", "general.finetune", "general.version",
    "tokenizer.ggml.padding_token_id", "tokenizer.ggml.seperator_token_id",
    /* attention.recurrent_layers has precedence; three positions are equal for text */
    "qwen3next.full_attention_interval", "qwen35.full_attention_interval", "qwen35moe.full_attention_interval",
    "qwen35.rope.dimension_sections", "qwen35moe.rope.dimension_sections",
    /* written by llama.cpp's converter for attention that does not rotate, and a number that a width says */
    "granitehybrid.rope.freq_base", "nemotron_h.rope.dimension_count", "nemotron_h.rope.scaling.finetuned",
    "nemotron_h_moe.rope.dimension_count", "nemotron_h_moe.rope.scaling.finetuned", "nemotron_h_moe.expert_shared_count",
    "kimi-linear.attention.value_length", "bailingmoe3.attention.value_length",
};

typedef struct tally { size_t tried, refused, warned, acting, same, informational; } tally;

static tally count;

static bool is_informational(const char *key)
{
    for (size_t i = 0; i < sizeof informational / sizeof *informational; i++)
        if (strcmp(key, informational[i]) == 0)
            return true;
    return false;
}

static size_t silent;

/* Count a rejection. The error must name a key, which may be the other one of a contradiction, or a tensor
 * that the keys require but the file lacks. */
static void refused(const char *what, const char *key, const mutant_seen *now)
{
    bool named = strcmp(now->where, key) == 0 || strstr(now->message, key) || strchr(now->where, '.');

    count.refused++;
    if (named && (now->status == LM_BAD_MODEL || now->status == LM_UNSUPPORTED || now->status == LM_NO_FIT))
        return;
    fprintf(stderr, "%s: status %d, \"%s: %s\"\n", what, now->status, now->where, now->message);
    silent++;
}

/* Try one changed file; `whole` is the model without the change. */
static void try_change(const gguf_edit *f, const char *path, const char *name, const char *key,
                       const gguf_value *v, const char *how, const mutant_seen *whole)
{
    static mutant_seen now;
    char               what[600];

    gguf_edit_write(f, key, v, path);
    snprintf(what, sizeof what, "%.100s: %.100s: %s", name, key, how);
    mutant_look(path, what, &now);
    count.tried++;
    if (now.status != 0)
        refused(what, key, &now);
    else if (strcmp(now.warnings, whole->warnings) != 0 || strstr(whole->warnings, key))
        count.warned++;
    else if (strcmp(now.model, whole->model) != 0)
        count.acting++;
    else if (!v || gguf_value_same(v, gguf_edit_find(f, key)))
        count.same++;                /* its absence means the same, or it is the same number in another
                                        type */
    else if (is_informational(key))
        count.informational++;
    else {
        fprintf(stderr, "%s: nobody notices\n", what);
        silent++;
    }
}

static void change(const gguf_edit *f, const char *path, const char *name, const char *key,
                   const mutant_seen *whole)
{
    gguf_value v;
    char       how[64];

    try_change(f, path, name, key, NULL, "missing", whole);
    for (unsigned i = 0; gguf_value_change(gguf_edit_find(f, key), i, &v, how); i++) {
        try_change(f, path, name, key, &v, how, whole);
        gguf_value_free(&v);
    }
}

int main(void)
{
    static golden_model models[MAX];
    static mutant_seen  whole;
    size_t              n = golden_models(models, MAX), files = 0;
    char                path[128], memo[400];

    snprintf(path, sizeof path, "%s/model.gguf", mutant_begin());
    for (size_t i = 0; i < n; i++) {
        if (strcmp(models[i].path, models[i].folder) == 0)
            continue;
        gguf_edit f;
        gguf_edit_read(models[i].path, &f);
        gguf_edit_write(&f, "", NULL, path);
        mutant_look(path, models[i].name, &whole);
        if (whole.status != 0) {
            fprintf(stderr, "%s: does not run as it is\n", models[i].name);
            return 1;
        }
        for (size_t k = 0; k < f.n; k++) {
            bool shared = strncmp(f.keys[k].name, "tokenizer.", 10) == 0 ||
                          strncmp(f.keys[k].name, "general.", 8) == 0;
            snprintf(memo, sizeof memo, "%.*s %s %016llx", shared ? 0 : (int)strcspn(models[i].name, "/"),
                     models[i].name, f.keys[k].name, (unsigned long long)gguf_value_hash(&f.keys[k].value));
            if (mutant_is_new(memo))
                change(&f, path, models[i].name, f.keys[k].name, &whole);
        }
        gguf_edit_free(&f);
        files++;
    }
    mutant_end();
    printf("count: GGUF key values tried %zu of %zu files: %zu refused, %zu warned of, %zu acting, %zu "
           "alike, %zu said alone\n",
           count.tried, files, count.refused, count.warned, count.acting, count.same, count.informational);
    return files && count.refused && count.warned && count.acting && !silent ? 0 : 1;
}
