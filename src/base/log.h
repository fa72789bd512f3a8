/* log.h - messages for people, through one callback set by the program. The library itself never prints. */
#ifndef LM_BASE_LOG_H
#define LM_BASE_LOG_H

#include <stdint.h>

typedef enum lm_log_level { LM_LOG_DEBUG, LM_LOG_INFO, LM_LOG_WARNING } lm_log_level;

/* No callback: silence. `text` is one line, escaped as in errors. Called from any thread; set it before they start. */
void lm_log_set(void (*callback)(void *arg, lm_log_level level, const char *text), void *arg, lm_log_level least);
void lm_log(lm_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
