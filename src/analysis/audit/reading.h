/* reading.h - a document while it is read: its text, the models that it may be about, and what has been found so far. */
#ifndef LM_ANALYSIS_AUDIT_READING_H
#define LM_ANALYSIS_AUDIT_READING_H

#include "base/arena.h"
#include "lamina/audit.h"

/* Part of the text. */
typedef struct lm_extent { const char *s; size_t n; } lm_extent;

enum { LM_NO_MODEL = -1, LM_OTHER_MODEL = -2 };          /* none is named; one that the document is not judged by */

/* Words of a model's name: its family, "3.2", "3b". */
enum { LM_MOST_WORDS = 12 };
typedef struct lm_known {
    const char *name;
    char        words[LM_MOST_WORDS][24];
    size_t      n;
} lm_known;

/* A printed number that has been found to stand for another one, exactly. */
typedef struct lm_stands { double printed, truth; } lm_stands;

enum { LM_MOST_TERMS = 8, LM_MOST_STANDS = 128 };

/* Numbers that are said to be equal, over one line or several. */
typedef struct lm_chain {
    bool   begun;
    size_t line;                     /* of its last part */
    double exact, binary, terms[LM_MOST_TERMS];         /* binary: with K, M, G of bytes as powers of 1,024 */
    size_t n_terms;
} lm_chain;

struct lm_reading {
    lm_arena   arena;
    char      *text;
    size_t     size, line;           /* line: the present one */
    lm_known  *known;                /* those given, then presets */
    size_t     n_known, n_given;
    lm_said   *said;
    lm_unread *unread;
    size_t     n_said, room_said, n_unread, room_unread;
    int        title, scope;         /* models of the document and of the present heading */
    lm_extent  heading, caption;     /* caption: the last line that ends in a colon below it */
    uint64_t   context;              /* tokens that the heading speaks of; 0: none */
    lm_chain   chain;
    double     shares;               /* of the present table, added up */
    lm_stands  stands[LM_MOST_STANDS];
    size_t     n_stands;
    bool       failed;               /* memory */
};

/* ---- words ---- */
/* Without marks of emphasis, code and tags; trimmed; in the arena. */
char *lm_plain(lm_reading *d, lm_extent s);

/* "✅", "✓"; "❌", "✗". */
bool lm_yes_mark(const char *s);
bool lm_no_mark(const char *s);

/* In lower case, without what stands in parentheses. */
char *lm_label(lm_reading *d, lm_extent s);

lm_extent lm_trim(lm_extent s);
uint64_t lm_context_in(lm_extent s);                     /* "(seq_len=4096)", "8K context", "at 1,024 tokens"; 0: none */
bool    lm_span_has(lm_extent s, const char *word);        /* ASCII letters in either case */

/* ---- tables ---- */
/* "kv heads": what it leads to; `after`: may stand behind its number in a sentence. */
typedef struct lm_phrase { const char *phrase, *path; bool after; } lm_phrase;
extern const lm_phrase lm_phrases[];                     /* phrases.tsv */

/* "q_proj": paths of its parameters in a layer and in all, of their share, of its multiplications; "": none. */
typedef struct lm_component { const char *word, *per_layer, *total, *share, *mult_adds; } lm_component;
extern const lm_component lm_components[];               /* components.tsv */

/* What is often said and is not so: all of `words`, divided by "&", in one line. */
typedef struct lm_myth { const char *words, *truth, *why; } lm_myth;
extern const lm_myth lm_myths[];                         /* myths.tsv */

/* What a line says in words or in a formula. `words`, `unless`: conditions divided by "&", each of alternatives divided by "|":
 * a word of the line, "~word" of the line, its heading or its caption, "=form" of a formula, in which "#" is a number or a name.
 * `quantity` is judged by `claim` ("#": the number of the form); "": it holds of every model, and is `topic` (claim "-": if "#" is no
 * number). */
