/* pulling.c - progress of a pull. */
#include "cli/base/pulling.h"

#include <stdio.h>

#include "base/os/clock.h"

enum { BETWEEN_LINES = 30 };             /* seconds */

lm_pulling lm_pulling_start(void)
{
    return (lm_pulling){ .bar = lm_progress_start("fetching"), .printed = lm_clock_seconds() };
}

/* "12 MB/s, 3 min left, 4/9 files" */
static void words_of(const hub_progress *now, char *out, size_t size)
{
    char   rate[LM_FORMATTED], left[32] = "";
    double seconds = now->rate > 0
                         ? (double)(now->of - (now->done < now->of ? now->done : now->of)) / now->rate
                         : 0;

    if (seconds >= 1)
        snprintf(left, sizeof left, seconds < 120 ? " %.0f s left," : " %.0f min left,",
                 seconds < 120 ? seconds : seconds / 60);
    if (now->rate > 0)
        snprintf(out, size, "%s/s,%s %u/%u files", lm_format_bytes(rate, (uint64_t)now->rate), left,
                 now->files, now->files_of);
    else
        snprintf(out, size, "%u/%u files", now->files, now->files_of);
}

void lm_pulling_show(void *pulling, const hub_progress *now)
{
    lm_pulling *p = pulling;
    double      clock = lm_clock_seconds();
    char        done[LM_FORMATTED], of[LM_FORMATTED];

    if (!now->of)
        return;
    words_of(now, p->bar.note, sizeof p->bar.note);
    lm_progress_show(&p->bar, (double)now->done / (double)now->of);
    if (p->bar.visible || clock - p->printed < BETWEEN_LINES)
        return;
    p->printed = clock;
    lm_note("fetching: %s of %s, %s", lm_format_bytes(done, now->done), lm_format_bytes(of, now->of),
            p->bar.note);
}
