/* next_token - what does the model expect after each token of a text?
 *
 *   cc next_token.c $(pkg-config --cflags --libs lamina) -lm -o next_token
 *   ./next_token model.gguf "The capital of France is" 3
 *
 * One line per position: the token, the probability the model gave it, and the K likeliest tokens to
 * follow. */
#include <lamina/lamina.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX 20

static void print_token(const lm_tokenizer *t, lm_token id)
{
    lm_text text = { 0 };
    if (lm_detokenize(t, &id, 1, 0, &text, NULL) != LM_OK)
        text.size = 0;
    putchar('"');
    for (size_t i = 0; i < text.size; i++)
        if ((unsigned char)text.data[i] < ' ')
            printf("\\x%02x", (unsigned)text.data[i]);
        else
            putchar(text.data[i]);
    putchar('"');
    lm_text_free(&text);
}

/* All rows ask for logits, so one step reads the whole text. */
static lm_status look(const lm_model *model, lm_engine *engine, const lm_tokens *ids, uint32_t n_vocab,
                      uint32_t k, lm_error *e)
{
    const lm_tokenizer *t = lm_model_tokenizer(model);
    lm_logprob top[MAX];
    lm_row *rows = (lm_row *)calloc(ids->n, sizeof *rows);
    if (!rows)
        return lm_fail_memory(e, "the rows", 0);
    for (size_t i = 0; i < ids->n; i++) {
        rows[i].token = ids->ids[i];
        rows[i].position = (uint32_t)i;
        rows[i].logits = true;
    }
    lm_status status = lm_engine_step(engine, rows, ids->n, e);
    free(rows);
    if (status != LM_OK)
        return status;

    double given = 0;
    for (size_t i = 0; i < ids->n; i++) {
        lm_token next = i + 1 < ids->n ? ids->ids[i + 1] : ids->ids[i];
        float logprob = lm_logprobs(lm_engine_logits(engine, i), n_vocab, next, top, k);
        print_token(t, ids->ids[i]);
        if (i > 0)
            printf("  %.2f %%", 100 * exp(given));
        printf("  →");
        for (uint32_t j = 0; j < k; j++) {
            printf("  ");
            print_token(t, top[j].id);
            printf(" %.2f %%", 100 * exp((double)top[j].logprob));
        }
        printf("\n");
        given = (double)logprob;
    }
    return LM_OK;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: %s MODEL TEXT [K]\n", argv[0]);
        return 2;
    }
    lm_error e = { .offset = LM_NO_OFFSET };
    lm_model *model = NULL;
    lm_engine *engine = NULL;
    lm_tokens ids = { 0 };
    lm_model_info info;
    uint32_t k = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 5;
    k = k < 1 ? 1 : k > MAX ? MAX : k;

    lm_status status = lm_model_open(argv[1], NULL, &model, &e);
    if (status == LM_OK)
        status = lm_tokenize(lm_model_tokenizer(model), argv[2], strlen(argv[2]), LM_ADD_SPECIAL, &ids, &e);
    if (status == LM_OK && ids.n > 0) {
        lm_model_describe(model, &info);
        lm_engine_options options = { .context = (uint32_t)ids.n,
                                      .max_rows = (uint32_t)ids.n,
                                      .max_logits = (uint32_t)ids.n };
        status = lm_engine_new(model, &options, &engine, &e);
        if (status == LM_OK)
            status = look(model, engine, &ids, info.n_vocab, k, &e);
    }
    if (status != LM_OK) {
        char line[1024];
        fprintf(stderr, "error: %s\n", lm_error_text(&e, line, sizeof line));
        if (e.hint[0])
            fprintf(stderr, "hint: %s\n", e.hint);
    }
    lm_tokens_free(&ids);
    lm_engine_free(engine);
    lm_model_close(model);
    return status != LM_OK;
}
