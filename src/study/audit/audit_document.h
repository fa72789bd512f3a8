/* audit_document.h - a document while it is read: from its lines to statements that facts can answer.
 *
 * A statement is a value with the labels that describe it: those of its row and column, or the name before
 * its colon. A label is accepted only if every word of it is known (words.c), so that what was read is what
 * was meant. Anything else is not read.
 *
 *   audit_lines.c  walks over headings, lists, settings and code; which model a passage is about
 *   tables.c       rows and columns of Markdown and of aligned text
 *   json.c         JSON documents
 *   printed.c      what PyTorch and torchinfo print
 *   words.c        text -> lexemes
 *   model_names.c  names of models among them
 *   label.c        lexemes -> lm_label
 *   quantity.c     lm_label and a value -> paths of facts
 *   statements.c   keeps the statements, and judges them
 *
 * Read words.c, label.c and quantity.c first. The document owns its copy of the text and an arena with all
 * strings; extents point into the text, which is not changed. One thread reads a document; afterwards it is
 * constant. */
#ifndef LM_STUDY_AUDIT_DOCUMENT_H
#define LM_STUDY_AUDIT_DOCUMENT_H

#include <string.h>

#include "base/arena.h"
#include "base/numeral.h"
#include "lamina/study/audit.h"

typedef struct lm_extent { const char *s; size_t n; } lm_extent;

enum { LM_NO_MODEL = -1, LM_OTHER_MODEL = -2 };      /* no model is named; an unknown one, or several */

/* What a word, a phrase or a sign of a label is. */
typedef enum lm_lexeme_kind {
    LM_LEX_UNKNOWN,
    LM_LEX_NUMBER, LM_LEX_MODEL,
    /* the path of a fact, alternatives divided by "|", or a family: @params @size @cache @flops */
    LM_LEX_QUANTITY,
    LM_LEX_WORDED,                  /* the same, for a fact that is a word: SiLU, yes */
    /* paths of parameters divided by ";": of a layer; of all layers; the share; the kind */
    LM_LEX_PART,
    LM_LEX_TYPE, LM_LEX_FORM, LM_LEX_UNIT,        /* Q8_0; per layer; GB */
    LM_LEX_TOKENS, LM_LEX_AT,      /* "8,192 tokens", "at 8,192" */
    LM_LEX_LEAD,                    /* "about", "<": belongs to the number behind it */
    LM_LEX_LINK, LM_LEX_SLASH,     /* ":", "=", "is"; "/" */
    LM_LEX_TIMES,                   /* "× 36" */
    LM_LEX_NEUTRAL, LM_LEX_DOUBT   /* "the"; "draft", "if": the passage may be about something else */
} lm_lexeme_kind;

/* A row of vocabulary.tsv, sorted by the first byte of its phrase: those of byte c are lm_vocabulary_at[c] …
 * [c + 1]. */
typedef struct lm_phrase { const char *phrase; lm_lexeme_kind kind; const char *value; } lm_phrase;
extern const lm_phrase      lm_vocabulary[];
extern const unsigned short lm_vocabulary_at[257];

typedef struct lm_lexeme {
    lm_lexeme_kind kind;
    lm_extent    at;
    const char  *value;              /* of a phrase */
    lm_numeral   number;
    int          model;
} lm_lexeme;

enum { LM_MAX_LEXEMES = 64, LM_MAX_CELLS = 32, LM_MAX_NAME_WORDS = 12 };

enum { LM_LABEL_LAYER = 1, LM_LABEL_TOKEN = 2, LM_LABEL_ALL = 4, LM_LABEL_SHARE = 8, LM_LABEL_MATMUL = 16 };

/* What labels say of a value. */
typedef struct lm_label {
    int         model;
    const char *quantity, *second;   /* second: of "layers / hidden size", for two values */
    const char *part, *type, *unit;
    bool        worded;              /* the value of `quantity` is a word */
    unsigned    forms;
    double      tokens;              /* 0: not stated */
    bool        thousands;           /* the tokens were written as "8K", which may be 8,192 or 8,000 */
    lm_extent   key;                 /* the identifier that names the quantity: "num_key_value_heads" */
    bool        unclear;             /* a word is unknown, or two words contradict each other */
    bool        doubt;               /* a word says that this may be about something else */
    bool        kind;                /* a word is a kind of attention: "layers with SWA" are not all layers */
    bool        counts;              /* a word says that parameters are counted */
    bool        assumed;             /* the model is only the one that the document names somewhere */
} lm_label;

/* The words of a name of a model, in lower case. */
typedef struct lm_model_name {
    const char *name;                /* as the caller gave it, or the preset's */
    char        words[LM_MAX_NAME_WORDS][24];
    size_t      n;
    /* the document is about it: given by the caller, or named in full in the text */
    bool        here;
} lm_model_name;

