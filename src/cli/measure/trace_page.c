/* trace_page.c - a trace as text: the surprise of each token, then the inside of one row. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/columns.h"
#include "cli/base/output.h"
#include "cli/measure/trace.h"

enum { SHOWN_LAYERS = 14, SHOWN_HEADS = 5, TOKEN_COLUMNS = 16 };

/* ---- tokens ---- */

void lm_trace_add_token(const lm_tracing *t, lm_token id, unsigned max, bool quoted, lm_text *out)
{
    const lm_tokenizer *k     = lm_model_tokenizer(t->model);
    lm_text             piece = { 0 };
    char                line[256];

    if (!k || lm_detokenize(k, &id, 1, 0, &piece, NULL) != LM_OK) {
        lm_text_printf(out, "%d", id);
        lm_text_free(&piece);
        return;
    }
    size_t n = 0;
    for (size_t i = 0; i < piece.size && n + 4 < sizeof line; i++) {
        if (piece.data[i] == '\n' || piece.data[i] == '\t')
            line[n++] = '\\', line[n++] = piece.data[i] == '\n' ? 'n' : 't';
        else
            line[n++] = piece.data[i];
    }
    line[n] = '\0';
    lm_text_free(&piece);
    char shown[256];
    lm_escape(shown, sizeof shown, line);
    lm_text_add_str(out, quoted ? "“" : "");
    if (lm_text_columns(shown) > max) {
        lm_text_add_cell(out, shown, max - 1);
        lm_text_add_str(out, "…");
    } else {
        lm_text_add_str(out, shown);
    }
    lm_text_add_str(out, quoted ? "”" : "");
}

lm_status lm_trace_row_selected(const lm_tracing *t, size_t n, uint32_t *out, lm_error *e)
{
    int64_t at = t->o->at, last = (int64_t)n - 1;

    if (at == INT32_MIN)                 /* the position that predicted the last generated token */
        at = n > t->ids.n ? last - 1 : last;
    else if (at < 0)
        at += (int64_t)n;
    if (at < 0 || at > last)
        return lm_fail(e, LM_USAGE, "--at", LM_NO_OFFSET, "%d; the text has %zu token%s", t->o->at, n,
                       n == 1 ? "" : "s");
    *out = (uint32_t)at;
    return LM_OK;
}

static bool colours(const lm_tracing *t)
{
    const char *term = getenv("TERM"), *no = getenv("NO_COLOR");

    return lm_out_is_terminal() && !t->cli->plain && !(no && *no) && !(term && strcmp(term, "dumb") == 0);
}

/* ---- text ---- */

static const struct { double min; int colour; const char *mark; } scale[] = {
    { 0, 0, " " }, { 2, 187, "░" }, { 6, 216, "▒" }, { 12, 203, "█" },
};

static unsigned step_of(double surprise)
{
    unsigned i = 0;

    while (i + 1 < sizeof scale / sizeof *scale && surprise >= scale[i + 1].min)
        i++;
    return i;
}

/* Append the tokens with their surprise below them, as many per line as fit. */
static void put_text(const lm_tracing *t, lm_text *out)
{
    lm_text        above = { 0 }, below = { 0 }, word = { 0 };
    lm_trace_token x;
    size_t         n;
    unsigned       width = lm_out_width(), used = 0;
    bool           colour = colours(t);

    lm_tracer_ids(t->tracer, &n);
    for (uint32_t i = 0; i < n && lm_tracer_token(t->tracer, i, &x); i++) {
        char     figure[32] = "–";
        unsigned step       = x.predicted ? step_of(x.surprise) : 0;
        lm_text_clear(&word);
        lm_trace_add_token(t, x.id, 40, false, &word);
        if (x.predicted)
            snprintf(figure, sizeof figure, "%.1f", x.surprise);
        unsigned columns = lm_text_columns(word.data ? word.data : ""), figures = lm_text_columns(figure);
        unsigned wide    = columns > figures ? columns : figures;
        if (used && used + wide + 1 > width) {
            lm_text_printf(out, "%s\n%s\n\n", above.data, below.data);
            lm_text_clear(&above);
            lm_text_clear(&below);
            used = 0;
        }
        if (colour && scale[step].colour)
            lm_text_printf(&above, "\033[30;48;5;%dm%s\033[0m", scale[step].colour,
                           word.data ? word.data : "");
        else
            lm_text_add_str(&above, word.data ? word.data : "");
        for (unsigned k = columns; k < wide + 1; k++)
            lm_text_add_char(&above, ' ');
        for (unsigned k = figures; k < wide; k++)
            lm_text_add_char(&below, ' ');
        lm_text_printf(&below, "%s ", figure);
        used += wide + 1;
    }
    if (used)
        lm_text_printf(out, "%s\n%s\n", above.data, below.data);
    lm_text_free(&above);
    lm_text_free(&below);
    lm_text_free(&word);
}

