/* batch - continue several texts at once: every step of the engine takes one row of each sequence.
 *
 *   cc batch.c $(pkg-config --cflags --libs lamina) -o batch
 *   ./batch model.gguf 16 "The capital of France is" "Once upon a time" "1, 2, 3,"
 *
 * A row's logits do not depend on its company, so each text comes out as it would alone. */
#include <lamina/lamina.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONTEXT 1024

typedef struct sequence {
    lm_tokens prompt;
    lm_token  chosen[CONTEXT];
    uint32_t  n_chosen;
    bool      ended;
} sequence;

typedef struct batch {
    lm_model  *model;
    lm_engine *engine;
    uint32_t   n_vocab;
    uint32_t   n;                    /* sequences */
    sequence  *sequences;
    lm_row    *rows;                 /* of one step: n, or a piece of a prompt */
} batch;

static lm_token likeliest(const float *logits, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    return (lm_token)best;
}

static lm_status open_batch(batch *b, const char *path, char **texts, uint32_t n, lm_error *e)
{
    lm_engine_options options = { .context = CONTEXT, .sequences = n };
    lm_model_info info;
    lm_status status = lm_model_open(path, NULL, &b->model, e);
    if (status != LM_OK)
        return status;
    lm_model_describe(b->model, &info);
    b->n_vocab = info.n_vocab;
    if (options.context > info.context_length)
        options.context = info.context_length;
    status = lm_engine_new(b->model, &options, &b->engine, e);
    for (uint32_t i = 0; status == LM_OK && i < n; i++)
        status = lm_tokenize(lm_model_tokenizer(b->model), texts[i], strlen(texts[i]), LM_ADD_SPECIAL,
                             &b->sequences[i].prompt, e);
    return status;
}

/* Read a prompt except its last token: that one goes into the first common step, whose logits choose the next. */
static lm_status read_prompt(batch *b, uint32_t index, lm_error *e)
{
    const lm_tokens *prompt = &b->sequences[index].prompt;
    for (uint32_t done = 0; done + 1 < prompt->n;) {
        uint32_t n = 0;
        for (; n < lm_engine_max_rows(b->engine) && done + 1 < prompt->n; n++, done++)
            b->rows[n] = (lm_row){ .sequence = index, .token = prompt->ids[done], .position = done };
        lm_status status = lm_engine_step(b->engine, b->rows, n, e);
        if (status != LM_OK)
            return status;
    }
    return LM_OK;
}

/* One step for all that still run; *took says how many those are. */
static lm_status step(batch *b, uint32_t *took, lm_error *e)
{
    *took = 0;
    for (uint32_t i = 0; i < b->n; i++) {
        const sequence *s = &b->sequences[i];
        if (s->ended || s->prompt.n == 0)
            continue;
        b->rows[(*took)++] = (lm_row){
            .sequence = i,
            .token = s->n_chosen ? s->chosen[s->n_chosen - 1] : s->prompt.ids[s->prompt.n - 1],
            .position = (uint32_t)s->prompt.n - 1 + s->n_chosen,
            .logits = true,
        };
    }
    lm_status status = *took ? lm_engine_step(b->engine, b->rows, *took, e) : LM_OK;
    for (uint32_t r = 0; status == LM_OK && r < *took; r++) {
        sequence *s = &b->sequences[b->rows[r].sequence];
        lm_token next = likeliest(lm_engine_logits(b->engine, r), b->n_vocab);
        s->chosen[s->n_chosen++] = next;
        s->ended = lm_model_is_end(b->model, next) || s->prompt.n + s->n_chosen >= lm_engine_context(b->engine);
    }
    return status;
}

static lm_status print(const batch *b, const sequence *s, const char *prompt, lm_error *e)
{
    lm_text text = { 0 };
    lm_status status = lm_detokenize(lm_model_tokenizer(b->model), s->chosen, s->n_chosen, LM_SKIP_SPECIAL, &text, e);
    if (status == LM_OK)
        printf("%s%s\n", prompt, text.n ? text.data : "");
    lm_text_free(&text);
    return status;
}

static lm_status run(batch *b, const char *path, char **texts, uint32_t tokens, lm_error *e)
{
    lm_status status = open_batch(b, path, texts, b->n, e);
    if (status != LM_OK)
        return status;
    size_t most = lm_engine_max_rows(b->engine);
    b->rows = calloc(most > b->n ? most : b->n, sizeof *b->rows);
    if (!b->rows)
        return e->code = LM_NO_MEMORY;
    for (uint32_t i = 0; status == LM_OK && i < b->n; i++)
        status = read_prompt(b, i, e);
    for (uint32_t t = 0, took = 1; status == LM_OK && t < tokens && took > 0; t++)
        status = step(b, &took, e);
    for (uint32_t i = 0; status == LM_OK && i < b->n; i++)
        status = print(b, &b->sequences[i], texts[i], e);
    return status;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: %s MODEL TOKENS TEXT…\n", argv[0]);
        return 2;
    }
    lm_error e = { 0 };
    batch b = { .n = (uint32_t)argc - 3, .sequences = calloc((size_t)argc - 3, sizeof *b.sequences) };
    uint32_t tokens = (uint32_t)strtoul(argv[2], NULL, 10);
    lm_status status = b.sequences ? run(&b, argv[1], argv + 3, tokens, &e) : LM_NO_MEMORY;
    if (status != LM_OK) {
        char line[1024];
        fprintf(stderr, "error: %s\n", lm_error_text(&e, line, sizeof line));
    }
    for (uint32_t i = 0; b.sequences && i < b.n; i++)
        lm_tokens_free(&b.sequences[i].prompt);
    free(b.rows);
    free(b.sequences);
    lm_engine_free(b.engine);
    lm_model_close(b.model);
    return lm_status_exit(status);
}
