/* ensembling.c - mix the distributions of several models on the thread that generates.
 *
 * The command owns the first model and its engine, an lm_ensembling the others. `mix_logits` is the logits
 * hook of the sequence: it lets the other engines catch up with the tokens of the text, mixes all
 * distributions (lm_mixture), and calls the hook that it replaced. A choice is known only when the next token
 * is computed, so `report_token` is one step behind. */
#include "cli/run/ensembling.h"

#include <stdlib.h>
#include <string.h>

#include "cli/base/output.h"

#define F(field) offsetof(lm_ensemble_flags, field)

const char *const lm_ensemble_rules[] = { "mean", "logmean", "contrast", NULL };

const lm_flag lm_ensemble_flag_table[] = {
    { "--ensemble", NULL, LM_FLAG_TEXT, F(members), "[NAME=]A:W,B:W",
      "models with the same vocabulary that choose each token together, with their weights (1 each)",
      0, 0, NULL },
    { "--ensemble-rule", NULL, LM_FLAG_WORD, F(rule), "RULE",
      "how predictions are combined: mean of probabilities, logmean of log-probabilities, "
      "or contrast, the first model against the second (mean)",
      0, 0, lm_ensemble_rules },
    { 0 },
};

typedef struct member {
    const char *path;
    lm_model   *model;                   /* NULL for the first: the command owns it */
    lm_engine  *engine;
} member;

struct lm_ensembling {
    lm_ensemble what;
    member      members[LM_MIXTURE_MODELS];
    size_t      n;
    uint32_t    sizes[LM_MIXTURE_MODELS];        /* of the vocabularies */
    const float *logits[LM_MIXTURE_MODELS];      /* for the next token */
    uint32_t    n_vocab;
    float      *own;                     /* [n_vocab]: the first model's logits before mixing */
    double     *mixed;                   /* [n_vocab], normalised */
    lm_mixed    mixture_norms;
    bool        pending;                 /* the last mixture has not been reported yet */
    json_t     *tokens;
    lm_status (*next)(void *arg, float *logits, uint32_t n_vocab, const lm_token *ids, size_t n, lm_error *e);
    void       *next_arg;
    void       (*next_release)(void *arg);
};

/* ---- members ---- */

/* Read "PATH:W". The text after the last colon is the weight if it is a number. */
static lm_status read_member(lm_cli *cli, const char *from, size_t n, const char **path, double *weight,
                             lm_error *e)
{
    char *text = lm_store_strndup(&cli->store, from, n), *colon, *end;

    if (!text)
        return lm_fail_memory(e, "the models", n);
    *weight = 1;
    if ((colon = strrchr(text, ':')) && colon[1]) {
        double value = strtod(colon + 1, &end);
        if (!*end) {
            *colon = 0;
            *weight = value;
        }
    }
    if (!*text)
        return lm_fail(e, LM_USAGE, "--ensemble", LM_NO_OFFSET, "a model without a name");
    if (!(*weight > 0 && *weight <= 1e6))
        return lm_fail(e, LM_USAGE, "--ensemble", LM_NO_OFFSET, "%s: a weight must be above 0", text);
    *path = text;
    return LM_OK;
}

lm_status lm_ensemble_read(lm_cli *cli, const char *text, int rule, lm_ensemble *out, lm_error *e)
{
    const char *at = text, *equals = strchr(at, '=');
    lm_mixture *x = &out->mixture;

    *out = (lm_ensemble){ .mixture.rule = (lm_mixture_rule)rule };
    if (equals && (size_t)(equals - at) < strcspn(at, ",:/")) {
        if (!(out->name = lm_store_strndup(&cli->store, at, (size_t)(equals - at))))
            return lm_fail_memory(e, "a name", 0);
        at = equals + 1;
    }
    for (;; at++) {
        size_t n = strcspn(at, ",");
        if (x->n == LM_MIXTURE_MODELS)
            return lm_fail(e, LM_USAGE, "--ensemble", LM_NO_OFFSET, "more than %d models", LM_MIXTURE_MODELS);
        LM_TRY(read_member(cli, at, n, &out->paths[x->n], &x->weights[x->n], e));
        x->n++;
        at += n;
        if (!*at)
            break;
    }
    if (x->n < 2)
        return lm_fail(e, LM_USAGE, "--ensemble", LM_NO_OFFSET,
                       "expected two or more models, separated by commas");
    lm_status status = lm_mixture_prepare(x, e);
    return status == LM_OK ? LM_OK
                           : lm_fail(e, LM_USAGE, "--ensemble-rule", LM_NO_OFFSET,
                                     "contrast compares two models, not %u", x->n);
}

lm_status lm_ensembling_read(lm_cli *cli, const lm_ensemble_flags *f, lm_ensembling **out, const char **first,
                             lm_error *e)
{
    lm_ensembling *x;

    if (!f->members)
        return LM_OK;
    if (!(x = calloc(1, sizeof *x)))
        return lm_fail_memory(e, "the models", sizeof *x);
    *out = x;
    x->tokens = json_array();
    LM_TRY(lm_ensemble_read(cli, f->members, f->rule, &x->what, e));
    x->n = x->what.mixture.n;
    for (size_t i = 0; i < x->n; i++)
        x->members[i].path = x->what.paths[i];
    *first = x->members->path;
    return LM_OK;
}

