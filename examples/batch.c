/* batch - continue several texts at once: every step of the engine takes the next rows of each.
 *
 *   cc batch.c $(pkg-config --cflags --libs lamina) -o batch
 *   ./batch model.gguf 16 "The capital of France is" "Once upon a time" "1, 2, 3,"
 *
 * What a text becomes does not depend on its company: each comes out as it would alone. */
#include <lamina/lamina.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONTEXT 1024

typedef struct batch {
    lm_model     *model;
    lm_engine    *engine;
    uint32_t      n;                 /* texts */
    char        **texts;
    lm_sampler  **samplers;          /* one for each: it remembers what was said */
    lm_sequence **sequences;
    lm_row       *rows;              /* of a step */
} batch;

static lm_status open_batch(batch *b, const char *path, lm_error *e)
{
    lm_engine_options options = { .context = CONTEXT, .sequences = b->n };
    lm_model_info info;
    lm_status status = lm_model_open(path, NULL, &b->model, e);
    if (status != LM_OK)
        return status;
    lm_model_describe(b->model, &info);
    if (options.context > info.context_length)
        options.context = info.context_length;
    status = lm_engine_new(b->model, &options, &b->engine, e);
    if (status != LM_OK)
        return status;
    b->rows = (lm_row *)calloc(lm_engine_max_rows(b->engine), sizeof *b->rows);
    return b->rows ? LM_OK : lm_fail_memory(e, "the rows", 0);
}

static lm_status begin(batch *b, uint32_t i, uint32_t tokens, lm_error *e)
{
    lm_sequence_options options = { .sequence = i, .max_tokens = tokens };
    lm_sampler_options greedy = { .greedy = true };
    lm_model_info info;
    lm_tokens prompt = { 0 };
    lm_model_describe(b->model, &info);
    lm_status status = lm_tokenize(lm_model_tokenizer(b->model), b->texts[i], strlen(b->texts[i]),
                                   LM_ADD_SPECIAL, &prompt, e);
    if (status == LM_OK)
        status = lm_sampler_new(&greedy, info.n_vocab, NULL, &b->samplers[i], e);
    if (status == LM_OK)
        status = lm_sequence_new(b->engine, b->samplers[i], &options, &b->sequences[i], e);
    if (status == LM_OK)
        status = lm_sequence_prompt(b->sequences[i], prompt.ids, prompt.n, 0, e);
    lm_tokens_free(&prompt);
    return status;
}

/* Steps until all have ended. */
static lm_status run(batch *b, lm_error *e)
{
    lm_batch step = { .rows = b->rows };
    lm_status status = LM_OK;
    uint32_t running = b->n;
    while (status == LM_OK && running > 0) {
        status = lm_sequences_step(b->engine, b->sequences, b->n, &step, e);
        for (uint32_t i = 0; status == LM_OK && i < b->n; i++) {
            lm_event event;
            while (lm_sequence_event(b->sequences[i], &event)) {
                running -= event.kind == LM_EVENT_END;
                if (event.kind == LM_EVENT_END && event.stop == LM_STOP_FAILED) {
                    *e = *event.error;
                    status = event.error->code;
                }
            }
        }
    }
    return status;
}

static lm_status print(const batch *b, uint32_t i, lm_error *e)
{
    lm_sequence_info info;
    lm_text text = { 0 };
    lm_sequence_describe(b->sequences[i], &info);
    const lm_token *chosen = lm_sequence_ids(b->sequences[i], NULL) + info.n_prompt;
    lm_status status = lm_detokenize(lm_model_tokenizer(b->model), chosen, info.n_tokens, LM_SKIP_SPECIAL,
                                     &text, e);
    if (status == LM_OK)
        printf("%s%s\n", b->texts[i], text.size ? text.data : "");
    lm_text_free(&text);
    return status;
}

static void close_batch(batch *b)
{
    for (uint32_t i = 0; i < b->n; i++) {
        lm_sequence_free(b->sequences[i]);
        lm_sampler_free(b->samplers[i]);
    }
    free(b->sequences);
    free(b->samplers);
    free(b->rows);
    lm_engine_free(b->engine);
    lm_model_close(b->model);
}

static int fail(const lm_error *e)
{
    char line[1024];
    fprintf(stderr, "error: %s\n", lm_error_text(e, line, sizeof line));
    if (e->hint[0])
        fprintf(stderr, "hint: %s\n", e->hint);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: %s MODEL TOKENS TEXT…\n", argv[0]);
        return 2;
    }
    lm_error e = { .offset = LM_NO_OFFSET };
    batch b = { NULL };
    b.n = (uint32_t)argc - 3;
    b.texts = argv + 3;
    b.sequences = (lm_sequence **)calloc(b.n, sizeof *b.sequences);
    b.samplers = (lm_sampler **)calloc(b.n, sizeof *b.samplers);
    uint32_t tokens = (uint32_t)strtoul(argv[2], NULL, 10);

    lm_status status = b.sequences && b.samplers ? open_batch(&b, argv[1], &e)
                                                 : lm_fail_memory(&e, "the sequences", 0);
    for (uint32_t i = 0; status == LM_OK && i < b.n; i++)
        status = begin(&b, i, tokens, &e);
    if (status == LM_OK)
        status = run(&b, &e);
    for (uint32_t i = 0; status == LM_OK && i < b.n; i++)
        status = print(&b, i, &e);
    close_batch(&b);
    return status == LM_OK ? 0 : fail(&e);
}
