/* chapters.h - the chapters of a report. Each adds its blocks about the current model (lm_document.facts) and
 * omits what the model does not have. Parts of chapters that views show too (views.c) are functions of the
 * same kind. */
#ifndef LM_ANALYSIS_CHAPTERS_H
#define LM_ANALYSIS_CHAPTERS_H

#include "study/compare/comparison.h"
#include "study/explain/cards.h"
#include "study/page/document.h"

/* Data shared between the chapters of a report: lm_document.shared. */
typedef struct lm_chapters_shared {
    lm_comparison *comparison;   /* of several models, or of one and milestones; NULL: not yet created */
    lm_users      *users;        /* [cards], allocated on first use */
    const char    *forward;      /* the forward pass as text, for a fold; NULL: none */
    bool           listing;      /* add the model as source code */
    bool           sliders;      /* add the sliders of pages */
} lm_chapters_shared;

static inline lm_chapters_shared *lm_shared(lm_document *d)
{
    return d->shared;
}

/* ---- chapters, in order ---- */
lm_chapter lm_chapter_overview, lm_chapter_configuration, lm_chapter_structure, lm_chapter_layers,
    lm_chapter_parameters, lm_chapter_estimates, lm_chapter_compute, lm_chapter_cache, lm_chapter_memory,
    lm_chapter_speed, lm_chapter_tuning, lm_chapter_positions, lm_chapter_components, lm_chapter_formulas,
    lm_chapter_reading, lm_chapter_history, lm_chapter_sources;

/* For several models: what they have in common and what differs. */
lm_chapter lm_chapter_comparison;

/* ---- tables shared by views and chapters ---- */
lm_chapter lm_part_info, lm_part_parameters, lm_part_flops, lm_part_cache, lm_part_precisions, lm_part_plan,
    lm_part_memory, lm_part_frequencies, lm_part_diagrams, lm_part_formulas;

/* The beginning of an overview. What stands out requires the comparison of the single model, made by
 * lm_compare_one. */
lm_chapter lm_part_headline, lm_part_takeaways;
void lm_compare_one(lm_document *d);

/* Add a decoder layer as a table, operation by operation, `depth` levels deep. */
lm_doc_table *lm_layer_table(lm_document *d, uint32_t layer, uint32_t depth, bool titles);

/* Add a fact as a row with a label, if the model has it. */
void lm_figure_row(lm_doc_table *t, const char *label, lm_manner m, const char *path);

/* Return whether a token uses some parameters only, among them an embedding of which it reads one row. */
bool lm_reads_embedding_apart(lm_facts *f);

/* Add what `lamina explain TOPIC` shows: the formula, the diagram, the letters and the arithmetic in a fold.
 * A diagram of this model that the report already contains is not drawn again. */
typedef enum lm_topic_parts {
    LM_TOPIC_WHAT = 1, LM_TOPIC_ARITHMETIC = 2, LM_TOPIC_DIAGRAM = 4, LM_TOPIC_JUDGEMENT = 8,
    LM_TOPIC_CLOSED = 16,        /* the diagram in a fold */
    LM_TOPIC_LETTERS = 32        /* of the formulas of LM_TOPIC_WHAT */
} lm_topic_parts;
void lm_doc_topic(lm_document *d, const char *topic, unsigned parts, const char *output);

/* Return the i-th context of tables: up to the model's own, which is last. 0: past the end. */
uint64_t lm_context_at(lm_facts *f, size_t i);

#endif
