/* fit_tables.c - tables that grow by a row for each device or number of sequences.
 *
 * The first row starts the table and its JSON array; the functions that end in _end write the title, the
 * table and the lines below it, and move the array into the document. */
#include "cli/study/fit_tables.h"

#include <stdio.h>
#include <string.h>

static void start(lm_fit_table *t, const char *align)
{
    if (t->rows)
        return;
    t->grid = (lm_cell_table){ .store = &t->cli->store, .align = align, .indent = 2 };
    t->rows = json_array();
}

/* ---- devices ---- */

void lm_fit_table_device(lm_fit_table *t, const lm_device *d)
{
    const lm_fit *f = &t->x->fit;
    const lm_fit_row *r = f->best >= 0 ? &f->rows[f->best] : NULL;
    char memory[LM_FORMATTED], total[LM_FORMATTED], left[LM_FORMATTED], token[LM_FORMATTED],
        prompt[LM_FORMATTED];

    start(t, "lrllrrrlrl");
    t->n++;
    t->fitting += r != NULL;
    json_array_append_new(t->rows, json_pack("{s:s, s:I, s:I, s:b, s:b, s:s?, s:o, s:o, s:o}",
                                             "device", d->name, "memory", (json_int_t)f->memory,
                                             "reserve", (json_int_t)f->reserve, "fits", r != NULL,
                                             "tight", r && r->tight, "precision", r ? r->precision : NULL,
                                             "total", r ? json_integer((json_int_t)r->total) : json_null(),
                                             "generating", r ? lm_fit_speed_json(&r->token) : json_null(),
                                             "reading", r ? lm_fit_speed_json(&r->prompt) : json_null()));
    if (!t->kind)
        lm_cell_table_row(&t->grid, "", _("memory"), C_("column", "fits in"), "", _("takes"), _("left"),
                          _("generates"), "", _("reads"), "");
    else if (strcmp(t->kind, d->kind) != 0)
        lm_cell_table_line(&t->grid, "");
    t->kind = d->kind;
    snprintf(memory, sizeof memory, "%.0f GiB", (double)d->memory / (1 << 30));
    if (!r) {
        lm_cell_table_row(&t->grid, d->name, memory, "✗", "", "", "", "", "", "", "");
        return;
    }
    lm_cell_table_row(&t->grid, d->name, memory, _(r->precision), r->tight ? _("tight") : "",
                      lm_format_bytes(total, r->total), lm_format_bytes(left, f->memory - r->total),
                      lm_fit_rate(token, r->token.rate), _(r->token.limited_by),
                      lm_fit_rate(prompt, r->prompt.rate), _(r->prompt.limited_by));
}

void lm_fit_table_devices_end(lm_fit_table *t, const char *kv, lm_text *out)
{
    const lm_fit *f = &t->x->fit;
    char left[2 * LM_FIT_NAME], model[LM_FIT_NAME], right[LM_FIT_NAME], context[LM_FORMATTED],
        prompt[LM_FORMATTED];

    snprintf(left, sizeof left, _("%s on %zu devices"), lm_fit_model_name(t->x, model), t->n);
    snprintf(right, sizeof right, _("fits %zu of them"), t->fitting);
    lm_fit_title(left, right, out);
    lm_text_printf(
        out,
        P_(f->sequences,
           "%s positions, %llu sequence, cache %s; the highest precision that fits, maximum speeds\n\n",
           "%s positions, %llu sequences, cache %s; the most exact precision that fits, at best\n\n"),
        lm_format_count(context, f->context), (unsigned long long)f->sequences, kv);
    lm_cell_table_print(&t->grid, out);
    lm_text_add_str(out, "\n  ");
    lm_text_printf(out,
                   _("generates  tokens per second with %s positions in the cache; reads: tokens per "
                     "second of a prompt of %s\n"),
                   context, lm_format_count(prompt, f->prompt));
    lm_text_printf(
        out, "  %s\n",
        _("memory     without what the operating system, the driver and the runtime need: lamina devices "
          "NAME"));
    lm_text_printf(out, "  %s\n", _("tight      less than a twentieth of the free memory is left"));
    lm_text_printf(out, "\n  %s\n",
                   _("more       lamina fit MODEL --device NAME   lamina devices NAME (with its source)"));
    t->json = json_pack("{s:s, s:I, s:I, s:s, s:I, s:o}", "model", t->x->info.name,
                        "context", (json_int_t)f->context, "batch", (json_int_t)f->sequences, "kv_type", kv,
                        "prompt", (json_int_t)f->prompt, "devices", t->rows);
}

