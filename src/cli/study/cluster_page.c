/* cluster_page.c - the splits of a model over nodes as JSON and as a table, and why the best are best. */
#include "cli/study/cluster_page.h"

#include <stdio.h>

#include "cli/base/cell_table.h"

enum { SPLIT = 32 };

static const char *split_name(char out[SPLIT], const lm_cluster_row *r)
{
    if (r->pp > 1 && r->tp > 1)
        snprintf(out, SPLIT, "tp=%u,pp=%u", r->tp, r->pp);
    else
        snprintf(out, SPLIT, r->pp > 1 ? "pp=%u" : "tp=%u", r->pp > 1 ? r->pp : r->tp);
    return out;
}

static double network(const lm_cluster_time *t)
{
    return t->latency + t->transfer;
}

static double seconds(const lm_cluster_time *t)
{
    return t->computing + network(t);
}

/* ---- JSON ---- */

static json_t *time_json(const lm_cluster_time *t, bool simulated)
{
    if (t->rate <= 0)
        return json_null();
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:o}", "computing", t->computing, "latency", t->latency,
                     "transfer", t->transfer, "seconds", seconds(t), "tokens_per_second", t->rate,
                     "simulated_seconds", simulated ? json_real(t->simulated) : json_null());
}

static json_t *row_json(const lm_cluster_row *r, bool simulated)
{
    char name[SPLIT];

    return json_pack(
        "{s:s, s:i, s:i, s:i, s:i, s:b, s:b, s:{s:i, s:I, s:I, s:I, s:I}, s:I, s:i, s:I, s:o, s:o, s:o}",
        "split", split_name(name, r), "tp", (int)r->tp, "pp", (int)r->pp, "ranks", (int)(r->tp * r->pp),
        "copies", (int)r->copies, "fits", r->fits, "tight", r->tight, "memory", "rank", (int)r->largest,
        "weights", (json_int_t)r->weights, "kv", (json_int_t)r->kv, "scratch", (json_int_t)r->scratch,
        "total", (json_int_t)r->total, "weights_of_all_ranks", (json_int_t)r->weights_of_all,
        "exchanges_per_token", (int)r->exchanges, "sent_per_token", (json_int_t)r->sent, "one_stream",
        time_json(&r->one, simulated), "many_streams", time_json(&r->many, simulated), "prompt",
        time_json(&r->first, simulated));
}

static json_t *best_json(const lm_cluster_plan *p, int i)
{
    char name[SPLIT];

    return i < 0 ? json_null() : json_string(split_name(name, &p->rows[i]));
}

json_t *lm_cluster_plan_json(const lm_fitted *x, const lm_fit_place *at, const lm_cluster_plan *p,
                             bool simulated)
{
    json_t *rows = json_array();

    for (size_t i = 0; i < p->n; i++)
        json_array_append_new(rows, row_json(&p->rows[i], simulated));
    json_t *node = json_pack("{s:s?, s:I, s:I, s:s, s:s}", "device", at->device ? at->device->name : NULL,
                             "memory", (json_int_t)p->memory, "reserve", (json_int_t)p->reserve,
                             "kernels", p->level, "mark", lm_limits_mark(&at->limits));
    json_t *link = json_pack("{s:s, s:f, s:f, s:s}", "name", p->link.name, "latency", p->link.latency,
                             "bytes_per_second", p->link.bytes_per_second, "source", p->link.source);
    return json_pack("{s:s, s:s, s:s, s:i, s:o, s:o, s:I, s:s, s:i, s:I, s:i, s:o, s:{s:o, s:o, s:o}}",
                     "kind", "plan", "model", x->info.name, "precision", p->precision, "nodes", (int)p->nodes,
                     "node", node, "link", link, "context", (json_int_t)p->context, "kv_type", at->kv,
                     "streams", (int)p->streams, "prompt_tokens", (json_int_t)p->prompt,
                     "most_tp", (int)p->max_tp, "splits", rows, "best",
                     "one_stream", best_json(p, p->best_one), "many_streams", best_json(p, p->best_many),
                     "first_token", best_json(p, p->best_first));
}

/* ---- text ---- */

static const char *time_or_dash(char out[LM_FORMATTED], double s, bool known)
{
    if (!known)
        snprintf(out, LM_FORMATTED, "-");
    else if (s == 0)
        snprintf(out, LM_FORMATTED, "0");
    else
        lm_format_time(out, s);
    return out;
}

static void add_row(lm_cell_table *g, const lm_cluster_row *r, bool simulated)
{
    char name[SPLIT], copies[LM_FORMATTED], total[LM_FORMATTED], sent[LM_FORMATTED], one[LM_FORMATTED],
        a[LM_FORMATTED], b[LM_FORMATTED], c[LM_FORMATTED], many[LM_FORMATTED], first[LM_FORMATTED],
        simulation[LM_FORMATTED];
    bool known = r->one.rate > 0;

    snprintf(copies, sizeof copies, "%u", r->copies);
    lm_cell_table_row(g, split_name(name, r), copies, lm_format_bytes(total, r->total),
                      lm_fit_verdict(r->fits, r->tight), r->sent ? lm_format_bytes(sent, r->sent) : "-",
                      lm_fit_rate(one, r->one.rate), time_or_dash(a, r->one.computing, known),
                      time_or_dash(b, r->one.latency, known), time_or_dash(c, r->one.transfer, known),
                      lm_fit_rate(many, r->many.rate), time_or_dash(first, seconds(&r->first), known),
                      simulated ? time_or_dash(simulation, r->one.simulated, known) : "");
}

