/* document.h - a report independent of its format: a tree of blocks that every writer can traverse.
 *
 * Chapters (chapter_*.c) build the tree; writers (document_*.c) read it. All text is as the reader sees it,
 * in the reader's language and unescaped, including names and paths from untrusted files (valid UTF-8 without
 * control characters), so each writer escapes what is special in its format. Labels of graphs and texts of
 * derivations are passed on unchanged. A cell that is a number stores the exact number and the path of its
 * fact; only its text is rounded.
 *
 * Building never fails midway: after a failed allocation calls have no effect, and lm_document_check reports
 * the error. */
#ifndef LM_ANALYSIS_DOCUMENT_H
#define LM_ANALYSIS_DOCUMENT_H

#include "study/derive/derive.h"
#include "study/draw/diagram.h"

/* ---- blocks ---- */

typedef enum lm_block_kind {
    LM_BLOCK_SECTION,            /* title, id, number, inner blocks; the root has level 0 */
    LM_BLOCK_FOLD,               /* title, id, inner blocks; closed until the reader opens it */
    LM_BLOCK_TEXT,               /* a paragraph */
    LM_BLOCK_NOTE,               /* a remark on the text: a method, a convention, "qualitative" */
    LM_BLOCK_WARNING,            /* something unusual or wrong */
    LM_BLOCK_LIST,
    LM_BLOCK_TABLE,
    LM_BLOCK_FORMULA,
    LM_BLOCK_DERIVATION,
    LM_BLOCK_FIGURE,
    LM_BLOCK_VERBATIM,           /* lines unchanged, in a monospaced font */
    LM_BLOCK_SLIDERS,            /* memory and speed of the block's model at other settings; pages only */
} lm_block_kind;

/* How a cell is displayed and sorted. */
typedef enum lm_cell_kind {
    LM_CELL_EMPTY,
    LM_CELL_TEXT,
    LM_CELL_CODE,                /* a module path, a key, a type, a command */
    LM_CELL_COUNT,               /* `count` is exact and used for sorting; `text` may be rounded */
    LM_CELL_NUMBER,              /* `number` is used for sorting */
    LM_CELL_BAR,                 /* `number`, 0 … 1, as a bar, and `text` about its axis; writers without bars
                                    omit the column */
    LM_CELL_MATH,                /* `text` in Unicode, `latex` */
} lm_cell_kind;

typedef struct lm_doc_cell {
    lm_cell_kind kind;
    lm_unit      unit;           /* of counts and numbers */
    const char  *text;           /* never NULL */
    union {
        uint64_t    count;
        double      number;
        const char *latex;
    };
    const char  *path;           /* path of its fact, "kv.at[8192].bytes": a fact of the block's model or, in
                                    tables with models as
                                  * columns, of lm_doc_column.facts; NULL: not a fact */
    uint32_t     series;         /* of bars: the number of the model from 1, which determines the colour, as
                                    for curves; 0: none */
} lm_doc_cell;

typedef struct lm_doc_column {
    const char *title;           /* "": none */
    bool        right;           /* numbers */
    lm_facts   *facts;           /* the model whose facts the column contains; NULL: the block's */
} lm_doc_column;

typedef struct lm_doc_row {
    struct lm_doc_row *next;
    lm_doc_cell       *cells;    /* [n_columns] */
    uint32_t           n;        /* number of cells added; the rest are empty */
    uint32_t           depth;    /* nesting depth: the first cell is indented */
    bool               strong;   /* a total */
    bool               gap;      /* only vertical space */
    bool               same;     /* in tables with models as columns: all models have this value */
    const char        *group;    /* the id of the group whose title this row is; NULL: not a title */
} lm_doc_row;

enum { LM_DOC_COLUMNS = 20, LM_DOC_SOURCES = 64 };

