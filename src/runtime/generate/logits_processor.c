/* logits_processor.c - a constraint, a reasoning budget and excluded end tokens as one logits hook. */
#include "lamina/logits.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

enum { MAX_WAIT = 4 };               /* tokens that a character may still need */

/* The state of reasoning that is counted. */
typedef enum reasoning_state { BEFORE, WITHIN, ENDING, PAST } reasoning_state;

struct lm_logits_processor {
    lm_constraint      *constraint;  /* NULL: none */
    const lm_tokenizer *t;           /* NULL: reasoning is not counted */
    const char *open, *close;        /* markers of its beginning and end */
    lm_tokens   ending;              /* tokens that end reasoning */
    lm_tokens   ends;                /* end tokens, excluded where another token is allowed; in order */
    uint64_t    max, used;
    size_t      n_ids, ended;        /* tokens seen; tokens of `ending` generated */
    reasoning_state state;
    bool        begun;               /* the prompt has been seen */
    lm_text     text;                /* the end of the output so far */
};

/* Set the markers, if the style has any, and the tokens that end reasoning. */
static lm_status count_reasoning(lm_logits_processor *p, const lm_logits_options *o, lm_error *e)
{
    const char *name = lm_answer_style_name(o->style);
    bool channels = name && strcmp(name, "harmony") == 0;
    const char *ending = channels ? "<|end|><|start|>assistant<|channel|>final<|message|>"
                                  : o->style->reasoning_end;

    if (!ending)
        return LM_OK;
    p->t     = o->tokenizer;
    p->max  = o->max_reasoning;
    p->open  = channels ? "<|channel|>analysis<|message|>" : o->style->reasoning;
    p->close = channels ? "<|end|>" : ending;
    p->state = o->in_reasoning ? WITHIN : BEFORE;
    return lm_tokenize(p->t, ending, strlen(ending), 0, &p->ending, e);
}

/* Set the end tokens of a model, in order. */
static lm_status find_ends(const lm_model *m, lm_tokens *out, lm_error *e)
{
    lm_model_info info;

    lm_model_describe(m, &info);
    out->ids = lm_alloc((info.n_vocab + 1) * sizeof *out->ids);
    if (!out->ids)
        return lm_fail_memory(e, "end tokens", info.n_vocab * sizeof *out->ids);
    for (uint32_t i = 0; i < info.n_vocab; i++)
        if (lm_model_is_end(m, (lm_token)i))
            out->ids[out->n++] = (lm_token)i;
    return LM_OK;
}

static lm_status make(const lm_logits_options *o, lm_logits_processor **out, lm_error *e)
{
    lm_logits_processor *p = lm_alloc_zero(1, sizeof *p);
    lm_status status = LM_OK;

    if (!p)
        return lm_fail_memory(e, "a processor of logits", sizeof *p);
    if (o->budget)
        status = count_reasoning(p, o, e);
    if (status == LM_OK && o->endless)
        status = find_ends(o->endless, &p->ends, e);
    if (status == LM_OK && (o->constraint || p->t || p->ends.n)) {
        p->constraint = o->constraint;
        *out = p;
    } else {
        lm_logits_free(p);
    }
    return status;
}

lm_status lm_logits_new(const lm_logits_options *o, lm_logits_processor **out, lm_error *e)
{
    lm_status status = LM_OK;

    LM_REQUIRE(e, o && out);
    *out = NULL;
    if (lm_any_reserved(o->reserved, sizeof o->reserved))
        status = lm_fail_reserved(e, __func__);
    else if (o->budget && (!o->style || !o->tokenizer))
        status = lm_fail_null(e, __func__);
    else
        status = make(o, out, e);
    if (status != LM_OK)
        lm_constraint_free(o->constraint);
    return status;
}

void lm_logits_free(void *processor)
{
    lm_logits_processor *p = processor;

    if (!p)
        return;
    lm_constraint_free(p->constraint);
    lm_tokens_free(&p->ending);
    lm_tokens_free(&p->ends);
    lm_text_free(&p->text);
    lm_free(p);
}

void lm_logits_into(lm_logits_processor *p, lm_sequence_options *o)
{
    if (!p || !o)
        return;
    o->logits         = lm_logits_process;
    o->logits_arg     = p;
    o->logits_release = lm_logits_free;
}

/* ---- counting reasoning ---- */

static const char *without_space(const lm_text *text)
{
    const char *s = text->data ? text->data : "";

    return s + strspn(s, " \t\r\n");
}

/* Check whether reasoning has begun in the output so far, or can no longer begin. */
static void look_for_open(lm_logits_processor *p)
{
    const char *s = without_space(&p->text);
    size_t n = strlen(s), size = strlen(p->open);

    if (strncmp(s, p->open, n < size ? n : size) != 0)
        p->state = PAST;
    else if (n >= size) {
        p->state = WITHIN;
        lm_text_clear(&p->text);
    }
}

