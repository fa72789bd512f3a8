/* output.c - standard output for results, standard error for everything else.
 *
 * lm_out_configure is called before a command runs; after that any thread may print lines on standard error,
 * and one thread at a time results. The sections: terminals, standard output and JSON, standard error,
 * formatting of numbers, progress bars. */
#include "cli/base/output.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/number.h"
#include "base/os/clock.h"
#include "cli/base/flag_names.h"

bool lm_out_is_terminal(void)
{
    return isatty(STDOUT_FILENO);
}

bool lm_err_is_terminal(void)
{
    const char *term = getenv("TERM");

    return isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
}

bool lm_out_meets_err(void)
{
    struct stat out, err;

    return !fstat(STDOUT_FILENO, &out) && !fstat(STDERR_FILENO, &err) && out.st_dev == err.st_dev &&
           out.st_ino == err.st_ino;
}

static struct { bool verbose, quiet, plain; } settings;         /* of lm_out_configure */

void lm_out_configure(bool verbose, bool quiet, bool plain)
{
    settings.verbose = verbose;
    settings.quiet = quiet;
    settings.plain = plain;
}

static bool colour_wanted(void)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

    return !settings.plain && !(no && *no) && term && strcmp(term, "dumb") != 0;
}

static bool err_has_colour(void)
{
    return lm_err_is_terminal() && colour_wanted();
}

unsigned lm_out_width(void)
{
    struct winsize w;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col)
        return w.ws_col;
    return 80;
}

/* ---- stdout ---- */

static bool left;                        /* the reader of standard output has closed it */

bool lm_out_left(void)
{
    return left;
}

static lm_status put(const char *text, size_t n, lm_error *e)
{
    if (!n || (fwrite(text, 1, n, stdout) == n && fflush(stdout) == 0))
        return LM_OK;
    left |= errno == EPIPE;
    return lm_fail(e, LM_IO, "standard output", LM_NO_OFFSET, "%s", strerror(errno));
}

/* Append text for a terminal. Control characters are shown as symbols (U+2400 ...) and have no effect. */
static void add_shown(const char *text, size_t n, lm_text *shown)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == 0x7F)
            lm_text_add_str(shown, "\u2421");
        else if (c < ' ' && c != '\n' && c != '\t')
            lm_text_printf(shown, "\xE2\x90%c", 0x80 + c);
        else if (c == 0xC2 && i + 1 < n && (unsigned char)text[i + 1] < 0xA0)      /* C1: U+0080 ... U+009F */
            lm_text_add_str(shown, "\uFFFD"), i++;
        else
            lm_text_add_char(shown, (char)c);
    }
}

/* Wrapping erases a word that passes the edge, which needs a cursor that moves. */
lm_wrap lm_out_wrap(void)
{
    const char *term = getenv("TERM");
    unsigned    width = lm_out_width();

    if (!lm_out_is_terminal() || !term || strcmp(term, "dumb") == 0 || width < 20)
        return (lm_wrap){ 0 };
    return (lm_wrap){ .width = width - 1 };      /* in the last column the cursor's place is unclear */
}

lm_status lm_out_wrapped(lm_wrap *w, const char *text, size_t n, lm_error *e)
{
    lm_text shown = { 0 }, wrapped = { 0 };

    if (!lm_out_is_terminal())
        return put(text, n, e);
    add_shown(text, n, &shown);
    lm_wrap_add(w, shown.data, shown.size, &wrapped);
    lm_status status = shown.failed || wrapped.failed || w->word.failed
                           ? lm_fail_memory(e, "the output", n)
                           : put(wrapped.data, wrapped.size, e);
    lm_text_free(&shown);
    lm_text_free(&wrapped);
    return status;
}

lm_status lm_out_text(const char *text, size_t n, lm_error *e)
{
    return lm_out_wrapped(&(lm_wrap){ 0 }, text, n, e);
}

lm_status lm_out_buf(const lm_text *b, lm_error *e)
{
    if (b->failed)
        return lm_fail_memory(e, "the output", b->size);
    return lm_out_text(b->data, b->size, e);
}

