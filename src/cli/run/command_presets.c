/* lamina presets - list the published models whose configurations are included. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/columns.h"
#include "cli/base/output.h"
#include "cli/run/presets_fit.h"
#include "lamina/preset.h"

/* One row of the table. */
typedef struct shape {
    const lm_preset *preset;
    lm_model_info info;              /* its strings are invalid: they belong to a model that is closed */
    char family[32];
} shape;

#define O(field) offsetof(lm_presets_options, field)

static const lm_flag presets_flag_table[] = {
    { "--fits", NULL, LM_FLAG_SWITCH, O(fits), NULL,
      "list what fits this machine in Q4_K_M, with the memory it takes and the highest possible speeds", 0, 0,
      NULL },
    { "--device", NULL, LM_FLAG_TEXT, O(device), "NAME",
      "with --fits: a device from the catalogue (lamina devices) instead of this machine", 0, 0, NULL },
    { "--context", "-c --ctx-size", LM_FLAG_COUNT, O(context), "N",
      "with --fits: context length in tokens, at most the model's (8192)", 1, INT32_MAX, NULL },
    { 0 },
};

static const lm_flag_group presets_groups[] = { { "presets", presets_flag_table, 0 }, { 0 } };

static lm_status describe(const lm_preset *p, shape *out, lm_error *e)
{
    char name[128];
    lm_model *m = NULL;

    snprintf(name, sizeof name, LM_PRESET_PREFIX "%s", p->name);
    LM_TRY(lm_model_open(name, &(lm_model_options){ .structure_only = true }, &m, e));
    lm_model_describe(m, &out->info);
    out->preset = p;
    snprintf(out->family, sizeof out->family, "%s", out->info.family);
    lm_model_close(m);
    return LM_OK;
}

static bool mentions(const char *text, const char *word)
{
    return strcasestr(text, word) != NULL;
}

/* Return whether every argument occurs in the preset's name, title or aliases. */
static bool wanted(const lm_preset *p, const lm_cli *cli)
{
    for (size_t i = 0; i < cli->n_args; i++) {
        bool found = mentions(p->name, cli->args[i]) || mentions(p->title, cli->args[i]);
        for (const char *const *a = p->aliases; *a && !found; a++)
            found = mentions(*a, cli->args[i]);
        if (!found)
            return false;
    }
    return true;
}

static json_t *row_json(const shape *s)
{
    json_t *aliases = json_array();

    for (const char *const *a = s->preset->aliases; *a; a++)
        json_array_append_new(aliases, json_string(*a));
    return json_pack("{s:s, s:s, s:s, s:o, s:s, s:I, s:I, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:b}",
                     "name", s->preset->name, "title", s->preset->title, "family", s->family,
                     "aliases", aliases, "source", s->preset->source,
                     "parameters", (json_int_t)s->info.parameters, "active", (json_int_t)s->info.active,
                     "layers", (int)s->info.n_layers, "hidden", (int)s->info.hidden,
                     "heads", (int)s->info.n_heads, "kv_heads", (int)s->info.n_kv_heads,
                     "head_dim", (int)s->info.head_dim, "intermediate", (int)s->info.intermediate,
                     "vocabulary", (int)s->info.n_vocab, "context", (json_int_t)s->info.context_length,
                     "tied", s->info.tied);
}

static void row(const shape *s, lm_text *out)
{
    char a[LM_FORMATTED], b[LM_FORMATTED], c[LM_FORMATTED], heads[32];

    snprintf(heads, sizeof heads, s->info.n_heads == s->info.n_kv_heads ? "%u" : "%u:%u", s->info.n_heads,
             s->info.n_kv_heads);
    lm_text_printf(out, "%-21s %-16s %17s %14s %6u %6u %5s %10s\n", s->preset->name, s->family,
                   lm_format_count(a, s->info.parameters),
                   s->info.active == s->info.parameters ? "" : lm_format_count(b, s->info.active),
                   s->info.n_layers, s->info.hidden, heads, lm_format_count(c, s->info.context_length));
}

static void head(lm_text *out)
{
    const struct { const char *word; int width; } cells[] = {
        { _("name"), -21 }, { _("family"), -16 }, { _("parameters"), 17 }, { _("active"), 14 },
        { _("layers"), 6 }, { _("hidden"), 6 },   { _("heads"), 5 },       { _("context"), 10 },
    };
    const int n = sizeof cells / sizeof *cells;

    for (int i = 0; i < n; i++) {
        int width = cells[i].width, pad = abs(width) - (int)lm_text_columns(cells[i].word);
        pad       = pad > 0 ? pad : 0;
        lm_text_printf(out, "%*s%s%*s%s", width > 0 ? pad : 0, "", cells[i].word, width < 0 ? pad : 0, "",
                       i + 1 < n ? " " : "\n");
    }
}

static lm_status no_match(const lm_cli *cli, lm_error *e)
{
    lm_text words = { 0 };

    for (size_t i = 0; i < cli->n_args; i++)
        lm_text_printf(&words, "%s%s", i ? " " : "", cli->args[i]);
    lm_fail(e, LM_NOT_FOUND, words.data, LM_NO_OFFSET, "no matching preset");
    lm_text_free(&words);
    return lm_fail_hint(e, "lamina presets lists them");
}

static lm_status presets(lm_cli *cli, void *options, lm_error *e)
{
    json_t *list = json_array();
    lm_text page = { 0 };
    const lm_preset *p;
    lm_error why;
    size_t shown = 0;
    lm_status status = LM_OK;
    const lm_presets_options *o = options;
    shape s;

    if (!o->fits && (o->device || o->context))
        status = lm_fail(e, LM_USAGE, o->device ? "--device" : "--context", LM_NO_OFFSET, "requires --fits");
    head(&page);
    for (size_t i = 0; (p = lm_preset_at(i)) && status == LM_OK; i++) {
        if (!wanted(p, cli))
            continue;
        status = describe(p, &s, &why);
        if (status == LM_UNSUPPORTED) {
            lm_detail("%s: %s", p->name, why.message);
            status = LM_OK;
            continue;
        }
        if (status != LM_OK)
            *e = why;
        else if (cli->json || o->fits)
            json_array_append_new(list, row_json(&s));
        else
            row(&s, &page);
        shown++;
    }
    if (status == LM_OK && !shown)
        status = no_match(cli, e);
    if (status == LM_OK)
        status = o->fits     ? lm_presets_fit(cli, o, list, e)
                 : cli->json ? lm_out_json(cli, json_incref(list), e)
                             : lm_out_buf(&page, e);
    json_decref(list);
    lm_text_free(&page);
    return status;
}

const lm_command lm_command_presets = {
    .name = "presets",
    .usage = "[WORD ...] [--fits [--device NAME] [--context N]]",
    .summary = "list known published models",
    .about = "  Lists only presets whose name contains every WORD. A preset is a MODEL for commands that "
             "need no weights;\n"
             "  lamina synth creates one with random weights. \"parameters\" counts stored parameters, "
             "\"active\" those used per token.\n"
             "  --fits: exit status 4 if none fits.\n",
    .groups = presets_groups,
    .max_args = 16,
    .options_size = sizeof(lm_presets_options),
    .run = presets,
};