/* ---- numbers of sequences ---- */

/* Return the cost of a million tokens when an hour costs `price`. */
static double cost(double price, double rate)
{
    return rate > 0 ? price / 3600 / rate * 1e6 : 0;
}

static json_t *cost_json(double price, double rate)
{
    return price > 0 && rate > 0 ? json_real(cost(price, rate)) : json_null();
}

void lm_fit_table_batch(lm_fit_table *t, const lm_fit_row *r)
{
    const lm_fit *f = &t->x->fit;
    char n[LM_FORMATTED], cache[LM_FORMATTED], total[LM_FORMATTED], all[LM_FORMATTED], each[LM_FORMATTED],
        money[LM_FORMATTED];

    if (!t->rows) {
        start(t, t->price > 0 ? "rrrrrlr" : "rrrrrl");
        lm_cell_table_row(&t->grid, _("sequences"), _("cache"), _("takes"), _("together"), _("each"), "",
                          _("a million tokens"));
    }
    json_array_append_new(t->rows,
                          json_pack("{s:I, s:I, s:I, s:o, s:o, s:o}", "batch", (json_int_t)f->sequences, "kv",
                                    (json_int_t)r->kv, "total", (json_int_t)r->total, "generating",
                                    lm_fit_speed_json(&r->token), "each",
                                    r->token.rate > 0 ? json_real(r->token.rate / (double)f->sequences)
                                                      : json_null(),
                                    "price_per_million", cost_json(t->price, r->token.rate)));
    snprintf(money, sizeof money, r->token.rate > 0 ? "%.4f" : "-", cost(t->price, r->token.rate));
    lm_cell_table_row(&t->grid, lm_format_count(n, f->sequences), lm_format_bytes(cache, r->kv),
                      lm_format_bytes(total, r->total), lm_fit_rate(all, r->token.rate),
                      lm_fit_rate(each, r->token.rate / (double)f->sequences), _(r->token.limited_by), money);
}

void lm_fit_table_batches_end(lm_fit_table *t, const lm_fit_place *at, lm_text *out)
{
    const lm_fit *f = &t->x->fit;
    const lm_fit_row *r = &f->rows[0];
    char left[2 * LM_FIT_NAME], model[LM_FIT_NAME], place[LM_FIT_NAME], right[LM_FIT_NAME];
    char context[LM_FORMATTED], prompt[LM_FORMATTED], rate[LM_FORMATTED];

    snprintf(left, sizeof left, _("%s on %s"), lm_fit_model_name(t->x, model),
             lm_fit_place_name(at, f->memory + f->reserve, place));
    snprintf(right, sizeof right, "%s", _(r->precision));
    lm_fit_title(left, right, out);
    lm_text_printf(out, _("%s positions in each cache, %s; maximum tokens per second\n\n"),
                   lm_format_count(context, f->context), at->kv);
    lm_cell_table_print(&t->grid, out);
    lm_text_add_str(out, "\n  ");
    lm_text_printf(out, _("a prompt of %s is read at %s, limited by %s"), lm_format_count(prompt, f->prompt),
                   lm_fit_rate(rate, r->prompt.rate),
                   r->prompt.rate > 0 ? _(r->prompt.limited_by) : _("what nobody publishes"));
    if (t->price > 0 && r->prompt.rate > 0)
        lm_text_printf(out, _(": %.4f a million tokens"), cost(t->price, r->prompt.rate));
    lm_text_add_char(out, '\n');
    lm_fit_mark(at, out);
    if (t->price > 0)
        lm_text_printf(out, _("  at %.2f per hour of a machine that is always busy\n"), t->price);
    t->json = json_pack("{s:s, s:s, s:I, s:s, s:o, s:o, s:o, s:o}", "model", t->x->info.name,
                        "precision", r->precision, "context", (json_int_t)f->context, "kv_type", at->kv,
                        "reading", lm_fit_speed_json(&r->prompt),
                        "price", t->price > 0 ? json_real(t->price) : json_null(),
                        "reading_price_per_million", cost_json(t->price, r->prompt.rate), "batches", t->rows);
}
