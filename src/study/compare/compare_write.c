/* compare_write.c - write a comparison in the requested form. */
#include <stdio.h>
#include <string.h>

#include "study/compare/comparison.h"
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
    return lm_fail(e, LM_USAGE, "view", LM_NO_OFFSET, "unknown view \"%s\"; use one of %s", o->view, list);
}

/* Fail if no model has anything to show in the requested section. */
static lm_status check_section(const lm_comparison *c, const lm_compare_options *o, lm_error *e)
{
    if (!o->view || strcmp(o->view, "stored") != 0)
        return LM_OK;
    for (uint32_t i = 0; i < c->n_sections; i++)
        if (strcmp(c->sections[i].name, o->view) == 0)
            return LM_OK;
    return lm_fail(e, LM_NOT_FOUND, "view", LM_NO_OFFSET, "none of these models has weights");
}

static lm_status compare(lm_facts *const *models, size_t n, const lm_compare_options *o, lm_text *out,
                         lm_error *e)
{
    lm_comparison *c = NULL;
    lm_text         b = { 0 };

    LM_TRY(check_view(o, e));
    LM_TRY(lm_comparison_new(models, n, &c, e));
    lm_status status = check_section(c, o, e);
    if (status == LM_OK)
        (o->form == LM_COMPARE_JSON       ? lm_compare_json
         : o->form == LM_COMPARE_MARKDOWN ? lm_compare_markdown
                                          : lm_compare_page)(c, o, &b);
    if (c->failed)
        status = lm_fail_memory(e, "comparison", 0);
    lm_comparison_free(c);
    return lm_text_deliver(&b, status, "comparison", out, e);
}

lm_status lm_compare(lm_facts *const *models, size_t n, const lm_compare_options *o, lm_text *out,
                     lm_error *e)
{
    static const lm_compare_options defaults;

    LM_REQUIRE(e, models && out);
    LM_CHECK_RESERVED(e, o);
    o = o ? o : &defaults;
    lm_language before = lm_language_set(o->form != LM_COMPARE_JSON ? o->language : LM_ENGLISH);
    lm_status   status = compare(models, n, o, out, e);

    lm_language_set(before);
    return status;
}
