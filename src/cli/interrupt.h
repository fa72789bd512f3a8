/* interrupt.h - Ctrl-C stops what the engine is doing, not the program; the second one does. */
#ifndef LM_CLI_INTERRUPT_H
#define LM_CLI_INTERRUPT_H

#include "lamina/engine.h"

/* From now on Ctrl-C cancels steps of `g` (NULL: only remembers). */
void lm_interrupt_watch(lm_engine *g);
/* Since the last lm_interrupt_clear. */
bool lm_interrupted(void);
void lm_interrupt_clear(void);
/* Waits until `fd` has something to read, or its end (true), or Ctrl-C came since the last clear (false). */
bool lm_interrupt_wait(int fd);

#endif
