/* lines.c - a line editor (libedit) with history and pastes of several lines, or plain reading.
 *
 * The editor holds one line. A paste is read ahead up to its end mark (bracketed paste, xterm), with newlines
 * as a symbol that is turned back when the line is complete. Read lm_lines_next first; below it are
 * continuation lines, then the two readers. One thread at a time. */
#include "cli/run/lines.h"

#include <errno.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "cli/base/interrupt.h"
#include "cli/base/output.h"
#include "cli/base/prompt.h"

struct lm_lines {
    bool      terminal;
    /* NULL: not a terminal, or no UTF-8 locale: then the terminal's own line editing is used */
    EditLine *edit;
    History  *past;
    char     *file;                      /* file of the history; NULL: none */
    lm_text   line;                      /* the line read without the editor */
    lm_text_lines input;                 /* of a pipe */
    bool      abandoned, more;           /* more: the line continues */
    bool      typed;                     /* the abandoned line was not empty */
    /* bracketed paste is on: the terminal marks the beginning and end of a paste */
    bool      brackets;
    /* bytes read ahead; those from `given` on are not passed to the editor yet */
    lm_text   ahead;
    size_t    given;
};

#define NEWLINE "\u2424"     /* represents a newline in the editor, which supports a single line */
#define PASTE "\033[200~"
#define PASTED "\033[201~"

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

/* Read the next byte of the terminal. Returns 0 at the end of input, after a signal, or without `wait` if no
 * byte arrives within 50 ms. */
static ssize_t read_byte(char *out, bool wait)
{
    struct pollfd ready = { .fd = STDIN_FILENO, .events = POLLIN };
    ssize_t n;

    do {
        if (wait ? !lm_interrupt_wait(STDIN_FILENO) : poll(&ready, 1, 50) <= 0)
            return 0;
        n = read(STDIN_FILENO, out, 1);
    } while (n < 0 && errno == EINTR && !lm_interrupted());              /* the window was resized */
    return n;
}

/* Read a paste up to its end mark, in the form that the editor accepts: newlines as NEWLINE, tabs quoted by
 * ^V, without other control characters. */
static void read_paste(lm_lines *l)
{
    static const char end[] = PASTED;
    size_t same = 0;
    char byte, before = 0;

    while (same < sizeof end - 1 && l->ahead.size < LM_MAX_INPUT && read_byte(&byte, true) > 0) {
        if (byte == end[same]) {
            same++;
            continue;
        }
        if (same > 1) /* a partial end mark: omit its escape, keep the rest */
            lm_text_add(&l->ahead, end + 1, same - 1);
        same = byte == end[0];
        if (byte == '\r' || (byte == '\n' && before != '\r'))
            lm_text_add_str(&l->ahead, NEWLINE);
        else if (byte == '\t')
            lm_text_add_str(&l->ahead, "\026\t");
        else if ((unsigned char)byte >= ' ' && byte != 0x7F)
            lm_text_add_char(&l->ahead, byte);
        before = byte;
    }
}

/* Handle an escape: read the paste that it begins, or pass the bytes of a key to the editor. */
static void look_ahead(lm_lines *l)
{
    static const char begin[] = PASTE;
    ssize_t n = 0;
    size_t same = 1;
    char byte;

    lm_text_clear(&l->ahead);
    l->given = 0;
    while (same < sizeof begin - 1 && (n = read_byte(&byte, false)) > 0 && byte == begin[same])
        same++;
    if (same == sizeof begin - 1) {
        read_paste(l);
        return;
    }
    lm_text_add(&l->ahead, begin, same);
    if (n > 0)
        lm_text_add_char(&l->ahead, byte);
}

/* Read the next byte for the editor. */
static ssize_t next_byte(lm_lines *l, char *out)
{
    while (l->given == l->ahead.size) {
        ssize_t n = read_byte(out, true);
        if (n <= 0 || *out != '\033' || !l->brackets)
            return n;
        look_ahead(l);
    }
    *out = l->ahead.data[l->given++];
    return 1;
}