static void put_legend(const lm_tracing *t, lm_text *out)
{
    if (colours(t)) {
        lm_text_add_str(out, "surprise in bits:");
        for (size_t i = 1; i < sizeof scale / sizeof *scale; i++)
            lm_text_printf(out, "  \033[30;48;5;%dm from %g \033[0m", scale[i].colour, scale[i].min);
        lm_text_add_str(out, "\n\n");
    } else {
        lm_text_add_str(out, "each token, its surprise in bits below\n\n");
    }
}

/* ---- row ---- */

/* ".58", "1", "<.01" */
static const char *share(char out[16], double p)
{
    if (p >= 0.995)
        snprintf(out, 16, "1");
    else if (p >= 0.005)
        snprintf(out, 16, ".%02d", (int)(p * 100 + 0.5));
    else
        snprintf(out, 16, "<.01");
    return out;
}

static double share_of(const lm_trace_contribution *list, size_t n, int32_t layer, lm_trace_part part,
                       bool *some)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        if (list[i].layer == layer && list[i].part == part) {
            sum += list[i].value;
            *some = true;
        }
    return sum;
}

/* Return the layer whose attention adds most to the token's logit, or -1. */
static int32_t best_attention(const lm_trace_row *r)
{
    int32_t best = -1;
    double  max = 0;

    for (size_t i = 0; i < r->n_attribution; i++)
        if (r->attribution[i].part == LM_TRACE_ATTENTION && r->attribution[i].value > max) {
            max = r->attribution[i].value;
            best = r->attribution[i].layer;
        }
    return best;
}

/* Return the head of a layer with the largest weight on a token other than the first and the row's own, or
 * NULL. *which: the index of that weight. */
static const lm_trace_head *best_head(const lm_trace_row *r, int32_t layer, unsigned *which)
{
    const lm_trace_head *best = NULL;

    for (size_t i = 0; i < r->n_attention; i++)
        for (unsigned k = 0; k < 3; k++) {
            const lm_trace_head *h = &r->attention[i];
            if ((int32_t)h->layer != layer || h->at[k] == 0 || h->at[k] == r->position)
                continue;
            if (!best || h->weight[k] > best->weight[*which]) {
                best   = h;
                *which = k;
            }
        }
    return best;
}

static void put_head(const lm_tracing *t, const lm_trace_head *h, unsigned which, lm_text *out)
{
    const lm_token *ids = lm_tracer_ids(t->tracer, NULL);
    char            p[16];

    lm_text_printf(out, "%u.%u looks at ", h->layer, h->head);
    lm_trace_add_token(t, ids[h->at[which]], TOKEN_COLUMNS, true, out);
    lm_text_printf(out, " %s", share(p, (double)h->weight[which]));
}

/* Choose the layers to show, last first: the last, the first, and up to SHOWN_LAYERS whose best token differs
 * from that of the previously chosen layer; with -v all. Return their number. */
static size_t choose_layers(const lm_tracing *t, const lm_trace_row *r, size_t *out)
{
    size_t n = 0;

    for (size_t i = r->n_lens; i-- > 0;) {
        bool first = n == 0, changed = n && r->lens[out[n - 1]].top[0].id != r->lens[i].top[0].id;
        bool last  = i == 0;
        if (t->cli->verbose || first || last || (changed && n < SHOWN_LAYERS))
            out[n++] = i;
    }
    return n;
}

