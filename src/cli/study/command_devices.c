/* lamina devices - list devices with the memory and speed that their manufacturers publish. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/columns.h"
#include "cli/base/cell_table.h"
#include "cli/base/output.h"
#include "lamina/study/device.h"

typedef struct devices_options { int kind; } devices_options;

static const char *const kind_words[] = { "gpu", "accelerator", "apple", "phone", "board", "cpu", NULL };
static const char *const kind_titles[] = {
    N_("graphics processors"), N_("accelerators"), "Apple", N_("phones"), N_("boards and small machines"),
    N_("processors"),
};

static const lm_flag devices_flag_table[] = {
    { "--kind", NULL, LM_FLAG_WORD, offsetof(devices_options, kind), "gpu|accelerator|apple|phone|board|cpu",
      "show only devices of this kind", 0, 0, kind_words },
    { 0 },
};

static const lm_flag_group devices_groups[] = { { "devices", devices_flag_table, 0 }, { 0 } };

static void devices_defaults(void *options)
{
    ((devices_options *)options)->kind = -1;
}

static json_t *rate_json(double x)
{
    return x > 0 ? json_real(x) : json_null();
}

static json_t *device_json(const lm_device *d)
{
    const char *source;
    uint64_t    reserve = lm_device_reserve(d, &source);

    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:s, s:f, s:{s:o, s:o, s:o, s:o}, s:o, s:s, s:o}",
                     "name", d->name, "title", d->title, "kind", d->kind, "aliases", d->aliases,
                     "memory", (json_int_t)d->memory, "reserve", (json_int_t)reserve,
                     "reserve_source", source, "bytes_per_second", d->memory_rate, "operations_per_second",
                     "f32", rate_json(d->peak.f32), "f16", rate_json(d->peak.f16),
                     "bf16", rate_json(d->peak.bf16), "int8", rate_json(d->peak.int8),
                     "cores", d->cores ? json_integer(d->cores) : json_null(), "source", d->source,
                     "checked", json_string(d->checked));
}

/* Format a rate in 10^12 operations per second with three digits; "-" if it is not published. */
static const char *tera(char out[LM_FORMATTED], double x)
{
    snprintf(out, LM_FORMATTED,
             x <= 0         ? "-"
             : x < 9.995e12 ? "%.2f"
             : x < 99.95e12 ? "%.1f"
                            : "%.0f",
             x / 1e12);
    return out;
}

static void add_row(const lm_device *d, lm_cell_table *g)
{
    char memory[LM_FORMATTED], rate[LM_FORMATTED], f32[LM_FORMATTED], f16[LM_FORMATTED], bf16[LM_FORMATTED],
        int8[LM_FORMATTED];

    snprintf(memory, sizeof memory, "%.0f GiB", (double)d->memory / (1 << 30));
    snprintf(rate, sizeof rate, d->memory_rate < 99.95e9 ? "%.1f GB/s" : "%.0f GB/s", d->memory_rate / 1e9);
    lm_cell_table_row(g, d->name, d->title, memory, rate, tera(f32, d->peak.f32), tera(f16, d->peak.f16),
                      tera(bf16, d->peak.bf16), tera(int8, d->peak.int8));
}

static bool mentions(const lm_device *d, const char *word)
{
    return strcasestr(d->name, word) || strcasestr(d->title, word) || strcasestr(d->aliases, word);
}

/* Return whether a device is of kind `only` (-1: any) and every argument occurs in its names. */
static bool wanted(const lm_cli *cli, int only, const lm_device *d)
{
    if (only >= 0 && strcmp(d->kind, kind_words[only]) != 0)
        return false;
    for (size_t i = 0; i < cli->n_args; i++)
        if (!mentions(d, cli->args[i]))
            return false;
    return true;
}

static void table(lm_cli *cli, int only, lm_text *out)
{
    lm_cell_table g = { .store = &cli->store, .align = "llrrrrrr", .indent = 2 };
    size_t  n = 0;

    lm_cell_table_row(&g, "", "", _("memory"), _("reads"), "f32", "f16", "bf16", "int8");
    for (int k = 0; kind_words[k]; k++) {
        bool titled = false;
        for (size_t i = 0; lm_device_at(i); i++) {
            if (strcmp(lm_device_at(i)->kind, kind_words[k]) != 0 || !wanted(cli, only, lm_device_at(i)))
                continue;
            if (!titled && n)
                lm_cell_table_line(&g, "");
            if (!titled)
                lm_cell_table_line(&g, _(kind_titles[k]));
            titled = true;
            add_row(lm_device_at(i), &g);
            n++;
        }
    }
    lm_text_printf(out, _("%zu devices: memory, bytes read and 10¹² operations a second, dense\n\n"), n);
    lm_cell_table_print(&g, out);
    lm_text_printf(out, "\n  -  %s\n  %s\n", _("is not published; the table uses the next wider type"),
                   _("more  lamina devices NAME (with its source)   lamina fit MODEL --device NAME"));
}

