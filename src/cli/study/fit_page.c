/* fit_page.c - how a model, or several together, fit a machine: as JSON and as a page.
 *
 * Text is in the language of the page, JSON in English. Nothing is owned: all names belong to the models. */
#include "cli/study/fit_page.h"

#include <stdio.h>
#include <string.h>

#include "base/columns.h"
#include "cli/base/cell_table.h"
#include "cli/base/output.h"

enum { NAME = LM_FIT_NAME };

/* ---- formatting ---- */

static const char *both(char out[2 * LM_FORMATTED], uint64_t bytes)
{
    char decimal[LM_FORMATTED];

    lm_format_bytes(decimal, bytes);
    snprintf(out, 2 * LM_FORMATTED, "%s (%.1f GiB)", decimal, (double)bytes / (1 << 30));
    return out;
}

const char *lm_fit_place_name(const lm_fit_place *at, uint64_t memory, char out[LM_FIT_NAME])
{
    char size[2 * LM_FORMATTED];

    both(size, memory);
    if (at->device)
        snprintf(out, LM_FIT_NAME, "%s, %s", at->device->title, size);
    else
        snprintf(out, LM_FIT_NAME, at->here ? _("this machine, %s free") : "%s", size);
    return out;
}

/* Escape a model's name and cut it to 100 bytes for a title. */
const char *lm_fit_model_name(const lm_fitted *x, char out[LM_FIT_NAME])
{
    lm_escape(out, 101, x->info.name);
    return out;
}

/* "182/s", with at least three digits. */
const char *lm_fit_rate(char out[LM_FORMATTED], double x)
{
    char count[LM_FORMATTED];

    if (x <= 0)
        snprintf(out, LM_FORMATTED, "-");
    else if (x < 99.95)
        snprintf(out, LM_FORMATTED, x < 9.995 ? "%.2f/s" : "%.1f/s", x);
    else
        snprintf(out, LM_FORMATTED, "%s/s", lm_format_count(count, (uint64_t)(x + 0.5)));
    return out;
}

static const char *limit(const char *name)
{
    return name && *name ? _(name) : "";
}

/* ---- one model ---- */

json_t *lm_fit_speed_json(const lm_fit_speed *s)
{
    if (s->rate <= 0)
        return json_null();
    return json_pack("{s:f, s:s}", "tokens_per_second", s->rate, "limited_by", s->limited_by);
}

static json_t *row_json(const lm_fit_row *r, uint64_t memory)
{
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:b, s:b, s:I, s:I, s:I, s:o, s:o}",
                     "precision", r->precision, "weights", (json_int_t)r->weights, "kv", (json_int_t)r->kv,
                     "scratch", (json_int_t)r->scratch, "total", (json_int_t)r->total, "fits", r->fits,
                     "tight", r->tight, "left", (json_int_t)memory - (json_int_t)r->total,
                     "longest_context", (json_int_t)r->longest,
                     "most_sequences", (json_int_t)r->max_sequences,
                     "generating", lm_fit_speed_json(&r->token), "reading", lm_fit_speed_json(&r->prompt));
}

static json_t *place_json(const lm_fit_place *at, const lm_fit *f)
{
    return json_pack("{s:s, s:s?, s:I, s:I, s:s, s:s}",
                     "kind", at->device ? "device" : at->here ? "this machine" : "memory",
                     "device", at->device ? at->device->name : NULL, "memory", (json_int_t)f->memory,
                     "reserve", (json_int_t)f->reserve, "kernels", f->level,
                     "mark", lm_limits_mark(&at->limits));
}

/* Describe the measurement behind the speeds of this machine. */
static const char *measured(const lm_fit_place *at)
{
    if (at->limits.below > 0)
        return _("the highest value measured on this machine; it was slower just now: lamina doctor");
    if (*lm_limits_mark(&at->limits))
        return _("speed not known: other programs ran during the measurement; lamina doctor --fresh measures "
                 "again");
    return _("measured here: lamina doctor");
}

void lm_fit_mark(const lm_fit_place *at, lm_text *out)
{
    if (*lm_limits_mark(&at->limits))
        lm_text_printf(out, _("  peaks: %s\n"), measured(at));
}

