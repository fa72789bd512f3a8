/* document.h - a report before it has a form: a tree of blocks that any writer can walk.
 *
 * Chapters (chapter_*.c) build it, writers (document_*.c) read it. Everything is text as a reader sees it, already in the
 * reader's language and not escaped: names and paths of hostile files included (valid UTF-8 without control characters), so each
 * writer escapes what its form gives a meaning to. Labels of graphs and texts of derivations come as they are. A
 * figure that is a number keeps the exact number and the path of the fact that it is; rounding is only text.
 *
 * Building never fails in the middle: after a failed allocation calls have no effect and lm_document_check reports it. */
#ifndef LM_ANALYSIS_DOCUMENT_H
#define LM_ANALYSIS_DOCUMENT_H

#include "analysis/derive/derive.h"
#include "analysis/draw/diagram.h"

/* ---- blocks ---- */

typedef enum lm_block_kind {
    LM_BLOCK_SECTION,            /* title, id, number, inner blocks; the root is one of level 0 */
    LM_BLOCK_FOLD,               /* title, id, inner blocks: closed until a reader opens it */
    LM_BLOCK_TEXT,               /* a paragraph */
    LM_BLOCK_NOTE,               /* a remark beside the text: a method, a convention, "qualitative" */
    LM_BLOCK_WARNING,            /* what is unusual or wrong */
    LM_BLOCK_LIST,
    LM_BLOCK_TABLE,
    LM_BLOCK_FORMULA,
    LM_BLOCK_DERIVATION,
    LM_BLOCK_FIGURE,
    LM_BLOCK_VERBATIM,           /* lines as they stand, in a fixed width */
} lm_block_kind;

/* How a cell reads and sorts. */
typedef enum lm_cell_kind {
    LM_CELL_EMPTY,
    LM_CELL_TEXT,
    LM_CELL_CODE,                /* a module path, a key, a type, a command */
    LM_CELL_COUNT,               /* `count` is exact and sorts; `text` may be rounded */
    LM_CELL_NUMBER,              /* `number` sorts */
    LM_CELL_BAR,                 /* `number`, 0 … 1, as a bar; writers without bars leave the column out */
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
    const char  *path;           /* of the fact that it is, "kv.at[8192].bytes": facts of the block's model, or in tables with
                                    models as columns of lm_doc_column.facts; NULL: it is none */
    uint32_t     series;         /* of bars: the model that it is about, from 1, coloured as its curves; 0: none */
} lm_doc_cell;

typedef struct lm_doc_column {
    const char *title;           /* "" : none */
    bool        right;           /* numbers */
    lm_facts   *facts;           /* whose facts stand in it; NULL: the block's */
} lm_doc_column;

typedef struct lm_doc_row {
    struct lm_doc_row *next;
    lm_doc_cell       *cells;    /* [n_columns] */
    uint32_t           n;        /* cells that have been added; the rest are empty */
    uint32_t           depth;    /* of a row under another: the first cell is indented */
    bool               strong;   /* a total */
    bool               gap;      /* nothing but distance */
    bool               same;     /* of tables with models as columns: all of them have this value */
    const char        *group;    /* the id of what follows, in a row that is only its title; NULL: it is none */
} lm_doc_row;

enum { LM_DOC_COLUMNS = 20, LM_DOC_SOURCES = 64 };

typedef struct lm_doc_table {
    struct lm_document *d;
    lm_doc_column columns[LM_DOC_COLUMNS];
    uint32_t      n_columns, n_rows;
    bool          headed;        /* some column has a title */
    bool          tree;          /* rows of depth 1 and more are branches: drawn so where lines are */
    uint32_t      drawn;         /* a column whose numbers pages show as bars too, by the largest of them; 0: none */
    lm_doc_row   *first, *last;
} lm_doc_table;

typedef struct lm_doc_item { struct lm_doc_item *next; const char *text; char mark; } lm_doc_item;     /* mark: '-', '+' gain, '!' cost */

typedef struct lm_doc_formula { const char *name, *unicode, *latex; } lm_doc_formula;      /* name NULL: none; latex NULL: none */

/* A diagram in every form that it has. A writer that draws takes `graph`; where it is NULL it draws by `diagram` from the
 * block's facts ("heads", "spectrum", "cache", "window", "norm") or lets `draw` draw `subject` ("timeline", "trends"), else it
 * shows the characters. */
typedef bool lm_doc_drawer(const void *subject, const char *name, lm_text *out);      /* SVG, appended; false: nothing to draw */

typedef struct lm_doc_figure {
    const char          *diagram;        /* as lm_diagram_at names it */
    const char          *text;           /* in characters, lines; "" : none */
    const char          *mermaid;        /* source without a fence; NULL: none */
    const lm_graph      *graph;          /* nodes, edges, groups; NULL: not drawn as a graph */
    lm_doc_drawer       *draw;           /* NULL: none */
    const void          *subject;        /* lives as long as the document */
    uint32_t             layer;          /* of diagrams of one layer */
    const char *const   *pieces;         /* tokens of the cache's example; NULL: a general one */
    size_t               n_pieces;
} lm_doc_figure;