static void put_lens(const lm_tracing *t, const lm_trace_row *r, lm_text *out)
{
    size_t  *shown = calloc(r->n_lens + 1, sizeof *shown), n = shown ? choose_layers(t, r, shown) : 0;
    int32_t  brings = best_attention(r);
    bool     named = false;
    lm_text  line = { 0 };
    char     p[16];

    for (size_t i = 0; i < n; i++) {
        const lm_trace_lens *x = &r->lens[shown[i]];
        bool                 some = false, other = false, norm = false;
        double a = share_of(r->attribution, r->n_attribution, x->layer, LM_TRACE_ATTENTION, &some);
        double               m = share_of(r->attribution, r->n_attribution, x->layer, LM_TRACE_MLP, &other);
        double               length = share_of(r->norms, r->n_norms, x->layer, x->part, &norm);
        lm_text_clear(&line);
        if (x->layer < 0)
            lm_text_add_str(&line, "embedding ");
        else
            lm_text_printf(&line, "layer %-3d%c", x->layer, x->part == LM_TRACE_ATTENTION ? 'a' : ' ');
        for (uint32_t k = 0; k < x->n_top && k < 3 && x->top[k].id >= 0; k++) {
            lm_text_add_str(&line, " ");
            lm_trace_add_token(t, x->top[k].id, TOKEN_COLUMNS, false, &line);
            lm_text_printf(&line, " %s ", share(p, (double)x->top[k].p));
        }
        lm_text_add_cell(out, line.data ? line.data : "", 58);
        lm_text_printf(out, " rank %-6u", x->rank);
        if (norm)
            lm_text_printf(out, "%8.4g", length);
        if (some && x->part == LM_TRACE_LAYER)
            lm_text_printf(out, " %+7.2f %+7.2f", a, other ? m : 0);
        if (x->layer == brings && x->part == LM_TRACE_LAYER) {
            lm_text_add_str(out, "  ← attention adds most here");
            named = true;
        }
        lm_text_add_char(out, '\n');
    }
    unsigned             which = 0;
    const lm_trace_head *head  = brings >= 0 ? best_head(r, brings, &which) : NULL;
    if (brings >= 0) {
        bool some = false;
        lm_text_printf(out, "%s %d adds %+.2f to the logit",
                       named ? "its attention: layer" : "the attention of layer", brings,
                       share_of(r->attribution, r->n_attribution, brings, LM_TRACE_ATTENTION, &some));
        if (head) {
            lm_text_add_str(out, "; head ");
            put_head(t, head, which, out);
        }
        lm_text_add_char(out, '\n');
    }
    lm_text_free(&line);
    free(shown);
}

typedef struct far_head { const lm_trace_head *h; unsigned which; double score; } far_head;

static int compare_heads(const void *a, const void *b)
{
    double x = ((const far_head *)a)->score, y = ((const far_head *)b)->score;

    return x < y ? 1 : x > y ? -1 : 0;
}

/* List the heads that look furthest back (weight times distance), except at the first token, where most heads
 * look. */
static void put_heads(const lm_tracing *t, const lm_trace_row *r, lm_text *out)
{
    far_head *list = calloc(r->n_attention + 1, sizeof *list);
    size_t    n    = 0;

    for (size_t i = 0; list && i < r->n_attention; i++) {
        const lm_trace_head *h = &r->attention[i];
        far_head             best = { h, 0, 0 };
        for (unsigned k = 0; k < 3; k++) {
            double score = h->at[k] ? (double)h->weight[k] * (r->position - h->at[k]) : 0;
            if (score > best.score)
                best = (far_head){ h, k, score };
        }
        if (best.score > 0)
            list[n++] = best;
    }
    if (list)
        qsort(list, n, sizeof *list, compare_heads);
    if (n)
        lm_text_add_str(out, "\nheads that look furthest back, without the first token\n");
    for (size_t i = 0; i < n && i < SHOWN_HEADS; i++) {
        lm_text_add_str(out, "  ");
        put_head(t, list[i].h, list[i].which, out);
        lm_text_printf(out, ", %u back · entropy %.1f bit · first token %.2f\n",
                       r->position - list[i].h->at[list[i].which], list[i].h->entropy, list[i].h->first);
    }
    free(list);
}

static void put_experts(const lm_trace_row *r, lm_text *out)
{
    if (r->n_experts)
        lm_text_add_str(out, "\nexperts\n");
    for (size_t i = 0; i < r->n_experts; i++) {
        lm_text_printf(out, "  layer %-3d", r->experts[i].layer);
        for (uint32_t k = 0; k < r->experts[i].n; k++)
            lm_text_printf(out, " %u %.2f ", r->experts[i].expert[k], (double)r->experts[i].weight[k]);
        lm_text_add_char(out, '\n');
    }
}

static int compare_times(const void *a, const void *b)
{
    double x = ((const lm_trace_time *)a)->seconds, y = ((const lm_trace_time *)b)->seconds;

    return x < y ? 1 : x > y ? -1 : 0;
}

static void put_times(const lm_tracing *t, lm_text *out)
{
    lm_trace_time *list = NULL, x;
    size_t         n    = 0, max = 0;
    double         sum  = 0;

    while (lm_tracer_time(t->tracer, n, &x)) {
        if (n == max) {
            max = 2 * max + 256;
            lm_trace_time *more = realloc(list, max * sizeof *list);
            if (!more)
                break;
            list = more;
        }
        sum += x.seconds;
        list[n++] = x;
    }
    if (n)
        qsort(list, n, sizeof *list, compare_times);
    if (n)
        lm_text_printf(out, "\noperations that took longest, of %.3g ms\n", 1e3 * sum);
    for (size_t i = 0; i < n && i < 10; i++)
        lm_text_printf(out, "  %8.3g ms  %5.1f %%  %s  %s\n", 1e3 * list[i].seconds,
                       sum > 0 ? 100 * list[i].seconds / sum : 0, list[i].path, list[i].operation);
    free(list);
}

