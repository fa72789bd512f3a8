/* sampling.c - the flags of samplers, and the options that they set.
 *
 * lm_sampling_options draws the seed if none is given; biases and sequence breakers are lists in the store of
 * the command. */
#include "cli/base/sampling.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define S(field) offsetof(lm_sampling_flags, field)

const lm_flag lm_sampling_flag_table[] = {
    { "--seed", "-s", LM_FLAG_U64, S(o.seed), "N",
      "random seed; the same seed gives the same text; -1: pick one (-1)", 0, 0, NULL },
    { "--temp", "--temperature", LM_FLAG_FLOAT, S(o.temperature), "X",
      "sampling temperature; 0: greedy (0.8)", 0, 0, NULL },
    { "--top-k", NULL, LM_FLAG_INT, S(o.top_k), "N",
      "sample from the N most probable tokens; 0: all (40)", 0, 0, NULL },
    { "--top-p", NULL, LM_FLAG_FLOAT, S(o.top_p), "X",
      "nucleus sampling: smallest set of tokens with total probability X; 1: off (0.95)", 0, 0, NULL },
    { "--min-p", NULL, LM_FLAG_FLOAT, S(o.min_p), "X",
      "minimum probability relative to the most probable token; 0: off (0.05)", 0, 0, NULL },
    { "--typical", "--typical-p", LM_FLAG_FLOAT, S(o.typical_p), "X",
      "locally typical sampling, parameter p; 1: off (1)", 0, 0, NULL },
    { "--top-nsigma", "--top-n-sigma", LM_FLAG_FLOAT, S(o.top_n_sigma), "X",
      "keep logits within X standard deviations of the maximum; -1: off (-1)", 0, 0, NULL },
    { "--xtc-probability", NULL, LM_FLAG_FLOAT, S(o.xtc_probability), "X",
      "XTC: probability of excluding the top choices; 0: off (0)", 0, 0, NULL },
    { "--xtc-threshold", NULL, LM_FLAG_FLOAT, S(o.xtc_threshold), "X",
      "XTC: minimum probability of a top choice (0.1)", 0, 0, NULL },
    { "--dynatemp-range", NULL, LM_FLAG_FLOAT, S(o.dynatemp_range), "X",
      "dynamic temperature: range around --temp; 0: off (0)", 0, 0, NULL },
    { "--dynatemp-exp", "--dynatemp-exponent", LM_FLAG_FLOAT, S(o.dynatemp_exponent), "X",
      "dynamic temperature: exponent (1)", 0, 0, NULL },
    { "--repeat-penalty", NULL, LM_FLAG_FLOAT, S(o.repeat_penalty), "X",
      "penalty for tokens already in the text; 1: off (1)", 0, 0, NULL },
    { "--presence-penalty", NULL, LM_FLAG_FLOAT, S(o.presence_penalty), "X",
      "penalty added once per token already in the text; 0: off (0)", 0, 0, NULL },
    { "--frequency-penalty", NULL, LM_FLAG_FLOAT, S(o.frequency_penalty), "X",
      "penalty added per occurrence of a token; 0: off (0)", 0, 0, NULL },
    { "--repeat-last-n", NULL, LM_FLAG_INT, S(o.repeat_last_n), "N",
      "last N tokens to penalise; -1: all (64)", 0, 0, NULL },
    { "--dry-multiplier", NULL, LM_FLAG_FLOAT, S(o.dry_multiplier), "X",
      "DRY: penalty for repeated sequences; 0: off (0)", 0, 0, NULL },
    { "--dry-base", NULL, LM_FLAG_FLOAT, S(o.dry_base), "X",
      "DRY: base of the exponential growth (1.75)", 0, 0, NULL },
    { "--dry-allowed-length", NULL, LM_FLAG_INT, S(o.dry_allowed_length), "N",
      "DRY: longest repetition without penalty (2)", 0, 0, NULL },
    { "--dry-penalty-last-n", NULL, LM_FLAG_INT, S(o.dry_penalty_last_n), "N",
      "DRY: last N tokens to search; -1: all (-1)", 0, 0, NULL },
    { "--dry-sequence-breaker", NULL, LM_FLAG_LIST, S(breakers), "TEXT",
      "DRY: sequence breaker, replaces the defaults; \"none\": no breakers", 0, 0, NULL },
    { "--mirostat", NULL, LM_FLAG_INT, S(o.mirostat), "0|2",
      "Mirostat: 0: off, 2: Mirostat 2.0 in place of top-k, top-p and the like (0)", 0, 0, NULL },
    { "--mirostat-ent", "--mirostat-tau", LM_FLAG_FLOAT, S(o.mirostat_tau), "X",
      "Mirostat: target entropy, tau (5)", 0, 0, NULL },
    { "--mirostat-lr", "--mirostat-eta", LM_FLAG_FLOAT, S(o.mirostat_eta), "X",
      "Mirostat: learning rate, eta (0.1)", 0, 0, NULL },
    { "--min-keep", NULL, LM_FLAG_COUNT, S(o.min_keep), "N",
      "minimum number of tokens that samplers keep (0)", 0, 0, NULL },
    { "--samplers", NULL, LM_FLAG_TEXT, S(o.order), "LIST",
      "samplers in order (penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature)", 0, 0, NULL },
    { "--logit-bias", "-l", LM_FLAG_LIST, S(bias), "ID+BIAS",
      "bias added to a token's logit: 15043+1, 15043-1, 15043-inf", -1, 0, NULL },
    { "--ignore-eos", NULL, LM_FLAG_SWITCH, S(ignore_eos), NULL,
      "never choose an end-of-text token, unless a constraint allows nothing else", 0, 0, NULL },
    { 0 },
};

