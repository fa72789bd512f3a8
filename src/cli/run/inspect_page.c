/* inspect_page.c - the lists of tensors and metadata that --tensors and --metadata print. */
#include "cli/run/inspect_page.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/columns.h"
#include "cli/base/output.h"
#include "cli/run/inspect.h"

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

/* ---- tables ---- */

void lm_inspect_tensors(const json_t *tensors, lm_text *out)
{
    size_t i, k;
    json_t *t, *d;
    uint64_t total = 0;
    size_t name = 4;
    char figure[LM_FORMATTED], shape[128];

    json_array_foreach(tensors, i, t) {
        size_t n = lm_text_columns(string(t, "name"));
        name = n > name ? n : name;
    }
    json_array_foreach(tensors, i, t) {
        size_t at = 0;
        shape[0] = 0;
        json_array_foreach(json_object_get(t, "shape"), k, d)
            at += (size_t)snprintf(shape + at, sizeof shape - at, "%s%" PRIu64, k ? " × " : "",
                                   (uint64_t)json_integer_value(d));
        lm_text_printf(out, "%-*s  %-8s %*s%-*s%16s\n", (int)name, string(t, "name"), string(t, "type"), 0,
                       "", (int)(22 + strlen(shape) - lm_text_columns(shape)), shape,
                       lm_format_count(figure, count(t, "bytes")));
        total += count(t, "bytes");
    }
    lm_text_printf(out,
                   P_(json_array_size(tensors), "%zu tensor, %s bytes\n", "%zu tensors, %s bytes\n"),
                   json_array_size(tensors), lm_format_count(figure, total));
}

void lm_inspect_metadata(json_t *metadata, lm_text *out)
{
    const char *key;
    json_t *v;
    size_t width = 0;

    json_object_foreach(metadata, key, v) {
        size_t n = lm_text_columns(key);
        width = n > width && n < 48 ? n : width;
    }
    json_object_foreach(metadata, key, v) {
        char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(16)), name[256],
             value[201];
        lm_escape(name, sizeof name, key);
        lm_escape(value, sizeof value, text ? text : "");
        lm_text_printf(out, "%-*s  %s%s\n", (int)width, name, value,
                       text && strlen(text) > 200 ? " ..." : "");
        free(text);
    }
}

lm_status lm_inspect_text(lm_cli *cli, lm_text *text, const char *key, lm_error *e)
{
    lm_status status;

    if (cli->json)
        status = lm_out_json(cli, json_pack("{s:o}", key, lm_json_of(text->data, text->size)), e);
    else
        status = lm_out_text(text->data, text->size, e);
    lm_text_free(text);
    return status;
}