static void label(const char *text, lm_text *out)
{
    size_t n = lm_text_columns(text);

    lm_text_printf(out, "  %s%*s", text, n < 9 ? (int)(10 - n) : 1, "");
}

static void details(const lm_device *d, lm_text *out)
{
    const double      rates[] = { d->peak.f32, d->peak.f16, d->peak.bf16, d->peak.int8 };
    static const char *const types[] = { "float32", "float16", "bfloat16", "int8" };
    const char *source;
    char        figure[LM_FORMATTED];

    lm_text_printf(out, "%s\n\n", d->title);
    label(_("name"), out);
    lm_text_printf(out, "%s%s%s\n", d->name, *d->aliases ? " " : "", d->aliases);
    label(_("memory"), out);
    lm_text_printf(out, "%s (%.0f GiB)\n", lm_format_bytes(figure, d->memory), (double)d->memory / (1 << 30));
    label(_("reads"), out);
    lm_text_printf(out, _("%s a second\n"), lm_format_bytes(figure, (uint64_t)d->memory_rate));
    if (d->cores) {
        label(_("cores"), out);
        lm_text_printf(out, "%u\n", d->cores);
    }
    for (int i = 0; i < 4; i++)
        if (rates[i] > 0) {
            label(types[i], out);
            lm_text_printf(out, _("%s · 10¹² operations a second\n"), tera(figure, rates[i]));
        }
    uint64_t reserve = lm_device_reserve(d, &source);
    label(_("reserved"), out);
    lm_text_printf(out, "%s: %s\n", lm_format_bytes(figure, reserve), _(source));
    label(_("source"), out);
    lm_text_printf(out, "%s\n", d->source);
    label(_("checked"), out);
    lm_text_printf(out, "%s\n", d->checked);
}

static json_t *list_json(const lm_cli *cli, int only)
{
    json_t *list = json_array();

    for (size_t i = 0; lm_device_at(i); i++)
        if (wanted(cli, only, lm_device_at(i)))
            json_array_append_new(list, device_json(lm_device_at(i)));
    return list;
}

/* Find the device with this name, as --device accepts it, or the only one whose names contain every argument.
 * *out is NULL if several match. LM_NOT_FOUND: none matches. */
static lm_status find(const lm_cli *cli, int only, const lm_device **out, lm_error *e)
{
    lm_status status = cli->n_args == 1 ? lm_device_find(cli->args[0], out, e) : LM_USAGE;
    size_t    n      = 0;

    if (status == LM_OK && (only < 0 || strcmp((*out)->kind, kind_words[only]) == 0))
        return LM_OK;
    *out = NULL;
    for (size_t i = 0; lm_device_at(i); i++)
        if (wanted(cli, only, lm_device_at(i)) && ++n)
            *out = lm_device_at(i);
    if (n != 1)
        *out = NULL;
    if (n)
        return LM_OK;
    if (status == LM_NOT_FOUND)
        return status;                                   /* its hint names the nearest device */
    lm_fail(e, LM_NOT_FOUND, cli->args[0], LM_NO_OFFSET, "no device name contains these words");
    return lm_fail_hint(e, "lamina devices lists them");
}

static lm_status devices(lm_cli *cli, void *options, lm_error *e)
{
    const devices_options *o = options;
    const lm_device *d = NULL;
    lm_text out = { 0 };

    if (cli->n_args)
        LM_TRY(find(cli, o->kind, &d, e));
    if (cli->json)
        return lm_out_json(cli, d ? device_json(d) : list_json(cli, o->kind), e);
    if (d)
        details(d, &out);
    else
        table(cli, o->kind, &out);
    lm_status status = lm_out_buf(&out, e);
    lm_text_free(&out);
    return status;
}

const lm_command lm_command_devices = {
    .name = "devices",
    .usage = "[NAME | WORD ...] [--kind gpu|accelerator|apple|phone|board|cpu]",
    .summary = "list known devices with their published memory and speed",
    .about = "  Shows the device called NAME, or lists those whose names contain every WORD.\n",
    .groups = devices_groups,
    .max_args = SIZE_MAX,
    .options_size = sizeof(devices_options),
    .defaults = devices_defaults,
    .run = devices,
};
