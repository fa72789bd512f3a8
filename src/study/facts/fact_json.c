/* fact_json.c - facts as JSON. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "study/facts/fact.h"

void lm_fact_json_text(const char *s, lm_text *out)
{
    lm_text_add_char(out, '"');
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            lm_text_printf(out, "\\%c", c);
        else if (c < 0x20)
            lm_text_printf(out, "\\u%04x", c);
        else
            lm_text_add_char(out, *s);
    }
    lm_text_add_char(out, '"');
}

static void line(unsigned indent, lm_text *out)
{
    lm_text_printf(out, "\n%*s", (int)indent, "");
}

/* Return whether the list fits on one line: numbers and short words only. */
static bool is_flat(const lm_fact *list)
{
    for (const lm_fact *x = lm_fact_first(list); x; x = lm_fact_next(x))
        if (x->kind >= LM_FACT_GROUP || (x->kind == LM_FACT_TEXT && strlen(x->text) > 24))
            return false;
    return true;
}

static void members(const lm_fact *x, unsigned indent, lm_text *out)
{
    bool group = x->kind == LM_FACT_GROUP, flat = !group && is_flat(x);
    const char *separator = "";

    lm_text_add_char(out, group ? '{' : '[');
    for (const lm_fact *m = lm_fact_first(x); m; m = lm_fact_next(m)) {
        if (m->impl.silent || m->kind == LM_FACT_TABLE)
            continue;
        lm_text_add_str(out, separator);
        if (!flat)
            line(indent + 2, out);
        if (group) {
            lm_fact_json_text(m->impl.key ? m->impl.key : m->name, out);
            lm_text_add_str(out, ": ");
        }
        lm_fact_json(m, indent + 2, out);
        separator = flat ? ", " : ",";
    }
    if (!flat && *separator)
        line(indent, out);
    lm_text_add_char(out, group ? '}' : ']');
}

void lm_fact_json(const lm_fact *x, unsigned indent, lm_text *out)
{
    char text[32];

    switch (x->kind) {
    case LM_FACT_NONE:
        lm_text_add_str(out, "null");
        break;
    case LM_FACT_BOOL:
        lm_text_add_str(out, x->truth ? "true" : "false");
        break;
    case LM_FACT_COUNT:
        /* a string remains exact */
        lm_text_printf(out, x->count <= INT64_MAX ? "%" PRIu64 : "\"%" PRIu64 "\"", x->count);
        break;
    case LM_FACT_NUMBER:
        lm_text_add_str(out, isfinite(x->number) ? lm_number_text(text, x->number) : "null");
        if (x->impl.decimal && isfinite(x->number) && !strpbrk(text, ".e"))
            lm_text_add_str(out, ".0");
        break;
    case LM_FACT_TEXT:
        lm_fact_json_text(x->text, out);
        break;
    default:
        members(x, indent, out);
    }
}

lm_status lm_facts_json(lm_facts *f, const char *path, lm_text *out, lm_error *e)
{
    LM_REQUIRE(e, f && out);
    const lm_fact *x = &f->root;
    lm_text         b = { 0 };

    if (path)
        LM_TRY(lm_facts_find(f, path, &x, e));
    lm_fact_json(x, 0, &b);
    return lm_text_deliver(&b, f->failed ? lm_fail_memory(e, "facts", 0) : LM_OK, "facts", out, e);
}
