/* catalogue.c - statements that cannot be derived from a program: definitions, history, claims, each with its
 * source (catalogue.tsv).
 *
 * Statements without a verifiable published source are in the group "unsupported", so that reports flag them
 * instead of repeating them. */
#include "study/facts/catalogue.h"

#include <string.h>

#include "study/facts/fact.h"

static void add_all(lm_fact *g, const char *group, lm_origin o)
{
    for (const lm_statement *s = lm_catalogue; s->key; s++)
        if (strcmp(s->group, group) == 0)
            lm_add_text(g, s->key, s->text, o, s->source);
}

static void fill_unsupported(lm_facts *f, lm_fact *g)
{
    (void)f;
    add_all(g, "unsupported", LM_FROM_RULE);
}

static void fill_history(lm_facts *f, lm_fact *g)
{
    (void)f;
    add_all(g, "history", LM_FROM_PUBLISHED);
}

void lm_fill_catalogue(lm_facts *f, lm_fact *g)
{
    (void)f;
    add_all(g, "definitions", LM_FROM_PUBLISHED);
    lm_add_group(g, "history", fill_history, 0);
    lm_add_group(g, "unsupported", fill_unsupported, 0);
}