typedef struct lm_doc_table {
    struct lm_document *d;
    lm_doc_column columns[LM_DOC_COLUMNS];
    uint32_t      n_columns, n_rows;
    bool          headed;        /* a column has a title */
    bool          tree;          /* rows of depth 1 and more are branches, drawn as a tree if lines are
                                    allowed */
    uint32_t      drawn;         /* column whose numbers pages also show as bars, relative to the largest; 0:
                                    none */
    bool          sized;         /* `drawn` is bytes: the bars are crossed by lines at usual sizes of a
                                    device's memory */
    lm_doc_row   *first, *last;
} lm_doc_table;

/* mark: '-', '+' gain, '!' cost */
typedef struct lm_doc_item { struct lm_doc_item *next; const char *text; char mark; } lm_doc_item;

/* name NULL: none; latex NULL: none */
typedef struct lm_doc_formula { const char *name, *unicode, *latex; } lm_doc_formula;

/* A diagram in all its forms. A writer that draws uses `graph` (not for "heads") or lets `draw` draw
 * `subject` ("timeline", "trends"); otherwise it draws `diagram` from the block's facts ("heads", "spectrum",
 * "cache", "window", "norm"). If nothing can be drawn, it shows `text`. */
/* append SVG; false: nothing to draw */
typedef bool lm_doc_drawer(const void *subject, const char *name, lm_text *out);

typedef struct lm_doc_figure {
    const char          *diagram;        /* a name of lm_diagram_at */
    const char          *text;           /* lines of characters; "": none */
    const char          *mermaid;        /* source without the fence; NULL: none */
    const lm_graph      *graph;          /* nodes, edges, groups; NULL: not drawn as a graph */
    lm_doc_drawer       *draw;           /* NULL: none */
    const void          *subject;        /* lives as long as the document */
    uint32_t             layer;          /* for diagrams of one layer */
    const char *const   *pieces;         /* tokens for the example of the cache; NULL: a general one */
    size_t               n_pieces;
} lm_doc_figure;

typedef struct lm_block {
    lm_block_kind    kind;
    struct lm_block *parent, *first, *last, *next;       /* inner blocks of sections and folds */
    const char      *id;         /* of sections, folds, tables and figures: a-z 0-9 -, unique in the document;
                                    otherwise NULL */
    const char      *title;      /* of sections and folds; captions of tables and figures; NULL: none */
    const char      *number;     /* of sections: "2.3"; "" for the root */
    const char      *output;     /* the outputs of docs/study/report.md that it provides, for JSON:
                                    "O-12", "O-26, O-27"; NULL: none */
    const char      *same_as;    /* of folds: the id of an earlier fold with the same contents except for
                                    names; writers that cannot
                                  * collapse a fold may omit the contents. NULL: none */
    uint32_t         level;      /* sections: 1 …; the root 0 */
    bool             closed;     /* sections: pages show only the heading until the reader opens it */
    lm_facts        *facts;      /* the model that it is about; NULL: none, or several */
    union {
        const char     *text;    /* text, note, warning, verbatim */
        lm_doc_item    *items;   /* list */
        lm_doc_table   *table;
        lm_doc_formula  formula;
        lm_derivation  *derivation;
        lm_doc_figure   figure;
        const struct lm_sliders *sliders;
    };
} lm_block;

typedef struct lm_document {
    lm_block         root;       /* its title is that of the report */
    lm_block        *at;         /* the open block, which receives new blocks */
    lm_facts        *facts;      /* the model of the current chapter */
    const char      *prefix;     /* prefix of ids if there are several models: "some-model-7b-v0-1-";
                                    otherwise "" */
    const char      *subtitle;   /* NULL: none */
    lm_facts *const *models;     /* all models */
    size_t           n_models;
    lm_language      language;   /* language of the texts */
    const char      *device;     /* title of the device for predicted speed; NULL: this machine */
    lm_arena         arena;
    uint32_t         depth;      /* depth of trees in views; 0: unlimited */
    int32_t          layer;      /* the layer that a view is about; -1: all */
    bool             lines;      /* use box-drawing characters in text diagrams */
    bool             brief;      /* a page: writers leave out the contents and the sliders */
    const char *const *pieces;   /* tokens of a prompt, for the diagram of the cache; NULL: a general one */
    size_t           n_pieces;
    void            *shared;     /* data shared between chapters, which own it */
    const char      *sources[LM_DOC_SOURCES];    /* sources of what has been explained, each once */
    size_t           n_sources;
    lm_status        status;     /* the first failure other than out of memory */
    lm_error         error;
    bool             failed;
    lm_block         nothing;    /* these receive what is added after a failed allocation: */
    lm_doc_table     no_table;
    lm_doc_row       no_row;
    lm_doc_cell      no_cell;
} lm_document;