json_t *lm_fit_json(const lm_fitted *x, const lm_fit_place *at)
{
    const lm_fit *f = &x->fit;
    json_t *rows = json_array();

    for (size_t i = 0; i < f->n; i++)
        json_array_append_new(rows, row_json(&f->rows[i], f->memory));
    return json_pack("{s:s, s:o, s:I, s:I, s:s, s:I, s:b, s:s?, s:o}", "model", x->info.name, "machine",
                     place_json(at, f), "context", (json_int_t)f->context, "batch", (json_int_t)f->sequences,
                     "kv_type", at->kv, "prompt", (json_int_t)f->prompt, "fits", f->best >= 0, "best",
                     f->best >= 0 ? f->rows[f->best].precision : NULL, "precisions", rows);
}

/* Append a line with `left` at its beginning and `right` at its end, column 80. */
void lm_fit_title(const char *left, const char *right, lm_text *out)
{
    size_t used = lm_text_columns(left) + lm_text_columns(right);

    lm_text_printf(out, "%s%*s%s\n", left, used + 2 < 80 ? (int)(80 - used) : 2, "", right);
}

static void verdict(const lm_fitted *x, const lm_fit_place *at, lm_text *out)
{
    const lm_fit *f = &x->fit;
    char left[2 * NAME], right[NAME], place[NAME], model[NAME];

    snprintf(left, sizeof left, _("%s on %s"), lm_fit_model_name(x, model),
             lm_fit_place_name(at, f->memory + f->reserve, place));
    if (f->best < 0)
        snprintf(right, sizeof right, "%s",
                 x->has_weights && f->n > 1 ? _("does not fit as stored") : _("does not fit"));
    else if (strcmp(f->rows[f->best].precision, "as stored") == 0)
        snprintf(right, sizeof right, "%s", _("fits as stored"));
    else
        snprintf(right, sizeof right, _("fits in %s"), f->rows[f->best].precision);
    lm_fit_title(left, right, out);
}

static const char *planned_for(const lm_fit *f)
{
    return strcmp(f->level, "ref") == 0 ? _("weights as stored") : f->level;
}

static void settings(const lm_fit *f, const lm_fit_place *at, lm_text *out)
{
    char context[LM_FORMATTED];

    lm_text_printf(out,
                   P_(f->sequences, "%s positions, %llu sequence, cache %s; plan for %s\n\n",
                      "%s positions, %llu sequences, cache %s; plan for %s\n\n"),
                   lm_format_count(context, f->context), (unsigned long long)f->sequences, at->kv,
                   planned_for(f));
}

/* Append the name of a column, padded; its explanation follows. */
static void explain_column(const char *name, lm_text *out)
{
    size_t n = lm_text_columns(name);

    lm_text_printf(out, "  %s%*s", name, n < 10 ? (int)(11 - n) : 1, "");
}

const char *lm_fit_verdict(bool fits, bool tight)
{
    return tight ? _("tight") : fits ? "✓" : "✗";
}

/* Say what is kept of a device's memory, and why. */
static void add_reserve(const lm_device *d, uint64_t reserve, lm_text *out)
{
    const char *source;
    char bytes[LM_FORMATTED];

    if (!reserve)
        return;
    lm_device_reserve(d, &source);
    explain_column(_("reserved"), out);
    lm_text_printf(out, "%s: %s\n", lm_format_bytes(bytes, reserve), _(source));
}

static const char *longest(char out[LM_FORMATTED], uint64_t n)
{
    if (!n)
        return "-";
    return lm_format_count(out, n);
}

static void add_row(lm_cell_table *g, const lm_fit *f, const lm_fit_row *r)
{
    char a[LM_FORMATTED], b[LM_FORMATTED], c[LM_FORMATTED], d[LM_FORMATTED], left[LM_FORMATTED],
        context[LM_FORMATTED], max[LM_FORMATTED], token[LM_FORMATTED], prompt[LM_FORMATTED];

    snprintf(left, sizeof left, "%s%s", r->fits ? "+" : "−",
             lm_format_bytes(a, r->fits ? f->memory - r->total : r->total - f->memory));
    lm_format_count(max, r->max_sequences);
    lm_cell_table_row(g, _(r->precision), lm_format_bytes(a, r->weights), lm_format_bytes(b, r->kv),
                      lm_format_bytes(c, r->scratch), lm_format_bytes(d, r->total),
                      lm_fit_verdict(r->fits, r->tight), left, longest(context, r->longest),
                      r->max_sequences ? max : "-", r->fits ? lm_fit_rate(token, r->token.rate) : "-",
                      r->fits ? limit(r->token.limited_by) : "",
                      r->fits ? lm_fit_rate(prompt, r->prompt.rate) : "-",
                      r->fits ? limit(r->prompt.limited_by) : "");
}