typedef struct lm_block {
    lm_block_kind    kind;
    struct lm_block *parent, *first, *last, *next;       /* inner blocks of sections and folds */
    const char      *id;         /* of sections, folds, tables and figures: a-z 0-9 -, unique in the document; else NULL */
    const char      *title;      /* of sections and folds; captions of tables and figures; NULL: none */
    const char      *number;     /* of sections: "2.3"; "" for the root */
    const char      *output;     /* which outputs of docs/study/report.md it is: "O-12", "O-26, O-27"; NULL */
    const char      *same_as;    /* of folds: the id of one before it that holds the same but for names; writers that cannot close
                                    a fold may leave its contents out. NULL: none does */
    uint32_t         level;      /* sections: 1 …; the root 0 */
    lm_facts        *facts;      /* of the model that it is about; NULL: none, or several */
    union {
        const char     *text;    /* text, note, warning, verbatim */
        lm_doc_item    *items;   /* list */
        lm_doc_table   *table;
        lm_doc_formula  formula;
        lm_derivation  *derivation;
        lm_doc_figure   figure;
    };
} lm_block;

typedef struct lm_document {
    lm_block         root;       /* its title is the report's */
    lm_block        *at;         /* what is open: new blocks go into it */
    lm_facts        *facts;      /* the model that chapters are about now */
    const char      *prefix;     /* of ids, where there are several models: "some-model-7b-v0-1-"; else "" */
    const char      *subtitle;   /* NULL: none */
    lm_facts *const *models;     /* all of them */
    size_t           n_models;
    lm_language      language;   /* that its texts are in */
    const char      *device;     /* title of the device that speed is predicted for; NULL: this machine */
    lm_arena         arena;
    uint32_t         depth;      /* of trees in views; 0: all */
    int32_t          layer;      /* that a view is about; -1: all */
    bool             lines;      /* diagrams in characters with box drawing */
    const char *const *pieces;   /* tokens of a text, for the diagram of the cache; NULL: a general one */
    size_t           n_pieces;
    void            *shared;     /* what the chapters keep for each other; theirs */
    const char      *sources[LM_DOC_SOURCES];    /* of what has been explained, each once */
    size_t           n_sources;
    lm_status        status;     /* the first failure that is not of memory */
    lm_error         error;
    bool             failed;
    lm_block         nothing;    /* receives what is added after a failed allocation, as these do: */
    lm_doc_table     no_table;
    lm_doc_row       no_row;
    lm_doc_cell      no_cell;
} lm_document;

/* ---- building ---- */

/* An empty document about models that must outlive it. lm_document_free frees what it holds, not `d`. */
void      lm_document_init(lm_document *d, lm_facts *const *models, size_t n_models);
void      lm_document_free(lm_document *d);
lm_status lm_document_check(const lm_document *d, lm_error *e);      /* LM_NO_MEMORY, or what a chapter met */

/* Text that lives as long as the document. What is not UTF-8, control characters and marks that turn the direction of
 * writing become U+FFFD. */
