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

#include "cli/interrupt.h"
#include "cli/prompt.h"

struct lm_lines {
    bool      terminal;
    EditLine *edit;                      /* NULL: no terminal, or one whose own line editing has to do */
    History  *past;
    char     *file;                      /* where it is kept; NULL: nowhere */
    lm_text    line;                      /* of a pipe */
    bool      abandoned, more;           /* more: inside a line that goes on */
};

static char *prompt_of(const lm_lines *l)
{
    static char first[] = "> ", further[] = "  ";

    return l && l->more ? further : first;
}

static char *prompt(EditLine *edit)
{
    lm_lines *l = NULL;

    el_get(edit, EL_CLIENTDATA, &l);
    return prompt_of(l);
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

/* What models read and write, whatever the locale. */
static bool choose_utf8(void)
{
    setlocale(LC_CTYPE, "");
    if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        setlocale(LC_CTYPE, "C.UTF-8");
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

static lm_status open_terminal(lm_lines *l, const char *file, lm_error *e)
{
    HistEvent event;

    l->terminal = true;
    if (!choose_utf8())                                  /* no locale is installed: the editor would lose what is not ASCII */
        return LM_OK;
    l->edit = el_init("lamina", stdin, stdout, stderr);
    l->past = history_init();
    l->file = file ? strdup(file) : NULL;
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
    lm_lines *l = calloc(1, sizeof *l);
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
    free(l->file);
    lm_text_free(&l->line);
    free(l);
}

bool lm_lines_terminal(const lm_lines *l)
{
    return l->terminal;
}

/* One line with its newline; of no bytes at the end. */
static lm_status read_line(lm_lines *l, const char **out, size_t *size, lm_error *e)
{
    bool end = false;
    int count = 0;

    *size = 0;
    if (l->edit) {
        *out = el_gets(l->edit, &count);
        *size = *out && count > 0 ? (size_t)count : 0;
        return LM_OK;
    }
    if (l->terminal) {
        fputs(prompt_of(l), stdout);
        fflush(stdout);
        l->abandoned = !lm_interrupt_wait(STDIN_FILENO);
        if (l->abandoned) {
            putchar('\n');
            return LM_OK;
        }
    }
    lm_status status = lm_read_line(stdin, &l->line, &end, e);
    if (status != LM_OK && lm_interrupted())
        return LM_OK;                                    /* Ctrl-C ends what a pipe says */
    if (status != LM_OK)
        return lm_fail_in(e, "standard input");
    *out = l->line.data;
    *size = end ? 0 : l->line.size;
    return LM_OK;
}

lm_line lm_lines_next(lm_lines *l, lm_text *out, lm_error *e)
{
    HistEvent event;

    lm_text_clear(out);
    l->abandoned = l->more = false;
    do {
        const char *line;
        size_t size;

        if (read_line(l, &line, &size, e) != LM_OK)
            return LM_LINE_FAILED;
        if (l->abandoned)
            return LM_LINE_ABANDONED;
        if (!size)
            return out->size ? LM_LINE : LM_LINE_END;
        if (l->past && size > 1)
            history(l->past, &event, H_ENTER, line);
        size -= line[size - 1] == '\n';
        l->more = size > 0 && line[size - 1] == '\\';
        size -= l->more;
        if (size > LM_MAX_INPUT - out->size) {
            lm_fail(e, LM_LIMIT, "standard input", LM_NO_OFFSET, "longer than %zu bytes", LM_MAX_INPUT);
            return LM_LINE_FAILED;
        }
        lm_text_add(out, line, size);
        if (l->more)
            lm_text_add_char(out, '\n');
        if (out->failed) {
            lm_fail_memory(e, "standard input", out->size);
            return LM_LINE_FAILED;
        }
    } while (l->more);
    return LM_LINE;
}
