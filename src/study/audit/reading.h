/* reading.h - the state of a document while it is read.
 *
 * A line of text becomes items (scan.c): models, numbers, and words of vocabulary.tsv. If every word of a clause, or of a cell with its
 * labels, is known, its statement is certain; otherwise the statement is `unsure` and never called wrong (found.c). */
#ifndef LM_ANALYSIS_AUDIT_READING_H
#define LM_ANALYSIS_AUDIT_READING_H

#include "base/arena.h"
#include "base/language.h"
#include "base/numeral.h"
#include "lamina/audit.h"

typedef struct lm_extent { const char *s; size_t n; } lm_extent;

enum { LM_NO_MODEL = -1, LM_OTHER_MODEL = -2 };          /* no model is named; an unknown model or several are named */

/* The function of a word or phrase in a text. */
typedef enum lm_role {
    LM_UNKNOWN,                      /* the vocabulary has such words too ("open"), for rotated.c and others */
    LM_NUMBER, LM_MODEL,
    LM_QUANTITY,                     /* a path, or a family of paths (paths.c): @params, @size, @cache, @flops */
    LM_TEXT_QUANTITY,                /* a quantity whose value is a word: yes, SiLU */
    LM_PART,                         /* paths, separated by ";": of one layer; of all layers; of the share; of the kind */
    LM_SAYS,                         /* path=yes: a statement in words */
    LM_TYPE, LM_FORM, LM_UNIT,       /* bf16; per layer; GB */
    LM_NEUTRAL, LM_LINK,             /* "the", "uses"; "is", ":" */
    LM_LEAD,                         /* "about" */
    LM_AT, LM_TOKENS,                /* "at 8,192 tokens" */
    LM_BREAK, LM_DOUBT,              /* the end of a clause; makes its sentence uncertain */
    LM_SLASH, LM_TIMES
} lm_role;

/* A row of vocabulary.tsv. */
typedef struct lm_vocable { const char *phrase; lm_role role; const char *value; } lm_vocable;
extern const lm_vocable lm_vocabulary[];
extern const unsigned short lm_vocabulary_at[257];       /* where the rows begin whose phrases begin with a byte */

typedef struct lm_item {
    lm_role           role;
    lm_extent         at;
    const lm_vocable *word;
    lm_numeral        number;
    lm_extent         last;          /* the end of a range */
    const lm_vocable *type;          /* the type in parentheses after a number */
    int               exponent;      /* of "4096²", which is a term, not a number; 0: none */
    int               model;
    bool              foreign;       /* an unknown word that may name a model or another thing */
} lm_item;

enum { LM_MOST_ITEMS = 160, LM_MOST_WORDS = 12 };

/* The words of a model's name: family, "3.2", "3b". */
typedef struct lm_known {
    const char *name;
    char        words[LM_MOST_WORDS][24];
    size_t      n;
    bool        here;                /* given by the caller, or named in full in the text */
} lm_known;

enum { LM_FORM_LAYER = 1, LM_FORM_TOKEN = 2, LM_FORM_ALL = 4, LM_FORM_SHARE = 8, LM_FORM_MATMUL = 16 };

/* What a label or clause is about. */
typedef struct lm_about {
    int               model;
    const lm_vocable *quantity, *second, *part, *type, *unit;            /* second: the second one of "layers / hidden size" */
    lm_extent         key;           /* the key of a configuration that names the quantity: "num_key_value_heads" */
    unsigned          forms;
    double            tokens;        /* 0: not stated */
    bool              likely;        /* unsure, but a match is hardly chance */
    bool              thousands;     /* the tokens were written as 8K */
    bool              unshared;      /* with a key and a value for every query head: "MHA" */
    bool              table;         /* a cell of a table, which lists all parts */
    bool              unsure;
} lm_about;

enum { LM_MOST_PARTS = 16, LM_MOST_CELLS = 32 };

/* What the cells of a column add up to. */
typedef struct lm_column {
    double      sum, slack, head;    /* slack: of rounding; head: the output matrix's */
    size_t      n, of_head;          /* of_head: the number of the head's statement; 0: none */
    size_t      precise;             /* cells of the unit `power` that do not end in a zero */
    int         power;
    bool        nested;              /* a row may be part of another one */
    const char *shares[LM_MOST_PARTS];
} lm_column;

/* A figure that the document calculates wrongly, and what it should be. */
typedef struct lm_mended { lm_extent at; double truth; } lm_mended;
enum { LM_MOST_MENDED = 32 };

