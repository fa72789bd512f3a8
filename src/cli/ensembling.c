#include "cli/ensembling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output.h"

#define F(field) offsetof(lm_ensemble_flags, field)

enum { MOST_MEMBERS = 8 };

static const char *const rule_words[] = { "mean", "logmean", "contrast", NULL };

const lm_flag lm_ensemble_flag_table[] = {
    { "--ensemble", NULL, LM_FLAG_TEXT, F(members), "[NAME=]A:W,B:W",
      "models with the same vocabulary that choose each token together, with their weights (1 each)", 0, 0, NULL },
    { "--ensemble-rule", NULL, LM_FLAG_WORD, F(rule), "RULE",
      "mean of probabilities, of log-probabilities (logmean), or contrast: the first model against the second (mean)", 0, 0, rule_words },
    { 0 },
};

typedef struct member {
    const char *path;
    double      weight;
    lm_model   *model;                   /* of the first: NULL, the command's */
    lm_engine  *engine;
    uint32_t    n_vocab;
    double     *logp;                    /* [n_vocab of the first], of the token that is chosen next */
} member;

struct lm_ensembling {
    const char *name;
    lm_ensemble_rule rule;
    member      members[MOST_MEMBERS];
    size_t      n;
    uint32_t    n_vocab;
    double     *mixed;                   /* [n_vocab], normalised */
    bool        pending;                 /* what was mixed last has not been told yet */
    json_t     *tokens;
    lm_status (*next)(void *arg, float *logits, uint32_t n_vocab, const lm_token *ids, size_t n, lm_error *e);
    void       *next_arg;
};

/* ---- which models ---- */

/* "PATH:W": the weight after the last colon, where it is a number. */
static lm_status read_member(lm_cli *cli, member *m, const char *from, size_t n, lm_error *e)
{
    char *text = lm_store_strndup(&cli->store, from, n), *colon, *end;

    if (!text)
        return lm_fail_memory(e, "the models", n);
    m->weight = 1;
    if ((colon = strrchr(text, ':')) && colon[1]) {
        double weight = strtod(colon + 1, &end);
        if (!*end) {
            *colon = 0;
            m->weight = weight;
        }
    }
    if (!*text)
        return lm_fail(e, LM_USAGE, "--ensemble", LM_NO_OFFSET, "a model without a name");
    if (!(m->weight > 0 && m->weight <= 1e6))
        return lm_fail(e, LM_USAGE, "--ensemble", LM_NO_OFFSET, "%s: a weight is above 0", text);
    m->path = text;
    return LM_OK;
}

static lm_status read_members(lm_cli *cli, const lm_ensemble_flags *f, lm_ensembling *x, lm_error *e)
{
    const char *at = f->members, *equals = strchr(at, '=');
    double sum = 0;

    if (equals && (size_t)(equals - at) < strcspn(at, ",:/")) {
        if (!(x->name = lm_store_strndup(&cli->store, at, (size_t)(equals - at))))
            return lm_fail_memory(e, "a name", 0);
        at = equals + 1;
    }
    for (;; at++) {
        size_t n = strcspn(at, ",");
        if (x->n == MOST_MEMBERS)
            return lm_fail(e, LM_USAGE, "--ensemble", LM_NO_OFFSET, "more than %d models", MOST_MEMBERS);
        LM_TRY(read_member(cli, x->members + x->n, at, n, e));
        sum += x->members[x->n++].weight;
        at += n;
        if (!*at)
            break;
    }
    if (x->n < 2)
        return lm_fail(e, LM_USAGE, "--ensemble", LM_NO_OFFSET, "one model: expected two or more, a comma between");
    if (x->rule == LM_ENSEMBLE_CONTRAST && x->n != 2)
        return lm_fail(e, LM_USAGE, "--ensemble-rule", LM_NO_OFFSET, "contrast is of two models, not %zu", x->n);
    for (size_t i = 0; x->rule != LM_ENSEMBLE_CONTRAST && i < x->n; i++)
        x->members[i].weight /= sum;
    return LM_OK;
}

