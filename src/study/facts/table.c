/* table.c - text in columns. */
#include "study/facts/table.h"

#include <stdarg.h>
#include <string.h>

#include "base/columns.h"

lm_table lm_table_new(lm_facts *f, const char *align, unsigned indent)
{
    return (lm_table){ .f = f, .align = align, .gap = "  ", .indent = indent, .n = (unsigned)strlen(align) };
}

static const char **new_row(lm_table *t)
{
    if (t->rows == t->capacity) {
        unsigned     capacity  = t->capacity ? 2 * t->capacity : 32;
        const char **cells = lm_arena_new(&t->f->arena, (size_t)capacity * t->n, const char *);
        if (!cells) {
            t->f->failed = true;
            return NULL;
        }
        if (t->rows)
            memcpy(cells, t->cells, (size_t)t->rows * t->n * sizeof *cells);
        t->cells = cells;
        t->capacity  = capacity;
    }
    return &t->cells[(size_t)t->rows++ * t->n];
}

void lm_table_row(lm_table *t, ...)
{
    const char **row = new_row(t);
    va_list      args;

    va_start(args, t);
    for (unsigned i = 0; row && i < t->n; i++) {
        const char *text = va_arg(args, const char *);
        row[i]           = lm_arena_strdup(&t->f->arena, text);
        t->f->failed |= !row[i];
    }
    va_end(args);
}

void lm_table_print(const lm_table *t, lm_text *out)
{
    unsigned width[LM_CELLS] = { 0 };

    if (t->f->failed)
        return;
    for (unsigned r = 0; r < t->rows; r++)
        for (unsigned i = 0; i < t->n && t->cells[(size_t)r * t->n]; i++) {
            unsigned w = lm_text_columns(t->cells[(size_t)r * t->n + i]);
            width[i]   = w > width[i] ? w : width[i];
        }
    for (unsigned r = 0; r < t->rows; r++) {
        const char **row  = &t->cells[(size_t)r * t->n];
        unsigned     last = t->n;
        while (row[0] && last > 0 && !*row[last - 1])
            last--;                          /* no spaces after the last text of a line */
        for (unsigned i = 0; row[0] && i < last; i++) {
            lm_text_printf(out, "%*s%s", i ? 0 : (int)t->indent, "", i ? t->gap : "");
            if (t->align[i] == 'r')
                lm_put_right(out, row[i], width[i]);
            else
                lm_put(out, row[i], i + 1 < last ? width[i] : 0);
        }
        lm_text_add_char(out, '\n');
    }
}
