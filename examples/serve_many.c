/* serve_many - every line of standard input is continued, many at once on one engine, as a server would: the
 * texts in the order in which they end.
 *
 *   cc serve_many.c $(pkg-config --cflags --libs lamina) -o serve_many
 *   ./serve_many model.gguf 32 128 <prompts.txt
 *
 * Texts that begin alike are read once: what the engine still has of one is shared by the next. What a line
 * becomes does not depend on the others, nor on how many are written at once. How fast it was is told on
 * standard error. */
#define _POSIX_C_SOURCE 200809L      /* getline, clock_gettime */
#include <lamina/lamina.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct job {
    lm_reply *reply;                 /* NULL once it has ended */
    lm_text   text;
} job;

typedef struct server {
    lm_model      *model;
    lm_engine     *engine;
    lm_schedule   *schedule;
    job           *jobs;
    struct pollfd *polled;           /* of each job */
    size_t         n, capacity, running;
} server;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static lm_status open_server(server *s, const char *path, uint32_t slots, lm_error *e)
{
    lm_model_info info;
    lm_status status = lm_model_open(path, NULL, &s->model, e);
    if (status != LM_OK)
        return status;
    lm_model_describe(s->model, &info);
    lm_engine_options options = lm_engine_defaults();
    options.context = info.context_length < 2048 ? info.context_length : 2048;
    options.sequences = slots;
    status = lm_engine_new(s->model, &options, &s->engine, e);
    return status == LM_OK ? lm_schedule_new(s->engine, NULL, &s->schedule, e) : status;
}

static lm_status grow(server *s, lm_error *e)
{
    if (s->n < s->capacity)
        return LM_OK;
    s->capacity = s->capacity ? 2 * s->capacity : 64;
    job *jobs = (job *)realloc(s->jobs, s->capacity * sizeof *jobs);
    if (jobs)
        s->jobs = jobs;
    struct pollfd *polled = jobs ? (struct pollfd *)realloc(s->polled, s->capacity * sizeof *polled) : NULL;
    if (!polled)
        return lm_fail_memory(e, "the texts", s->capacity * sizeof *jobs);
    s->polled = polled;
    return LM_OK;
}

static lm_status submit(server *s, const char *line, int64_t tokens, lm_error *e)
{
    lm_tokens prompt = { 0 };
    lm_request request;
    lm_status status = grow(s, e);
    job x;
    memset(&request, 0, sizeof request);
    memset(&x, 0, sizeof x);
    if (status == LM_OK)
        status = lm_tokenize(lm_model_tokenizer(s->model), line, strlen(line), LM_ADD_SPECIAL, &prompt, e);
    request.prompt = prompt.ids;
    request.n_prompt = prompt.n;
    request.sequence = lm_sequence_defaults();
    request.sequence.max_tokens = tokens;
    if (status == LM_OK)
        status = lm_schedule_submit(s->schedule, &request, &x.reply, e);
    if (status == LM_OK) {
        s->polled[s->n].fd = lm_reply_fd(x.reply);
        s->polled[s->n].events = POLLIN;
        s->jobs[s->n++] = x;
        s->running++;
    }
    lm_tokens_free(&prompt);
    return status;
}

/* All that it has to tell; a text is shown when it is whole. */
static void listen_to(server *s, size_t i)
{
    job *x = &s->jobs[i];
    lm_reply_event event;
    while (lm_reply_next(x->reply, &event)) {
        if (event.event.kind == LM_EVENT_TEXT)
            lm_text_add(&x->text, event.event.text, event.event.size);
        if (event.event.kind != LM_EVENT_END)
            continue;
        printf("%zu:", i + 1);
        for (size_t k = 0; k < x->text.size; k++)
            putchar(x->text.data[k] == '\n' ? ' ' : x->text.data[k]);
        char why[1024];
        if (event.event.error)
            printf(" (%s)", lm_error_text(event.event.error, why, sizeof why));
        putchar('\n');
        fflush(stdout);
        lm_text_free(&x->text);
        lm_reply_free(x->reply);
        x->reply = NULL;
        s->polled[i].fd = -1;
        s->running--;
        return;
    }
}

static lm_status wait_for_some(server *s, lm_error *e)
{
    while (poll(s->polled, (nfds_t)s->n, -1) < 0)
        if (errno != EINTR)
            return lm_fail_errno(e, NULL, "cannot wait");
    for (size_t i = 0; i < s->n; i++)
        if (s->jobs[i].reply && s->polled[i].revents)
            listen_to(s, i);
    return LM_OK;
}

/* When the queue is full some texts are waited for. */
static lm_status run(server *s, int64_t tokens, lm_error *e)
{
    char *line = NULL;
    size_t size = 0;
    lm_status status = LM_OK;
    for (ssize_t n; status == LM_OK && (n = getline(&line, &size, stdin)) > 0;) {
        if (line[n - 1] == '\n')
            line[n - 1] = '\0';
        while ((status = submit(s, line, tokens, e)) == LM_NO_FIT && s->running > 0)
            if ((status = wait_for_some(s, e)) != LM_OK)
                break;
    }
    free(line);
    while (status == LM_OK && s->running > 0)
        status = wait_for_some(s, e);
    return status;
}

static void tell_speed(const server *s, double took)
{
    lm_schedule_statistics t;
    lm_schedule_describe(s->schedule, &t);
    fprintf(stderr,
            "%zu texts, %llu tokens of prompts (%llu of them cached), %llu tokens written: %.1f a second\n",
            s->n, (unsigned long long)t.prompt_tokens, (unsigned long long)t.cached_tokens,
            (unsigned long long)t.tokens, (double)t.tokens / took);
}

static void close_server(server *s)
{
    for (size_t i = 0; i < s->n; i++) {
        lm_reply_free(s->jobs[i].reply);
        lm_text_free(&s->jobs[i].text);
    }
    lm_schedule_free(s->schedule);
    lm_engine_free(s->engine);
    lm_model_close(s->model);
    free(s->jobs);
    free(s->polled);
}

int main(int argc, char **argv)
{
    if (argc != 4 || strtol(argv[2], NULL, 10) < 1) {
        fprintf(stderr, "usage: %s MODEL AT_ONCE TOKENS <LINES\n", argv[0]);
        return 2;
    }
    server s;
    lm_error e;
    char line[1024];
    memset(&s, 0, sizeof s);
    lm_status status = open_server(&s, argv[1], (uint32_t)strtol(argv[2], NULL, 10), &e);
    double from = seconds();
    if (status == LM_OK)
        status = run(&s, strtol(argv[3], NULL, 10), &e);
    if (status == LM_OK)
        tell_speed(&s, seconds() - from);
    else
        fprintf(stderr, "error: %s\n", lm_error_text(&e, line, sizeof line));
    close_server(&s);
    return status != LM_OK;
}