static void explain_tight(const lm_fit *f, lm_text *out)
{
    for (size_t i = 0; i < f->n; i++)
        if (f->rows[i].tight) {
            explain_column(_("tight"), out);
            lm_text_printf(out, "%s\n", _("it fits, but less than a twentieth of the memory is left"));
            return;
        }
}

static void legend(const lm_fitted *x, const lm_fit_place *at, lm_text *out)
{
    const lm_fit *f = &x->fit;
    char context[LM_FORMATTED], prompt[LM_FORMATTED], length[LM_FORMATTED];

    lm_format_count(context, f->context);
    lm_format_count(prompt, f->prompt);
    if (f->context_length)
        lm_format_count(length, f->context_length);
    lm_text_add_char(out, '\n');
    explain_column(_("context"), out);
    if (f->context_length)
        lm_text_printf(out,
                       P_(f->sequences, "the longest for %llu sequence that a plan fits for, of %s\n",
                          "the longest for %llu sequences that a plan fits for, of %s\n"),
                       (unsigned long long)f->sequences, length);
    else
        lm_text_printf(out,
                       P_(f->sequences, "the longest for %llu sequence that a plan fits for, of any\n",
                          "the longest for %llu sequences that a plan fits for, of any\n"),
                       (unsigned long long)f->sequences);
    explain_column(_("batch"), out);
    lm_text_printf(out, _("the maximum number of sequences of %s positions that fit\n"), context);
    if (at->device || at->here) {
        explain_column(_("generates"), out);
        lm_text_printf(
            out,
            f->sequences > 1
                ? _("maximum tokens per second of all sequences with %s positions in the cache, and what "
                    "limits it\n")
                : _("maximum tokens per second with %s positions in the cache, and what limits it\n"),
            context);
        explain_column(_("reads"), out);
        lm_text_printf(out, _("tokens per second of a prompt of %s\n"), prompt);
        explain_column(_("peaks"), out);
        lm_text_printf(out, "%s\n", at->device ? at->device->source : measured(at));
    }
    add_reserve(at->device, f->reserve, out);
    explain_tight(f, out);
    lm_text_add_char(out, '\n');
    explain_column(_("more"), out);
    lm_text_printf(out, "--context N   --batch N   --kv-type q8_0   --precision P   --json%s\n",
                   at->device ? "" : "   --device NAME (lamina devices)");
}

void lm_fit_page(const lm_fitted *x, const lm_fit_place *at, lm_store *store, lm_text *out)
{
    /* Without speeds, their columns are omitted. */
    lm_cell_table g = { .store = store,
                        .align = at->device || at->here ? "lrrrrlrrrrlrl" : "lrrrrlrrr",
                        .indent = 2 };

    verdict(x, at, out);
    settings(&x->fit, at, out);
    lm_cell_table_row(&g, "", _("weights"), _("cache"), _("scratch"), _("total"), "", _("left"), _("context"),
                      _("batch"), _("generates"), "", _("reads"), "");
    for (size_t i = 0; i < x->fit.n; i++)
        add_row(&g, &x->fit, &x->fit.rows[i]);
    lm_cell_table_print(&g, out);
    legend(x, at, out);
}

/* ---- several models ---- */

uint64_t lm_fleet_total(const lm_fitted *x, size_t n)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += x[i].fit.rows[x[i].row].total;
    return sum;
}

/* Return how many further copies of a model fit in `left` bytes, with their own weights or sharing the loaded
 * ones. */
static uint64_t more_of(const lm_fitted *x, uint64_t left, bool sharing)
{
    const lm_fit_row *r = &x->fit.rows[x->row];
    uint64_t one = sharing ? r->kv + r->scratch : r->total;

    return one ? left / one : 0;
}

