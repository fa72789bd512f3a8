/* jsonl.c - read a file line by line and parse each line. */
#include "cli/base/jsonl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json_exact.h"
#include "cli/base/output.h"
#include "cli/base/prompt.h"

/* Parse a value, with numbers of any size. */
static json_t *read_value(const char *text, size_t n, json_error_t *why)
{
    json_t *value = json_loadb(text, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, why);
    lm_text mended = { 0 };

    if (!value && lm_text_add_mended_json(&mended, text, n) == 0 &&
        mended.data)         /* bytes that are not UTF-8 stay an error */
        value = json_loadb(mended.data, mended.size, JSON_DECODE_ANY | JSON_ALLOW_NUL, why);
    lm_text_free(&mended);
    return value;
}

static lm_status read_lines(FILE *f, lm_jsonl_line each, void *arg, uint64_t *number, lm_error *e)
{
    lm_text line = { 0 };
    lm_status status;
    bool end = false;

    for (;;) {
        json_error_t why;
        ++*number;
        status = lm_read_line(f, &line, &end, e);
        if (status != LM_OK || end)
            break;
        size_t mark = *number == 1 && line.size >= 3 && memcmp(line.data, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
        json_t *value = read_value(line.data + mark, line.size - mark, &why);
        status = each(arg, value, value ? NULL : why.text, &line, e);
        json_decref(value);
        if (status != LM_OK)
            break;
    }
    lm_text_free(&line);
    return status;
}

lm_status lm_jsonl_read(const char *path, lm_jsonl_line each, void *arg, lm_error *e)
{
    FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    uint64_t number = 0;
    lm_status status;

    if (!f)
        return lm_fail_errno(e, path, "cannot be opened");
    if (f == stdin && isatty(STDIN_FILENO))
        lm_note("type one JSON value per line; Ctrl-D ends them");
    status = read_lines(f, each, arg, &number, e);
    if (f != stdin)
        fclose(f);
    if (status == LM_OK)
        return LM_OK;
    if (!e->where[0] || status != LM_IO) { /* output that cannot be written is no fault of a line */
        char where[sizeof e->where];
        snprintf(where, sizeof where, "%s", e->where);
        snprintf(e->where, sizeof e->where, "line %" PRIu64 "%s%.*s", number, *where ? ": " : "",
                 (int)sizeof where - 32, where);
    }
    return lm_fail_in(e, lm_input_name(path));
}

lm_status lm_jsonl_write(json_t *value, lm_error *e)
{
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_PRESERVE_ORDER) : NULL;
    lm_text line = { 0 };
    lm_status status;

    json_decref(value);
    if (!text)
        return lm_fail_memory(e, "a line of output", 0);
    lm_text_add_str(&line, text);
    lm_text_add_char(&line, '\n');
    free(text);
    status = lm_out_buf(&line, e);
    lm_text_free(&line);
    return status;
}
