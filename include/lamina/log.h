/* log.h - log messages of a model or an engine. The library never prints: without a callback it is silent.
 *
 * Each model and each engine has its own log, set in its options; there is no process-wide log. */
#ifndef LAMINA_LOG_H
#define LAMINA_LOG_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lm_log_level {
    LM_LOG_INFO,                     /* what was opened or created, and its size */
    LM_LOG_WARNING,                  /* a warning; lm_model_warning returns those of a model as well */
} lm_log_level;

typedef struct lm_log {
    /* `text`: one printable line without a newline, valid during the call. Called by the thread that calls
     * the library, never by a worker. NULL: no log. */
    void (*write)(void *arg, lm_log_level level, const char *text);
    void  *arg;
} lm_log;

#ifdef __cplusplus
}
#endif
#endif
