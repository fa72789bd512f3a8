/* calls_writer.c - calls_writer.h: literals, marks, white space, and text up to a mark. */
#include "grammar/calls_writer.h"

#include <string.h>

/* ---- control tokens ---- */

/* Tokenize a mark; false: not possible. */
static bool tokens_of(const lm_calls_writer *w, const char *mark, lm_tokens *ids)
{
    return w->tokenizer && lm_tokenize(w->tokenizer, mark, strlen(mark), 0, ids, NULL) == LM_OK;
}

lm_token lm_calls_leading(const lm_calls_writer *w, const char *mark)
{
    lm_tokens ids = { 0 };
    lm_token id = -1;

    if (tokens_of(w, mark, &ids) && ids.n && lm_tokenizer_is_special(w->tokenizer, ids.ids[0]))
        id = ids.ids[0];
    lm_tokens_free(&ids);
    return id;
}

lm_token lm_calls_control(const lm_calls_writer *w, const char *mark)
{
    lm_token id = lm_calls_leading(w, mark);
    size_t size = 0;

    if (id >= 0)
        lm_tokenizer_piece(w->tokenizer, id, &size);
    return size == strlen(mark) ? id : -1;
}

/* ---- text ---- */

void lm_calls_literal(lm_calls_writer *w, const char *text, size_t n)
{
    if (!n)
        return;
    lm_text_add_char(&w->out, '"');
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < 0x20 || c == '"' || c == '\\' || c == 0x7f)
            lm_text_printf(&w->out, "\\x%02X", c);
        else
            lm_text_add_char(&w->out, text[i]);
    }
    lm_text_add_str(&w->out, "\" ");
}

void lm_calls_text(lm_calls_writer *w, const char *text)
{
    lm_calls_literal(w, text, strlen(text));
}

void lm_calls_gap(lm_calls_writer *w)
{
    lm_text_add_str(&w->out, "gap ");
}

void lm_calls_comma(lm_calls_writer *w)
{
    lm_calls_gap(w);
    lm_calls_text(w, ",");
    lm_calls_gap(w);
}

void lm_calls_mark(lm_calls_writer *w, const char *text)
{
    lm_tokens ids = { 0 };
    size_t size;

    if (text && tokens_of(w, text, &ids))
        for (size_t i = 0; i < ids.n; i++) {
            const char *piece = lm_tokenizer_is_special(w->tokenizer, ids.ids[i])
                                    ? lm_tokenizer_piece(w->tokenizer, ids.ids[i], &size)
                                    : NULL;
            const char *at = piece && size ? strstr(text, piece) : NULL;
            if (!at)
                continue;
            lm_calls_literal(w, text, (size_t)(at - text));
            lm_text_printf(&w->out, "<[%d]> ", ids.ids[i]);
            text = at + size;
        }
    if (text)
        lm_calls_text(w, text);
    lm_tokens_free(&ids);
}

void lm_calls_string(lm_calls_writer *w, const char *value)
{
    lm_text text = { 0 };

    lm_text_add_json(&text, value, strlen(value));
    lm_calls_literal(w, text.data ? text.data : "", text.size);
    lm_text_free(&text);
}

void lm_calls_key(lm_calls_writer *w, const char *key)
{
    lm_calls_string(w, key);
    lm_calls_gap(w);
    lm_calls_text(w, ":");
    lm_calls_gap(w);
}

/* ---- text up to a mark ---- */

static size_t character(const char *s)
{
    unsigned char c = (unsigned char)*s;

    return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

static void add_class(lm_text *out, const char *c)
{
    if (character(c) == 1)
        lm_text_printf(out, "\\x%02X", (unsigned char)*c);
    else
        lm_text_add(out, c, character(c));
}

/* The longest start of the mark that its first `size` bytes, followed by a character, end with (Knuth, Morris
 * and Pratt 1977). */
static size_t next_state(const char *mark, size_t size, const char *c)
{
    size_t n = character(c), k = size + n;

    while (k >= n && (k > strlen(mark) || memcmp(mark + k - n, c, n) != 0 ||
                      memcmp(mark, mark + size + n - k, k - n) != 0))
        k--;
    return k >= n ? k : 0;
}

static bool is_repeated(const char *mark, const char *c)
{
    for (const char *at = mark; at < c; at += character(at))
        if (character(at) == character(c) && memcmp(at, c, character(c)) == 0)
            return true;
    return false;
}

/* Write the rule of a state: `size` bytes of the mark have been matched. */
static void add_state(lm_text *rules, unsigned number, const char *mark, size_t size)
{
    lm_text moves = { 0 };
    size_t to;

    lm_text_printf(rules, "until-%u-%zu ::= [^", number, size);
    for (const char *c = mark; *c; c += character(c)) {
        if (is_repeated(mark, c) || !(to = next_state(mark, size, c)))
            continue;
        add_class(rules, c);
        lm_text_add_str(&moves, " | [");
        add_class(&moves, c);
        lm_text_add_str(&moves, "]");
        if (mark[to])
            lm_text_printf(&moves, " until-%u-%zu", number, to);
    }
    lm_text_printf(rules, "] until-%u-0%s\n", number, moves.data ? moves.data : "");
    rules->failed |= moves.failed;
    lm_text_free(&moves);
}

void lm_calls_until(lm_calls_writer *w, lm_text *rules, const char *mark)
{
    unsigned number = w->untils++;
    lm_token id = lm_calls_control(w, mark);

    lm_text_printf(&w->out, "until-%u ", number);
    if (id >= 0) {
        lm_text_printf(rules, "until-%u ::= [^\\x00]* <[%d]>\n", number, id);
        return;
    }
    lm_text_printf(rules, "until-%u ::= until-%u-0\n", number, number);
    for (size_t at = 0; mark[at]; at += character(mark + at))
        add_state(rules, number, mark, at);
}
