/* stream - several texts at once, each shown as it comes; the number of a text on standard input stops it.
 *
 *   cc stream.c $(pkg-config --cflags --libs lamina) -lpthread -o stream
 *   ./stream model.gguf 64 "The capital of France is" "Once upon a time" "1, 2, 3,"
 *
 * Every line is a piece of the text with the number before it. All are drawn with the same seed; what one of
 * them becomes does not change when another is stopped. */
#include <lamina/lamina.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct stream {
    lm_model       *model;
    lm_engine      *engine;
    uint32_t        n;
    lm_sampler    **samplers;
    lm_sequence   **sequences;
    lm_row         *rows;
    pthread_mutex_t lock;            /* of `closed` */
    bool            closed;          /* the sequences are gone */
} stream;

/* Another thread: lm_sequence_cancel is all that it may call. */
static void *listen_for_numbers(void *arg)
{
    stream *s = (stream *)arg;
    char line[64];
    for (ssize_t n; (n = read(STDIN_FILENO, line, sizeof line - 1)) > 0;) {
        line[n] = '\0';
        unsigned long which = strtoul(line, NULL, 10);
        pthread_mutex_lock(&s->lock);
        if (!s->closed && which >= 1 && which <= s->n)
            lm_sequence_cancel(s->sequences[which - 1]);
        pthread_mutex_unlock(&s->lock);
    }
    return NULL;
}

static lm_status open_stream(stream *s, const char *path, lm_error *e)
{
    lm_engine_options options = { .context = 1024, .sequences = s->n };
    lm_model_info info;
    lm_status status = lm_model_open(path, NULL, &s->model, e);
    if (status != LM_OK)
        return status;
    lm_model_describe(s->model, &info);
    if (options.context > info.context_length)
        options.context = info.context_length;
    status = lm_engine_new(s->model, &options, &s->engine, e);
    if (status != LM_OK)
        return status;
    s->rows = (lm_row *)calloc(lm_engine_max_rows(s->engine), sizeof *s->rows);
    return s->rows ? LM_OK : lm_fail_memory(e, "the rows", 0);
}

static lm_status begin(stream *s, uint32_t i, const char *text, int64_t tokens, lm_error *e)
{
    lm_sequence_options options = { .sequence = i, .draw = i, .max_tokens = tokens };
    lm_model_info info;
    lm_tokens prompt = { 0 };
    lm_model_describe(s->model, &info);
    lm_status status = lm_tokenize(lm_model_tokenizer(s->model), text, strlen(text), LM_ADD_SPECIAL, &prompt,
                                   e);
    if (status == LM_OK)
        status = lm_sampler_new(NULL, info.n_vocab, NULL, &s->samplers[i], e);
    if (status == LM_OK)
        status = lm_sequence_new(s->engine, s->samplers[i], &options, &s->sequences[i], e);
    if (status == LM_OK)
        status = lm_sequence_prompt(s->sequences[i], prompt.ids, prompt.n, 0, e);
    lm_tokens_free(&prompt);
    return status;
}

/* Newlines would end the line: they are shown as spaces. */
static void show(uint32_t i, const lm_event *event)
{
    if (event->kind == LM_EVENT_TEXT) {
        printf("%u: ", i + 1);
        for (size_t k = 0; k < event->size; k++)
            putchar(event->text[k] == '\n' ? ' ' : event->text[k]);
        putchar('\n');
    } else if (event->kind == LM_EVENT_END) {
        char why[1024];
        const char *failed = event->error ? lm_error_text(event->error, why, sizeof why) : "";
        printf("%u. %s%s%s\n", i + 1, lm_stop_word(event->stop), *failed ? ": " : "", failed);
    }
    fflush(stdout);
}

/* A prompt is read at most 64 tokens a step, so that nobody who writes waits long for one. */
static lm_status run(stream *s, lm_error *e)
{
    lm_batch step = { .rows = s->rows, .max_prompt = 64 };
    lm_status status = LM_OK;
    uint32_t running = s->n;
    while (status == LM_OK && running > 0) {
        status = lm_sequences_step(s->engine, s->sequences, s->n, &step, e);
        for (uint32_t i = 0; status == LM_OK && i < s->n; i++) {
            lm_event event;
            while (lm_sequence_event(s->sequences[i], &event)) {
                running -= event.kind == LM_EVENT_END;
                show(i, &event);
            }
        }
    }
    return status;
}

static void close_stream(stream *s)
{
    pthread_mutex_lock(&s->lock);
    s->closed = true;
    pthread_mutex_unlock(&s->lock);
    for (uint32_t i = 0; i < s->n; i++) {
        lm_sequence_free(s->sequences[i]);
        lm_sampler_free(s->samplers[i]);
    }
    free(s->sequences);
    free(s->samplers);
    free(s->rows);
    lm_engine_free(s->engine);
    lm_model_close(s->model);
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
    static stream s;                 /* the other thread looks at it to the end */
    lm_error e = { .offset = LM_NO_OFFSET };
    pthread_t listener;
    s.n = (uint32_t)argc - 3;
    s.sequences = (lm_sequence **)calloc(s.n, sizeof *s.sequences);
    s.samplers = (lm_sampler **)calloc(s.n, sizeof *s.samplers);
    pthread_mutex_init(&s.lock, NULL);

    lm_status status = s.sequences && s.samplers ? open_stream(&s, argv[1], &e)
                                                 : lm_fail_memory(&e, "the sequences", 0);
    for (uint32_t i = 0; status == LM_OK && i < s.n; i++)
        status = begin(&s, i, argv[3 + i], strtol(argv[2], NULL, 10), &e);
    if (status == LM_OK && pthread_create(&listener, NULL, listen_for_numbers, &s) == 0)
        pthread_detach(listener);
    if (status == LM_OK)
        status = run(&s, &e);
    close_stream(&s);
    return status == LM_OK ? 0 : fail(&e);
}