/* "2.40 ms less computing", "1.81 ms more network" */
static void change(double from, double to, const char *what, lm_text *out)
{
    char time[LM_FORMATTED];

    lm_text_printf(out, "%s %s %s", lm_format_time(time, to > from ? to - from : from - to),
                   to > from ? "more" : "less", what);
}

/* Compare the computing time and the network time of two splits. */
static void reason(const lm_cluster_row *from, const lm_cluster_row *to, lm_text *out)
{
    char name[SPLIT];

    lm_text_printf(out, "\n               compared with %s ", split_name(name, from));
    change(from->one.computing, to->one.computing, "computing", out);
    lm_text_add_str(out, ", ");
    change(network(&from->one), network(&to->one), "network", out);
}

/* Return the split other than `best` that fits and generates the most tokens per second for one stream, or
 * NULL. */
static const lm_cluster_row *second(const lm_cluster_plan *p, const lm_cluster_row *best)
{
    const lm_cluster_row *found = NULL;

    for (size_t i = 0; i < p->n; i++)
        if (p->rows[i].fits && &p->rows[i] != best && (!found || p->rows[i].one.rate > found->one.rate))
            found = &p->rows[i];
    return found;
}

static const lm_cluster_row *first_that_fits(const lm_cluster_plan *p)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->rows[i].fits)
            return &p->rows[i];
    return NULL;
}

static void why(const lm_cluster_plan *p, lm_text *out)
{
    const lm_cluster_row *best = &p->rows[p->best_one], *min = first_that_fits(p), *other = second(p, best);
    char name[SPLIT], rate[LM_FORMATTED], time[LM_FORMATTED];

    lm_text_printf(out, "\n  one stream   %s, %s", split_name(name, best), lm_fit_rate(rate, best->one.rate));
    if (min != best)
        reason(min, best, out);
    if (other && other != min)
        reason(other, best, out);
    best = &p->rows[p->best_many];
    lm_text_printf(out, "\n  many         %s, %s together", split_name(name, best),
                   lm_fit_rate(rate, best->many.rate));
    if (best->copies > 1)
        lm_text_printf(out, "; %u copies send nothing to each other", best->copies);
    best = &p->rows[p->best_first];
    lm_text_printf(out, "\n  first token  %s, %s of a prompt of %llu tokens\n", split_name(name, best),
                   lm_format_time(time, seconds(&best->first)), (unsigned long long)p->prompt);
}

void lm_cluster_plan_page(const lm_fitted *x, const lm_fit_place *at, const lm_cluster_plan *p,
                          bool simulated, lm_store *store, lm_text *out)
{
    lm_cell_table g = { .store = store, .align = simulated ? "lrrlrrrrrrrr" : "lrrlrrrrrrr", .indent = 2 };
    char left[2 * LM_FIT_NAME], place[LM_FIT_NAME], model[LM_FIT_NAME], context[LM_FORMATTED],
        latency[LM_FORMATTED], rate[LM_FORMATTED];
    const char *source;

    snprintf(left, sizeof left, "%s on %u × %s", lm_fit_model_name(x, model), p->nodes,
             lm_fit_place_name(at, p->memory + p->reserve, place));
    lm_fit_title(left, p->precision, out);
    lm_text_printf(out, "%s: %s a message, %s a second; %s positions, cache %s; times at best\n\n",
                   p->link.title, lm_format_time(latency, p->link.latency),
                   lm_format_bytes(rate, (uint64_t)p->link.bytes_per_second),
                   lm_format_count(context, p->context), at->kv);
    lm_cell_table_row(&g, "", "copies", "a node holds", "", "sends", "one stream", "computing", "latency",
                      "bytes", "many", "first token", "simulated");
    for (size_t i = 0; i < p->n; i++)
        add_row(&g, &p->rows[i], simulated);
    lm_cell_table_print(&g, out);
    if (p->best_one >= 0)
        why(p, out);
    lm_text_add_str(out, "\n  computing    of the slowest rank; latency: messages that wait for each other; "
                         "bytes: what comes to each\n");
    lm_text_printf(out,
                   "  sends        each rank, for a token of one stream; many: %u streams in each copy, all "
                   "copies together\n",
                   p->streams);
    if (p->max_tp < p->nodes)
        lm_text_printf(out, "  tp           at most %u, the number of query heads\n", p->max_tp);
    lm_text_printf(out, "  link         %s\n", p->link.source);
    if (p->reserve) {
        lm_device_reserve(at->device, &source);
        lm_text_printf(out, "  reserved     %s: %s\n", lm_format_bytes(rate, p->reserve), source);
    }
    lm_fit_mark(at, out);
}
