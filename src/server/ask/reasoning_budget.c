#include "server/ask/reasoning_budget.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WAIT = 4 };              /* tokens that a character may still take */

typedef enum budget_state { BEFORE, WITHIN, ENDING, PAST } budget_state;

struct lm_reasoning_budget {
    const lm_tokenizer *t;
    lm_constraint *inner;
    const char   *open, *close;      /* as they come in the text */
    lm_tokens     ending;            /* what ends it */
    uint64_t      most, used;
    size_t        n_ids, ended;      /* seen; of `ending` */
    budget_state  state;
    bool          begun;             /* the prompt has been seen */
    lm_text       text;              /* the end of what was written */
};

lm_status lm_reasoning_budget_new(const lm_answer_style *s, const lm_tokenizer *t, bool begun, uint64_t most,
                                  lm_constraint *inner, lm_reasoning_budget **out, lm_error *e)
{
    const char *name = lm_answer_style_name(s);
    bool channels = name && strcmp(name, "harmony") == 0;
    const char *ending = channels ? "<|end|><|start|>assistant<|channel|>final<|message|>" : s->reasoning_end;
    lm_reasoning_budget *b;
    lm_status status;

    *out = NULL;
    if (!ending)
        return LM_OK;
    if (!(b = calloc(1, sizeof *b)))
        return lm_fail_memory(e, "a budget", sizeof *b);
    *b = (lm_reasoning_budget){ .t = t, .inner = inner, .most = most, .open = channels ? "<|channel|>analysis<|message|>" : s->reasoning,
                      .close = channels ? "<|end|>" : ending, .state = begun ? WITHIN : BEFORE };
    status = lm_tokenize(t, ending, strlen(ending), 0, &b->ending, e);
    if (status == LM_OK)
        *out = b;
    else
        lm_reasoning_budget_free(b);
    return status;
}

void lm_reasoning_budget_free(lm_reasoning_budget *b)
{
    if (!b)
        return;
    lm_tokens_free(&b->ending);
    lm_text_free(&b->text);
    free(b);
}

static const char *without_space(const lm_text *text)
{
    const char *s = text->data ? text->data : "";

    return s + strspn(s, " \t\r\n");
}

/* Has reasoning begun with the text so far, or can it not begin any more? */
static void look_for_open(lm_reasoning_budget *b)
{
    const char *s = without_space(&b->text);
    size_t n = strlen(s), size = strlen(b->open);

    if (strncmp(s, b->open, n < size ? n : size) != 0)
        b->state = PAST;
    else if (n >= size) {
        b->state = WITHIN;
        lm_text_clear(&b->text);
    }
}

static void look_for_close(lm_reasoning_budget *b)
{
    size_t keep = strlen(b->close) - 1;
    char end[64];

    if (b->text.data && strstr(b->text.data, b->close))
        b->state = PAST;
    else if (b->text.size > keep && keep < sizeof end) {
        memcpy(end, b->text.data + b->text.size - keep, keep);
        lm_text_clear(&b->text);
        lm_text_add(&b->text, end, keep);
    }
}

static lm_status see(lm_reasoning_budget *b, lm_token id, lm_error *e)
{
    if (b->state == ENDING && ++b->ended == b->ending.n)
        b->state = PAST;
    if (b->state == PAST || b->state == ENDING)
        return LM_OK;
    LM_TRY(lm_detokenize(b->t, &id, 1, 0, &b->text, e));
    if (b->state == BEFORE) {
        look_for_open(b);
    } else {
        b->used++;
        look_for_close(b);
    }
    return b->text.failed ? lm_fail_memory(e, "reasoning", b->text.size) : LM_OK;
}

/* The last tokens make whole characters. */
static bool is_whole(const lm_reasoning_budget *b, const lm_token *ids, size_t n)
{
    size_t some = b->used < MOST_WAIT ? (size_t)b->used : MOST_WAIT;
    lm_text text = { 0 };
    bool whole;

    if (b->used >= b->most + MOST_WAIT)
        return true;
    lm_detokenize(b->t, ids + n - some, some, 0, &text, NULL);
    whole = text.size < 3 || memcmp(text.data + text.size - 3, "\xEF\xBF\xBD", 3) != 0;
    lm_text_free(&text);
    return whole;
}

lm_status lm_reasoning_budget_logits(void *budget, float *logits, uint32_t n_vocab, const lm_token *ids, size_t n, lm_error *e)
{
    lm_reasoning_budget *b = budget;
    lm_token next;

    if (b->inner)
        LM_TRY(lm_constraint_logits(b->inner, logits, n_vocab, ids, n, e));
    if (!b->begun) {
        b->begun = true;
        b->n_ids = n;
    }
    for (; b->n_ids < n; b->n_ids++)
        LM_TRY(see(b, ids[b->n_ids], e));
    if (b->state == WITHIN && b->used >= b->most && is_whole(b, ids, n))
        b->state = ENDING;
    if (b->state != ENDING)
        return LM_OK;
    next = b->ending.ids[b->ended];
    if (next < 0 || (uint32_t)next >= n_vocab || (isinf(logits[next]) && logits[next] < 0)) {
        b->state = PAST;                                 /* what the answer must fit ends in another way */
        return LM_OK;
    }
    for (uint32_t i = 0; i < n_vocab; i++)
        if (i != (uint32_t)next)
            logits[i] = -INFINITY;
    return LM_OK;
}