lm_status lm_ensembling_read(lm_cli *cli, const lm_ensemble_flags *f, lm_ensembling **out, const char **first, lm_error *e)
{
    lm_ensembling *x;

    if (!f->members)
        return LM_OK;
    if (!(x = calloc(1, sizeof *x)))
        return lm_fail_memory(e, "the models", sizeof *x);
    *out = x;
    x->rule = (lm_ensemble_rule)f->rule;
    x->tokens = json_array();
    LM_TRY(read_members(cli, f, x, e));
    *first = x->members->path;
    return LM_OK;
}

static lm_status open_member(lm_ensembling *x, member *m, lm_cli *cli, const lm_run_flags *run, const lm_model *first, uint64_t least,
                             lm_error *e)
{
    lm_model_flags flags = { .model = m->path };
    lm_engine_options o;
    lm_model_info info;

    LM_TRY(lm_open_model(cli, &flags, NULL, &m->model, e));
    lm_status status = lm_draft_fits(m->model, first, e);
    if (status != LM_OK)
        return lm_fail_in(e, m->path), status;
    lm_model_describe(m->model, &info);
    m->n_vocab = info.n_vocab < x->n_vocab ? info.n_vocab : x->n_vocab;
    LM_TRY(lm_engine_flags(run, m->model, least, &o, e));
    return lm_start_engine(m->model, &o, &m->engine, e);
}

lm_status lm_ensembling_open(lm_ensembling *x, lm_cli *cli, const lm_run_flags *run, const lm_model *m, uint64_t least, lm_error *e)
{
    lm_model_info info;

    lm_model_describe(m, &info);
    x->n_vocab = x->members->n_vocab = info.n_vocab;
    x->mixed = calloc(x->n_vocab, sizeof *x->mixed);
    for (size_t i = 0; i < x->n; i++)
        if (!(x->members[i].logp = calloc(x->n_vocab, sizeof *x->mixed)) || !x->mixed)
            return lm_fail_memory(e, "probabilities", x->n_vocab * sizeof *x->mixed);
    for (size_t i = 1; i < x->n; i++)
        LM_TRY(open_member(x, x->members + i, cli, run, m, least, e));
    return LM_OK;
}

/* ---- mixing ---- */

/* logp = logits - log sum exp logits; tokens that the model does not have are impossible. */
static void log_softmax(double *logp, const float *logits, uint32_t n, uint32_t most)
{
    double max = -INFINITY, sum = 0;

    for (uint32_t i = 0; i < n; i++)
        max = (double)logits[i] > max ? (double)logits[i] : max;
    for (uint32_t i = 0; i < n; i++)
        sum += exp((double)logits[i] - max);
    for (uint32_t i = 0; i < n; i++)
        logp[i] = (double)logits[i] - max - log(sum);
    for (uint32_t i = n; i < most; i++)
        logp[i] = -INFINITY;
}

/* Of one token, not normalised. `best`: of the most probable one of the first model. */
static double mix(const lm_ensembling *x, uint32_t token, double best)
{
    double sum = 0;

    if (x->rule == LM_ENSEMBLE_CONTRAST) {
        double a = x->members[0].logp[token], b = x->members[1].logp[token], w = x->members[1].weight;
        return a < best + log(0.1) || isinf(b) ? -INFINITY : (1 + w) * a - w * b;
    }
    for (size_t i = 0; i < x->n; i++) {
        double p = x->members[i].logp[token], w = x->members[i].weight;
        sum += x->rule == LM_ENSEMBLE_MEAN ? w * exp(p) : w * p;
    }
    return x->rule == LM_ENSEMBLE_MEAN ? log(sum) : sum;
}

