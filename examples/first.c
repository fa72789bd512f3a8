/* first - the shortest program that uses a model: send a message and print the reply as it is generated.
 *
 *   cc first.c $(pkg-config --cflags --libs lamina) -o first
 *   ./first model.gguf "What is the capital of France?" */
#include <lamina/lamina.h>
#include <stdio.h>

static bool print(void *arg, const char *piece, size_t size)
{
    (void)arg;
    return fwrite(piece, 1, size, stdout) == size;
}

int main(int argc, char **argv)
{
    lm_error e;
    lm_chat *chat = NULL;
    lm_chat_options options = { .sampler = { .greedy = true } };
    lm_generate_options how = { .sequence = { .max_tokens = 16 }, .text = print };

    if (argc != 3) {
        fprintf(stderr, "usage: %s MODEL MESSAGE\n", argv[0]);
        return 2;
    }
    lm_status s = lm_chat_open(argv[1], &options, &chat, &e);
    s = s ? s : lm_chat_add(chat, LM_ROLE_USER, argv[2], &e);
    s = s ? s : lm_chat_reply(chat, &how, NULL, &e);
    puts(s ? e.message : "");
    lm_chat_free(chat);
    return s != LM_OK;
}
