/* history.c - the timeline of models by date of publication. */
#include "study/compare/history.h"

#include <stdlib.h>
#include <string.h>

#include "study/compare/comparison.h"
#include "study/facts/traits.h"
#include "arch/presets.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/language.h"

/* Return the release of a preset; NULL: its date is unknown. */
static const lm_release *release_of_preset(const char *preset)
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

/* Return the release of a model that is a preset; NULL: unknown. */
static const lm_release *release_of(const lm_comparison *c, size_t i)
{
    const lm_fact *container = lm_compare_fact(c, i, "model.container");

    if (!container || strcmp(container->id, "preset") != 0)
        return NULL;
    for (size_t k = 0; k < lm_n_presets; k++)
        if (strcmp(lm_preset_table[k].title, c->name[i]) == 0)
            return release_of_preset(lm_preset_table[k].name);
    return NULL;
}

static int by_date(const void *a, const void *b)
{
    const lm_publication *x = a, *y = b;
    int             d = strcmp(x->date, y->date);

    return d ? d : strcmp(x->title, y->title);
}

/* Add the models whose date is known, and what was published before the earliest program here. */
void lm_compare_events(lm_comparison *c)
{
    for (size_t k = 0; k < lm_n_releases && c->n_events < 8; k++) {
        const lm_release *r = &lm_release_table[k];
        if (!r->preset)
            c->events[c->n_events++] = (lm_publication){ r->date, r->title, r->attention,
                                                         r->mlp, r->norm, r->position,
                                                         r->source, true, false };
    }
    for (size_t i = 0; i < c->n; i++) {
        const lm_release *r = release_of(c, i);
        if (!r)
            continue;
        c->events[c->n_events++] = (lm_publication){
            r->date,
            c->name[i],
            lm_compare_text(c, i, "architecture.attention"),
            lm_compare_text(c, i, "architecture.mlp"),
            lm_compare_printf(c, "%s, %s", lm_compare_text(c, i, "architecture.norm"),
                              _(lm_compare_text(c, i, "architecture.norm_position"))),
            lm_compare_text(c, i, "architecture.position"),
            r->source,
            false,
            true,
        };
    }
    qsort(c->events, c->n_events, sizeof *c->events, by_date);
}

/* ---- milestones ---- */

static bool has_event(const lm_comparison *c, const char *title)
{
    for (uint32_t i = 0; i < c->n_events; i++)
        if (strcmp(c->events[i].title, title) == 0)
            return true;
    return false;
}

static lm_status read_event(lm_comparison *c, const lm_release *r, const char *title, const lm_program *p,
                            lm_error *e)
{
    char       attention[64], mlp[64];
    lm_ledger *l;
    lm_traits  t;

    LM_TRY(lm_ledger_new(p, &l, e));
    lm_find_traits(l, &t);
    lm_attention_name(&t, attention, sizeof attention);
    lm_mlp_name(&t, mlp, sizeof mlp);
    c->events[c->n_events++] = (lm_publication){
        r->date,
        title,
        lm_compare_printf(c, "%s", attention),
        lm_compare_printf(c, "%s", mlp),
        lm_compare_printf(c, "%s, %s", lm_norm_word(t.norm_kind).text,
                          _(lm_norm_position_word(t.norm_position).text)),
        lm_position_word(&t).text,
        r->source,
        false,
        false,
    };
    lm_ledger_free(l);
    return LM_OK;
}

static const lm_preset *preset_of(const lm_release *r)
{
    for (size_t i = 0; i < lm_n_presets; i++)
        if (strcmp(lm_preset_table[i].name, r->preset) == 0)
            return &lm_preset_table[i];
    return NULL;
}

lm_status lm_compare_milestones(lm_comparison *c, lm_error *e)
{
    lm_config *config = lm_alloc_zero(1, sizeof *config);
    lm_status  status = config ? LM_OK : lm_fail_memory(e, "milestones", sizeof *config);

    for (size_t k = 0;
         status == LM_OK && k < lm_n_releases && c->n_events < sizeof c->events / sizeof *c->events; k++) {
        const lm_release *r      = &lm_release_table[k];
        const lm_preset  *preset = r->milestone && r->preset ? preset_of(r) : NULL;
        const lm_family  *family;
        lm_program       *p      = NULL;
        if (!preset || has_event(c, preset->title))
            continue;
        memset(config, 0, sizeof *config);
        status = lm_preset_program(preset, &family, config, &p, e);
        if (status == LM_OK)
            status = read_event(c, r, preset->title, p, e);
        lm_program_free(p);
    }
    lm_free(config);
    qsort(c->events, c->n_events, sizeof *c->events, by_date);
    return status;
}

bool lm_event_stands_out(const lm_comparison *c, const lm_publication *e)
{
    uint32_t others = 0;

    for (uint32_t i = 0; i < c->n_events; i++)
        others += !c->events[i].own && !c->events[i].published;
    return e->own && others > 0;
}

/* ---- strands ---- */

const char *lm_strand_name(uint32_t strand)
{
    static const char *const names[LM_STRANDS] = { N_("attention"), "MLP", N_("norm"), N_("position") };

    return names[strand];
}

const char *lm_strand_word(const lm_publication *e, uint32_t strand)
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
