/* diff_page.c - the comparison of two models as text, Markdown and JSON.
 *
 * Read from the bottom: lm_diff_page, lm_diff_markdown and lm_diff_json begin with the models, then the
 * tensors, then the text. Tensors of one kind and type are one line of the text. Nothing is owned here: names
 * point into the lm_diff_result. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/columns.h"
#include "cli/measure/diffing.h"

enum { MAX_KINDS = 64 };

/* Tensors of one kind and the same types, over all layers: "attn_v", bf16 to q4_k. */
typedef struct tensor_kind {
    const char *name, *a, *b;
    size_t      n;
    double      snr_db, worst_db;    /* of all tensors together, and of the worst one; infinity: equal */
    uint64_t    b_bytes;
} tensor_kind;

/* ---- functions shared by all forms ---- */

/* Format an SNR; "∞": the tensors are equal. */
static const char *format_db(char out[LM_FORMATTED], double db)
{
    if (isinf(db))
        snprintf(out, LM_FORMATTED, "∞");
    else if (isnan(db))
        snprintf(out, LM_FORMATTED, "NaN");
    else
        snprintf(out, LM_FORMATTED, "%.1f", db);
    return out;
}

/* Find the range [first, last) of columns of a tensor's histogram outside of which all are empty. */
static void bin_range(const lm_diff_tensor *t, size_t *first, size_t *last)
{
    *first = 0;
    *last  = LM_DIFF_BINS;
    while (*first < LM_DIFF_BINS && !t->bins[*first])
        (*first)++;
    while (*last > *first && !t->bins[*last - 1])
        (*last)--;
}

/* Reduce "blk.3.attn_v.weight" to "attn_v" and "model.layers.3.mlp.down_proj.weight" to "mlp.down_proj". */
static void kind_of(const char *name, char *out, size_t size)
{
    size_t n = 0;

    for (const char *at = name; *at && n + 1 < size; at++) {
        if (*at == '.' && at[1] >= '0' && at[1] <= '9') {
            const char *end = at + 1 + strspn(at + 1, "0123456789");
            if (*end == '.') {
                /* drop the prefix before a number: the list of layers */
                n = 0;
                at = end;
                continue;
            }
        }
        out[n++] = *at;
    }
    out[n] = '\0';
    char *end = strstr(out, ".weight");
    if (end && !end[7])
        *end = '\0';
}

/* Add a tensor to its kind and update the SNR of all tensors together. */
static void add_to_kind(tensor_kind *k, const lm_diff_tensor *t, double *signal, double *noise)
{
    /* sum a² is not known, only the ratio: weight each tensor by its number of elements */
    *signal += (double)t->elements;
    *noise += (double)t->elements * t->relative * t->relative;
    if (!k->n || t->snr_db < k->worst_db)
        k->worst_db = t->snr_db;
    k->n++;
    k->b_bytes += t->b_bytes;
    k->snr_db = *noise > 0 ? 10 * log10(*signal / *noise) : INFINITY;
}

/* Group the tensors by kind and type, at most MAX_KINDS of them. Return their number. */
static size_t find_kinds(const lm_diff_result *r, tensor_kind *out, char (*names)[96])
{
    double signal[MAX_KINDS] = { 0 }, noise[MAX_KINDS] = { 0 };
    size_t n = 0;

    for (size_t i = 0; i < r->n_tensors; i++) {
        const lm_diff_tensor *t = &r->tensors[i];
        char                  kind[96];
        size_t                k = 0;
        kind_of(t->name, kind, sizeof kind);
        while (k < n &&
               (strcmp(names[k], kind) != 0 || strcmp(out[k].a, t->a) != 0 || strcmp(out[k].b, t->b) != 0))
            k++;
        if (k == MAX_KINDS)
            continue;
        if (k == n) {
            snprintf(names[n], sizeof names[n], "%s", kind);
            out[n] = (tensor_kind){ .name = names[n], .a = t->a, .b = t->b };
            n++;
        }
        add_to_kind(&out[k], t, &signal[k], &noise[k]);
    }
    return n;
}

/* Find the indices of the tensors with the largest relative errors, worst first, at most `max`. Return their
 * number. */