static void put_row(lm_tracing *t, const lm_trace_row *r, lm_text *out)
{
    lm_trace_token next;
    char           p[16];

    lm_text_printf(out, "\nafter position %u: ", r->position);
    lm_trace_add_token(t, r->token, TOKEN_COLUMNS, true, out);
    lm_text_printf(out, "  p %s", share(p, r->p));
    if (lm_tracer_token(t->tracer, r->position + 1, &next)) {
        lm_text_printf(out, " · entropy %.1f bit", next.entropy);
        lm_text_add_str(out, " · likeliest");
        for (uint32_t k = 0; k < next.n_top && next.top[k].id >= 0; k++) {
            lm_text_add_str(out, k ? ", " : " ");
            lm_trace_add_token(t, next.top[k].id, TOKEN_COLUMNS, true, out);
            lm_text_printf(out, " %s", share(p, (double)next.top[k].p));
        }
    }
    lm_text_add_char(out, '\n');
    if (r->note)
        lm_text_printf(out, "%s\n", r->note);
    if (r->n_lens) {
        lm_text_add_cell(out, "", 59);
        lm_text_add_str(out, "of token    norm    attn     mlp\n");
        put_lens(t, r, out);
    }
    put_heads(t, r, out);
    put_experts(r, out);
}

static void put_more(const lm_tracing *t, const lm_trace_row *r, lm_text *out)
{
    unsigned             which = 0;
    int32_t              layer = best_attention(r);
    const lm_trace_head *h     = layer >= 0 ? best_head(r, layer, &which) : NULL;

    (void)t;
    lm_text_add_str(out, "\nmore:  --at N");
    if (h)
        lm_text_printf(out, "   --attention %u.%u   --set '%s#head%u=0'", h->layer, h->head, h->path,
                       h->head);
    lm_text_add_str(out, "   -v (every layer)\n");
}

lm_status lm_trace_page(lm_tracing *t, lm_error *e)
{
    lm_text      out = { 0 };
    lm_trace_row r;

    LM_TRY(lm_tracer_row(t->tracer, t->row, &r, e));
    put_legend(t, &out);
    put_text(t, &out);
    put_row(t, &r, &out);
    if (t->o->times)
        put_times(t, &out);
    put_more(t, &r, &out);
    lm_status status = LM_OK;
    if (out.failed)
        status = lm_fail_memory(e, "the page", out.size);
    else if (colours(t) && fwrite(out.data, 1, out.size, stdout) != out.size)
        status = lm_fail_errno(e, "standard output", "cannot be written");
    else if (!colours(t))
        status = lm_out_buf(&out, e);
    lm_text_free(&out);
    return status;
}

/* ---- attention of one head ---- */

lm_status lm_trace_picture(lm_tracing *t, lm_error *e)
{
    static const char *const shades[] = { "·", "░", "▒", "▓", "█" };
    lm_text         out = { 0 };
    lm_trace_row    r;
    const lm_token *ids;
    size_t          n;
    unsigned        cells = lm_out_width() > 40 ? lm_out_width() - 24 : 40;

    ids = lm_tracer_ids(t->tracer, &n);
    size_t first = n > cells ? n - cells : 0;
    lm_text_printf(&out, "layer %u, head %u: each line a token, across the tokens that it looks at%s\n",
                   t->head[0], t->head[1], first ? ", the last ones" : "");
    lm_text_add_str(&out, "weight: · below .05  ░ .05  ▒ .2  ▓ .4  █ .7\n\n");
    for (uint32_t i = 0; i < n; i++) {
        lm_text word = { 0 };
        LM_TRY(lm_tracer_row(t->tracer, i, &r, e));
        const lm_trace_head *h = NULL;
        for (size_t k = 0; k < r.n_attention; k++)
            h = r.attention[k].layer == t->head[0] && r.attention[k].head == t->head[1] ? &r.attention[k] : h;
        lm_trace_add_token(t, ids[i], TOKEN_COLUMNS, false, &word);
        lm_text_printf(&out, "%5u ", i);
        lm_text_add_cell(&out, word.data ? word.data : "", TOKEN_COLUMNS);
        lm_text_add_char(&out, ' ');
        lm_text_free(&word);
        for (size_t j = first; h && j <= i; j++) {
            float w = j >= h->first_position && h->weights ? h->weights[j - h->first_position] : 0;
            lm_text_add_str(&out, shades[w < 0.05f ? 0 : w < 0.2f ? 1 : w < 0.4f ? 2 : w < 0.7f ? 3 : 4]);
        }
        lm_text_add_char(&out, '\n');
    }
    lm_status status = lm_out_buf(&out, e);
    lm_text_free(&out);
    return status;
}
