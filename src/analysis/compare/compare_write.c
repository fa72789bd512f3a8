/* compare_write.c - a comparison in the form that is asked for. */
#include <stdio.h>
#include <string.h>

#include "analysis/compare/comparison.h"
#include "base/error.h"

static bool known_view(const char *view)
{
    const char *name, *what;

    for (size_t i = 0; (name = lm_compare_view(i, &what)); i++)
        if (strcmp(view, name) == 0)
            return true;
    return false;
}

static lm_status check_view(const lm_compare_options *o, lm_error *e)
{
    char        list[256] = "";
    const char *name, *what;
    size_t      at = 0;

    if (!o->view || known_view(o->view))
        return LM_OK;
    for (size_t i = 0; (name = lm_compare_view(i, &what)) && at < sizeof list; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "", name);
    return lm_fail(e, LM_USAGE, "view", LM_NO_OFFSET, "there is no \"%s\"; there are %s", o->view, list);
}

static lm_status compare(lm_facts *const *models, size_t n, const lm_compare_options *o, lm_text *out, lm_error *e)
{
    lm_comparison *c = NULL;
    lm_text         b = { 0 };

    LM_TRY(check_view(o, e));
    LM_TRY(lm_comparison_new(models, n, &c, e));
    if (o->form == LM_COMPARE_JSON)
        lm_compare_json(c, o, &b);
    else
        (o->form == LM_COMPARE_MARKDOWN ? lm_compare_markdown : lm_compare_page)(c, o, &b);
    lm_status status = c->failed ? lm_fail_memory(e, "comparison", 0) : LM_OK;
    lm_comparison_free(c);
    return lm_text_deliver(&b, status, "comparison", out, e);
}

lm_status lm_compare(lm_facts *const *models, size_t n, const lm_compare_options *o, lm_text *out, lm_error *e)
{
    static const lm_compare_options defaults;

    LM_GIVEN(e, models && out);
    LM_PLAIN(e, o);
    o = o ? o : &defaults;
    lm_language before = lm_language_set(o->form != LM_COMPARE_JSON ? o->language : LM_ENGLISH);
    lm_status   status = compare(models, n, o, out, e);

    lm_language_set(before);
    return status;
}
