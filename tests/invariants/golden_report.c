/* golden_report.c - a table of every golden model: family, container, goldens, largest relative error of the
 * logits, as `lamina verify` computes it in float32 arithmetic. Fails if a golden differs by more than 1e-4
 * or in a greedy token, or if the prompt in one piece, in chunks and token by token do not give the same
 * bits.
 *
 *     golden_report [LEVEL …]      instruction sets; without: the best of this processor */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lamina/lamina.h"
#include "models.h"

#define MAX       1024
#define MAX_FILES 16
#define LIMIT      1e-4

/* One line of the table: models of one family in one kind of container. */
typedef struct tally {
    char   family[64];
    int    is_gguf;
    size_t models, goldens, bad;
    double worst;
    char   worst_name[128];
} tally;

static tally *tally_of(tally *all, size_t *n, const char *name, int is_gguf)
{
    size_t length = strcspn(name, "/");

    for (size_t i = 0; i < *n; i++)
        if (all[i].is_gguf == is_gguf && strlen(all[i].family) == length &&
            strncmp(all[i].family, name, length) == 0)
            return &all[i];
    tally *t = &all[(*n)++];
    memset(t, 0, sizeof *t);
    snprintf(t->family, sizeof t->family, "%.*s", (int)length, name);
    t->is_gguf = is_gguf;
    return t;
}

static int agrees(const lm_verdict *v)
{
    return v->agrees && v->max_rel_err <= LIMIT && (!v->bitwise_known || (v->chunked && v->stepwise)) &&
           (!v->has_greedy || v->greedy_agrees);
}

static void judge(const golden_model *g, const char *level, tally *t)
{
    static char       files[MAX_FILES][512];
    lm_verify_options o = { .engine = { .compute = LM_COMPUTE_F32, .kv = LM_KV_F32, .cpu = level } };
    lm_model         *m = NULL;
    lm_error          e = { 0 };
    char              text[600];
    size_t            n = golden_files(g, files, MAX_FILES);

    t->models++;
    t->bad += n == 0;
    if (lm_model_open(g->path, NULL, &m, &e) != LM_OK) {
        printf("%s: %s\n", g->name, lm_error_text(&e, text, sizeof text));
        t->bad++;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        lm_verdict v;
        t->goldens++;
        if (lm_verify(m, files[i], &o, &v, &e) != LM_OK) {
            printf("%s: %s\n", g->name, lm_error_text(&e, text, sizeof text));
            t->bad++;
            continue;
        }
        if (!agrees(&v)) {
            printf("%s: relative error %.2e, chunks %d, steps %d, greedy %d\n", files[i], v.max_rel_err,
                   v.chunked, v.stepwise, v.greedy_agrees);
            t->bad++;
        }
        if (!(v.max_rel_err <= t->worst)) {
            t->worst = v.max_rel_err;
            snprintf(t->worst_name, sizeof t->worst_name, "%s", g->name);
        }
    }
    lm_model_close(m);
}

static size_t report(const char *level, const golden_model *models, size_t n_models)
{
    static tally all[MAX];
    tally        sum      = { 0 };
    size_t       n        = 0, families = 0, folders = 0;
    const char  *previous = "";

    for (size_t i = 0; i < n_models; i++) {
        folders += i == 0 || strcmp(models[i].folder, models[i - 1].folder) != 0;
        judge(&models[i], level, tally_of(all, &n, models[i].name, strstr(models[i].name, " gguf") != NULL));
    }
    printf("%-14s %-12s %6s %8s %14s  %s\n", "family", "container", "models", "goldens", "largest error",
           "of");
    for (size_t i = 0; i < n; i++) {
        const tally *t = &all[i];
        printf("%-14s %-12s %6zu %8zu %14.2e  %s%s\n", t->family, t->is_gguf ? "gguf" : "safetensors",
               t->models, t->goldens, t->worst, t->worst_name, t->bad ? "  DIFFERS" : "");
        families += strcmp(previous, t->family) != 0;
        previous = t->family;
        sum.models += t->models;
        sum.goldens += t->goldens;
        sum.bad += t->bad;
        sum.worst = t->worst > sum.worst ? t->worst : sum.worst;
    }
    printf("%s: %zu families, %zu models in %zu containers, %zu goldens, largest relative error %.2e, %zu "
           "beyond %.0e or not bitwise\n",
           level ? level : "best level", families, folders, sum.models, sum.goldens, sum.worst, sum.bad,
           LIMIT);
    return sum.bad;
}

int main(int argc, char **argv)
{
    static golden_model models[MAX];
    size_t n = golden_models(models, MAX), bad = 0;

    for (int i = 1; i < argc; i++)
        bad += report(argv[i], models, n);
    return (argc > 1 ? bad : report(NULL, models, n)) != 0;
}
