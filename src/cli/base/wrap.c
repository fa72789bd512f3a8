/* wrap.c - break streamed text at words. */
#include "cli/base/wrap.h"

#include <string.h>

#include "base/columns.h"

static void end_word(lm_wrap *w)
{
    lm_text_clear(&w->word);
    w->word_columns = 0;
}

static void end_line(lm_wrap *w, lm_text *out)
{
    lm_text_add_char(out, '\n');
    w->column = 0;
    end_word(w);
}

/* Move the last word, which the next character would take past the edge, to a new line. A word as long as the
 * line is cut instead. */
static void move_word(lm_wrap *w, lm_text *out)
{
    if (!w->word_columns || w->word_columns == w->column) {
        end_line(w, out);
        return;
    }
    lm_text_printf(out, "\033[%uD\033[K\n", w->word_columns);
    lm_text_add(out, w->word.data, w->word.size);
    w->column = w->word_columns;
}

static void add_character(lm_wrap *w, const char *c, size_t n, unsigned columns, lm_text *out)
{
    if (*c == '\t')
        columns = 8 - w->column % 8;
    if (*c == '\n' || (w->column + columns > w->width && (*c == ' ' || *c == '\t'))) {
        end_line(w, out);
        return;
    }
    if (columns > 1)
        end_word(w);
    if (w->column + columns > w->width)
        move_word(w, out);
    lm_text_add(out, c, n);
    w->column += columns;
    if (*c == ' ' || columns > 1) {
        end_word(w);
        return;
    }
    lm_text_add(&w->word, c, n);
    w->word_columns += columns;
}

void lm_wrap_add(lm_wrap *w, const char *text, size_t n, lm_text *out)
{
    char   one[5] = "";
    size_t size;

    if (!w->width) {
        lm_text_add(out, text, n);
        return;
    }
    for (size_t i = 0; i < n; i += size) {
        for (size = 1; size < 4 && i + size < n && (text[i + size] & 0xC0) == 0x80;)
            size++;
        memcpy(one, text + i, size);
        one[size] = '\0';
        add_character(w, one, size, lm_text_columns(one), out);
    }
}