static lm_status open_member(lm_ensembling *x, size_t i, lm_cli *cli, const lm_run_flags *run,
                             const lm_model *first, uint64_t min, lm_error *e)
{
    member *m = x->members + i;
    lm_model_flags flags = { .model = m->path };
    lm_engine_options o;
    lm_model_info info;

    LM_TRY(lm_open_model(cli, &flags, NULL, &m->model, e));
    lm_status status = lm_draft_fits(m->model, first, e);
    if (status != LM_OK)
        return lm_fail_in(e, m->path);
    lm_model_describe(m->model, &info);
    x->sizes[i] = info.n_vocab < x->n_vocab ? info.n_vocab : x->n_vocab;
    LM_TRY(lm_engine_flags(run, m->model, min, &o, e));
    return lm_start_engine(m->model, &o, &m->engine, e);
}

lm_status lm_ensembling_open(lm_ensembling *x, lm_cli *cli, const lm_run_flags *run, const lm_model *m,
                             uint64_t min, lm_error *e)
{
    lm_model_info info;

    lm_model_describe(m, &info);
    x->n_vocab = x->sizes[0] = info.n_vocab;
    x->mixed = calloc(x->n_vocab, sizeof *x->mixed);
    x->own = calloc(x->n_vocab, sizeof *x->own);
    if (!x->mixed || !x->own)
        return lm_fail_memory(e, "probabilities", x->n_vocab * sizeof *x->mixed);
    for (size_t i = 1; i < x->n; i++)
        LM_TRY(open_member(x, i, cli, run, m, min, e));
    return LM_OK;
}

/* ---- mixing ---- */

/* Process the tokens that a member has not processed yet. *logits: its logits after the last one. */
static lm_status catch_up(member *m, const lm_token *ids, size_t n, const float **logits, lm_error *e)
{
    size_t at = lm_engine_length(m->engine, 0), max = lm_engine_max_rows(m->engine), some = 0;
    lm_row *rows = calloc(max, sizeof *rows);
    lm_status status = rows ? LM_OK : lm_fail_memory(e, "rows", max * sizeof *rows);

    for (; status == LM_OK && at < n; at += some) {
        some = n - at < max ? n - at : max;
        for (size_t i = 0; i < some; i++)
            rows[i] = (lm_row){ .token = ids[at + i],
                                .position = (uint32_t)(at + i),
                                .logits = at + i + 1 == n };
        status = lm_engine_step(m->engine, rows, some, e);
    }
    free(rows);
    if (status != LM_OK)
        return lm_fail_in(e, m->path);
    *logits = lm_engine_logits(m->engine, some - 1);
    return LM_OK;
}

static double logprob_of(const lm_ensembling *x, size_t i, lm_token id)
{
    return (uint32_t)id < x->sizes[i] ? (double)x->logits[i][id] - x->mixture_norms.norms[i] : -1e300;
}

static void report_token(lm_ensembling *x, lm_token id)
{
    if (!x->pending)
        return;
    x->pending = false;
    json_t *each = json_array();
    for (size_t i = 0; i < x->n; i++)
        json_array_append_new(each, json_real(logprob_of(x, i, id)));
    json_array_append_new(x->tokens, json_pack("{s:i, s:f, s:o}", "id", id,
                                               "logprob", (double)(float)x->mixed[id], "members", each));
}

static lm_status mix_logits(void *arg, float *logits, uint32_t n_vocab, const lm_token *ids, size_t n,
                            lm_error *e)
{
    lm_ensembling *x = arg;

    report_token(x, ids[n - 1]);
    memcpy(x->own, logits, n_vocab * sizeof *logits);
    x->logits[0] = x->own;
    for (size_t i = 1; i < x->n; i++)
        LM_TRY(catch_up(x->members + i, ids, n, &x->logits[i], e));
    lm_mixture_mix(&x->what.mixture, x->logits, x->sizes, n_vocab, x->mixed, &x->mixture_norms);
    for (uint32_t i = 0; i < n_vocab; i++)
        logits[i] = (float)x->mixed[i];
    x->pending = true;
    return x->next ? x->next(x->next_arg, logits, n_vocab, ids, n, e) : LM_OK;
}

static void release_next(void *arg)
{
    lm_ensembling *x = arg;

    if (x->next_release)
        x->next_release(x->next_arg);
    x->next = NULL;
    x->next_release = NULL;
}

void lm_ensembling_sequence(lm_ensembling *x, lm_sequence_options *o)
{
    x->next = o->logits;
    x->next_arg = o->logits_arg;
    x->next_release = o->logits_release;
    o->logits = mix_logits;
    o->logits_arg = x;
    o->logits_release = release_next;
}

/* ---- report ---- */

json_t *lm_ensembling_json(lm_ensembling *x, const lm_tokens *generated)
{
    json_t *models = json_array();

    if (generated->n)
        report_token(x, generated->ids[generated->n - 1]);
    for (size_t i = 0; i < x->n; i++)
        json_array_append_new(models, json_pack("{s:s, s:f}", "model", x->members[i].path,
                                                "weight", x->what.mixture.weights[i]));
    return json_pack("{s:s?, s:s, s:o, s:O}", "name", x->what.name,
                     "rule", lm_mixture_word(x->what.mixture.rule), "models", models, "tokens", x->tokens);
}

void lm_ensembling_close(lm_ensembling *x)
{
    if (!x)
        return;
    for (size_t i = 0; i < x->n; i++) {
        lm_engine_free(x->members[i].engine);
        lm_model_close(x->members[i].model);
    }
    free(x->mixed);
    free(x->own);
    json_decref(x->tokens);
    free(x);
}
