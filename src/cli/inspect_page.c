#include "cli/inspect_page.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output.h"

static uint64_t count(const json_t *object, const char *key)
{
    json_int_t n = json_integer_value(json_object_get(object, key));

    return n > 0 ? (uint64_t)n : 0;
}

static const char *string(const json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));

    return s ? s : "";
}

/* Columns that a UTF-8 text takes, as far as one column per character goes. */
static size_t columns(const char *s)
{
    size_t n = 0;

    for (; *s; s++)
        n += ((unsigned char)*s & 0xC0) != 0x80;
    return n;
}

/* ---- parameters ---- */

/* Eighths of a cell: as fine as a terminal can draw. */
static void bar(lm_buf *out, double share)
{
    static const char *const parts[] = { "▏", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
    int eighths = (int)(share * 30 * 8 + 0.5);

    for (; eighths >= 8; eighths -= 8)
        lm_buf_add_str(out, "█");
    if (eighths > 0 || share < 1.0 / 240)
        lm_buf_add_str(out, parts[eighths]);
}

static void parameter_row(const char *name, uint64_t n, uint64_t total, bool bars, lm_buf *out)
{
    char figure[LM_FIGURE];

    lm_buf_printf(out, "  %-17s %17s  %6.2f %%", name, lm_figure_count(figure, n), 100.0 * (double)n / (double)total);
    if (bars && n < total) {
        lm_buf_add_str(out, "  ");
        bar(out, (double)n / (double)total);
    }
    lm_buf_add_char(out, '\n');
}

static void parameters(const json_t *report, bool tied, bool bars, lm_buf *out)
{
    static const char *const parts[] = { "embedding", "attention", "mlp", "norm", "head", "other" };
    const json_t *p = json_object_get(report, "parameters");
    uint64_t total = count(p, "total"), untied = count(p, "untied_total"), active = count(p, "active");
    char figure[LM_FIGURE];

    lm_buf_add_str(out, "\n  parameters                    count     share\n");
    for (size_t i = 0; i < sizeof parts / sizeof *parts && total; i++)
        if (count(p, parts[i]))
            parameter_row(i == 0 && tied ? "embedding = head" : parts[i], count(p, parts[i]), total, bars, out);
    if (total)
        parameter_row("total", total, total, bars, out);
    if (untied != total)
        lm_buf_printf(out, "  %-17s %17s           if the head were untied\n", "", lm_figure_count(figure, untied));
    if (active != total)
        lm_buf_printf(out, "  %-17s %17s  %6.2f %%\n", "active per token", lm_figure_count(figure, active),
                      100.0 * (double)active / (double)total);
}

/* ---- memory and compute ---- */

static void weights(const json_t *report, lm_buf *out)
{
    const json_t *w = json_object_get(report, "weights");
    json_t *by = json_object_get(w, "by_type"), *n;
    const char *type, *separator = "";
    char figure[LM_FIGURE];

    if (!count(w, "bytes")) {
        lm_buf_add_str(out, "  weights           none loaded\n");
        return;
    }
    lm_buf_printf(out, "  weights           %-10s", lm_figure_bytes(figure, count(w, "bytes")));
    json_object_foreach(by, type, n) {
        lm_buf_printf(out, "%s%s %s", separator, type, lm_figure_bytes(figure, (uint64_t)json_integer_value(n)));
        separator = ", ";
    }
    lm_buf_add_char(out, '\n');
}

static void memory(const json_t *report, lm_buf *out)
{
    const json_t *kv = json_object_get(report, "kv"), *m = json_object_get(report, "memory");
    char a[LM_FIGURE], b[LM_FIGURE], c[LM_FIGURE];

    lm_buf_add_str(out, "\n  memory\n");
    weights(report, out);
    lm_buf_printf(out, "  cache             %-10s%s positions of %s bytes, %s", lm_figure_bytes(a, count(kv, "bytes_at_context")),
                  lm_figure_count(b, count(kv, "context")), lm_figure_count(c, count(kv, "bytes_per_token")), string(kv, "type"));
    if (count(kv, "batch") > 1)
        lm_buf_printf(out, ", %" PRIu64 " sequences", count(kv, "batch"));
    if (count(kv, "window"))
        lm_buf_printf(out, ", window %s", lm_figure_count(a, count(kv, "window")));
    lm_buf_add_char(out, '\n');
    if (!json_is_object(m))
        return;
    lm_buf_printf(out, "  scratch           %s\n", lm_figure_bytes(a, count(m, "scratch")));
    lm_buf_printf(out, "  to run            %s in memory of its own", lm_figure_bytes(a, count(m, "total")));
    if (count(m, "mapped"))
        lm_buf_printf(out, ", %s mapped from the file", lm_figure_bytes(a, count(m, "mapped")));
    lm_buf_add_char(out, '\n');
}

/* "269 MFLOP" */
static const char *flops(char out[LM_FIGURE], uint64_t n)
{
    char bytes[LM_FIGURE];

    lm_figure_bytes(bytes, n);
    snprintf(out, LM_FIGURE, "%.*sFLOP", (int)strlen(bytes) - 1, bytes);
    return out;
}

static void compute(const json_t *report, lm_buf *out)
{
    const json_t *f = json_object_get(report, "flops"), *kv = json_object_get(report, "kv");
    char a[LM_FIGURE], b[LM_FIGURE], c[LM_FIGURE];

    lm_buf_printf(out, "\n  compute per token %s + %s per token of context; a prompt of %s: %s\n", flops(a, count(f, "per_token_matmul")),
                  flops(b, count(f, "per_context_token")), lm_figure_count((char[LM_FIGURE]){ 0 }, count(kv, "context")),
                  flops(c, count(f, "prefill")));
}

/* ---- the page ---- */

/* "GQA 24:8": how many queries share a key. */
static void heads(const lm_model_info *info, lm_buf *out)
{
    if (info->n_kv_heads == info->n_heads)
        lm_buf_printf(out, "MHA %u", info->n_heads);
    else
        lm_buf_printf(out, "%s %u:%u", info->n_kv_heads == 1 ? "MQA" : "GQA", info->n_heads, info->n_kv_heads);
}

static void title(const json_t *report, const lm_model_info *info, lm_buf *out)
{
    const json_t *model = json_object_get(report, "model");
    char figure[LM_FIGURE];
    size_t used = columns(info->name), width;
    lm_buf right = { 0 };

    lm_buf_printf(&right, "%s · %u layers · ", info->family, info->n_layers);
    heads(info, &right);
    lm_buf_printf(&right, " · %s context", lm_figure_count(figure, info->context_length));
    width = right.data ? columns(right.data) : 0;
    lm_buf_printf(out, "%s%*s%s\n", info->name, used + width + 4 < 80 ? (int)(80 - used - width) : 4, "", right.data ? right.data : "");
    lm_buf_printf(out, "%s, %s\n", string(model, "container"), info->source);
    lm_buf_free(&right);
}

/* The class of the first module of the stack. */
static const char *layer_class(const json_t *report)
{
    const json_t *modules = json_object_get(report, "layers");

    for (size_t i = 0; i + 1 < json_array_size(modules); i++)
        if (strcmp(string(json_array_get(modules, i), "class"), "ModuleList") == 0)
            return string(json_array_get(modules, i + 1), "class");
    return "layer";
}

static void flow(const json_t *report, const lm_model_info *info, lm_buf *out)
{
    lm_buf_printf(out, "\n  tokens → embedding %u × %u → %s ×%u → norm → head%s → logits\n", info->n_vocab, info->hidden,
                  layer_class(report), info->n_layers, info->tied ? " (tied)" : "");
}

static void warnings(const json_t *report, lm_buf *out)
{
    size_t i;
    json_t *w;

    json_array_foreach(json_object_get(report, "warnings"), i, w)
        lm_buf_printf(out, "%s  %-17s %s\n", i ? "" : "\n", i ? "" : "unusual", json_string_value(w));
}

void lm_inspect_page(const json_t *report, const lm_model_info *info, bool bars, lm_buf *out)
{
    title(report, info, out);
    flow(report, info, out);
    parameters(report, info->tied, bars, out);
    memory(report, out);
    compute(report, out);
    warnings(report, out);
    lm_buf_add_str(out, "\n  more              --tensors   --metadata   --program   --plan   --json   --context N\n");
}

/* ---- tables ---- */

void lm_inspect_tensors(const json_t *tensors, lm_buf *out)
{
    size_t i, k;
    json_t *t, *d;
    uint64_t total = 0;
    size_t name = 4;
    char figure[LM_FIGURE], shape[128];

    json_array_foreach(tensors, i, t) {
        size_t n = columns(string(t, "name"));
        name = n > name ? n : name;
    }
    json_array_foreach(tensors, i, t) {
        size_t at = 0;
        shape[0] = 0;
        json_array_foreach(json_object_get(t, "shape"), k, d)
            at += (size_t)snprintf(shape + at, sizeof shape - at, "%s%" PRIu64, k ? " × " : "", (uint64_t)json_integer_value(d));
        lm_buf_printf(out, "%-*s  %-8s %*s%-*s%16s\n", (int)name, string(t, "name"), string(t, "type"), 0, "",
                      (int)(22 + strlen(shape) - columns(shape)), shape, lm_figure_count(figure, count(t, "bytes")));
        total += count(t, "bytes");
    }
    lm_buf_printf(out, "%zu tensors, %s bytes\n", json_array_size(tensors), lm_figure_count(figure, total));
}

void lm_inspect_metadata(const json_t *metadata, lm_buf *out)
{
    const char *key;
    json_t *v;
    size_t width = 0;

    json_object_foreach((json_t *)(uintptr_t)metadata, key, v) {
        size_t n = columns(key);
        width = n > width && n < 48 ? n : width;
    }
    json_object_foreach((json_t *)(uintptr_t)metadata, key, v) {
        char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
        lm_buf_printf(out, "%-*s  %.200s%s\n", (int)width, key, text ? text : "", text && strlen(text) > 200 ? " ..." : "");
        free(text);
    }
}