void lm_sampling_defaults(lm_sampling_flags *f)
{
    *f = (lm_sampling_flags){ .o = lm_sampler_defaults() };
    f->o.seed = UINT64_MAX;
}

void lm_sampling_model(const lm_cli *cli, lm_sampling_flags *f, const lm_model *m)
{
    const lm_sampler_options given = f->o;

    if (!lm_model_sampling(m, &f->o))
        return;
    for (const lm_flag *row = lm_sampling_flag_table; row->name; row++) {
        bool number = row->kind == LM_FLAG_FLOAT || row->kind == LM_FLAG_INT;

        for (size_t i = 0; number && i < cli->n_given; i++)
            if (cli->given[i] == row)    /* floats and ints have the same size */
                memcpy((char *)&f->o + row->offset, (const char *)&given + row->offset, sizeof(float));
    }
}

/* Read "15043+1.5", "15043-inf" or "15043:-3". */
static lm_status read_bias(const char *text, lm_logit_bias *out, lm_error *e)
{
    char *at, *end;
    long id = strtol(text, &at, 10);
    float bias;

    if (at == text || id < 0 || id > INT32_MAX || !*at)
        return lm_fail(e, LM_USAGE, "--logit-bias", LM_NO_OFFSET, "\"%s\" is not ID+BIAS", text);
    at += *at == ':';
    bias = strcmp(at, "false") == 0 ? -INFINITY : strtof(at, &end);
    if (strcmp(at, "false") != 0 && (end == at || *end))
        return lm_fail(e, LM_USAGE, "--logit-bias", LM_NO_OFFSET, "\"%s\" is not ID+BIAS", text);
    *out = (lm_logit_bias){ (lm_token)id, bias };
    return LM_OK;
}

static lm_status read_biases(lm_cli *cli, const lm_sampling_flags *f, lm_sampler_options *out, lm_error *e)
{
    lm_logit_bias *list;

    if (f->bias.n == 0)
        return LM_OK;
    list = lm_store_new(&cli->store, f->bias.n, lm_logit_bias);
    if (!list)
        return lm_fail_memory(e, "logit biases", f->bias.n * sizeof *list);
    for (size_t i = 0; i < f->bias.n; i++)
        LM_TRY(read_bias(f->bias.items[i], &list[i], e));
    out->bias = list;
    out->n_bias = f->bias.n;
    return LM_OK;
}

lm_status lm_sampling_options(lm_cli *cli, lm_sampling_flags *f, lm_sampler_options *out, lm_error *e)
{
    static const char *const none[] = { NULL };

    if (f->o.seed != UINT64_MAX && f->o.seed > INT64_MAX)
        return lm_fail(e, LM_USAGE, "--seed", LM_NO_OFFSET, "%" PRIu64 "; at most %" PRId64, f->o.seed,
                       INT64_MAX);
    if (f->o.seed == UINT64_MAX) {
        uint32_t seed = 0;
        if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
            return lm_fail(e, LM_IO, "getrandom", LM_NO_OFFSET, "%s", strerror(errno));
        /* 32 bits, which every JSON reader represents exactly */
        f->o.seed = seed;
    }
    LM_TRY(lm_sampler_check(&f->o, e));
    *out = f->o;
    if (f->breakers.n)
        out->dry_breakers = strcmp(f->breakers.items[0], "none") == 0 ? none : f->breakers.items;
    return read_biases(cli, f, out, e);
}
