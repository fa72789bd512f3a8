/* comparison.h - a comparison as data, independent of the form in which it is written. */
#ifndef LM_ANALYSIS_COMPARISON_H
#define LM_ANALYSIS_COMPARISON_H

#include "study/compare/history.h"
#include "study/facts/fact.h"
#include "study/facts/traits.h"
#include "lamina/study/compare.h"

enum { LM_COMPARED = 16 };

/* A value of one model: a fact, or a word that a rule derives from facts. Both NULL: no value. */
typedef struct lm_compared {
    const lm_fact *fact;
    const char    *word;
    bool           binary;                       /* bytes are also written in binary units, as caches usually
                                                    are */
} lm_compared;

typedef struct lm_comparison_row {
    const char *label;
    const char *path;                            /* the path of the fact, used if there is no word; NULL:
                                                    words only */
    const char *rule;                            /* of qualitative words: what they are derived from;
                                                    otherwise NULL */
    lm_compared value[LM_COMPARED];
    bool        same;
} lm_comparison_row;

typedef struct lm_comparison_section {
    const char *name, *title, *output;           /* "attention", "Attention", "O-23" */
    uint32_t    first, end;                      /* range of rows */
} lm_comparison_section;

/* A sentence about the design: qualitative, with the numbers on which it is based. */
typedef struct lm_design_reading {
    const char *rule, *text;
    const char *body;                            /* of sentences about single models: the text without the
                                                    leading names; otherwise NULL */
    uint32_t    models;                          /* bit mask of the models that it is about */
    char        sign;                            /* of sentences about single models with a number: '+' an
                                                    advantage, '!' a limit, '-' both;
                                                  * 0: none of these */
} lm_design_reading;

/* A model in the timeline. */
typedef struct lm_publication {
    const char *date, *title, *attention, *mlp, *norm, *position, *source;
    bool        published;                       /* the words are from a publication, not derived from a
                                                    program */
    bool        own;                             /* of a model in the comparison */
} lm_publication;

enum { LM_MAX_SECTIONS = 16, LM_MAX_ROWS = 128, LM_MAX_READINGS = 64 };

typedef struct lm_comparison {
    lm_facts *const      *models;
    size_t                n;
    const char           *name[LM_COMPARED];
    lm_traits             traits[LM_COMPARED];   /* used by rules, since words are for people */
    lm_comparison_row     rows[LM_MAX_ROWS];
    uint32_t              n_rows;
    lm_comparison_section sections[LM_MAX_SECTIONS];
    uint32_t              n_sections;
    lm_design_reading     readings[LM_MAX_READINGS];
    uint32_t              n_readings;
    lm_publication        events[LM_COMPARED + 48];
    uint32_t              n_events;
    lm_arena              arena;
    bool                  failed;
} lm_comparison;

/* ---- construction ---- */

/* Create a comparison. LM_USAGE: the number of models is out of range. The facts must outlive it.
 * lm_comparison_free accepts NULL. */
lm_status lm_comparison_new(lm_facts *const *models, size_t n, lm_comparison **out, lm_error *e);
void      lm_comparison_free(lm_comparison *c);

void lm_compare_names(lm_comparison *c);         /* compared.c: names that distinguish the models */
void lm_compare_readings(lm_comparison *c);      /* reading.c */
void lm_compare_events(lm_comparison *c);        /* history.c */

/* Add milestones of the field that are not among the models: events derived from the programs of presets. */
lm_status lm_compare_milestones(lm_comparison *c, lm_error *e);

/* Return formatted text that lives as long as the comparison. */
const char *lm_compare_printf(lm_comparison *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Return a fact of model i by path; NULL: none. */
const lm_fact *lm_compare_fact(const lm_comparison *c, size_t i, const char *path);
uint64_t       lm_compare_count(const lm_comparison *c, size_t i, const char *path);     /* 0: none */
const char    *lm_compare_text(const lm_comparison *c, size_t i, const char *path);      /* "": none */
bool           lm_compare_truth(const lm_comparison *c, size_t i, const char *path);

/* ---- texts ---- */

/* Return a value as text: "131,072", "6.43 GB", "yes", "–". */
const char *lm_compared_text(lm_comparison *c, const lm_compared *x);

/* Find the ratio of the second value to the first ("×1.33", "+33.3 %"); false if it is meaningless. */
bool lm_compared_change(const lm_comparison_row *r, double *ratio);

/* Return the models whose text at `path` equals that of model i, in order: "GPT-2, Pythia". NULL: a model
 * before i has it too, so they have been listed there. */
const char *lm_compare_sharing(lm_comparison *c, size_t i, const char *path);

/* Return the notes on a section: model by model, why the pages of the cache take more than what is seen.
 * NULL: none, or past the last. */
const char *lm_compare_note(lm_comparison *c, const lm_comparison_section *s, size_t i);

/* Return the form of a block with norms at this place: "x + f(N(x))". */
const char *lm_norm_form(lm_norm_position p);

/* Return whether an event is a compared model among milestones; false if there are no milestones. */
bool lm_event_stands_out(const lm_comparison *c, const lm_publication *e);

/* The strands of development: the name of a strand, and the word of an event in it. */
enum { LM_STRANDS = 4 };
const char *lm_strand_name(uint32_t strand);
const char *lm_strand_word(const lm_publication *e, uint32_t strand);

/* Return whether an event is the first with its word in a strand. */
bool lm_strand_new(const lm_comparison *c, uint32_t strand, uint32_t event);

/* ---- forms ---- */

/* Append the timeline or the trends without a heading: as text, each line after `indent` blanks, or as
 * Mermaid source without a fence. */
void lm_compare_timeline_text(const lm_comparison *c, unsigned indent, lm_text *out);
void lm_compare_trends_text(const lm_comparison *c, unsigned indent, lm_text *out);
void lm_compare_timeline_mermaid(const lm_comparison *c, lm_text *out);
void lm_compare_trends_mermaid(const lm_comparison *c, lm_text *out);

/* The same as SVG, appended; `name` is read aloud instead of the drawing. False: nothing to draw. */
bool lm_svg_timeline(const lm_comparison *c, const char *name, lm_text *out);
bool lm_svg_trends(const lm_comparison *c, const char *name, lm_text *out);

void lm_compare_page(lm_comparison *c, const lm_compare_options *o, lm_text *out);
void lm_compare_markdown(lm_comparison *c, const lm_compare_options *o, lm_text *out);
void lm_compare_json(lm_comparison *c, const lm_compare_options *o, lm_text *out);

#endif
