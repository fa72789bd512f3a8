/* logline.c - write one line that is safe to print. */
#include "base/os/logline.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"

void lm_log_line(const lm_log *log, lm_log_level level, const char *format, ...)
{
    char    text[512], line[512];
    va_list args;

    if (!log->write)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    lm_escape(line, sizeof line, text);
    log->write(log->arg, level, line);
}