lm_status lm_out_free(lm_text *b, lm_error *e)
{
    lm_status status = lm_out_buf(b, e);

    lm_text_free(b);
    return status;
}

json_t *lm_json_of(const char *text, size_t n)
{
    lm_text clean = { 0 };

    lm_text_add_utf8(&clean, text, n);
    json_t *out = clean.failed ? NULL : json_stringn(clean.data ? clean.data : "", clean.size);
    lm_text_free(&clean);
    return out;
}

json_t *lm_json_finite(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static lm_status print_json(json_t *document, size_t layout, lm_error *e)
{
    char *text = document ? json_dumps(document, layout | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(17))
                          : NULL;
    lm_status status;

    json_decref(document);
    if (!text)
        return lm_fail_memory(e, "the JSON document", 0);
    status = lm_out_text(text, strlen(text), e);
    free(text);
    return status == LM_OK ? lm_out_text("\n", 1, e) : status;
}

static json_t *named(const char *name, json_t *document)
{
    json_t *out = json_pack("{s:o}", "schema", json_sprintf("lamina.%s/1", name));

    if (out && json_object_update(out, document) != 0) {
        json_decref(out);
        out = NULL;
    }
    json_decref(document);
    return out;
}

json_t *lm_json_document(const lm_cli *cli, json_t *document)
{
    const char *name = cli->command ? cli->command->name : "error";
    json_t     *entry, *out = NULL;
    size_t      i;

    if (!json_is_array(document))
        return json_is_object(document) ? named(name, document) : document;
    out = json_array();
    json_array_foreach(document, i, entry) {
        json_incref(entry);
        if (json_array_append_new(out, json_is_object(entry) ? named(name, entry) : entry) != 0) {
            json_decref(out);
            out = NULL;
            break;
        }
    }
    json_decref(document);
    return out;
}

lm_status lm_out_foreign_json(lm_cli *cli, json_t *document, lm_error *e)
{
    cli->answered = true;
    return print_json(document, JSON_INDENT(2), e);
}

lm_status lm_out_json(lm_cli *cli, json_t *document, lm_error *e)
{
    return lm_out_foreign_json(cli, lm_json_document(cli, document), e);
}

lm_status lm_out_json_text(lm_cli *cli, const lm_text *object, lm_error *e)
{
    lm_text out = { 0 };

    cli->answered = true;
    lm_text_printf(&out, "{\n  \"schema\": \"lamina.%s/1\",", cli->command->name);
    lm_text_add(&out, object->data + 1, object->size - 1);
    return lm_out_free(&out, e);
}

lm_status lm_out_json_line(json_t *document, lm_error *e)
{
    return print_json(document, JSON_COMPACT, e);
}

/* ---- stderr ---- */

/* Print a line, escaped: names and vocabulary pieces may contain any bytes. */
static void line(const char *end, const char *format, va_list args)
{
    char *text = NULL, renamed[2048], safe[4 * sizeof renamed] = "";

    if (vasprintf(&text, format, args) >= 0) {
        lm_escape(safe, sizeof safe, lm_name_flags(text, renamed, sizeof renamed));
        free(text);
    }
    fprintf(stderr, "%s%s\n", safe, end);
}

void lm_warn(const char *format, ...)
{
    va_list args;

    if (settings.quiet)
        return;
    va_start(args, format);
    fputs(err_has_colour() ? "\033[33mwarning:\033[0m " : "warning: ", stderr);
    line("", format, args);
    va_end(args);
}

void lm_note(const char *format, ...)
{
    va_list args;

    if (settings.quiet)
        return;
    va_start(args, format);
    line("", format, args);
    va_end(args);
}

void lm_faint_note(const char *format, ...)
{
    bool colour = err_has_colour();
    va_list args;

    if (settings.quiet)
        return;
    va_start(args, format);
    fputs(colour ? "\033[2m" : "", stderr);
    line(colour ? "\033[0m" : "", format, args);
    va_end(args);
}

void lm_detail(const char *format, ...)
{
    va_list args;

    if (!settings.verbose || settings.quiet)
        return;
    va_start(args, format);
    line("", format, args);
    va_end(args);
}

void lm_print_line(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    line("", format, args);
    va_end(args);
}

json_t *lm_json_error(const lm_error *e)
{
    return json_pack("{s:s, s:s, s:s?, s:s?, s:o?}", "code", lm_status_word(e->code), "message", e->message,
                     "file", e->file[0] ? e->file : NULL, "where", e->where[0] ? e->where : NULL,
                     "offset", e->offset == LM_NO_OFFSET ? NULL : json_integer(e->offset));
}

void lm_out_error(const lm_cli *cli, lm_error *e)
{
    char text[2048], message[sizeof e->message];

    snprintf(message, sizeof message, "%s", e->message);
    lm_name_flags(message, e->message, sizeof e->message);
    snprintf(message, sizeof message, "%s", e->hint);
    lm_name_flags(message, e->hint, sizeof e->hint);
    if (cli->json && !cli->answered)
        lm_out_json_line(json_pack("{s:s, s:o, s:s*}", "schema", "lamina.error/1", "error", lm_json_error(e),
                                   "hint", e->hint[0] ? e->hint : NULL),
                         NULL);
    fflush(stdout);
    /* A reader expects the remedy after the error. Scripts expect the error on the last line. */
    if (e->hint[0] && !isatty(STDERR_FILENO))
        fprintf(stderr, "hint: %s\n", e->hint);
    fprintf(stderr, "%s %s\n",
            err_has_colour() ? "\033[1;31merror:\033[0m" : "error:", lm_error_text(e, text, sizeof text));
    if (e->hint[0] && isatty(STDERR_FILENO))
        fprintf(stderr, "hint: %s\n", e->hint);
}

/* ---- number formatting ---- */

char *lm_format_count(char out[LM_FORMATTED], uint64_t n)
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, n), at = 0;

    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = 0;
    return out;
}