json_t *lm_fleet_json(const lm_fitted *x, size_t n, const lm_fit_place *at)
{
    uint64_t memory = x[0].fit.memory, total = lm_fleet_total(x, n),
             left = memory > total ? memory - total : 0;
    json_t *models = json_array();

    for (size_t i = 0; i < n; i++) {
        json_t *m = row_json(&x[i].fit.rows[x[i].row], memory);
        json_object_del(m, "fits");
        json_object_del(m, "tight");
        json_object_del(m, "left");
        json_object_del(m, "longest_context");
        json_object_del(m, "most_sequences");
        json_object_set_new(m, "model", json_string(x[i].info.name));
        json_object_set_new(m, "context", json_integer((json_int_t)x[i].fit.context));
        json_object_set_new(m, "more_copies", json_integer((json_int_t)more_of(&x[i], left, false)));
        json_object_set_new(m, "more_sharing_weights", json_integer((json_int_t)more_of(&x[i], left, true)));
        json_array_append_new(models, m);
    }
    return json_pack("{s:o, s:b, s:I, s:I, s:I, s:o}", "machine", place_json(at, &x[0].fit), "fits",
                     total <= memory, "total", (json_int_t)total, "left",
                     (json_int_t)memory - (json_int_t)total, "copies_of_all",
                     (json_int_t)(total ? memory / total : 0), "models", models);
}

static void fleet_rows(lm_cell_table *g, const lm_fitted *x, size_t n, uint64_t left)
{
    char a[LM_FORMATTED], b[LM_FORMATTED], c[LM_FORMATTED], d[LM_FORMATTED], e[LM_FORMATTED],
        context[LM_FORMATTED], more[LM_FORMATTED], sharing[LM_FORMATTED];

    lm_cell_table_row(g, "", _("stored as"), _("context"), _("weights"), _("cache"), _("scratch"), _("total"),
                      _("one more"), _("sharing weights"), _("generates"), "");
    for (size_t i = 0; i < n; i++) {
        const lm_fit_row *r = &x[i].fit.rows[x[i].row];
        snprintf(more, sizeof more, "%llu", (unsigned long long)more_of(&x[i], left, false));
        snprintf(sharing, sizeof sharing, "%llu", (unsigned long long)more_of(&x[i], left, true));
        lm_cell_table_row(g, x[i].info.name, _(r->precision), lm_format_count(context, x[i].fit.context),
                          lm_format_bytes(a, r->weights), lm_format_bytes(b, r->kv),
                          lm_format_bytes(c, r->scratch), lm_format_bytes(d, r->total), more, sharing,
                          lm_fit_rate(e, r->token.rate), limit(r->token.limited_by));
    }
    lm_cell_table_row(g, _("together"), "", "", "", "", "", lm_format_bytes(a, lm_fleet_total(x, n)), "", "",
                      "", "");
}

void lm_fleet_page(const lm_fitted *x, size_t n, const lm_fit_place *at, lm_store *store, lm_text *out)
{
    uint64_t memory = x[0].fit.memory, total = lm_fleet_total(x, n),
             left = memory > total ? memory - total : 0, copies = memory / total;
    lm_cell_table g = { .store = store, .align = "llrrrrrrrrl", .indent = 2 };
    char a[LM_FORMATTED], place[NAME], line[2 * NAME];

    snprintf(line, sizeof line, _("%zu models at once on %s"), n,
             lm_fit_place_name(at, memory + x[0].fit.reserve, place));
    lm_fit_title(line, copies == 0 ? _("do not fit") : copies == 1 ? _("fit") : _("fit more than once"), out);
    lm_text_printf(out,
                   P_(x[0].fit.sequences, "%llu sequence of each, cache %s; plan for %s\n\n",
                      "%llu sequences of each, cache %s; plan for %s\n\n"),
                   (unsigned long long)x[0].fit.sequences, at->kv, planned_for(&x[0].fit));
    fleet_rows(&g, x, n, left);
    lm_cell_table_print(&g, out);
    lm_text_add_str(out, "\n  ");
    if (copies)
        lm_text_printf(out,
                       P_(copies, "%s are left; all of them fit %llu time\n",
                          "%s are left; all of them fit %llu times\n"),
                       lm_format_bytes(a, left), (unsigned long long)copies);
    else
        lm_text_printf(out, _("%s are missing\n"), lm_format_bytes(a, total - memory));
    if (copies)
        lm_text_printf(out, "  %s\n",
                       _("one more: further copies of a model that fit into the remaining memory, with "
                         "separate or shared weights"));
    add_reserve(at->device, x[0].fit.reserve, out);
    lm_fit_mark(at, out);
}
