/* found.c - the statements of a document, and the lines that none was found in. */
#include <stdio.h>
#include <string.h>

#include "analysis/audit/reading.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/number.h"

static void *grow(lm_reading *d, void *list, size_t n, size_t *room, size_t size)
{
    if (n < *room)
        return list;
    void *grown = lm_realloc(list, 2 * (*room + 16) * size);
    if (!grown) {
        d->failed = true;
        return NULL;
    }
    *room = 2 * (*room + 16);
    return grown;
}

static lm_said *add(lm_reading *d, lm_extent value)
{
    lm_said *list = grow(d, d->said, d->n_said, &d->room_said, sizeof *list);

    if (!list)
        return NULL;
    d->said = list;
    d->said[d->n_said] = (lm_said){ .line = d->line, .at = (size_t)(value.s - d->text), .size = value.n, .model = "", .quantity = "",
                                   .claim = "" };
    return &d->said[d->n_said++];
}

/* The same words at the same place say one thing once. */
static bool said_already(const lm_reading *d, lm_extent value, const char *quantity)
{
    for (size_t i = d->n_said; i-- > 0 && d->said[i].line == d->line;)
        if (d->said[i].at == (size_t)(value.s - d->text) && strcmp(d->said[i].quantity, quantity) == 0)
            return true;
    return false;
}

void lm_say(lm_reading *d, lm_extent value, int model, const char *quantity, const char *claim)
{
    lm_said *s;

    if (!quantity || !claim || !*claim || said_already(d, value, quantity) || !(s = add(d, value)))
        return;
    s->model    = model >= 0 ? d->known[model].name : "";
    s->quantity = quantity;
    s->claim    = claim;
    s->judged.verdict = LM_CLAIM_NOT_CHECKABLE;
    snprintf(s->judged.why, sizeof s->judged.why, "%s", model == LM_OTHER_MODEL ? "about another model" : "names no model");
}

void lm_say_judged(lm_reading *d, lm_extent value, lm_claim verdict, double truth, const char *why)
{
    char     number[32];
    lm_said *s = said_already(d, value, "") ? NULL : add(d, value);

    if (!s)
        return;
    s->claim          = lm_plain(d, value);
    s->judged.verdict = verdict;
    lm_number_text(number, truth);
    snprintf(s->judged.truth, sizeof s->judged.truth, "%s", number);
    snprintf(s->judged.why, sizeof s->judged.why, "%s", why);
}

void lm_say_known(lm_reading *d, lm_extent value, lm_claim verdict, const char *truth, const char *why)
{
    size_t before = d->n_said;

    lm_say_judged(d, value, verdict, 0, why);
    if (d->n_said > before)
        snprintf(d->said[before].judged.truth, sizeof d->said[before].judged.truth, "%s", truth);
}

void lm_say_topic(lm_reading *d, lm_extent line, const char *topic)
{
    lm_extent value = lm_trim(line);
    lm_said  *s;

    for (size_t i = d->n_said; i-- > 0 && d->said[i].line == d->line;)
        if (strcmp(d->said[i].judged.path, topic) == 0)
            return;
    if (!(s = add(d, value)))
        return;
    s->claim          = lm_plain(d, value);
    s->judged.verdict = LM_CLAIM_CONFIRMED;
    snprintf(s->judged.path, sizeof s->judged.path, "%s", topic);
}

void lm_leave_unread(lm_reading *d, lm_extent line)
{
    lm_unread *list = grow(d, d->unread, d->n_unread, &d->room_unread, sizeof *list);

    if (!list)
        return;
    d->unread = list;
    d->unread[d->n_unread++] = (lm_unread){ .line = d->line, .text = lm_plain(d, line) };
}
