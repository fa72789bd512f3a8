/* lore.c - what lines say in words or in a formula: known by what stands in them, judged by the model where it can be. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "analysis/audit/reading.h"

/* One of the alternatives of a condition: "=form" of a formula, "~word" in the line or in its heading, a word of the line. */
static bool holds_one(const lm_reading *d, lm_extent line, const char *form, const char *word, size_t n, char taken[32])
{
    char text[96], found[32];

    snprintf(text, sizeof text, "%.*s", (int)n, word);
    if (*text == '=') {
        if (!lm_form_in(form, text + 1, found))
            return false;
        if (*found)
            memcpy(taken, found, sizeof found);
        return true;
    }
    return *text == '~' ? lm_span_has(line, text + 1) || lm_span_has(d->heading, text + 1) ||
               lm_span_has(d->caption, text + 1) : lm_span_has(line, text);
}

/* All conditions, divided by "&"; each of alternatives, divided by "|". */
static bool holds(const lm_reading *d, lm_extent line, const char *form, const char *words, char taken[32])
{
    for (const char *w = words; *w;) {
        size_t n    = strcspn(w, "&");
        bool   some = false;
        for (size_t i = 0; i < n && !some;) {
            size_t one = strcspn(w + i, "&|");
            some = holds_one(d, line, form, w + i, one, taken);
            i += one + 1;
        }
        if (!some)
            return false;
        w += n + (w[n] == '&');
    }
    return *words != '\0';
}

static bool is_number(const char *s)
{
    return *s && s[strspn(s, "0123456789.")] == '\0' && isdigit((unsigned char)*s);
}

enum { LONGEST_LINE = 8192 };            /* of words; what is longer is data */

bool lm_read_lore(lm_reading *d, lm_extent line, int model)
{
    if (line.n > LONGEST_LINE)
        return false;
    const char *form = lm_formula_form(d, line);
    bool        found = false;
    char        taken[32], none[32];

    for (const lm_lore_row *r = lm_lore; r->topic; r++) {
        *taken = '\0';
        if (!holds(d, line, form, r->words, taken) || holds(d, line, form, r->unless, none))
            continue;
        bool number = strcmp(r->claim, "#") == 0;
        if (number && !is_number(taken))
            continue;
        if (strcmp(r->claim, "-") == 0 && is_number(taken))
            continue;
        if (!*r->quantity || (model < 0 && *r->topic))
            lm_say_topic(d, line, r->topic);
        else if (model >= 0)
            lm_say(d, line, model, r->quantity, number ? lm_arena_strdup(&d->arena, taken) : r->claim);
        else
            continue;
        found = true;
    }
    return found;
}