/* ---- building ---- */

/* Begin an empty document about models that must outlive it. lm_document_free frees its contents, not `d`. */
void      lm_document_init(lm_document *d, lm_facts *const *models, size_t n_models);
void      lm_document_free(lm_document *d);
/* LM_NO_MEMORY, or the failure of a chapter */
lm_status lm_document_check(const lm_document *d, lm_error *e);

/* Return text that lives as long as the document. Invalid UTF-8, control characters and direction marks
 * become U+FFFD. */
const char *lm_doc_strdup(lm_document *d, const char *text);
const char *lm_doc_printf(lm_document *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Return an id made from words: "Some Model 7B v0.1" becomes "some-model-7b-v0-1". */
const char *lm_doc_slug(lm_document *d, const char *words);

/* Return the id that a section opened as `id` has for the current model. */
const char *lm_doc_anchor(lm_document *d, const char *id);

/* Open a section or fold; each needs a lm_doc_close. `id` gets the model's prefix, and a number if it is
 * taken; `output` may be NULL. */
lm_block *lm_doc_open(lm_document *d, const char *id, const char *output, const char *title);
lm_block *lm_doc_fold(lm_document *d, const char *id, const char *title);
void      lm_doc_close(lm_document *d);
void      lm_doc_drop_empty(lm_document *d);         /* close the open block, and remove it if it is empty */

void lm_doc_text(lm_document *d, const char *text);
void lm_doc_textf(lm_document *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
void lm_doc_note(lm_document *d, const char *text);
void lm_doc_notef(lm_document *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
void lm_doc_warning(lm_document *d, const char *text);
void lm_doc_verbatim(lm_document *d, const char *text, size_t n);

/* Add an item to the current list; any block in between begins a new list. */
void lm_doc_item_of(lm_document *d, char mark, const char *text);
void lm_doc_itemf(lm_document *d, char mark, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Record a paper or document as a source; the text must live as long as the document. */
void lm_doc_source(lm_document *d, const char *source);

void lm_doc_formula_of(lm_document *d, const char *name, const char *unicode, const char *latex);
void lm_doc_derive(lm_document *d, lm_derivation *x);

/* Add a diagram of the current model in all its forms; nothing if the model has no such part. `o` may be
 * NULL. */
void lm_doc_diagram(lm_document *d, const char *name, const char *output, const char *caption,
                    const lm_explain_options *o);

/* Add a figure computed by the caller; texts are copied. */
lm_block *lm_doc_figure_of(lm_document *d, const char *diagram, const char *output, const char *caption,
                           const char *text, const char *mermaid);

/* Add an empty block, for functions that build a kind of block. `id` NULL: none. */
lm_block *lm_doc_block(lm_document *d, lm_block_kind kind, const char *id);

/* ---- tables ---- */

/* Add a table. `align`: one letter per column, 'l' or 'r', followed by a title per column ("" for none).
 * `caption` may be NULL. Never returns NULL: after a failed allocation what is added is dropped. */
lm_doc_table *lm_doc_table_of(lm_document *d, const char *id, const char *caption, const char *align, ...);

/* Add a column; the title is copied. */
void lm_doc_column_of(lm_doc_table *t, const char *title, bool right, lm_facts *facts);

/* Add a row; its cells are added from the left. */
lm_doc_row *lm_next_row(lm_doc_table *t);
lm_doc_row *lm_strong_row(lm_doc_table *t);
lm_doc_row *lm_inner_row(lm_doc_table *t, uint32_t depth);
void        lm_gap_row(lm_doc_table *t);
/* title of the following rows */
void        lm_group_row(lm_doc_table *t, const char *id, const char *title);

/* How numbers are formatted. */
typedef enum lm_manner {
    LM_PLAIN,                    /* by unit: counts in full, bytes as 6.43 GB, operations as 6.43 GFLOP,
                                    percentages with two decimals */
    LM_EXACT,                    /* 939,524,096; other numbers as their shortest decimal */
    LM_BOTH,                     /* bytes: 940 MB (896 MiB) */
    LM_SHORT,                    /* 3.21 G */
} lm_manner;

void lm_cell(lm_doc_table *t, const char *text);
void lm_cellf(lm_doc_table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void lm_cell_code(lm_doc_table *t, const char *text);
void lm_cell_empty(lm_doc_table *t);
void lm_cell_math(lm_doc_table *t, const char *unicode, const char *latex);
void lm_cell_bar(lm_doc_table *t, double share, uint32_t series);
/* not a fact: a sum of rows, a rank */
void lm_cell_count(lm_doc_table *t, lm_manner m, lm_unit unit, uint64_t n);
void lm_cell_number(lm_doc_table *t, double x, lm_unit unit, const char *text);  /* `text`: as displayed */

/* Add a fact of the block's model; an empty cell if there is none. */
void lm_cell_fact(lm_doc_table *t, lm_manner m, const char *path, ...) __attribute__((format(printf, 3, 4)));
void lm_cell_fact_of(lm_doc_table *t, lm_manner m, lm_facts *f, const char *path);
/* a fact already found, or NULL */
void lm_cell_of_fact(lm_doc_table *t, lm_manner m, const lm_fact *x, const char *path);

/* Add a row of a label and facts, given by their paths and ended by NULL; "" is an empty cell. */
void lm_fact_row(lm_doc_table *t, const char *label, lm_manner m, ...) __attribute__((sentinel));

/* Format a number as in cells. */
enum { LM_DOC_FIGURE = 96 };
char *lm_doc_count_text(char out[LM_DOC_FIGURE], lm_manner m, lm_unit unit, uint64_t n);
char *lm_doc_number_text(char out[LM_DOC_FIGURE], lm_manner m, lm_unit unit, double x);

/* ---- traversal ---- */

/* Number the sections ("2.3"); call once, when the document is complete. */
void lm_document_number(lm_document *d);

/* Return the next block in reading order, inner blocks first; NULL at the end. Begin with
 * lm_document_next(NULL, d). */
lm_block *lm_document_next(lm_block *b, lm_document *d);

/* Append the SVG of a figure; false: it cannot be drawn. */
bool lm_doc_draw(const lm_block *b, lm_text *out);

/* Return whether a block is listed in the table of contents: sections of levels 1 and 2. */
bool lm_doc_in_contents(const lm_block *b);

/* ---- writers ---- */

/* columns of a terminal; 0: 80 */
typedef struct lm_document_manner { uint32_t columns; bool lines; } lm_document_manner;

void lm_document_text(lm_document *d, const lm_document_manner *m, lm_text *out);
void lm_document_markdown(lm_document *d, bool pandoc, lm_text *out);      /* for GitHub, or for pandoc */
void lm_document_json(lm_document *d, lm_text *out);
void lm_document_blocks_json(const lm_document *d, lm_text *out);         /* only the list of blocks */
lm_status lm_document_html(lm_document *d, lm_text *out, lm_error *e);

/* Append one table as views show it: columns separated by two blanks, no caption. */
void lm_doc_table_text(const lm_doc_table *t, unsigned indent, bool lines, lm_text *out);

typedef void lm_chapter(lm_document *d);

#endif