const char *lm_doc_keep(lm_document *d, const char *text);
const char *lm_doc_keepf(lm_document *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* An id made of any words: "Some Model 7B v0.1" is "some-model-7b-v0-1". */
const char *lm_doc_slug(lm_document *d, const char *words);

/* The id that a section opened as `id` has for the model that is written about. */
const char *lm_doc_anchor(lm_document *d, const char *id);

/* Sections nest: each open has its close. `id` gets the model's prefix, and a number where it is taken; `output` may be NULL. */
lm_block *lm_doc_open(lm_document *d, const char *id, const char *output, const char *title);
lm_block *lm_doc_fold(lm_document *d, const char *id, const char *title);
void      lm_doc_close(lm_document *d);
bool      lm_doc_is_empty(const lm_block *b);        /* a section or fold without content */
void      lm_doc_drop_empty(lm_document *d);         /* closes what is open, and takes it out when it is empty */

void lm_doc_text(lm_document *d, const char *text);
void lm_doc_textf(lm_document *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
void lm_doc_note(lm_document *d, const char *text);
void lm_doc_notef(lm_document *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
void lm_doc_warning(lm_document *d, const char *text);
void lm_doc_verbatim(lm_document *d, const char *text, size_t n);

/* An item of the list that the last call began; another block in between begins a new list. */
void lm_doc_item_of(lm_document *d, char mark, const char *text);
void lm_doc_itemf(lm_document *d, char mark, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* A paper or document that is the source of what was added; the text must live as long as the document. */
void lm_doc_source(lm_document *d, const char *source);

void lm_doc_formula_of(lm_document *d, const char *name, const char *unicode, const char *latex);
void lm_doc_derive(lm_document *d, lm_derivation *x);

/* A diagram of the current model by name, in all its forms; nothing where the model has no such part. `o` may be NULL. */
void lm_doc_diagram(lm_document *d, const char *name, const char *output, const char *caption, const lm_explain_options *o);

/* A figure that is computed here; texts are copied. */
lm_block *lm_doc_figure_of(lm_document *d, const char *diagram, const char *output, const char *caption, const char *text,
                           const char *mermaid);

/* A block of its own; `id` NULL: it has none. For builders of kinds of blocks. */
lm_block *lm_doc_block(lm_document *d, lm_block_kind kind, const char *id);

/* ---- tables ---- */

/* `align`: a letter for each column, 'l' or 'r'; then as many titles as there are letters ("" for none). `caption` may be
 * NULL. Never NULL: after a failed allocation what is added is dropped. */
lm_doc_table *lm_doc_table_of(lm_document *d, const char *id, const char *caption, const char *align, ...);

/* A column more; titles are copied. */
void lm_doc_column_of(lm_doc_table *t, const char *title, bool right, lm_facts *facts);

/* Cells of a row are added from the left. */
lm_doc_row *lm_next_row(lm_doc_table *t);
lm_doc_row *lm_strong_row(lm_doc_table *t);
lm_doc_row *lm_inner_row(lm_doc_table *t, uint32_t depth);
void        lm_gap_row(lm_doc_table *t);
void        lm_group_row(lm_doc_table *t, const char *id, const char *title);      /* what the rows below belong to */

/* How a number is written. */
typedef enum lm_manner {
    LM_PLAIN,                    /* by its unit: counts in full, bytes as 6.43 GB, operations as 6.43 GFLOP, percents with two digits */
    LM_EXACT,                    /* 939,524,096; numbers as their shortest decimal */
    LM_BOTH,                     /* bytes: 940 MB (896 MiB) */
    LM_SHORT,                    /* 3.21 G */
} lm_manner;

void lm_cell(lm_doc_table *t, const char *text);
void lm_cellf(lm_doc_table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void lm_cell_code(lm_doc_table *t, const char *text);
void lm_cell_empty(lm_doc_table *t);
void lm_cell_math(lm_doc_table *t, const char *unicode, const char *latex);
void lm_cell_bar(lm_doc_table *t, double share, uint32_t series);
void lm_cell_count(lm_doc_table *t, lm_manner m, lm_unit unit, uint64_t n);      /* no fact: a sum of rows, a rank */
void lm_cell_number(lm_doc_table *t, double x, lm_unit unit, const char *text);  /* `text`: as it is shown */

/* The fact of the block's model; an empty cell where there is none. */
void lm_cell_fact(lm_doc_table *t, lm_manner m, const char *path, ...) __attribute__((format(printf, 3, 4)));
void lm_cell_fact_of(lm_doc_table *t, lm_manner m, lm_facts *f, const char *path);
void lm_cell_of_fact(lm_doc_table *t, lm_manner m, const lm_fact *x, const char *path);        /* a fact at hand; it may be NULL */

/* A number as cells show it. */
enum { LM_DOC_FIGURE = 96 };
char *lm_doc_count_text(char out[LM_DOC_FIGURE], lm_manner m, lm_unit unit, uint64_t n);
char *lm_doc_number_text(char out[LM_DOC_FIGURE], lm_manner m, lm_unit unit, double x);

/* ---- walking ---- */

/* Numbers the sections ("2.3"): once, when the document is complete. */
void lm_document_number(lm_document *d);

/* The next block in reading order, inner ones first; NULL at the end. Starts with lm_document_next(NULL, d). */
lm_block *lm_document_next(lm_block *b, lm_document *d);

/* What a caption says of the outputs that it is; NULL where the section around says it already. */
const char *lm_doc_caption_output(const lm_block *b);

/* The SVG of a figure, appended; false: nothing draws it. */
bool lm_doc_draw(const lm_block *b, lm_text *out);

/* Whether a fold, table or section is about what a reader looks up: writers list sections of level 1 and 2 as contents. */
bool lm_doc_in_contents(const lm_block *b);

/* ---- writers ---- */

typedef struct lm_document_manner { uint32_t columns; bool lines; } lm_document_manner;     /* of a terminal; 0: 80 */

void lm_document_text(lm_document *d, const lm_document_manner *m, lm_text *out);
void lm_document_markdown(lm_document *d, bool pandoc, lm_text *out);      /* for GitHub, or for pandoc */
void lm_document_json(lm_document *d, lm_text *out);
void lm_document_blocks_json(const lm_document *d, lm_text *out);         /* the list alone */
void lm_document_tex(lm_document *d, lm_text *out);
lm_status lm_document_html(lm_document *d, lm_text *out, lm_error *e);

/* One table, as pages show it: two blanks, columns, no caption. */
void lm_doc_table_text(const lm_doc_table *t, unsigned indent, bool lines, lm_text *out);

typedef void lm_chapter(lm_document *d);

#endif
