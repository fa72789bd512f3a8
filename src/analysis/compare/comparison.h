/* comparison.h - the comparison as data, between the facts and the forms it is printed in. */
#ifndef LM_ANALYSIS_COMPARISON_H
#define LM_ANALYSIS_COMPARISON_H

#include "analysis/compare/history.h"
#include "analysis/facts/fact.h"
#include "analysis/facts/traits.h"
#include "lamina/compare.h"

enum { LM_COMPARED = 16 };

/* A value of one model: a fact, or a word that a rule derives from facts. Neither: there is none. */
typedef struct lm_compared { const lm_fact *fact; const char *word; } lm_compared;

typedef struct lm_comparison_row {
    const char *label;
    const char *path;                            /* of the fact where there is no word; NULL: words only */
    const char *rule;                            /* of qualitative words: what they follow from; else NULL */
    lm_compared value[LM_COMPARED];
    bool        same;
} lm_comparison_row;

typedef struct lm_comparison_section {
    const char *name, *title, *output;           /* "attention", "Attention", "O-23" */
    uint32_t    first, end;                      /* rows */
} lm_comparison_section;

/* A sentence about the design: qualitative, with the figures it rests on. */
typedef struct lm_reading {
    const char *rule, *text;
    const char *body;                            /* of single models: the text without the names it begins with; else NULL */
    uint32_t    models;                          /* a bit for each that it is about */
} lm_reading;

/* A model in the order of publication. */
typedef struct lm_event {
    const char *date, *title, *attention, *mlp, *norm, *position, *source;
    bool        published;                       /* the words are published, not read off a program */
    bool        own;                             /* of a model that the comparison is about */
} lm_event;

enum { LM_MOST_SECTIONS = 16, LM_MOST_ROWS = 128, LM_MOST_READINGS = 64 };

typedef struct lm_comparison {
    lm_facts *const      *models;
    size_t                n;
    const char           *name[LM_COMPARED];
    lm_traits             traits[LM_COMPARED];   /* what rules look at: words are for people */
    lm_comparison_row     rows[LM_MOST_ROWS];
    uint32_t              n_rows;
    lm_comparison_section sections[LM_MOST_SECTIONS];
    uint32_t              n_sections;
    lm_reading            readings[LM_MOST_READINGS];
    uint32_t              n_readings;
    lm_event              events[LM_COMPARED + 48];
    uint32_t              n_events;
    lm_arena              arena;
    bool                  failed;
} lm_comparison;

/* ---- construction ---- */

/* LM_USAGE for a number of models that cannot be compared. The facts must outlive it. NULL can be freed. */
lm_status lm_comparison_new(lm_facts *const *models, size_t n, lm_comparison **out, lm_error *e);
void      lm_comparison_free(lm_comparison *c);

void lm_compare_rows(lm_comparison *c);          /* comparison.c */
void lm_compare_names(lm_comparison *c);         /* compared.c: titles that distinguish the models */
void lm_compare_readings(lm_comparison *c);      /* reading.c */
void lm_compare_events(lm_comparison *c);        /* history.c */

/* Milestones of the field that are not among the models: events read off the programs of presets. */
lm_status lm_compare_milestones(lm_comparison *c, lm_error *e);

/* Text that lives as long as the comparison. */
const char *lm_compare_keep(lm_comparison *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A fact of model i by path; NULL when there is none. */
const lm_fact *lm_compare_fact(const lm_comparison *c, size_t i, const char *path);
uint64_t       lm_compare_count(const lm_comparison *c, size_t i, const char *path);     /* 0 when there is none */
const char    *lm_compare_text(const lm_comparison *c, size_t i, const char *path);      /* "" */
bool           lm_compare_truth(const lm_comparison *c, size_t i, const char *path);

/* ---- words of it ---- */

/* "131,072", "6.43 GB", "yes", "–". */
const char *lm_compared_text(lm_comparison *c, const lm_compared *x);

/* "×1.33" and "+33.3 %" from the first to the second; false where that says nothing. */
bool lm_compared_change(const lm_comparison_row *r, double *ratio);

/* "GPT-2, Pythia": the models whose text at `path` is that of model i, in their order. NULL when one before i has it too: they
 * were named there. */
const char *lm_compare_sharing(lm_comparison *c, size_t i, const char *path);

/* The form of a block with norms in this place: "x + f(N(x))". */
const char *lm_norm_form(lm_norm_position p);

/* Whether it is a given model among milestones; false if there are no others. */
bool lm_event_stands_out(const lm_comparison *c, const lm_event *e);

/* Strands of development: name and the word of an event. */
enum { LM_STRANDS = 4 };
const char *lm_strand_name(uint32_t strand);
const char *lm_strand_word(const lm_event *e, uint32_t strand);

/* Whether an event is the first with its word in a strand. */
bool lm_strand_new(const lm_comparison *c, uint32_t strand, uint32_t event);

/* ---- forms ---- */

/* The history without a heading, `indent` blanks before each line; the same as Mermaid source without a fence. */
void lm_compare_timeline_text(const lm_comparison *c, unsigned indent, lm_text *out);
void lm_compare_trends_text(const lm_comparison *c, unsigned indent, lm_text *out);
void lm_compare_timeline_mermaid(const lm_comparison *c, lm_text *out);
void lm_compare_trends_mermaid(const lm_comparison *c, lm_text *out);

/* The same drawn, appended; `name` is read aloud in place of the drawing. False where there is nothing to draw. */
bool lm_svg_timeline(const lm_comparison *c, const char *name, lm_text *out);
bool lm_svg_trends(const lm_comparison *c, const char *name, lm_text *out);

void lm_compare_page(lm_comparison *c, const lm_compare_options *o, lm_text *out);
void lm_compare_markdown(lm_comparison *c, const lm_compare_options *o, lm_text *out);
void lm_compare_json(lm_comparison *c, const lm_compare_options *o, lm_text *out);

#endif
