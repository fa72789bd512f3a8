/* chat - a conversation through the model's own chat template; a message a line, until the end of standard input.
 *
 *   cc chat.c $(pkg-config --cflags --libs lamina) -o chat
 *   ./chat model.gguf 128
 *
 * The whole conversation is rendered for every answer. What the engine has read of it is not read again. */
#define _POSIX_C_SOURCE 200809L      /* getline */
#include <lamina/lamina.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONTEXT 4096

typedef struct chat {
    lm_model    *model;
    lm_engine   *engine;
    lm_sampler  *sampler;
    lm_template *form;
    lm_text      messages;           /* JSON objects with commas between them */
    lm_tokens    held;               /* tokens whose keys and values the engine holds */
} chat;

/* ---- the conversation as JSON ---- */

static void add(chat *c, const char *role, const char *text, size_t n)
{
    lm_text_printf(&c->messages, "%s{\"role\":\"%s\",\"content\":", c->messages.size ? "," : "", role);
    lm_text_add_json(&c->messages, text ? text : "", n);
    lm_text_add_char(&c->messages, '}');
}

static void add_special(lm_text *out, const char *name, const lm_tokenizer *t, lm_token id)
{
    size_t n = 0;
    const char *piece = id >= 0 ? lm_tokenizer_piece(t, id, &n) : NULL;
    lm_text_printf(out, "\"%s\":", name);
    lm_text_add_json(out, piece ? piece : "", n);
    lm_text_add_char(out, ',');
}

/* What transformers hands to a template, rendered; the template's own tokens are special, what messages spell is text. */
static lm_status render(const chat *c, lm_tokens *out, lm_error *e)
{
    const lm_tokenizer *t = lm_model_tokenizer(c->model);
    lm_text variables;
    lm_rendering text;
    memset(&variables, 0, sizeof variables);
    memset(&text, 0, sizeof text);
    lm_text_add_str(&variables, "{\"add_generation_prompt\":true,");
    add_special(&variables, "bos_token", t, lm_tokenizer_bos(t));
    add_special(&variables, "eos_token", t, lm_tokenizer_eos(t));
    lm_text_add_str(&variables, "\"messages\":[");
    lm_text_add(&variables, c->messages.data, c->messages.size);
    lm_text_add_str(&variables, "]}");

    lm_status status = variables.failed || c->messages.failed ? lm_fail_memory(e, "the conversation", variables.size) : LM_OK;
    if (status == LM_OK)
        status = lm_template_render(c->form, variables.data, variables.size, &text, e);
    if (status == LM_OK)
        status = lm_tokenize_rendering(t, &text, false, out, e);
    lm_rendering_free(&text);
    lm_text_free(&variables);
    return status;
}

/* ---- answers ---- */

static size_t common_prefix(const lm_tokens *a, const lm_tokens *b)
{
    size_t n = 0;
    while (n < a->n && n < b->n && a->ids[n] == b->ids[n])
        n++;
    return n;
}

static bool print(void *arg, const char *piece, size_t size)
{
    (void)arg;
    fwrite(piece, 1, size, stdout);
    return fflush(stdout) == 0;
}

/* The engine holds the prompt and what was chosen, as far as it says. */
static lm_status remember(chat *c, lm_tokens *prompt, const lm_tokens *chosen, lm_error *e)
{
    lm_status status = LM_OK;
    for (size_t i = 0; status == LM_OK && i < chosen->n; i++)
        status = lm_tokens_add(prompt, chosen->ids[i], e);
    size_t length = lm_engine_length(c->engine, 0);
    lm_tokens_free(&c->held);
    c->held = *prompt;
    c->held.n = c->held.n < length ? c->held.n : length;
    memset(prompt, 0, sizeof *prompt);
    return status;
}

static lm_status answer(chat *c, const char *line, size_t n, int64_t tokens, lm_error *e)
{
    lm_generate_options how = { .sequence = { .max_tokens = tokens }, .text = print };
    lm_generation done;
    lm_tokens prompt = { 0 };
    add(c, "user", line, n);
    lm_status status = render(c, &prompt, e);
    if (status == LM_OK)
        status = lm_generate(c->engine, c->sampler, prompt.ids, prompt.n, common_prefix(&c->held, &prompt), &how, &done, e);
    if (status == LM_OK) {
        printf("\n");
        status = remember(c, &prompt, &done.ids, e);
        add(c, "assistant", done.text.data, done.text.size);
        fprintf(stderr, "%zu tokens read, %zu from the cache\n", done.n_prompt - done.n_reused, done.n_reused);
        lm_generation_free(&done);
    }
    lm_tokens_free(&prompt);
    return status;
}

static lm_status open_chat(chat *c, const char *path, lm_error *e)
{
    lm_engine_options options = { .context = CONTEXT };
    lm_model_info info;
    lm_status status = lm_model_open(path, NULL, &c->model, e);
    if (status != LM_OK)
        return status;
    lm_model_describe(c->model, &info);
    const char *source = lm_model_chat_template(c->model, NULL);
    if (!source)
        return lm_fail(e, LM_USAGE, "model", LM_NO_OFFSET, "it has no chat template");
    if (options.context > info.context_length)
        options.context = info.context_length;
    status = lm_template_new(source, strlen(source), info.name, &c->form, e);
    if (status == LM_OK)
        status = lm_engine_new(c->model, &options, &c->engine, e);
    if (status == LM_OK)
        status = lm_sampler_new(NULL, info.n_vocab, NULL, &c->sampler, e);
    return status;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s MODEL [TOKENS]\n", argv[0]);
        return 2;
    }
    lm_error e = { .offset = LM_NO_OFFSET };
    chat c = { NULL };
    char *line = NULL;
    size_t capacity = 0;
    lm_status status = open_chat(&c, argv[1], &e);
    for (ssize_t n; status == LM_OK && (n = getline(&line, &capacity, stdin)) > 0;)
        status = answer(&c, line, (size_t)n - (line[n - 1] == '\n'), argc > 2 ? strtol(argv[2], NULL, 10) : 0, &e);
    if (status != LM_OK) {
        char text[1024];
        fprintf(stderr, "error: %s\n", lm_error_text(&e, text, sizeof text));
        if (e.hint[0])
            fprintf(stderr, "hint: %s\n", e.hint);
    }
    free(line);
    lm_text_free(&c.messages);
    lm_tokens_free(&c.held);
    lm_sampler_free(c.sampler);
    lm_engine_free(c.engine);
    lm_template_free(c.form);
    lm_model_close(c.model);
    return lm_status_exit(status);
}
