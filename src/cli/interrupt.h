/* interrupt.h - Ctrl-C stops what the engine is doing, not the program; a second one, before the first was heard, ends it. SIGTERM
 * and SIGHUP stop it as Ctrl-C does, and then the program ends: what was half written is removed. */
#ifndef LM_CLI_INTERRUPT_H
#define LM_CLI_INTERRUPT_H

#include "lamina/engine.h"

/* From now on Ctrl-C cancels steps of `g` (NULL: only remembers). */
void lm_interrupt_watch(lm_engine *g);
/* For work that looks at lm_interrupted now and then: until the release, which wants what this returned, signals are only remembered. */
bool lm_interrupt_hold(void);
/* They end the process again if they did before. LM_CANCELLED when one came, else `status`. */
lm_status lm_interrupt_release(bool held, lm_status status, lm_error *e);
/* The form that callbacks of progress want: shows the bar, and false after a signal. */
bool lm_interrupt_progress(void *bar, double fraction);
/* Since the last lm_interrupt_clear; SIGTERM and SIGHUP are never cleared. */
bool lm_interrupted(void);
/* The signal that asks for the end, or 0. */
int  lm_interrupt_ended(void);
void lm_interrupt_clear(void);
/* Waits until `fd` has something to read, or its end (true), or Ctrl-C came since the last clear (false). */
bool lm_interrupt_wait(int fd);

#endif
