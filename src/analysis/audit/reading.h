/* reading.h - a document while it is read.
 *
 * A line of text becomes items (scan.c): models, numbers, and words of vocabulary.tsv. A clause, or a cell with its labels, in which every
 * word is known says something for certain; where a word is not, what it says is `unsure` and never called wrong (found.c). */
#ifndef LM_ANALYSIS_AUDIT_READING_H
#define LM_ANALYSIS_AUDIT_READING_H

#include "base/arena.h"
#include "base/numeral.h"
#include "lamina/audit.h"

typedef struct lm_extent { const char *s; size_t n; } lm_extent;

enum { LM_NO_MODEL = -1, LM_OTHER_MODEL = -2 };          /* none is named; one that is not known, or several */

/* What a word or phrase does in a text. */
typedef enum lm_role {
    LM_UNKNOWN, LM_NUMBER, LM_MODEL,
    LM_QUANTITY,                     /* a path, or one of the families of clause.c: @params, @size, @cache, @flops */
    LM_TEXT_QUANTITY,                /* its value is a word: yes, SiLU */
    LM_PART,                         /* paths in a layer, in all, of the share, of its kind; divided by ";" */
    LM_SAYS,                         /* path=yes: a statement in words */
    LM_TYPE, LM_FORM, LM_UNIT,       /* bf16; per layer; GB */
    LM_NEUTRAL, LM_LINK,             /* "the", "uses"; "is", ":" */
    LM_LEAD,                         /* "about" */
    LM_AT, LM_TOKENS,                /* "at 8,192 tokens" */
    LM_BREAK, LM_DOUBT,              /* a clause ends; nothing of this sentence is certain */
    LM_SLASH, LM_TIMES
} lm_role;

/* A row of vocabulary.tsv. */
typedef struct lm_vocable { const char *phrase; lm_role role; const char *value; } lm_vocable;
extern const lm_vocable lm_vocabulary[];

typedef struct lm_item {
    lm_role           role;
    lm_extent         at;
    const lm_vocable *word;
    lm_numeral        number;
    lm_extent         last;          /* of a range: its end */
    const lm_vocable *type;          /* of a number: in parentheses behind it */
    int               exponent;      /* of "4096²", which is not a number but a term; 0: there is none */
    int               model;
    bool              foreign;       /* an unknown word that may name a model or a thing of its own */
} lm_item;

enum { LM_MOST_ITEMS = 160, LM_MOST_WORDS = 12 };

/* Words of a model's name: its family, "3.2", "3b". */
typedef struct lm_known {
    const char *name;
    char        words[LM_MOST_WORDS][24];
    size_t      n;
    bool        here;                /* given, or named in full somewhere in the text */
} lm_known;

enum { LM_FORM_LAYER = 1, LM_FORM_TOKEN = 2, LM_FORM_ALL = 4, LM_FORM_SHARE = 8, LM_FORM_MATMUL = 16 };

/* What labels and clauses are about. */
typedef struct lm_about {
    int               model;
    const lm_vocable *quantity, *second, *part, *type, *unit;            /* second: of "layers / hidden size" */
    unsigned          forms;
    double            tokens;        /* 0: none are named */
    bool              thousands;     /* they were written as 8K */
    bool              table;         /* it is a cell of a table, which has all parts */
    bool              unsure;
} lm_about;

struct lm_audit_document {
    lm_arena   arena;
    char      *text;
    size_t     size, line;           /* line: of `from`, where what is being read begins */
    const char *from;
    lm_known  *known;                /* those given, then presets */
    size_t     n_known, n_given;
    lm_audit_statement   *statements;
    lm_audit_unread *unread;
    size_t     n_statements, room_statements, n_unread, room_unread;
    int        title, scope;         /* models of the document and of what is being read */
    lm_about   heading;              /* of the present heading and caption */
    bool       aside, uncertain;     /* what the heading, or the paragraph so far, is about may be something else: nothing is certain */
    lm_item    items[LM_MOST_ITEMS];
    bool       failed;               /* memory */
};

/* ---- mention.c ---- */
void lm_know_models(lm_audit_document *d, const char *const *models, size_t n);

/* The model whose name begins at s, which begins a word; its bytes in `*n`. LM_NO_MODEL: none does. */
int lm_model_at(const lm_audit_document *d, const char *s, const char *end, size_t *n);

/* ---- scan.c ---- */
/* The items of `s`: `most` of them where there are more. */
size_t lm_scan(const lm_audit_document *d, lm_extent s, lm_item *items, size_t most);
lm_extent lm_trim(lm_extent s);

/* ---- labels.c ---- */
/* What a label names, with what `about` already has. A number in it is one of tokens, or makes it unsure. */
void lm_read_label(const lm_audit_document *d, lm_extent label, lm_about *about);

/* What a word adds to what is talked about; false: it adds nothing. */
bool lm_about_add(const lm_item *x, lm_about *about);
void lm_about_set_tokens(const lm_item *x, lm_about *about);
bool lm_vocable_is(const lm_vocable *v, const char *value);
bool lm_counts_context(const lm_vocable *v);             /* it is a number of tokens */

/* ---- paths.c ---- */
/* Adds the statement that a number makes about `about`; false: it makes none. */
bool lm_audit_number(lm_audit_document *d, const lm_item *number, const lm_item *second, const lm_about *about);
bool lm_audit_words(lm_audit_document *d, lm_extent cell, const lm_about *about);

/* ---- clause.c ---- */
/* A clause, or a label and what stands behind its colon. `cached`: the clause before was about the cache. */
bool lm_read_clause(lm_audit_document *d, const lm_item *items, size_t n, int model, bool doubt, bool *cached);

/* ---- sentence.c ---- */
/* A sentence, a line of a list. `carry`: the model of the text before it, and after it. False: it has no statement. */
bool lm_audit_text(lm_audit_document *d, lm_extent text, int *carry);

/* ---- sums.c ---- */
/* Judges the sums and products that the items write out. False: there are none. */
bool lm_audit_sums(lm_audit_document *d, const lm_item *items, size_t n);

/* ---- printed.c ---- */
/* Of a line that PyTorch or torchinfo prints, without spaces in front; false: it is none. `next`: the line below it. */
bool lm_audit_module(lm_audit_document *d, lm_extent line, int model, bool unsure);
bool lm_audit_summary(lm_audit_document *d, lm_extent line, lm_extent next, int model, bool unsure);

/* ---- tables.c ---- */
enum { LM_MOST_CELLS = 32 };
typedef struct lm_cells { lm_extent cell[LM_MOST_CELLS]; size_t n; } lm_cells;
void lm_split_row(lm_extent row, lm_cells *out);
void lm_read_row(lm_audit_document *d, const lm_cells *head, const lm_cells *row, lm_extent line);

/* ---- found.c ---- */
void lm_add_statement(lm_audit_document *d, lm_extent value, int model, const char *quantity, const char *claim, bool unsure);
void lm_add_unread(lm_audit_document *d, lm_extent line);

#endif
