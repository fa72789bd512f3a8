/* chapters.h - the chapters of a report. Each says its blocks about the current model (lm_document.facts) and leaves out what
 * the model does not have. Parts of chapters that pages show too (views.c) are functions of the same kind. */
#ifndef LM_ANALYSIS_CHAPTERS_H
#define LM_ANALYSIS_CHAPTERS_H

#include "analysis/document.h"

/* ---- chapters, in their order ---- */
lm_chapter lm_chapter_overview;

/* ---- tables that views and chapters share ---- */
lm_chapter lm_part_info;

#endif
