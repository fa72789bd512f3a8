/* interrupt.h - Ctrl-C stops the engine's current work, not the program; a second one before the first is
 * handled ends the program. SIGTERM and SIGHUP stop the work in the same way, and then the program ends;
 * incomplete files are removed. */
#ifndef LM_CLI_INTERRUPT_H
#define LM_CLI_INTERRUPT_H

#include "lamina/engine.h"

/* Make Ctrl-C cancel the steps of `g`. NULL: signals are only recorded. */
void lm_interrupt_watch(lm_engine *g);
/* Record signals instead of ending the process, for work that polls lm_interrupted. Pass the returned value
 * to lm_interrupt_release. */
bool lm_interrupt_record(void);
/* Let signals end the process again if they did before the hold. Returns LM_CANCELLED if one arrived, else
 * `status`. */
lm_status lm_interrupt_release(bool held, lm_status status, lm_error *e);
/* A progress callback: show the bar; return false after a signal. */
bool lm_interrupt_progress(void *bar, double fraction);
/* The same for work whose parts have names: `what` becomes the label of the bar. */
bool lm_interrupt_progress_of(void *bar, double fraction, const char *what);
/* Return whether a signal arrived since the last lm_interrupt_clear. SIGTERM and SIGHUP are never cleared. */
bool lm_interrupted(void);
/* Return the signal that ends the program, SIGTERM or SIGHUP, or 0. */
int  lm_interrupt_ended(void);
void lm_interrupt_clear(void);
/* Wait until `fd` is readable or at its end (true), or a signal arrives or has arrived since the last clear
 * (false). */
bool lm_interrupt_wait(int fd);

#endif
