/* logline.h - write a line to the callback of an object's options (lamina/log.h). */
#ifndef LM_BASE_LOGLINE_H
#define LM_BASE_LOGLINE_H

#include "lamina/log.h"

/* Write a line of at most 511 bytes, escaped like errors. Without a callback, do nothing. */
void lm_log_line(const lm_log *log, lm_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