static void look_for_close(lm_logits_processor *p)
{
    size_t keep = strlen(p->close) - 1;
    char end[64];

    if (p->text.data && strstr(p->text.data, p->close))
        p->state = PAST;
    else if (p->text.size > keep && keep < sizeof end) {
        memcpy(end, p->text.data + p->text.size - keep, keep);
        lm_text_clear(&p->text);
        lm_text_add(&p->text, end, keep);
    }
}

static lm_status see(lm_logits_processor *p, lm_token id, lm_error *e)
{
    if (p->state == ENDING && ++p->ended == p->ending.n)
        p->state = PAST;
    if (p->state == PAST || p->state == ENDING)
        return LM_OK;
    LM_TRY(lm_detokenize(p->t, &id, 1, 0, &p->text, e));
    if (p->state == BEFORE) {
        look_for_open(p);
    } else {
        p->used++;
        look_for_close(p);
    }
    return p->text.failed ? lm_fail_memory(e, "reasoning", p->text.size) : LM_OK;
}

/* Return whether the last tokens form whole characters; true in any case MAX_WAIT tokens past the limit. */
static bool is_whole(const lm_logits_processor *p, const lm_token *ids, size_t n)
{
    size_t some = p->used < MAX_WAIT ? (size_t)p->used : MAX_WAIT;
    lm_text text = { 0 };
    bool whole;

    if (p->used >= p->max + MAX_WAIT)
        return true;
    lm_detokenize(p->t, ids + n - some, some, 0, &text, NULL);
    whole = text.size < 3 || memcmp(text.data + text.size - 3, "\xEF\xBF\xBD", 3) != 0;
    lm_text_free(&text);
    return whole;
}

/* Allow only the next token of `ending`. */
static void force(lm_logits_processor *p, float *logits, uint32_t n_vocab)
{
    lm_token next = p->ending.ids[p->ended];

    if (next < 0 || (uint32_t)next >= n_vocab || (isinf(logits[next]) && logits[next] < 0)) {
        p->state = PAST;                                 /* the constraint does not allow the marker:
                                                            reasoning continues */
        return;
    }
    for (uint32_t i = 0; i < n_vocab; i++)
        if (i != (uint32_t)next)
            logits[i] = -INFINITY;
}

static lm_status limit_reasoning(lm_logits_processor *p, float *logits, uint32_t n_vocab, const lm_token *ids,
                                 size_t n, lm_error *e)
{
    if (!p->begun) {
        p->begun = true;
        p->n_ids = n;
    }
    for (; p->n_ids < n; p->n_ids++)
        LM_TRY(see(p, ids[p->n_ids], e));
    if (p->state == WITHIN && p->used >= p->max && is_whole(p, ids, n))
        p->state = ENDING;
    if (p->state == ENDING)
        force(p, logits, n_vocab);
    return LM_OK;
}

/* Exclude end tokens, unless no other token is allowed: a constraint that is complete ends the sequence. */
static void exclude_ends(const lm_logits_processor *p, float *logits, uint32_t n_vocab)
{
    size_t at = 0;

    for (uint32_t i = 0; i < n_vocab; i++) {
        if (at < p->ends.n && p->ends.ids[at] == (lm_token)i) {
            at++;
        } else if (!(isinf(logits[i]) && logits[i] < 0)) {
            for (at = 0; at < p->ends.n && (uint32_t)p->ends.ids[at] < n_vocab; at++)
                logits[p->ends.ids[at]] = -INFINITY;
            return;
        }
    }
}

lm_status lm_logits_process(void *processor, float *logits, uint32_t n_vocab, const lm_token *ids, size_t n,
                            lm_error *e)
{
    lm_logits_processor *p = processor;

    LM_REQUIRE(e, p && logits && ids);
    if (p->constraint)
        LM_TRY(lm_constraint_logits(p->constraint, logits, n_vocab, ids, n, e));
    if (p->t)
        LM_TRY(limit_reasoning(p, logits, n_vocab, ids, n, e));
    if (p->ends.n)
        exclude_ends(p, logits, n_vocab);
    return LM_OK;
}

/* ---- the vocabulary of a model ---- */

lm_status lm_model_vocabulary(const lm_model *m, lm_vocabulary **out, lm_error *e)
{
    lm_model_info info;
    lm_token     *ends;
    size_t        n = 0;

    LM_REQUIRE(e, m && out);
    if (!lm_model_tokenizer(m))
        return lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "the model has no tokenizer");
    lm_model_describe(m, &info);
    ends = lm_alloc((info.n_vocab + 1) * sizeof *ends);
    if (!ends)
        return lm_fail_memory(e, "the vocabulary", info.n_vocab * sizeof *ends);
    for (uint32_t i = 0; i < info.n_vocab; i++)
        if (lm_model_is_end(m, (lm_token)i))
            ends[n++] = (lm_token)i;
    lm_status status = lm_vocabulary_new(lm_model_tokenizer(m), info.n_vocab, ends, n, out, e);
    lm_free(ends);
    return status;
}