/* A figure that the document calculates and rounds: its digits, what they are exactly, in the unit that it has. */
typedef struct lm_rounded { lm_extent digits; double exact; size_t n_digits; } lm_rounded;

enum { LM_PRINTED_DEPTH = 10, LM_PRINTED_COLUMNS = 8, LM_MOST_SUBGRAPHS = 8 };

/* A table of modules that is being read (printed_table.c). */
typedef struct lm_printed {
    char      columns[LM_PRINTED_COLUMNS];
    size_t    n_columns;             /* 0: no table */
    lm_extent names[LM_PRINTED_DEPTH];
    size_t    tokens;                /* of the pass; 0: not stated */
    double    parameters;            /* the total */
    lm_extent layer;                 /* the last row that is a layer's */
    size_t    layer_depth, n_layers; /* n_layers: rows that are numbered from 0 without a gap; 0: there is a gap */
    bool      halves;                /* parameters take two bytes each */
    int       model;
    bool      unsure;
} lm_printed;

/* What a section or list is about (properties.c). praise: it is of advantages (1) or drawbacks (-1). doubtful: others say so. item: the
 * line above the list is an item of another one. */
typedef struct lm_listed { char subject; int praise; bool doubtful, item; } lm_listed;

struct lm_audit_document {
    lm_arena   arena;
    char      *text;
    size_t     size, line;           /* line: number of the line at `from`, where the text being read begins */
    const char *from;
    lm_known  *known;                /* the given models, then presets */
    size_t     n_known, n_given;
    lm_audit_statement   *statements;
    lm_audit_unread *unread;
    size_t     n_statements, room_statements, n_unread, room_unread;
    int        title, scope;         /* model of the document and of the text being read */
    lm_about   heading;              /* what the current heading and caption are about */
    bool       versus;               /* the heading is an aside only because it compares */
    bool       aside, uncertain;     /* the heading, or the paragraph so far, may be about something else: nothing is certain */
    lm_item    items[LM_MOST_ITEMS];
    const lm_vocable *symbols[26];   /* what a capital letter stands for, or NULL */
    lm_mended  mended[LM_MOST_MENDED];
    size_t     n_mended;
    lm_rounded rounded[LM_MOST_MENDED];
    size_t     n_rounded;
    lm_column  columns[LM_MOST_CELLS];       /* of the table being read */
    lm_printed printed;
    bool       rotary;               /* the heading is about rotary positions */
    lm_listed  section, listed;      /* by the heading; by the line above the list */
    bool       scaled;               /* the section is about positions that are scaled */
    bool       key_width;            /* an equation has defined the width of the keys */
    bool       candidates;           /* the text is read for each model that it may be about */
    struct lm_known_formula *formulas;                    /* the known formulas that were read (tex_formula.c) */
    int        width_of_both;        /* d_c includes the rotated key: 1; -1: it does not; 0: not yet searched */
    char       rows[4][24];          /* matrices of which rows are looked up, as terms (terms.h) */
    size_t     n_rows;
    bool       graph;                /* the code being read is a Mermaid graph */
    int        subgraphs[LM_MOST_SUBGRAPHS];                             /* the models of the subgraphs that are open */
    size_t     n_subgraphs;
    bool       failed;               /* out of memory */
};

/* ---- mention.c ---- */
void lm_know_models(lm_audit_document *d, const char *const *models, size_t n);

/* Return the model whose name begins at s, the beginning of a word; `*n`: the bytes of the name. LM_NO_MODEL: none. */
int lm_model_at(const lm_audit_document *d, const char *s, const char *end, size_t *n);

/* ---- scan.c ---- */
/* Split `s` into at most `most` items and return their number. */
size_t lm_scan(const lm_audit_document *d, lm_extent s, lm_item *items, size_t most);

/* ---- extents.c ---- */
lm_extent lm_trim(lm_extent s);
bool lm_has_note(lm_extent cell);                        /* a footnote's "*", not Markdown's */
bool lm_has_digit(lm_extent s);
bool lm_same_text(lm_extent a, lm_extent b);
bool lm_text_is(lm_extent s, const char *text);
bool lm_text_begins(lm_extent s, const char *text);
bool lm_text_ends(lm_extent s, const char *text);
bool lm_text_among(lm_extent s, const char *const *texts);           /* texts: up to NULL */

/* Without regard to case. */
bool lm_word_is(lm_extent s, const char *word);
bool lm_word_begins(lm_extent s, const char *word);
bool lm_word_among(lm_extent s, const char *const *words);           /* words: up to NULL */