static size_t find_worst(const lm_diff_result *r, uint32_t *out, size_t max)
{
    size_t n = 0;

    for (uint32_t i = 0; i < r->n_tensors; i++) {
        size_t at = n;
        if (!(r->tensors[i].relative > 0) && !isnan(r->tensors[i].relative))
            continue;
        while (at > 0 && r->tensors[i].relative > r->tensors[out[at - 1]].relative)
            at--;
        if (at >= max)
            continue;
        n = n < max ? n + 1 : n;
        for (size_t k = n - 1; k > at; k--)
            out[k] = out[k - 1];
        out[at] = i;
    }
    return n;
}

/* "raise these 3 tensors to Q6_K: +40.1 MB, −60.2 % KL (0.0123 → 0.0049)" */
static void add_advice(const lm_diff_advice *a, lm_text *out)
{
    char bytes[LM_FORMATTED];

    if (a->n == 1)
        lm_text_printf(out, "raise %s to %s", a->tensors[0], a->to);
    else
        lm_text_printf(out, "raise these %zu tensors to %s", a->n, a->to);
    lm_text_printf(out, ": +%s, −%.0f %% KL (%.3g → %.3g nats)", lm_format_bytes(bytes, a->bytes),
                   100 * (1 - a->kl / a->kl_before), a->kl_before, a->kl);
}

static void add_layer(lm_text *out, int32_t layer)
{
    if (layer < 0)
        lm_text_add_str(out, "the embedding");
    else
        lm_text_printf(out, "layer %d", layer);
}

/* "first other token after token 5 of chunk 1: …"; nothing without a text. */
static void add_flip(const lm_diff_result *r, lm_text *out)
{
    if (!r->tokens)
        return;
    if (!r->flips) {
        lm_text_add_str(out, "both expect the same token everywhere");
        return;
    }
    lm_text_printf(out, "first other token after token %u of chunk %u: the streams name other tokens after ",
                   r->flip_position + 1, r->flip_chunk + 1);
    add_layer(out, r->flip_layer);
    if (r->flip_settled != r->flip_layer) {
        lm_text_add_str(out, ", for good after ");
        add_layer(out, r->flip_settled);
    }
}

/* ---- text ---- */

static void add_models(const lm_diffing *d, lm_text *out)
{
    char a[LM_FORMATTED], b[LM_FORMATTED];

    lm_text_printf(out, "A  %s, %s, %s in tensors\n", d->a.name, d->a.storage,
                   lm_format_bytes(a, d->r->a_bytes));
    lm_text_printf(out, "B  %s, %s, %s in tensors\n", d->b.name, d->b.storage,
                   lm_format_bytes(b, d->r->b_bytes));
    for (size_t i = 0; i < d->r->n_only_a; i++)
        lm_text_printf(out, "only in A: %s\n", d->r->only_a[i]);
    for (size_t i = 0; i < d->r->n_only_b; i++)
        lm_text_printf(out, "only in B: %s\n", d->r->only_b[i]);
}

static void add_kinds(const lm_diffing *d, lm_text *out)
{
    tensor_kind kinds[MAX_KINDS];
    char         names[MAX_KINDS][96], snr[LM_FORMATTED], worst[LM_FORMATTED], bytes[LM_FORMATTED];
    size_t       n = find_kinds(d->r, kinds, names);

    lm_text_printf(out, "\n%-28s %4s %-14s %10s %8s %8s\n", "tensors", "", "types", "bytes of B", "SNR dB",
                   "worst");
    for (size_t i = 0; i < n; i++) {
        char types[40];
        snprintf(types, sizeof types, "%s → %s", kinds[i].a, kinds[i].b);
        lm_text_printf(out, "%-28s %4zu ", names[i], kinds[i].n);
        lm_text_add_cell(out, types, 14);
        lm_text_printf(out, " %10s ", lm_format_bytes(bytes, kinds[i].b_bytes));
        format_db(snr, kinds[i].snr_db);
        format_db(worst, kinds[i].worst_db);
        lm_text_printf(out, "%*s%s %*s%s\n", (int)(8 - lm_text_columns(snr)), "", snr,
                       (int)(8 - lm_text_columns(worst)), "", worst);
    }
}

