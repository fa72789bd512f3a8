/* chat - a conversation through the model's own chat template; a message a line, until the end of standard
 * input.
 *
 *   cc chat.c $(pkg-config --cflags --libs lamina) -o chat
 *   ./chat model.gguf 128
 *
 * The whole conversation is rendered for every reply. What the engine has processed of it is not processed
 * again. */
#define _POSIX_C_SOURCE 200809L      /* getline */
#include <lamina/lamina.h>

#include <stdio.h>
#include <stdlib.h>

static bool print(void *arg, const char *piece, size_t size)
{
    (void)arg;
    fwrite(piece, 1, size, stdout);
    return fflush(stdout) == 0;
}

static lm_status reply(lm_chat *c, const char *line, int64_t tokens, lm_error *e)
{
    lm_generate_options how = { .sequence = { .max_tokens = tokens }, .text = print };
    lm_generation done;

    lm_status status = lm_chat_add(c, LM_ROLE_USER, line, e);
    if (status == LM_OK)
        status = lm_chat_reply(c, &how, &done, e);
    if (status == LM_OK) {
        fprintf(stderr, "%zu tokens read, %zu from the cache\n", done.n_prompt - done.n_reused,
                done.n_reused);
        lm_generation_free(&done);
    }
    return status;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s MODEL [TOKENS]\n", argv[0]);
        return 2;
    }
    lm_error e = { .offset = LM_NO_OFFSET };
    lm_chat *c = NULL;
    char *line = NULL;
    size_t capacity = 0;
    lm_status status = lm_chat_open(argv[1], NULL, &c, &e);
    for (ssize_t n; status == LM_OK && (n = getline(&line, &capacity, stdin)) > 0;) {
        if (line[n - 1] == '\n')
            line[n - 1] = '\0';
        status = reply(c, line, argc > 2 ? strtol(argv[2], NULL, 10) : 0, &e);
        printf("\n");
    }
    if (status != LM_OK) {
        char text[1024];
        fprintf(stderr, "error: %s\n", lm_error_text(&e, text, sizeof text));
        if (e.hint[0])
            fprintf(stderr, "hint: %s\n", e.hint);
    }
    free(line);
    lm_chat_free(c);
    return status != LM_OK;
}
