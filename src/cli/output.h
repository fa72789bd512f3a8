/* output.h - what reaches the terminal: machine output on stdout, everything else on stderr; figures for people. */
#ifndef LM_CLI_OUTPUT_H
#define LM_CLI_OUTPUT_H

#include <jansson.h>

#include "cli/command.h"
#include "cli/translate.h"

/* Whether stdout / stderr is a terminal; colour also asks NO_COLOR and TERM. */
bool lm_out_is_terminal(void);
bool lm_err_is_terminal(void);
bool lm_out_meets_err(void);                         /* the same terminal, file or pipe */
bool lm_err_colour(void);
unsigned lm_out_width(void);                         /* columns; 80 where nobody knows */

/* Text on stdout, byte for byte; on a terminal control characters other than tab and newline are shown, not obeyed. LM_IO when
 * it cannot be written. */
lm_status lm_out_text(const char *text, size_t n, lm_error *e);
lm_status lm_out_buf(const lm_text *b, lm_error *e);  /* LM_NO_MEMORY when the buffer failed */
lm_status lm_out_take(lm_text *b, lm_error *e);       /* the same, and the buffer is freed */

/* Whether a write to it has failed because its reader is gone (`| head`). */
bool lm_out_left(void);

/* A JSON string of any bytes: what is not UTF-8 becomes U+FFFD. NULL is out of memory. */
json_t *lm_json_of(const char *text, size_t n);

/* `document` with "schema" as its first key, which names its form and version: "lamina.inspect/1" for docs/schema/inspect.schema.json. A
 * list of documents has it in each. Takes the reference and gives one; NULL is out of memory, as it is among what is taken. */
json_t *lm_json_document(const lm_cli *cli, json_t *document);

/* The command's one JSON document, named as lm_json_document names it; takes the reference. NULL is out of memory. */
lm_status lm_out_json(lm_cli *cli, json_t *document, lm_error *e);

/* A document whose form is not lamina's own (a config.json), as it is. */
lm_status lm_out_foreign_json(lm_cli *cli, json_t *document, lm_error *e);

/* What the document of a command has as "error" when it ends in one. */
json_t *lm_json_error(const lm_error *e);

/* One of any number of documents, on one line; takes the reference. An error may be the next. */
lm_status lm_out_json_line(json_t *document, lm_error *e);

/* How much stderr says: -v, -q, --no-color. */
void lm_out_manner(bool verbose, bool quiet, bool plain);

/* Lines on stderr, escaped as errors are. A warning gets its "warning: "; notes are what -q leaves out, details what only -v
 * shows; what the user requested is always printed. */
void lm_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void lm_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void lm_faint_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void lm_detail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void lm_print_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* An error as people and scripts read it, on stderr, with its hint; with --json also as a document on stdout, on one line. */
void lm_out_error(const lm_cli *cli, lm_error *e);

/* ---- figures ---- */
enum { LM_FIGURE = 40 };
char *lm_figure_count(char out[LM_FIGURE], uint64_t n);          /* "394,002,432" */
char *lm_figure_bytes(char out[LM_FIGURE], uint64_t bytes);      /* "6.43 GB", "512 B" */
char *lm_figure_time(char out[LM_FIGURE], double seconds);       /* "843 ms", "2.51 s" */
char *lm_figure_rate(char out[LM_FIGURE], uint64_t tokens, double seconds);    /* "9.31 tok/s"; of none "– tok/s" */

/* ---- a bar on stderr, only on a terminal, only when something lasts ---- */
typedef struct lm_progress {
    const char *label;
    double      started, shown;
    bool        visible;
    char        note[64];            /* behind the bar: "12 MB/s, 3 min left"; "": nothing */
} lm_progress;
lm_progress lm_progress_start(const char *label);
void lm_progress_show(void *progress, double fraction);          /* an lm_progress; the form callbacks want */
void lm_progress_end(lm_progress *p);                            /* wipes it */

/* The libraries that run with the program: {name: version}, "name version, …". */
json_t *lm_libraries_json(void);
void    lm_libraries_text(lm_text *out);

#endif