typedef struct lm_lore_row { const char *words, *unless, *quantity, *claim, *topic; } lm_lore_row;
extern const lm_lore_row lm_lore[];                      /* lore.tsv */

/* The path or quantity that a label names; NULL. */
const char         *lm_phrase_path(const char *label);
const lm_component *lm_component_of(const char *label);

/* ---- models ---- */
void lm_know_models(lm_reading *d, const char *const *models, size_t n);

/* The first model that is named in `s`: its index in `known`, LM_NO_MODEL, LM_OTHER_MODEL. `many`, if not NULL: more than one is. */
int lm_mentioned(const lm_reading *d, lm_extent s, bool *many);

/* ---- what is found ---- */
void lm_say(lm_reading *d, lm_extent value, int model, const char *quantity, const char *claim);
void lm_say_judged(lm_reading *d, lm_extent value, lm_claim verdict, double truth, const char *why);
void lm_leave_unread(lm_reading *d, lm_extent line);

/* `line` may be a row of a table under `head`. What follows reads one line. */
void lm_read_row(lm_reading *d, lm_extent head, lm_extent row);
bool lm_read_module_row(lm_reading *d, lm_extent head, lm_extent row);
bool lm_read_sentence(lm_reading *d, lm_extent line, bool code);
bool lm_read_cache(lm_reading *d, lm_extent line, int model);             /* "the cache at 8,192 tokens is 1.21 GB" */
bool lm_read_shares(lm_reading *d, lm_extent line, int model);            /* "67% smaller", "… 7B is 7.2B" */
bool lm_read_kinds(lm_reading *d, lm_extent line, int model);             /* "(GQA)" beside attention */
bool lm_read_activation(lm_reading *d, lm_extent line, int model);        /* of "FFN(x) = …" */
bool lm_read_counts(lm_reading *d, lm_extent line, int model);            /* "28 layers" */
bool lm_read_chain(lm_reading *d, lm_extent line, int model);

/* What holds or does not hold of every model: words of myths.tsv, formulas of norms and heads, what plain RoPE cannot do. */
bool lm_read_myths(lm_reading *d, lm_extent line);
bool lm_says_plain_rope_stretches(lm_extent method, lm_extent heading, lm_extent said);
void lm_say_known(lm_reading *d, lm_extent value, lm_claim verdict, const char *truth, const char *why);
bool lm_read_modules(lm_reading *d, lm_extent line, int model);
bool lm_read_lore(lm_reading *d, lm_extent line, int model);

/* Layers from the first to the last, how often a block is repeated, shapes in sets of numbers, heads drawn in groups. */
bool lm_read_spans(lm_reading *d, lm_extent line, int model);

/* Numbers beside short names, anywhere in a line: "rope_theta = 500000.0", "(d=2048)". */
bool lm_read_assignments(lm_reading *d, lm_extent line, int model);

/* "\\frac{Q K^T}{\\sqrt{d}}", "Q @ K^T / √d": "q*k^t/sqrt(d)" in both; in the arena. */
const char *lm_formula_form(lm_reading *d, lm_extent line);

/* Whether `form` is in `text`, multiplication signs there or not; `taken`: what "#" stood for. */
bool lm_form_in(const char *text, const char *form, char taken[32]);

/* Something that holds of every model. */
void lm_say_topic(lm_reading *d, lm_extent line, const char *topic);

/* The model that a number at `at`, with what counts it up to `after`, is about; `scope`: where its sentence names none. */
int lm_model_of(const lm_reading *d, lm_extent line, const char *at, const char *after, int scope);

/* Bytes of a number at p of a line that begins at `start`: with its prefix, standing alone; digits only, whatever follows. 0: none. */
size_t lm_number_here(const char *start, const char *p, const char *end);
size_t lm_digits_here(const char *start, const char *p, const char *end);

/* Whether a clause ends at p; a text behind p ends in NUL. */
bool lm_ends_clause(const char *p);

#endif
