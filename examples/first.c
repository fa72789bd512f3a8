/* first - the shortest program that uses a model: continue a prompt and print the text as it is generated.
 *
 *   cc first.c $(pkg-config --cflags --libs lamina) -o first
 *   ./first model.gguf "The capital of France is" */
#include <lamina/lamina.h>
#include <stdio.h>
#include <string.h>

static bool print(void *arg, const char *piece, size_t size)
{
    (void)arg;
    return fwrite(piece, 1, size, stdout) == size;
}

int main(int argc, char **argv)
{
    lm_error e;
    lm_model *model = NULL;
    lm_engine *engine = NULL;
    lm_sampler *sampler = NULL;
    lm_tokens prompt = { 0 };
    lm_generation result = { 0 };
    lm_model_info info;
    lm_engine_options size = { .context = 256 };
    lm_sampler_options greedy = { .greedy = true };
    lm_generate_options how = { .sequence = { .max_tokens = 16 }, .text = print };

    if (argc != 3) {
        fprintf(stderr, "usage: %s MODEL PROMPT\n", argv[0]);
        return 2;
    }
    lm_status s = lm_model_open(argv[1], NULL, &model, &e);
    if (s == LM_OK)
        lm_model_describe(model, &info);
    s = s ? s : lm_engine_new(model, &size, &engine, &e);
    s = s ? s : lm_sampler_new(&greedy, info.n_vocab, NULL, &sampler, &e);
    s = s ? s : lm_tokenize(lm_model_tokenizer(model), argv[2], strlen(argv[2]), LM_ADD_SPECIAL, &prompt, &e);
    s = s ? s : lm_generate(engine, sampler, prompt.ids, prompt.n, 0, &how, &result, &e);
    puts(s ? e.message : "");

    lm_generation_free(&result);
    lm_tokens_free(&prompt);
    lm_sampler_free(sampler);
    lm_engine_free(engine);
    lm_model_close(model);
    return lm_status_exit(s);
}
