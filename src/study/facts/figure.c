/* figure.c - numbers formatted for people. */
#include "study/facts/figure.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/language.h"
#include "base/number.h"

char *lm_fig_count(char out[LM_FIG], uint64_t n)
{
    char digits[24];
    int  length = snprintf(digits, sizeof digits, "%" PRIu64, n), at = 0;

    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = '\0';
    return out;
}

/* Print three significant digits, or the whole number below a thousand. */
static void scaled(char out[LM_FIG], double n, double step, const char *const *units, size_t n_units)
{
    size_t u = 0;

    for (; n >= step - step / 2000 && u + 1 < n_units; u++)
        n /= step;
    lm_print(out, LM_FIG,
             u == 0      ? "%.0f %s"
             : n < 9.995 ? "%.2f %s"
             : n < 99.95 ? "%.1f %s"
                         : "%.0f %s",
             n, units[u]);
}

char *lm_fig_short(char out[LM_FIG], double n)
{
    static const char *const units[] = { "", "k", "M", "B", "T" };       /* a billion; not SI prefixes */

    scaled(out, n, 1000, units, 5);
    if (out[strlen(out) - 1] == ' ')
        out[strlen(out) - 1] = '\0';
    return out;
}

char *lm_fig_size(char out[LM_FIG], double n)
{
    static const char *const units[] = { "B", "kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB" };

    scaled(out, n, 1000, units, 9);
    return out;
}

char *lm_fig_bytes(char out[LM_FIG], uint64_t n)
{
    return lm_fig_size(out, (double)n);
}

char *lm_fig_exact_bytes(char out[LM_FIG], uint64_t n)
{
    char digits[LM_FIG];

    snprintf(out, LM_FIG, "%.30s B", lm_fig_count(digits, n));
    return out;
}

char *lm_fig_both(char out[LM_FIG], uint64_t n)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    char                     decimal[LM_FIG], binary[LM_FIG];

    lm_fig_bytes(decimal, n);
    scaled(binary, (double)n, 1024, units, 7);
    snprintf(out, LM_FIG, n < 1000 ? "%.20s" : "%.20s (%.20s)", decimal, binary);
    return out;
}

char *lm_fig_flops(char out[LM_FIG], double n)
{
    static const char *const units[] = { "FLOP",  "kFLOP", "MFLOP", "GFLOP", "TFLOP",
                                         "PFLOP", "EFLOP", "ZFLOP", "YFLOP" };

    scaled(out, n, 1000, units, 9);
    return out;
}

char *lm_fig_rate(char out[LM_FIG], double n)
{
    if (n >= 999.5)
        return lm_fig_count(out, (uint64_t)(n / 10 + 0.5) * 10);
    lm_print(out, LM_FIG, "%.3g", n);
    return out;
}

char *lm_fig_fact(char out[LM_FIG], lm_facts *f, const char *path, ...)
{
    char    whole[160];
    va_list args;

    va_start(args, path);
    vsnprintf(whole, sizeof whole, path, args);
    va_end(args);
    double x = lm_facts_number(f, "%s", whole);
    if (x < 0x1p63)
        return lm_fig_count(out, lm_facts_count(f, "%s", whole));
    lm_print(out, LM_FIG, "%.3g", x);
    return out;
}

const char *lm_truth_text(const char *name, bool truth)
{
    if (name && strstr(name, "bias"))
        return truth ? C_("there is one", "yes") : C_("there is one", "no");
    return truth ? _("yes") : _("no");
}

char *lm_pages_text(char out[LM_PAGES_TEXT], lm_facts *f)
{
    char   a[LM_FIG];
    double seen = lm_facts_number(f, "kv.bytes_at_context");

    *out = '\0';
    if (lm_facts_count(f, "attention.windowed_layers") && lm_facts_number(f, "memory.kv") > seen)
        snprintf(out, LM_PAGES_TEXT,
                 _("The cache of a layer with a window also holds the rows of one step and is rounded up to "
                   "whole pages; "
                   "the positions "
                   "that are seen take %s."),
                 lm_fig_size(a, seen));
    return out;
}