/* Return where the line of p begins. */
const char *lm_line_start(const lm_audit_document *d, const char *p);

/* ---- labels.c ---- */
/* Add what a label names to `about`. A number in it is a number of tokens, or makes `about` unsure. */
void lm_read_label(const lm_audit_document *d, lm_extent label, lm_about *about);
lm_about lm_label_of(const lm_audit_document *d, lm_extent label);

/* Return the name of the projection in a path: "k_proj"; n is 0: none. */
lm_extent lm_projection_in(const char *path);

/* Add what a word contributes to `about`; false: nothing. */
bool lm_about_add(const lm_item *x, lm_about *about);
void lm_about_set_tokens(const lm_item *x, lm_about *about);
bool lm_vocable_is(const lm_vocable *v, const char *value);
bool lm_counts_context(const lm_vocable *v);             /* its value is a number of tokens */
bool lm_is_single_fact(const lm_item *x);                /* not a family of facts */

/* ---- paths.c ---- */
/* Add the statement that a number makes about `about`; false: none. */
bool lm_audit_number(lm_audit_document *d, const lm_item *number, const lm_item *second, const lm_about *about);
bool lm_audit_words(lm_audit_document *d, lm_extent cell, const lm_about *about);

/* ---- clause.c ---- */
/* Add what a phrase says in words, such as "ties its embeddings". False: the model is unknown. */
bool lm_audit_phrase(lm_audit_document *d, const lm_item *x, int model, bool unsure);

/* Read a clause, or a label and the text after its colon. `cached`: whether the previous clause was about the cache; updated. */
bool lm_read_clause(lm_audit_document *d, const lm_item *items, size_t n, int model, bool doubt, bool *cached);

/* ---- sentence.c ---- */
/* Read sentences or a line of a list. `carry`: the model of the preceding text; updated to that of this text. False: no statement. */
bool lm_audit_text(lm_audit_document *d, lm_extent text, int *carry);

/* ---- sums.c ---- */
/* Judge the sums and products that the items write out. False: none. */
bool lm_audit_sums(lm_audit_document *d, const lm_item *items, size_t n);

/* ---- printed.c ---- */
/* Read a line printed by PyTorch or torchinfo, without leading spaces; false: another line. `next`: the line below it. */
bool lm_audit_module(lm_audit_document *d, lm_extent line, int model, bool unsure);
bool lm_audit_summary(lm_audit_document *d, lm_extent line, lm_extent next, int model, bool unsure);

/* ---- printed_table.c ---- */
/* Read a line of a table of modules as torchinfo prints it; false: it may be another line. */
bool lm_audit_printed_table(lm_audit_document *d, lm_extent line, int model, bool unsure);

/* ---- drawn.c ---- */
/* Read a line of a drawing; false: it is none, or about no known model. */
bool lm_audit_drawing(lm_audit_document *d, lm_extent line, bool unsure);
int  lm_model_of_drawing(const lm_audit_document *d);

/* ---- kinds.c ---- */
/* Add a statement for each kind of attention, MLP, norm or positions that the items name ("GQA", "pre-norm"), unless they name two of
 * one thing. False: none. */
bool lm_audit_kinds(lm_audit_document *d, const lm_item *items, size_t n, int model, bool unsure);
bool lm_only_kinds(const lm_item *items, size_t n);      /* there is no other unknown word */
bool lm_is_use(const lm_item *x);                        /* "uses", "has", "with" */

/* ---- symbols.c ---- */
/* Learn what letters stand for, and read "H = 4096" as a statement about what H stands for. */
void lm_read_symbols(lm_audit_document *d, lm_item *items, size_t n);
const lm_vocable *lm_symbol(const lm_audit_document *d, const lm_item *x);           /* the quantity that the item stands for, or NULL */

/* "L × H² = 36 × 2048²": add a statement for each symbol that is replaced by a number. False: none. */
bool lm_audit_substitution(lm_audit_document *d, const lm_item *items, size_t n);

/* ---- equations.c ---- */
/* Judge the equations between letters of a text: whether both sides are equal in every model. False: none. */
bool lm_audit_equations(lm_audit_document *d, lm_extent text);

/* ---- layers.c ---- */
/* Read layers that are numbered ("Layer 0 ~ Layer 27") or repeated ("repeated 28 times"). False: none. */
bool lm_audit_layers(lm_audit_document *d, lm_extent line, int model);

