/* log.c - one callback. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"

static void       (*report)(void *, lm_log_level, const char *);
static void        *report_arg;
static lm_log_level report_least;

void lm_log_set(void (*callback)(void *, lm_log_level, const char *), void *arg, lm_log_level least)
{
    report       = callback;
    report_arg   = arg;
    report_least = least;
}

void lm_log(lm_log_level level, const char *format, ...)
{
    char    text[512], line[512];
    va_list args;

    if (!report || level < report_least)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    lm_escape(line, sizeof line, text);
    report(report_arg, level, line);
}