/* Read one character for libedit. Ctrl-C ends the line immediately, which libedit does not support itself. */
static int next_character(EditLine *edit, wchar_t *out)
{
    lm_lines *l = NULL;
    mbstate_t state = { 0 };
    char byte;

    el_get(edit, EL_CLIENTDATA, &l);
    for (;;) {
        ssize_t n = next_byte(l, &byte);
        if (lm_interrupted()) {
            lm_text_clear(&l->ahead);
            l->given = 0;
            l->abandoned = true;
            l->typed     = el_wline(edit)->lastchar > el_wline(edit)->buffer;
            *out = L'\n';
            return 1;
        }
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

/* Use UTF-8, the encoding of models, in any locale. Returns false if no UTF-8 locale is installed. */
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
    if (!choose_utf8())                                  /* the editor would lose non-ASCII characters */
        return LM_OK;
    l->edit = el_init("lamina", stdin, stdout, stderr);
    l->past = history_init();
    l->file = file ? strdup(file) : NULL;
    if (!l->edit || !l->past || (file && !l->file))
        return lm_fail_memory(e, "the line editor", 0);
    history(l->past, &event, H_SETSIZE, 1000);
    history(l->past, &event, H_SETUNIQUE, 1);
    if (file)
        history(l->past, &event, H_LOAD, file);          /* fails before the first save created the file */
    el_set(l->edit, EL_CLIENTDATA, l);
    el_set(l->edit, EL_PROMPT, prompt);
    el_set(l->edit, EL_EDITOR, "emacs");
    el_wset(l->edit, EL_GETCFN, next_character);
    el_set(l->edit, EL_HIST, history, l->past);
    el_source(l->edit, NULL);                            /* ~/.editrc */
    l->brackets = lm_out_is_terminal() && lm_err_is_terminal();
    if (l->brackets) {
        fputs("\033[?2004h", stdout);
        fflush(stdout);
    }
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
    if (l->brackets) {
        fputs("\033[?2004l", stdout);
        fflush(stdout);
    }
    if (l->past && l->file)
        history(l->past, &event, H_SAVE, l->file);
    if (l->past)
        history_end(l->past);
    if (l->edit)
        el_end(l->edit);
    free(l->file);
    lm_text_free(&l->ahead);
    lm_text_free(&l->line);
    free(l);
}

bool lm_lines_terminal(const lm_lines *l)
{
    return l->terminal;
}

bool lm_lines_empty(const lm_lines *l)
{
    return !l->typed && !l->more;
}

/* Read one line with its newline. *size is 0 at the end of input. */
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
    l->input.file = stdin;
    lm_status status = lm_next_line(&l->input, &l->line, &end, e);
    if (status != LM_OK && lm_interrupted())
        return LM_OK;                                    /* Ctrl-C ends the input of a pipe */
    if (status != LM_OK)
        return lm_fail_in(e, "standard input");
    *out = l->line.data;
    *size = end ? 0 : l->line.size;
    return LM_OK;
}

/* Append a line, with NEWLINE of the editor replaced by newlines. */
static void add_line(const lm_lines *l, const char *line, size_t size, lm_text *out)
{
    const size_t n = sizeof NEWLINE - 1;

    for (const char *end = line + size; line < end;) {
        const char *mark = l->edit ? memmem(line, (size_t)(end - line), NEWLINE, n) : NULL;
        lm_text_add(out, line, (size_t)((mark ? mark : end) - line));
        if (mark)
            lm_text_add_char(out, '\n');
        line = mark ? mark + n : end;
    }
}

/* Return whether the text in `out` continues on the next line. Removes the backslash or quotes that mark
 * this. */
static bool block_continues(lm_text *out, bool *block)
{
    static const char quotes[] = "\"\"\"";
    bool opens = !*block && out->size >= 3 && memcmp(out->data, quotes, 3) == 0;

    if (opens) {
        memmove(out->data, out->data + 3, out->size -= 3);
        *block = true;
    }
    if (*block) {
        *block = out->size < 3 || memcmp(out->data + out->size - 3, quotes, 3) != 0;
        out->size -= *block ? 0 : 3;
        if (!*block && !opens && out->size && out->data[out->size - 1] == '\n')
            out->size--;                                 /* the closing quotes are on their own line */
        if (*block && out->size)
            lm_text_add_char(out, '\n');
        return *block;
    }
    if (!out->size || out->data[out->size - 1] != '\\')
        return false;
    out->data[out->size - 1] = '\n';
    return true;
}

lm_line lm_lines_next(lm_lines *l, lm_text *out, lm_error *e)
{
    HistEvent event;
    bool block = false;

    lm_text_clear(out);
    l->abandoned = l->more = l->typed = false;
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
        if (size > LM_MAX_INPUT - out->size) {
            lm_fail(e, LM_LIMIT, "standard input", LM_NO_OFFSET, "longer than %zu bytes", LM_MAX_INPUT);
            return LM_LINE_FAILED;
        }
        add_line(l, line, size, out);
        l->more = !out->failed && block_continues(out, &block);
        if (out->failed) {
            lm_fail_memory(e, "standard input", out->size);
            return LM_LINE_FAILED;
        }
    } while (l->more);
    if (out->data)
        out->data[out->size] = '\0';                      /* the marks of continuation were removed */
    return LM_LINE;
}
