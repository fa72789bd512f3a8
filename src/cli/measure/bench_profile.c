/* bench_profile.c - the profile of a test, as a table and as JSON. */

#include "base/columns.h"
#include "cli/base/cell_table.h"
#include "cli/measure/bench.h"

/* A line of the profile; `seconds` is the sum over all workers. */
typedef struct part {
    const char *name;
    double      seconds;
    const lm_profile_kind *product;
} part;

enum { MAX_PARTS = LM_PROFILE_KINDS + 2, BAR = 24 };

/* List the kinds of work, waiting, and the time between steps, longest first. Their sum, `*total`, is the
 * test's time times the number of workers. Return their number. */
static unsigned parts_of(const lm_bench_result *r, part out[MAX_PARTS], double *total)
{
    const lm_profile *p = &r->profile;
    unsigned n = 0;
    double workers = p->seconds > 0 ? p->worker_seconds / p->seconds : 1,
           rest = r->profile_seconds - p->seconds;

    *total = 0;
    for (uint32_t i = 0; i < p->n_kinds; i++)
        if (p->kinds[i].seconds > 0)
            out[n++] = (part){ p->kinds[i].name, p->kinds[i].seconds,
                               p->kinds[i].product ? &p->kinds[i] : NULL };
    out[n++] = (part){ "waiting for workers", p->waiting, NULL };
    out[n++] = (part){ "between steps", rest > 0 ? rest * workers : 0, NULL };
    for (unsigned i = 0; i < n; i++)
        *total += out[i].seconds;
    for (unsigned i = 1; i < n; i++)                     /* longest first */
        for (unsigned k = i; k > 0 && out[k].seconds > out[k - 1].seconds; k--) {
            part t = out[k];
            out[k] = out[k - 1];
            out[k - 1] = t;
        }
    return n;
}

static void add_part(lm_cell_table *g, const part *p, double total, double tokens, double seconds,
                     double workers)
{
    char time[32], share[32], ops[32] = "", bytes[32] = "";
    lm_text bar = { 0 };
    double of = p->seconds / total, alone = p->seconds / workers;

    snprintf(time, sizeof time, "%.1f", 1e6 * of * seconds / tokens);
    snprintf(share, sizeof share, "%.1f %%", 100 * of);
    if (of * BAR * 8 >= 0.5)                             /* no bar below half of the smallest block */
        lm_text_add_bar(&bar, of, BAR);
    if (p->product)
        snprintf(ops, sizeof ops, "%.0f GOP/s", 1e-9 * (double)p->product->ops / alone);
    if (p->product && p->product->bytes)
        snprintf(bytes, sizeof bytes, "%.1f GB/s", 1e-9 * (double)p->product->bytes / alone);
    lm_cell_table_row(g, p->name, time, share, ops, bytes, bar.data ? bar.data : "");
    lm_text_free(&bar);
}

void lm_bench_profile_text(const lm_bench_result *r, const char *test, lm_store *store, lm_text *out)
{
    const lm_profile *p = &r->profile;
    double  total, workers = p->seconds > 0 ? p->worker_seconds / p->seconds : 1;
    part    parts[MAX_PARTS];
    unsigned n = parts_of(r, parts, &total);
    lm_cell_table g = { .store = store, .align = "lrrrrl", .indent = 2 };

    lm_text_printf(out, "\n%s: %.1f µs a token, %.4g threads, %.4g joins a step\n\n", test,
                   1e6 * r->profile_seconds / r->tokens, workers,
                   p->steps ? (double)p->joins / (double)p->steps : 0);
    lm_cell_table_row(&g, "", "µs", "share", "", "", "");
    for (unsigned i = 0; i < n; i++)
        add_part(&g, &parts[i], total, r->tokens, r->profile_seconds, workers);
    lm_cell_table_print(&g, out);
}

json_t *lm_bench_profile_json(const lm_bench_result *r)
{
    const lm_profile *p = &r->profile;
    json_t  *list = json_array();
    part     parts[MAX_PARTS];
    double   total;
    unsigned n = parts_of(r, parts, &total);

    for (unsigned i = 0; i < n; i++) {
        json_t *j = json_pack("{s:s, s:f, s:f}", "kind", parts[i].name, "seconds", parts[i].seconds,
                              "share", parts[i].seconds / total);
        if (parts[i].product) {
            json_object_set_new(j, "ops", json_integer((json_int_t)parts[i].product->ops));
            json_object_set_new(j, "bytes", json_integer((json_int_t)parts[i].product->bytes));
        }
        json_array_append_new(list, j);
    }
    return json_pack("{s:f, s:f, s:I, s:I, s:o}", "seconds", r->profile_seconds, "worker_seconds", total,
                     "steps", (json_int_t)p->steps, "joins", (json_int_t)p->joins, "parts", list);
}
