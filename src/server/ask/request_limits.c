/* request_limits.c - request_limits.h: the table, its check and its list. */
#include "server/ask/request_limits.h"

#include "lamina/grammar.h"

typedef struct row { const char *field, *what; uint64_t max; unsigned status; } row;

static const row table[] = {
#define X(name, field, what, max, status) { field, what, max, status },
    LM_LIMITS(X)
#undef X
};

#define GRAMMARS "response_format, grammar, guided_*"

/* Checked by the library when it compiles grammars. */
static const row of_grammars[] = {
    { GRAMMARS, "bytes of a grammar, a schema or an expression", LM_GRAMMAR_BYTES, 400 },
    { GRAMMARS, "states of a compiled grammar", LM_GRAMMAR_STATES, 400 },
    { GRAMMARS, "units of work to compile it", LM_GRAMMAR_WORK, 400 },
};

lm_status lm_limit_check(lm_limit_id id, uint64_t n, lm_error *e)
{
    const row *r = table + id;

    if (n <= r->max)
        return LM_OK;
    return lm_fail(e, LM_USAGE, r->field, LM_NO_OFFSET, "'%s' has %llu %s; at most %llu are allowed",
                   r->field, (unsigned long long)n, r->what, (unsigned long long)r->max);
}

static void add(json_t *list, const row *r)
{
    json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:i}", "field", r->field, "counts", r->what,
                                          "most", (json_int_t)r->max, "status", (int)r->status));
}

json_t *lm_limits_json(void)
{
    json_t *list = json_array();

    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        add(list, table + i);
    for (size_t i = 0; i < sizeof of_grammars / sizeof *of_grammars; i++)
        add(list, of_grammars + i);
    return list;
}
