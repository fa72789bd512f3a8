/* generate - continue a text: the shortest useful program.
 *
 *   cc generate.c $(pkg-config --cflags --libs lamina) -o generate
 *   ./generate model.gguf "The capital of France is" 32 */
#include <lamina/lamina.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const lm_error *e)
{
    char line[1024];
    fprintf(stderr, "error: %s\n", lm_error_text(e, line, sizeof line));
    if (e->hint[0])
        fprintf(stderr, "hint: %s\n", e->hint);
    return 1;
}

static bool print(void *arg, const char *piece, size_t size)
{
    (void)arg;
    fwrite(piece, 1, size, stdout);
    return fflush(stdout) == 0;      /* false stops: nobody reads any more */
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: %s MODEL TEXT [TOKENS]\n", argv[0]);
        return 2;
    }
    lm_error e;
    lm_model *model = NULL;
    lm_engine *engine = NULL;
    lm_sampler *sampler = NULL;
    lm_tokens prompt = { 0 };
    lm_generation done = { 0 };
    lm_model_info info;
    lm_engine_options options = { .context = 2048 };
    lm_generate_options how = { .sequence = { .max_tokens = argc > 3 ? strtol(argv[3], NULL, 10) : 64 },
                                .text = print };
    lm_sampler_options choice = { .greedy = true };       /* greedy: the same text on every run */

    lm_status status = lm_model_open(argv[1], NULL, &model, &e);
    if (status == LM_OK) {
        lm_model_describe(model, &info);
        if (options.context > info.context_length)
            options.context = info.context_length;
        status = lm_engine_new(model, &options, &engine, &e);
    }
    if (status == LM_OK)
        status = lm_sampler_new(&choice, info.n_vocab, NULL, &sampler, &e);
    if (status == LM_OK)
        status = lm_tokenize(lm_model_tokenizer(model), argv[2], strlen(argv[2]), LM_ADD_SPECIAL, &prompt,
                             &e);
    if (status == LM_OK)
        status = lm_generate(engine, sampler, prompt.ids, prompt.n, 0, &how, &done, &e);
    if (status == LM_OK)
        fprintf(stderr, "\n%zu tokens, %.1f per second, stopped: %s\n", done.ids.n,
                done.ids.n > 1 ? (double)(done.ids.n - 1) / done.generate_seconds
                               : 0,      /* the first came with the prompt */
                lm_stop_word(done.stop));

    lm_generation_free(&done);
    lm_tokens_free(&prompt);
    lm_sampler_free(sampler);
    lm_engine_free(engine);
    lm_model_close(model);
    return status == LM_OK ? 0 : fail(&e);
}
