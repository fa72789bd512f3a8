#include "cli/lines.h"

#include <errno.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "base/alloc.h"
#include "base/error.h"
#include "cli/interrupt.h"
#include "cli/prompt.h"

struct lm_lines {
    EditLine *edit;                      /* NULL: no terminal */
    History  *past;
    char     *file;                      /* where it is kept; NULL: nowhere */
    lm_buf    line;                      /* of a pipe */
    bool      abandoned, more;           /* more: inside a line that goes on */
};

static char *prompt(EditLine *edit)
{
    static char first[] = "> ", further[] = "  ";
    lm_lines *l = NULL;

    el_get(edit, EL_CLIENTDATA, &l);
    return l && l->more ? further : first;
}

/* One character. Ctrl-C ends the line at once, which libedit by itself does not offer. */
static int next_character(EditLine *edit, wchar_t *out)
{
    lm_lines *l = NULL;
    mbstate_t state = { 0 };
    char byte;

    el_get(edit, EL_CLIENTDATA, &l);
    for (;;) {
        ssize_t n = lm_interrupt_wait(STDIN_FILENO) ? read(STDIN_FILENO, &byte, 1) : 0;
        if (lm_interrupted()) {
            l->abandoned = true;
            *out = L'\n';
            return 1;
        }
        if (n < 0 && errno == EINTR)
            continue;                                    /* the window changed its size */
        if (n <= 0)
            return (int)n;
        switch (mbrtowc(out, &byte, 1, &state)) {
        case (size_t)-2:
            continue;
        case (size_t)-1:
            state = (mbstate_t){ 0 };
            *out = L'?';
            return 1;
        default:
            return 1;
        }
    }
}

static lm_status open_terminal(lm_lines *l, const char *file, lm_error *e)
{
    HistEvent event;

    setlocale(LC_CTYPE, "");
    if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        setlocale(LC_CTYPE, "C.UTF-8");                  /* what models read and write, whatever the locale */
    l->edit = el_init("lamina", stdin, stdout, stderr);
    l->past = history_init();
    l->file = file ? lm_strdup(file) : NULL;
    if (!l->edit || !l->past || (file && !l->file))
        return lm_fail_memory(e, "the line editor", 0);
    history(l->past, &event, H_SETSIZE, 1000);
    history(l->past, &event, H_SETUNIQUE, 1);
    if (file)
        history(l->past, &event, H_LOAD, file);          /* there is none the first time */
    el_set(l->edit, EL_CLIENTDATA, l);
    el_set(l->edit, EL_PROMPT, prompt);
    el_set(l->edit, EL_EDITOR, "emacs");
    el_wset(l->edit, EL_GETCFN, next_character);
    el_set(l->edit, EL_HIST, history, l->past);
    el_source(l->edit, NULL);                            /* ~/.editrc */
    return LM_OK;
}

lm_status lm_lines_open(const char *file, lm_lines **out, lm_error *e)
{
    lm_lines *l = lm_alloc_zero(1, sizeof *l);
    lm_status status = LM_OK;

    if (!l)
        return lm_fail_memory(e, "the input", sizeof *l);
    if (isatty(STDIN_FILENO))
        status = open_terminal(l, file, e);
    if (status == LM_OK)
        *out = l;
    else
        lm_lines_close(l);
    return status;
}

void lm_lines_close(lm_lines *l)
{
    HistEvent event;

    if (!l)
        return;
    if (l->past && l->file)
        history(l->past, &event, H_SAVE, l->file);
    if (l->past)
        history_end(l->past);
    if (l->edit)
        el_end(l->edit);
    lm_free(l->file);
    lm_buf_free(&l->line);
    lm_free(l);
}

bool lm_lines_terminal(const lm_lines *l)
{
    return l->edit != NULL;
}

/* One line with its newline; of no bytes at the end. */
static lm_status read_line(lm_lines *l, lm_view *out, lm_error *e)
{
    bool end = false;
    int count = 0;

    *out = (lm_view){ 0 };
    if (l->edit) {
        const char *line = el_gets(l->edit, &count);
        if (line && count > 0)
            *out = (lm_view){ line, (size_t)count };
        return LM_OK;
    }
    lm_status status = lm_read_line(stdin, &l->line, &end, e);
    if (status != LM_OK && lm_interrupted())
        return LM_OK;                                    /* Ctrl-C ends what a pipe says */
    if (status != LM_OK)
        return lm_fail_in(e, "standard input");
    if (!end)
        *out = lm_buf_view(&l->line);
    return LM_OK;
}

lm_line lm_lines_next(lm_lines *l, lm_buf *out, lm_error *e)
{
    HistEvent event;

    lm_buf_clear(out);
    l->abandoned = l->more = false;
    do {
        lm_view line;

        if (read_line(l, &line, e) != LM_OK)
            return LM_LINE_FAILED;
        if (l->abandoned)
            return LM_LINE_ABANDONED;
        if (!line.size)
            return out->size ? LM_LINE : LM_LINE_END;
        if (l->past && line.size > 1)
            history(l->past, &event, H_ENTER, line.data);
        line.size -= line.data[line.size - 1] == '\n';
        l->more = line.size > 0 && line.data[line.size - 1] == '\\';
        line.size -= l->more;
        if (line.size > LM_MAX_INPUT - out->size) {
            lm_fail(e, LM_LIMIT, "standard input", LM_NO_OFFSET, "more than %zu bytes, which are the most that is read", LM_MAX_INPUT);
            return LM_LINE_FAILED;
        }
        lm_buf_add_view(out, line);
        if (l->more)
            lm_buf_add_char(out, '\n');
        if (out->failed) {
            lm_fail_memory(e, "standard input", out->size);
            return LM_LINE_FAILED;
        }
    } while (l->more);
    return LM_LINE;
}
