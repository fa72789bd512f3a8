/* log.h - where an object tells what it does. The library never prints: without a callback it is silent.
 *
 * Each model and each engine has its own, in its options; there is no state of the process. */
#ifndef LAMINA_LOG_H
#define LAMINA_LOG_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lm_log_level {
    LM_LOG_INFO,                     /* what was opened or made, and what it takes */
    LM_LOG_WARNING,                  /* what is unusual; of a model also lm_model_warning */
} lm_log_level;

typedef struct lm_log {
    /* `text`: one line without its end, printable, until the call returns. Called by the thread that calls the library, never by
     * workers. NULL: silence. */
    void (*write)(void *arg, lm_log_level level, const char *text);
    void  *arg;
} lm_log;

#ifdef __cplusplus
}
#endif
#endif
