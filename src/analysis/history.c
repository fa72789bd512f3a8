/* history.c - models in the order of their publication. */
#include "analysis/history.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/comparison.h"
#include "arch/presets.h"

const lm_release *lm_release_of(const char *preset)
{
    for (size_t i = 0; i < lm_n_releases; i++)
        if (lm_release_table[i].preset && strcmp(lm_release_table[i].preset, preset) == 0)
            return &lm_release_table[i];
    return NULL;
}

const char *lm_compare_milestone(size_t i)
{
    for (size_t k = 0; k < lm_n_releases; k++)
        if (lm_release_table[k].milestone && lm_release_table[k].preset && i-- == 0)
            return lm_release_table[k].preset;
    return NULL;
}

/* The release of a model that is a preset. */
static const lm_release *release_of(const lm_comparison *c, size_t i)
{
    if (strcmp(lm_compare_text(c, i, "model.container"), "preset") != 0)
        return NULL;
    for (size_t k = 0; k < lm_n_presets; k++)
        if (strcmp(lm_preset_table[k].title, c->name[i]) == 0)
            return lm_release_of(lm_preset_table[k].name);
    return NULL;
}

static int by_date(const void *a, const void *b)
{
    const lm_event *x = a, *y = b;
    int             d = strcmp(x->date, y->date);

    return d ? d : strcmp(x->title, y->title);
}

/* Those whose day is known, after what was published before any program here. */
void lm_compare_events(lm_comparison *c)
{
    for (size_t k = 0; k < lm_n_releases && c->n_events < 8; k++) {
        const lm_release *r = &lm_release_table[k];
        if (!r->preset)
            c->events[c->n_events++] = (lm_event){ r->date, r->title, r->attention, r->mlp, r->norm, r->position, r->source, true };
    }
    for (size_t i = 0; i < c->n; i++) {
        const lm_release *r = release_of(c, i);
        if (!r)
            continue;
        c->events[c->n_events++] = (lm_event){
            r->date, c->name[i], lm_compare_text(c, i, "architecture.attention"), lm_compare_text(c, i, "architecture.mlp"),
            lm_compare_keep(c, "%s, %s", lm_compare_text(c, i, "architecture.norm"), _(lm_compare_text(c, i,
                                                                                                       "architecture.norm_position"))),
            lm_compare_text(c, i, "architecture.position"), r->source, false,
        };
    }
    qsort(c->events, c->n_events, sizeof *c->events, by_date);
}

/* ---- strands ---- */

const char *lm_strand_name(uint32_t strand)
{
    static const char *const names[LM_STRANDS] = { N_("attention"), "MLP", N_("norm"), N_("position") };

    return names[strand];
}

const char *lm_strand_word(const lm_event *e, uint32_t strand)
{
    const char *const words[LM_STRANDS] = { e->attention, e->mlp, e->norm, e->position };

    return words[strand];
}

bool lm_strand_new(const lm_comparison *c, uint32_t strand, uint32_t event)
{
    for (uint32_t i = 0; i < event; i++)
        if (strcmp(lm_strand_word(&c->events[i], strand), lm_strand_word(&c->events[event], strand)) == 0)
            return false;
    return true;
}