/* Append a histogram of the elements by error, one column per power of two: at most 12 columns up to the
 * largest error. */
static void add_bins(const lm_diff_tensor *t, lm_text *out)
{
    static const char *const blocks[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
    uint64_t max = 1;
    size_t   last = 0, shown = 12;

    for (size_t i = 0; i < LM_DIFF_BINS; i++) {
        max = t->bins[i] > max ? t->bins[i] : max;
        last = t->bins[i] ? i : last;
    }
    for (size_t i = last + 1 > shown ? last + 1 - shown : 0; i <= last; i++)
        lm_text_add_str(out, t->bins[i] ? blocks[(t->bins[i] * 7 + max / 2) / max] : " ");
    lm_text_printf(out, " 2^%d", (int)last - 48);
}

static void add_tensor(const lm_diff_tensor *t, lm_text *out)
{
    char snr[LM_FORMATTED], types[40];

    format_db(snr, t->snr_db);
    snprintf(types, sizeof types, "%s → %s", t->a, t->b);
    lm_text_printf(out, "%-28s ", t->name);
    lm_text_add_cell(out, types, 14);
    lm_text_printf(out, " %*s%s %9.2e %9.2e  ", (int)(6 - lm_text_columns(snr)), "", snr, 1 - t->cosine,
                   t->max_abs);
    if (t->matrix)
        lm_text_printf(out, "[%" PRIu64 "]", t->matrix);
    char at[48];
    snprintf(at, sizeof at, "[%" PRIu64 "][%" PRIu64 "]", t->row, t->column);
    lm_text_printf(out, "%-14s ", at);
    add_bins(t, out);
    lm_text_add_char(out, '\n');
}

static void add_tensors(const lm_diffing *d, lm_text *out)
{
    uint32_t worst[8];
    size_t   n = d->all ? d->r->n_tensors : find_worst(d->r, worst, sizeof worst / sizeof *worst);

    if (!n) {
        lm_text_add_str(out, "\nevery tensor is the same\n");
        return;
    }
    lm_text_printf(out, "\n%-28s %-14s %6s %9s %9s  %-14s %s\n", d->all ? "tensor" : "tensors that lost most",
                   "types", "SNR", "1 − cos", "largest", "at", "errors, up to");
    for (size_t i = 0; i < n; i++)
        add_tensor(&d->r->tensors[d->all ? i : worst[i]], out);
}

static void add_layers(const lm_diffing *d, lm_text *out)
{
    double max = 0;

    lm_text_printf(out, "\n%-28s %9s %9s\n", "residual stream after", "error", "its own");
    for (size_t i = 0; i < d->r->n_layers; i++)
        max = d->r->layers[i].relative > max ? d->r->layers[i].relative : max;
    for (size_t i = 0; i < d->r->n_layers; i++) {
        const lm_diff_layer *l = &d->r->layers[i];
        lm_text_printf(out, "%-28s %7.3f %% %7.3f %%  ", l->path, 100 * l->relative, 100 * l->added);
        for (int k = 0; max > 0 && k < (int)(24 * l->relative / max + 0.5); k++)
            lm_text_add_str(out, "█");
        lm_text_add_char(out, '\n');
    }
}

static void add_text_part(const lm_diffing *d, lm_text *out)
{
    const lm_diff_result *r = d->r;

    if (!r->tokens)
        return;
    add_layers(d, out);
    lm_text_printf(out,
                   "\non %" PRIu64 " tokens of %s: mean KL %.6f nats, largest %.4f; same top token %.2f %%\n",
                   r->tokens, d->text, r->mean_kl, r->max_kl, 100 * r->same_top);
    add_flip(r, out);
    lm_text_add_char(out, '\n');
    for (size_t i = 0; i < r->n_advice; i++) {
        lm_text_add_char(out, '\n');
        add_advice(&r->advice[i], out);
        for (size_t k = 0; r->advice[i].n > 1 && k < r->advice[i].n; k++)
            lm_text_printf(out, "\n    %s", r->advice[i].tensors[k]);
        lm_text_add_char(out, '\n');
    }
    if (r->advice_note)
        lm_text_printf(out, "no advice: %s\n", r->advice_note);
}

void lm_diff_page(const lm_diffing *d, lm_text *out)
{
    add_models(d, out);
    add_kinds(d, out);
    add_tensors(d, out);
    add_text_part(d, out);
}

/* ---- Markdown ---- */

void lm_diff_markdown(const lm_diffing *d, lm_text *out)
{
    const lm_diff_result *r = d->r;
    char                  snr[LM_FORMATTED], a[LM_FORMATTED], b[LM_FORMATTED];

    lm_text_printf(out, "# %s compared with %s\n\n| | A | B |\n|---|---|---|\n| model | %s | %s |\n",
                   d->b.name, d->a.name, d->a.name, d->b.name);
    lm_text_printf(out, "| type | %s | %s |\n| tensors | %s | %s |\n", d->a.storage, d->b.storage,
                   lm_format_bytes(a, r->a_bytes), lm_format_bytes(b, r->b_bytes));
    lm_text_add_str(out, "\n| tensor | A | B | SNR, dB | 1 − cosine | largest error | at "
                         "|\n|---|---|---|---:|---:|---:|---|\n");
    for (size_t i = 0; i < r->n_tensors; i++) {
        const lm_diff_tensor *t = &r->tensors[i];
        lm_text_printf(out, "| `%s` | %s | %s | %s | %.3e | %.3e | ", t->name, t->a, t->b,
                       format_db(snr, t->snr_db), 1 - t->cosine, t->max_abs);
        if (t->max_abs > 0)
            lm_text_printf(out, "%" PRIu64 ", %" PRIu64 ", %" PRIu64, t->matrix, t->row, t->column);
        lm_text_add_str(out, " |\n");
    }
    if (!r->tokens)
        return;
    lm_text_printf(out,
                   "\nOn %" PRIu64 " tokens of %s: mean KL %.6f nats, largest %.4f; same top token %.2f %%; ",
                   r->tokens, d->text, r->mean_kl, r->max_kl, 100 * r->same_top);
    add_flip(r, out);
    lm_text_add_str(out, ".\n\n| residual stream after | error | its own |\n|---|---:|---:|\n");
    for (size_t i = 0; i < r->n_layers; i++)
        lm_text_printf(out, "| `%s` | %.3f %% | %.3f %% |\n", r->layers[i].path, 100 * r->layers[i].relative,
                       100 * r->layers[i].added);
    for (size_t i = 0; i < r->n_advice; i++) {
        lm_text_add_str(out, i ? "- " : "\n- ");
        add_advice(&r->advice[i], out);
        for (size_t k = 0; r->advice[i].n > 1 && k < r->advice[i].n; k++)
            lm_text_printf(out, "%s`%s`", k ? ", " : ": ", r->advice[i].tensors[k]);
        lm_text_add_char(out, '\n');
    }
}

/* ---- JSON ---- */

static json_t *names(const char *const *list, size_t n)
{
    json_t *out = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(out, lm_json_of(list[i], strlen(list[i])));
    return out;
}

/* {"equal", "from", "counts"}: the columns from the first to the last non-empty one; "from" is the log2 of
 * the first one's lower end. */
static json_t *histogram(const lm_diff_tensor *t)
{
    json_t *counts = json_array();
    size_t first, last;

    bin_range(t, &first, &last);
    for (size_t i = first; i < last; i++)
        json_array_append_new(counts, json_integer((json_int_t)t->bins[i]));
    json_t *from = first < last ? json_integer((json_int_t)first - 48) : json_null();
    return json_pack("{s:I, s:o, s:o}", "equal", (json_int_t)t->equal, "from", from, "counts", counts);
}

static json_t *tensors(const lm_diff_result *r)
{
    json_t *out = json_array();

    for (size_t i = 0; i < r->n_tensors; i++) {
        const lm_diff_tensor *t = &r->tensors[i];
        json_t *at = json_null();
        if (t->max_abs > 0)
            at = json_pack("[I, I, I]", (json_int_t)t->matrix, (json_int_t)t->row, (json_int_t)t->column);
        json_t *one = json_pack("{s:o, s:s, s:s, s:I}", "name", lm_json_of(t->name, strlen(t->name)),
                                "a", t->a, "b", t->b, "elements", (json_int_t)t->elements);
        json_object_set_new(one, "a_bytes", json_integer((json_int_t)t->a_bytes));
        json_object_set_new(one, "b_bytes", json_integer((json_int_t)t->b_bytes));
        json_object_set_new(one, "cosine", lm_json_finite(t->cosine));
        json_object_set_new(one, "snr_db", lm_json_finite(t->snr_db));
        json_object_set_new(one, "relative", lm_json_finite(t->relative));
        json_object_set_new(one, "max_abs", lm_json_finite(t->max_abs));
        json_object_set_new(one, "at", at);
        json_object_set_new(one, "a_value", lm_json_finite((double)t->a_value));
        json_object_set_new(one, "b_value", lm_json_finite((double)t->b_value));
        json_object_set_new(one, "histogram", histogram(t));
        json_array_append_new(out, one);
    }
    return out;
}

static void add_text_members(const lm_diffing *d, json_t *out)
{
    const lm_diff_result *r = d->r;
    json_t *layers = json_array(), *advice = json_array(), *flip = json_null();

    for (size_t i = 0; i < r->n_layers; i++)
        json_array_append_new(layers, json_pack("{s:s, s:i, s:o, s:o}", "path", r->layers[i].path,
                                                "layer", (int)r->layers[i].layer,
                                                "rel_err", lm_json_finite(r->layers[i].relative),
                                                "added", lm_json_finite(r->layers[i].added)));
    for (size_t i = 0; i < r->n_advice; i++)
        json_array_append_new(advice, json_pack("{s:o, s:s, s:I, s:o, s:o}",
                                                "tensors", names(r->advice[i].tensors, r->advice[i].n),
                                                "to", r->advice[i].to,
                                                "bytes", (json_int_t)r->advice[i].bytes,
                                                "kl", lm_json_finite(r->advice[i].kl),
                                                "kl_before", lm_json_finite(r->advice[i].kl_before)));
    if (r->flips)
        flip = json_pack("{s:I, s:I, s:I, s:I}", "chunk", (json_int_t)r->flip_chunk,
                         "position", (json_int_t)r->flip_position, "layer", (json_int_t)r->flip_layer,
                         "settled", (json_int_t)r->flip_settled);
    json_object_set_new(out, "text", d->text ? lm_json_of(d->text, strlen(d->text)) : json_null());
    json_object_set_new(out, "tokens", json_integer((json_int_t)r->tokens));
    json_object_set_new(out, "layers", layers);
    json_object_set_new(out, "mean_kl", r->tokens ? lm_json_finite(r->mean_kl) : json_null());
    json_object_set_new(out, "max_kl", r->tokens ? lm_json_finite(r->max_kl) : json_null());
    json_object_set_new(out, "same_top", r->tokens ? lm_json_finite(r->same_top) : json_null());
    json_object_set_new(out, "first_flip", flip);
    json_object_set_new(out, "advice", advice);
    json_object_set_new(out, "advice_note", r->advice_note ? json_string(r->advice_note) : json_null());
}

static json_t *model(const lm_model_info *m, uint64_t bytes)
{
    json_t *name = lm_json_of(m->name, strlen(m->name)), *source = lm_json_of(m->source, strlen(m->source));

    return json_pack("{s:o, s:o, s:s, s:s, s:I}", "name", name, "source", source, "container", m->container,
                     "storage", m->storage, "bytes", (json_int_t)bytes);
}

json_t *lm_diff_json(const lm_diffing *d)
{
    json_t *out = json_pack("{s:o, s:o, s:o, s:o, s:o}", "a", model(&d->a, d->r->a_bytes),
                            "b", model(&d->b, d->r->b_bytes), "tensors", tensors(d->r),
                            "only_a", names(d->r->only_a, d->r->n_only_a),
                            "only_b", names(d->r->only_b, d->r->n_only_b));

    if (out) {
        add_text_members(d, out);
        json_object_set_new(out, "seconds", lm_json_finite(d->r->seconds));
    }
    return out;
}
