/* tokenize.h - use a tokenizer that an input describes. */
#ifndef LM_TEST_TOKENIZE_H
#define LM_TEST_TOKENIZE_H

#include "fuzz.h"
#include "lamina/text.h"

/* Any other status would be our bug. */
static inline void check_refusal(lm_status s, const lm_error *e)
{
    char text[1200];

    PROMISE(s == LM_BAD_MODEL || s == LM_UNSUPPORTED || s == LM_LIMIT);
    PROMISE(e->code == s && *e->message);
    PROMISE(!strpbrk(lm_error_text(e, text, sizeof text), "\n\r\t\x1b"));
}

/* Every text becomes ids of the vocabulary, and every id becomes text. Decoding at once and streaming agree,
 * except for broken runs of byte tokens (lamina/text.h). */
static inline void use_tokenizer(const lm_tokenizer *t)
{
    static const char *const texts[] = {
        "", " ", "abc ab  a\n\n x1234567 don't", "héllo 🦙 \xe2\x96\x81 中文 e\xcc\x81", "<s>a</s><|im_end|> <unk>", "\xff\xfe broken \xc3",
    };
    static const unsigned flags[] = { 0, LM_ADD_SPECIAL, LM_NO_PARSE_SPECIAL };
    lm_error              e = { 0 };

    for (size_t i = 0; i < 18; i++) {
        const char *text = texts[i / 3];
        lm_tokens   ids = { 0 };
        lm_text     back = { 0 }, streamed = { 0 };
        lm_stream  *stream;
        lm_status   s = lm_tokenize(t, text, strlen(text), flags[i % 3], &ids, &e);
        if (s != LM_OK) {
            check_refusal(s, &e);
            lm_tokens_free(&ids);
            continue;
        }
        for (size_t k = 0; k < ids.n; k++)
            PROMISE(ids.ids[k] >= 0 && (uint32_t)ids.ids[k] < lm_tokenizer_size(t));
        PROMISE(lm_detokenize(t, ids.ids, ids.n, 0, &back, &e) == LM_OK);
        PROMISE(lm_stream_new(t, 0, false, &stream, &e) == LM_OK);
        for (size_t k = 0; k < ids.n; k++)
            PROMISE(lm_stream_push(stream, ids.ids[k], &streamed, &e) == LM_OK);
        PROMISE(lm_stream_end(stream, &streamed, &e) == LM_OK);
        if (!back.size || !strstr(back.data, "\xEF\xBF\xBD"))
            PROMISE(streamed.size == back.size &&
                    (!back.size || !memcmp(streamed.data, back.data, back.size)));
        lm_stream_free(stream);
        lm_text_free(&back);
        lm_text_free(&streamed);
        lm_tokens_free(&ids);
    }
    lm_token size = (lm_token)lm_tokenizer_size(t);
    for (lm_token id = 0; id < size && id < 2000; id++) {
        lm_text out = { 0 };
        size_t  n;
        lm_tokenizer_piece(t, id, &n);
        lm_tokenizer_is_end(t, id);
        PROMISE(lm_detokenize(t, &id, 1, LM_SKIP_SPECIAL, &out, &e) == LM_OK);
        lm_text_free(&out);
    }
    lm_text out = { 0 };
    PROMISE(!lm_tokenizer_piece(t, size, &(size_t){ 0 }) && !lm_tokenizer_piece(t, -1, &(size_t){ 0 }));
    PROMISE(lm_detokenize(t, &size, 1, 0, &out, &e) == LM_USAGE);
    PROMISE(*lm_tokenizer_summary(t));
    lm_text_free(&out);
}

#endif