/* ---- rotated.c ---- */
/* Read what a text about rotary positions says that they are applied to. False: nothing. */
bool lm_audit_rotary(lm_audit_document *d, lm_extent line, int model);
bool lm_names_rotary(const lm_item *items, size_t n);

/* ---- properties.c ---- */
/* Judge properties that a text states in words: "RoPE extrapolates". `item`: it is of a list; `caption`: a list follows. False: none. */
bool lm_audit_properties(lm_audit_document *d, lm_extent line, bool item, bool caption);
void lm_audit_properties_of(lm_audit_document *d, lm_extent heading);              /* the text below the heading */

/* ---- lettered.c ---- */
/* Confirm the shape that a name has in every model: "W_q_i" and "H, head_dim". False: none is known, or it is another one. */
bool lm_audit_shape(lm_audit_document *d, lm_extent name, lm_extent list);

/* Confirm the shapes of a line: "logits [batch, seq, vocab]". False: none. */
bool lm_audit_shapes(lm_audit_document *d, lm_extent line);

/* ---- formula.c ---- */
enum { LM_LONGEST_FORMULA = 184, LM_LONGEST_FORM = 200 };            /* in bytes; the form has room for one more spelling */

/* Read "MLP(x) = …": the formula of a part, which is compared with the model's. False: another line. */
bool lm_audit_formula(lm_audit_document *d, lm_extent line, int model);

/* ---- same_formula.c ---- */
/* Return whether both texts are one formula, with other signs for the same operations. */
bool lm_same_formula(const char *a, const char *b);

/* What is written in place of a text; the longer ones first, up to NULL. Case does not matter. */
typedef struct lm_spelling { const char *text, *written; } lm_spelling;

/* Write a formula in one form: without spaces, with other spellings; "√d" is "√(d)". It ends in a NUL, and is cut where it is too long. */
void lm_write_form(lm_extent s, const lm_spelling *spellings, char out[LM_LONGEST_FORM]);

/* ---- widths.c ---- */
/* Read "Q: 4096×4096, K/V: 4096×1024" in the row of a kind of attention. False: another cell. */
bool lm_audit_widths(lm_audit_document *d, lm_extent label, lm_extent cell, int model);
/* ---- tex_formula.c ---- */
/* Judge the formulas between dollar signs, or the formula that the text is. `label`: what the row of a table is about. False: none. */
bool lm_audit_tex_line(lm_audit_document *d, lm_extent line, lm_extent label);
bool lm_audit_tex(lm_audit_document *d, lm_extent text, bool tex, lm_extent label);

/* ---- tables.c ---- */
typedef struct lm_cells { lm_extent cell[LM_MOST_CELLS]; size_t n; } lm_cells;
void lm_split_row(lm_extent row, lm_cells *out);
void lm_read_row(lm_audit_document *d, const lm_cells *head, const lm_cells *row, lm_extent line);

/* Judge the property that a cell states of its row and column (properties.c). False: none. */
bool lm_audit_property_cell(lm_audit_document *d, const lm_cells *head, const lm_cells *row, size_t first, size_t i);

/* ---- methods.c ---- */
/* Read the widths of a projection, or what a kind of attention caches for each token of a model. False: another cell. */
bool lm_audit_shape_cell(lm_audit_document *d, lm_extent cell, const lm_about *a);
bool lm_audit_method(lm_audit_document *d, const lm_cells *head, lm_extent method, lm_extent cell, int model);

/* Judge the letters of what MLA caches for each token. False: another cell. */
bool lm_audit_cached(lm_audit_document *d, const lm_cells *head, const lm_cells *row, size_t first, size_t i);

/* ---- found.c ---- */
void lm_add_statement(lm_audit_document *d, lm_extent value, int model, const char *quantity, const char *claim, bool unsure);
void lm_add_value(lm_audit_document *d, lm_extent value, int model, const char *quantity, bool unsure);              /* it is the claim */

/* Add a passage that is wrong in itself, what is right, and why. */
void lm_add_judged(lm_audit_document *d, lm_extent passage, const char *truth, const char *why);

/* Add a passage that is right because a rule holds of every model. */
void lm_add_rule(lm_audit_document *d, lm_extent passage, const char *rule);

/* Add a percentage that other numbers of the document make `percent`. */
void lm_add_checked(lm_audit_document *d, lm_extent passage, lm_claim verdict, double percent, const char *why);
void lm_add_unread(lm_audit_document *d, lm_extent line);

#endif
