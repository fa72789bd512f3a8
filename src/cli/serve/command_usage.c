/* lamina usage - show the token counts of a server's clients, from its store. */

#include "cli/base/output.h"
#include "server/start/serve.h"

typedef struct usage_options { const char *key; } usage_options;

#define O(field) offsetof(usage_options, field)

static const lm_flag usage_flags[] = {
    { "--api-key", NULL, LM_FLAG_TEXT, O(key), "KEY", "show only the usage of this key", 0, 0, NULL },
    { 0 },
};
static const lm_flag_group usage_groups[] = { { "usage", usage_flags, 0 }, { 0 } };

static const char *text_of(const json_t *row, const char *name)
{
    return json_string_value(json_object_get(row, name));
}

static uint64_t count_of(const json_t *row, const char *name)
{
    return (uint64_t)json_integer_value(json_object_get(row, name));
}

static void add_row(const json_t *row, lm_text *out)
{
    char requests[LM_FORMATTED], input[LM_FORMATTED], cached[LM_FORMATTED], output[LM_FORMATTED];
    const char *key = text_of(row, "key");

    lm_text_printf(out, "%-11s %-12.12s %10s %14s %14s %14s  %s\n", text_of(row, "day"), *key ? key : "-",
                   lm_format_count(requests, count_of(row, "requests")),
                   lm_format_count(input, count_of(row, "input_tokens")),
                   lm_format_count(cached, count_of(row, "cached_tokens")),
                   lm_format_count(output, count_of(row, "output_tokens")), text_of(row, "model"));
}

static lm_status print(const json_t *rows, lm_error *e)
{
    lm_text out = { 0 };
    lm_status status;

    lm_text_printf(&out, "%-11s %-12s %10s %14s %14s %14s  %s\n", "day (UTC)", "key", "requests",
                   "input tokens", "of them cached", "output tokens", "model");
    for (size_t i = 0; i < json_array_size(rows); i++)
        add_row(json_array_get(rows, i), &out);
    status = lm_out_buf(&out, e);
    lm_text_free(&out);
    return status;
}

static lm_status usage(lm_cli *cli, void *options, lm_error *e)
{
    const usage_options *o = options;
    json_t *rows;

    LM_TRY(lm_server_usage(cli->args[0], o->key, &rows, e));
    if (cli->json)
        return lm_out_json(cli, json_pack("{s:s, s:s, s:o}", "schema", "lamina.usage/1", "file", cli->args[0],
                                          "rows", rows), e);
    lm_status status = print(rows, e);
    json_decref(rows);
    return status;
}

const lm_command lm_command_usage = {
    .name = "usage",
    .usage = "FILE [--api-key KEY]",
    .summary = "show the token counts of a server's clients, from its --store file",
    .about = "  Lists counts by day, API key and model. Keys are stored as hashes, whose first digits are "
             "shown. Without keys, all\n"
             "  clients are counted together, shown as \"-\". The server may be running.\n",
    .groups = usage_groups,
    .min_args = 1,
    .max_args = 1,
    .options_size = sizeof(usage_options),
    .run = usage,
};