struct lm_audit_document {
    lm_arena       arena;
    char          *text;
    size_t         size, line;       /* line: number of the line that begins at `from` */
    const char    *from;
    lm_model_name *names;            /* the given models, then the presets under each of their names */
    size_t         n_names, n_given;
    lm_audit_statement *statements;
    lm_audit_unread    *unread;
    size_t         n_statements, room_statements, n_unread, room_unread;
    int            scope;            /* the model of the passage that is read */
    bool           assumed;          /* the passage does not name it, nor did the caller */
    bool           counts;           /* its heading says that parameters are counted */
    /* the passage may be about something else: nothing in it is called wrong */
    bool           doubtful;
    bool           failed;           /* out of memory */
};

/* ---- words.c ---- */
/* Split `text` into at most `max` items. Returns their number; `max` if there may be more. */
size_t    lm_scan(const lm_audit_document *d, lm_extent text, lm_lexeme *items, size_t max);
lm_extent lm_trim(lm_extent s);
lm_extent lm_strip_markup(lm_extent s);              /* without spaces, quotes, "*" and "`" around it */
bool      lm_extent_is(lm_extent s, const char *text);               /* without regard to case */
bool      lm_extent_begins(lm_extent s, const char *text);           /* these two with regard to case */
bool      lm_extent_ends(lm_extent s, const char *text);
bool      lm_has_digit(lm_extent s);

/* ---- model_names.c ---- */
void lm_learn_models(lm_audit_document *d, const char *const *models, size_t n);

/* Return the model whose name begins at s, the beginning of a word; `*n`: the bytes of the name. */
int lm_model_at(const lm_audit_document *d, const char *s, const char *end, size_t *n);

/* Return the only model that the document is about, or LM_NO_MODEL. */
int lm_only_model(const lm_audit_document *d);

/* ---- label.c ---- */
/* Add what the items say to a label. Numbers among them are numbers of tokens. */
void     lm_label_add(lm_label *l, const lm_lexeme *items, size_t n);
lm_label lm_label_of(const lm_audit_document *d, lm_extent text);
static inline bool lm_label_is(const lm_label *l, const char *quantity)
{
    return l->quantity && strcmp(l->quantity, quantity) == 0;
}

/* Fill in what `l` leaves open from the label of its row, column or line. */
void lm_label_inherit(lm_label *l, const lm_label *from);

/* Let a label without a model be about the model of the passage. */
void lm_assume_model(const lm_audit_document *d, lm_label *l);

/* Read a cell or the text behind a colon as the value that `about` describes, and add its statement. False:
 * it is none. */
bool lm_read_value(lm_audit_document *d, lm_extent cell, const lm_label *about);

/* ---- quantity.c ---- */
/* Return the paths, divided by "|", that can answer a number with this label; NULL: none. *unsure is set if
 * it may mean another one. */
const char *lm_paths_of(lm_audit_document *d, const lm_label *about, const lm_numeral *x, bool *unsure);

/* ---- tables.c ---- */
typedef struct lm_cells { lm_extent cell[LM_MAX_CELLS]; size_t n; } lm_cells;

/* The table that is being read. */
typedef struct lm_table_head {
    lm_label column[LM_MAX_CELLS];
    lm_cells cells;
    bool     by_gaps;                /* text that is aligned, not Markdown */
    bool     models, rows;           /* columns name models; so does a row that has been read */
    bool     doubt, counts;          /* a column is of something else; one is of parameters */
    size_t   n_rows, first;          /* the rows so far; the first statement of them */
} lm_table_head;

void lm_split_row(lm_extent row, bool by_gaps, lm_cells *out);

/* Begin a table. False: it describes nothing. */
bool lm_read_head(const lm_audit_document *d, lm_extent line, bool by_gaps, lm_table_head *out);
void lm_read_row(lm_audit_document *d, lm_table_head *head, lm_extent line);

/* ---- json.c ---- */
/* Read a JSON document. False: it is not one, and nothing was read. */
bool lm_read_json(lm_audit_document *d, lm_extent text);

/* Read the value of a key. `config`: the key is one of a model's configuration, whether or not it is known
 * here. */
bool lm_read_setting(lm_audit_document *d, int model, lm_extent key, lm_extent value, bool config);

/* ---- printed.c ---- */
/* Read a line that PyTorch prints for a module, without leading spaces. False: another line. */
bool lm_read_module(lm_audit_document *d, lm_extent line);

enum { LM_PRINTED_DEPTH = 10, LM_PRINTED_COLUMNS = 8 };

/* A table of modules, as torchinfo prints it, that is being read. */
typedef struct lm_printed {
    char      columns[LM_PRINTED_COLUMNS];
    size_t    n_columns;             /* 0: no table */
    lm_extent names[LM_PRINTED_DEPTH];
    size_t    tokens;                /* of the pass; 0: not stated */
    bool      modules;               /* modules were printed before, as PyTorch does */
} lm_printed;

bool lm_read_printed_table(lm_audit_document *d, lm_printed *t, lm_extent line);

/* ---- statements.c ---- */
void lm_add_statement(lm_audit_document *d, lm_extent value, int model, const char *quantity,
                      const char *claim, bool unsure);
/* it is the claim */
void lm_add_value(lm_audit_document *d, lm_extent value, int model, const char *quantity, bool unsure);
void lm_add_unread(lm_audit_document *d, lm_extent line);

/* ---- audit_lines.c ---- */
void lm_read_lines(lm_audit_document *d);

#endif