static void mix_all(lm_ensembling *x, float *logits)
{
    double best = -INFINITY, max = -INFINITY, sum = 0;

    for (uint32_t i = 0; i < x->n_vocab; i++)
        best = x->members->logp[i] > best ? x->members->logp[i] : best;
    for (uint32_t i = 0; i < x->n_vocab; i++) {
        x->mixed[i] = mix(x, i, best);
        max = x->mixed[i] > max ? x->mixed[i] : max;
    }
    for (uint32_t i = 0; i < x->n_vocab; i++)
        sum += exp(x->mixed[i] - max);
    for (uint32_t i = 0; i < x->n_vocab; i++) {
        x->mixed[i] -= max + log(sum);
        logits[i] = (float)x->mixed[i];
    }
}

/* Have a member read what it has not read yet of the text; its logits after that. */
static lm_status catch_up(member *m, const lm_token *ids, size_t n, const float **logits, lm_error *e)
{
    size_t at = lm_engine_length(m->engine, 0), most = lm_engine_max_rows(m->engine), some = 0;
    lm_row *rows = calloc(most, sizeof *rows);
    lm_status status = rows ? LM_OK : lm_fail_memory(e, "rows", most * sizeof *rows);

    for (; status == LM_OK && at < n; at += some) {
        some = n - at < most ? n - at : most;
        for (size_t i = 0; i < some; i++)
            rows[i] = (lm_row){ .token = ids[at + i], .position = (uint32_t)(at + i), .logits = at + i + 1 == n };
        status = lm_engine_step(m->engine, rows, some, e);
    }
    free(rows);
    if (status != LM_OK)
        return lm_fail_in(e, m->path), status;
    *logits = lm_engine_logits(m->engine, some - 1);
    return LM_OK;
}

static void tell(lm_ensembling *x, lm_token id)
{
    if (!x->pending)
        return;
    x->pending = false;
    json_t *each = json_array();
    for (size_t i = 0; i < x->n; i++)
        json_array_append_new(each, json_real(isinf(x->members[i].logp[id]) ? -1e300 : x->members[i].logp[id]));
    json_array_append_new(x->tokens, json_pack("{s:i, s:f, s:o}", "id", id, "logprob", x->mixed[id], "members", each));
}

static lm_status mix_logits(void *arg, float *logits, uint32_t n_vocab, const lm_token *ids, size_t n, lm_error *e)
{
    lm_ensembling *x = arg;

    tell(x, ids[n - 1]);
    log_softmax(x->members->logp, logits, n_vocab, n_vocab);
    for (size_t i = 1; i < x->n; i++) {
        member *m = x->members + i;
        const float *own = NULL;
        LM_TRY(catch_up(m, ids, n, &own, e));
        log_softmax(m->logp, own, m->n_vocab, n_vocab);
    }
    mix_all(x, logits);
    x->pending = true;
    return x->next ? x->next(x->next_arg, logits, n_vocab, ids, n, e) : LM_OK;
}

void lm_ensembling_sequence(lm_ensembling *x, lm_sequence_options *o)
{
    x->next = o->logits;
    x->next_arg = o->logits_arg;
    o->logits = mix_logits;
    o->logits_arg = x;
}

/* ---- what is told ---- */

json_t *lm_ensembling_json(lm_ensembling *x, const lm_tokens *chosen)
{
    json_t *models = json_array();

    if (chosen->n)
        tell(x, chosen->ids[chosen->n - 1]);
    for (size_t i = 0; i < x->n; i++)
        json_array_append_new(models, json_pack("{s:s, s:f}", "model", x->members[i].path, "weight", x->members[i].weight));
    return json_pack("{s:s?, s:s, s:o, s:O}", "name", x->name, "rule", rule_words[x->rule], "models", models, "tokens", x->tokens);
}

void lm_ensembling_close(lm_ensembling *x)
{
    if (!x)
        return;
    for (size_t i = 0; i < x->n; i++) {
        lm_engine_free(x->members[i].engine);
        lm_model_close(x->members[i].model);
        free(x->members[i].logp);
    }
    free(x->mixed);
    json_decref(x->tokens);
    free(x);
}
