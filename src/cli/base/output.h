/* output.h - output: results on stdout, everything else on stderr; formatting of numbers; progress bars. */
#ifndef LM_CLI_OUTPUT_H
#define LM_CLI_OUTPUT_H

#include <jansson.h>

#include "cli/base/command.h"
#include "cli/base/wrap.h"
#include "cli/base/translate.h"

/* Return whether stdout or stderr is a terminal. Colour also depends on --no-color, NO_COLOR and TERM. */
bool lm_out_is_terminal(void);
bool lm_err_is_terminal(void);
bool lm_out_meets_err(void);                         /* the same terminal, file or pipe */
unsigned lm_out_width(void);                         /* columns; 80 if unknown */

/* Write text to stdout, byte for byte; on a terminal, control characters other than tab and newline are shown
 * as symbols. LM_IO: it cannot be written. */
lm_status lm_out_text(const char *text, size_t n, lm_error *e);
/* The same, broken into lines at words on a terminal that can move its cursor; `w` begins as lm_out_wrap(),
 * and its word is freed by the caller. */
lm_wrap   lm_out_wrap(void);
lm_status lm_out_wrapped(lm_wrap *w, const char *text, size_t n, lm_error *e);
lm_status lm_out_buf(const lm_text *b, lm_error *e);  /* LM_NO_MEMORY: the buffer has failed */
lm_status lm_out_free(lm_text *b, lm_error *e);       /* the same; frees the buffer */

/* Return whether a write to stdout has failed because its reader has closed it (`| head`). */
bool lm_out_left(void);

/* Return a JSON string of any bytes; invalid UTF-8 becomes U+FFFD. NULL: out of memory. */
json_t *lm_json_of(const char *text, size_t n);

/* Return a JSON number; null if `x` is not finite. */
json_t *lm_json_finite(double x);

/* Return `document` with "schema" as its first key, which names its format and version: "lamina.inspect/1"
 * for docs/schema/inspect.schema.json. In a list, every document has it. Takes the reference and returns a
 * new one. NULL, also as argument: out of memory. */
json_t *lm_json_document(const lm_cli *cli, json_t *document);

/* Print the command's only JSON document, with the schema of lm_json_document. Takes the reference. A NULL
 * document is LM_NO_MEMORY. */
lm_status lm_out_json(lm_cli *cli, json_t *document, lm_error *e);

/* The same for an object that the library has written, in the layout of this program: indented by two. */
lm_status lm_out_json_text(lm_cli *cli, const lm_text *object, lm_error *e);

/* Print a document that is not in a format of lamina (a config.json) without a schema. */
lm_status lm_out_foreign_json(lm_cli *cli, json_t *document, lm_error *e);

/* Return the member "error" of the document of a command that fails. */
json_t *lm_json_error(const lm_error *e);

/* Print one of several documents on one line. Takes the reference. An error document may follow. */
lm_status lm_out_json_line(json_t *document, lm_error *e);

/* Set the verbosity and colour of stderr: -v, -q, --no-color. */
void lm_out_configure(bool verbose, bool quiet, bool plain);

/* Print a line on stderr, escaped like errors. Warnings start with "warning: ". -q omits warnings and notes;
 * details are printed only with -v. lm_print_line, for output that the user requested, always prints. */
void lm_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void lm_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void lm_faint_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void lm_detail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void lm_print_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Print an error with its hint on stderr; with --json also as a document on one line of stdout, unless the
 * command has printed one. */
void lm_out_error(const lm_cli *cli, lm_error *e);

/* ---- number formatting ---- */
enum { LM_FORMATTED = 40 };
char *lm_format_count(char out[LM_FORMATTED], uint64_t n);       /* "394,002,432" */
char *lm_format_bytes(char out[LM_FORMATTED], uint64_t bytes);   /* "6.43 GB", "512 B" */
char *lm_format_time(char out[LM_FORMATTED], double seconds);    /* "843 ms", "2.51 s" */
/* "9.31 tok/s"; if unknown "– tok/s" */
char *lm_format_rate(char out[LM_FORMATTED], uint64_t tokens, double seconds);

/* ---- progress bar on stderr, only on a terminal and for work that takes longer than 0.3 s ---- */
typedef struct lm_progress {
    const char *label;
    double      started, shown;
    bool        visible;
    char        note[64];            /* shown after the bar: "12 MB/s, 3 min left, 4/9 files"; "": none */
} lm_progress;
lm_progress lm_progress_start(const char *label);
/* `progress`: an lm_progress; the type of callbacks */
void lm_progress_show(void *progress, double fraction);
void lm_progress_end(lm_progress *p);                            /* erase the bar */

/* List the libraries that the program uses: {name: version}, "name version, …". */
json_t *lm_libraries_json(void);
void    lm_libraries_text(lm_text *out);

#endif
