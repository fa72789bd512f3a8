/* jsonl.c - files with one JSON value per line, and standard output in the same form. */
#include "cli/base/jsonl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/base/output.h"
#include "cli/base/prompt.h"

lm_status lm_jsonl_read(const char *path, bool arrays, lm_jsonl_line each, void *arg, lm_error *e)
{
    FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    lm_text_lines lines = { .file = f, .name = f == stdin ? NULL : path };

    if (!f)
        return lm_fail_errno(e, path, "cannot be opened");
    if (f == stdin && isatty(STDIN_FILENO))
        lm_note("type one JSON value per line; Ctrl-D ends them");
    lm_status status = lm_jsonl_each(&lines, JSON_DECODE_ANY | JSON_ALLOW_NUL, arrays, each, arg, e);
    if (f != stdin)
        fclose(f);
    return status == LM_OK ? LM_OK : lm_fail_in(e, lm_input_name(path));
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