char *lm_format_bytes(char out[LM_FORMATTED], uint64_t bytes)
{
    return lm_size_text(out, bytes);
}

char *lm_format_time(char out[LM_FORMATTED], double seconds)
{
    if (seconds < 0.9995)
        snprintf(out, LM_FORMATTED, seconds < 0.00995 ? "%.2f ms" : "%.0f ms", seconds * 1000);
    else if (seconds < 99.95)
        snprintf(out, LM_FORMATTED, seconds < 9.995 ? "%.2f s" : "%.1f s", seconds);
    else
        snprintf(out, LM_FORMATTED, "%.0f min %02.0f s", (seconds - (double)((long)seconds % 60)) / 60,
                 (double)((long)seconds % 60));
    return out;
}

char *lm_format_rate(char out[LM_FORMATTED], uint64_t tokens, double seconds)
{
    double r = tokens && seconds > 0 ? (double)tokens / seconds : 0;

    snprintf(out, LM_FORMATTED,
             r <= 0     ? "– tok/s"
             : r < 9.95 ? "%.2f tok/s"
             : r < 99.5 ? "%.1f tok/s"
                        : "%.0f tok/s",
             r);
    return out;
}

/* ---- progress ---- */

lm_progress lm_progress_start(const char *label)
{
    return (lm_progress){ .label = label, .started = lm_clock_seconds() };
}

void lm_progress_show(void *progress, double fraction)
{
    static const char full[] = "########################################",
                      empty[] = "                                        ";
    const int width = (int)sizeof full - 1;
    lm_progress *p = progress;
    double now = lm_clock_seconds();
    int done;

    /* Short work needs no bar. */
    if (settings.quiet || !lm_err_is_terminal() || now - p->started < 0.3 ||
        (p->visible && now - p->shown < 0.05))
        return;
    fraction = fraction < 0 ? 0 : fraction > 1 ? 1 : fraction;
    done = (int)(fraction * width);
    fprintf(stderr, "\r%s [%.*s%.*s] %3.0f %%%s%s\033[K", p->label, done, full, width - done, empty,
            100 * fraction, *p->note ? "  " : "", p->note);
    fflush(stderr);
    p->shown = now;
    p->visible = true;
}

void lm_progress_end(lm_progress *p)
{
    if (p->visible)
        fputs("\r\033[K", stderr);
    p->visible = false;
}
