/* shown.h - how a chat template writes tool calls: conversations are rendered with and without them. */
#ifndef LM_TEXT_ANSWER_SHOWN_H
#define LM_TEXT_ANSWER_SHOWN_H

#include "lamina/text.h"
#include "text/answer/family.h"

/* A call that no template contains by itself. */
#define LM_PROBE_NAME  "lamina_probe_q7"
#define LM_PROBE_KEYS  { "probe_place", "probe_days" }
#define LM_PROBE_ID    "probe0001"                       /* nine characters, as Mistral's templates require */

typedef struct lm_shown {
    lm_text one, two;                /* what the model would write for one call and for two; empty: nothing */
    lm_text bare;                    /* one call without arguments, which every way of printing gets right */
    lm_text prompt;                  /* what precedes an answer */
} lm_shown;

/* Render the probe. `id`: of the call; `reasoning_end`: what precedes it is left out (may be NULL). */
void lm_shown_render(const lm_template *t, const char *id, const char *reasoning_end, lm_shown *out);
void lm_shown_free(lm_shown *s);

/* Whether the family's reader reads so many calls of the probe from the text; `bare`: without arguments. */
bool lm_shown_is_read(const lm_answer_family *f, const lm_text *shown, unsigned calls, bool bare);

/* A family whose marks are learned; free it with lm_free. NULL: the calls have none of the known forms. */
lm_answer_family *lm_shown_learn(const lm_shown *s);

/* Return the start, or the end, of the mark <...> that a position is inside of; the position if it is in
 * none. */
size_t lm_mark_before(const char *s, size_t at);
size_t lm_mark_after(const char *s, size_t n, size_t at);

#endif
