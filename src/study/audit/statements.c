/* statements.c - read a text line by line: headings, tables, lists and paragraphs, and find the model that each is about. */
#include <ctype.h>
#include <string.h>

#include "study/audit/reading.h"
#include "base/alloc.h"
#include "base/error.h"

enum { LEVELS = 7 };

typedef struct walk {
    const char *at, *end, *until;        /* until: the end of the current paragraph */
    lm_cells    head;
    bool        math;                    /* between "$$" lines */
    bool        table, code, open, full; /* open: a paragraph continues; full: its lines form one text */
    bool        doubt;                   /* the preceding text may be about another model or an unknown one */
    bool        other;                   /* it is about another model, or names something that may be one */
    int         scopes[LEVELS], carry;
} walk;

static lm_extent line_at(const char *p, const char *end)
{
    const char *stop = p < end ? memchr(p, '\n', (size_t)(end - p)) : NULL;

    return (lm_extent){ p, (size_t)((stop ? stop : end) - p) };
}

/* Return whether the line is the rule below a table's head: "---|:--:|". */
static bool is_rule(lm_extent s)
{
    bool dash = false;

    for (size_t i = 0; i < s.n; i++) {
        if (!strchr("|:- \t+", s.s[i]))
            return false;
        dash |= s.s[i] == '-';
    }
    return dash;
}

static bool is_fence(lm_extent s)
{
    return lm_text_begins(s, "```") || lm_text_begins(s, "~~~");
}

/* ---- headings ---- */

/* Read what a heading states, which is never certain: "Decoder stack (28 layers)". */
static void read_title(lm_audit_document *d, lm_extent text)
{
    bool aside = d->aside;
    int  carry = d->scope;

    d->aside = true;
    lm_audit_text(d, text, &carry);
    lm_audit_layers(d, text, d->scope);
    d->aside = aside;
}

/* "Original FFN": of the model that the heading names. */
static bool is_original_part(const lm_item *x, size_t n)
{
    return n > 1 && x[1].role == LM_PART && lm_word_is(x->at, "original");
}

static void read_heading(lm_audit_document *d, walk *w, lm_extent line)
{
    size_t level = strspn(line.s, "#");
    int    m;

    level = level < LEVELS ? level : LEVELS - 1;
    d->heading = lm_label_of(d, (lm_extent){ line.s + level, line.n - level });
    m = d->heading.model;
    for (size_t i = level; i < LEVELS; i++)
        w->scopes[i] = m != LM_NO_MODEL ? m : w->scopes[level - 1];
    d->scope   = w->scopes[level];
    d->title   = level == 1 ? d->scope : d->title;
    d->aside  = false;
    d->versus = true;
    for (size_t i = 0, n = lm_scan(d, line, d->items, LM_MOST_ITEMS); i < n; i++) {
        bool doubt = d->items[i].role == LM_DOUBT && !lm_vocable_is(d->items[i].word, "ordinal") && !is_original_part(d->items + i, n - i);
        d->aside |= doubt;
        d->versus &= !doubt || lm_vocable_is(d->items[i].word, "versus");
    }
    d->rotary = lm_names_rotary(d->items, lm_scan(d, line, d->items, LM_MOST_ITEMS));
    lm_audit_properties_of(d, line);
    read_title(d, (lm_extent){ line.s + level, line.n - level });
}

static bool ends_in_colon(lm_extent line)
{
    while (line.n && strchr("*_ ", line.s[line.n - 1]))
        line.n--;
    return line.n && (line.s[line.n - 1] == ':' || (line.n > 3 && memcmp(line.s + line.n - 3, "：", 3) == 0));
}

/* A line that only names a model, or names one and ends in a colon: the following text is about it. */
static void read_caption(lm_audit_document *d, lm_extent line)
{
    lm_item items[24];
    size_t  n = lm_scan(d, line, items, 24), others = 0;
    int     m = LM_NO_MODEL;
    bool    colon = ends_in_colon(line);

    if (n == 24)
        return;
    for (size_t i = 0; i < n; i++) {
        if (items[i].role == LM_MODEL)
            m = m == LM_NO_MODEL || m == items[i].model ? items[i].model : LM_OTHER_MODEL;
        else
            others += items[i].role != LM_NEUTRAL && items[i].role != LM_LINK && items[i].role != LM_BREAK;
    }
    if (m != LM_NO_MODEL && (colon || !others))
        d->scope = m;
    if (colon) {
        lm_about a = lm_label_of(d, line);
        if (a.quantity || a.tokens > 0)
            d->heading = a;
    }
}

/* ---- paragraphs ---- */

/* Return the bytes of the marker before a list item or quotation: "- ", "* ", "+ ", "1. ", "2) ", "> "; 0: none. */
static size_t marker(lm_extent s)
{
    size_t n = 0;

    if (s.n > 1 && strchr("-*+>", *s.s) && s.s[1] == ' ')
        return 2;
    while (n < s.n && n < 3 && isdigit((unsigned char)s.s[n]))
        n++;
    return n && n + 1 < s.n && strchr(".)", s.s[n]) && s.s[n + 1] == ' ' ? n + 2 : 0;
}

static bool stands_alone(const walk *w, lm_extent line)
{
    return !line.n || *line.s == '#' || *line.s == '|' || marker(line) || is_fence(line) ||
           is_rule(lm_trim(line_at(line.s + line.n + (line.s + line.n < w->end), w->end)));
}

static size_t first_word(lm_extent line)
{
    return strcspn(lm_trim(line).s, " \n");
}

/* Survey the paragraph that begins at `raw`, once: find its end, and whether its lines are filled, that is, the next word would have
 * made any of them the longest line. In other paragraphs (a chat, a poem) each line is read separately. */
static void survey(walk *w, lm_extent raw)
{
    size_t width = 0;

    w->full  = true;
    w->until = raw.s;
    for (int pass = 0; pass < 2; pass++) {
        lm_extent line = raw;
        for (bool more = true; more;) {
            lm_extent next = line_at(line.s + line.n + (line.s + line.n < w->end), w->end);
            more     = next.s < w->end && lm_trim(next).n && !stands_alone(w, lm_trim(next));
            width    = line.n > width ? line.n : width;
            w->until = line.s + line.n;
            if (pass && more && line.n + 1 + first_word(next) <= width)
                w->full = false;
            line = next;
        }
    }
    w->full &= width >= 60 && width <= 140;
}

static lm_extent whole_text(walk *w, lm_extent raw)
{
    if (raw.s >= w->until)
        survey(w, raw);
    return w->full ? (lm_extent){ raw.s, (size_t)(w->until - raw.s) } : raw;
}

/* Return the line together with the following lines that begin with "=": they continue its calculation. */
static lm_extent with_results(lm_audit_document *d, const walk *w, lm_extent raw)
{
    for (;;) {
        lm_extent next = line_at(raw.s + raw.n + (raw.s + raw.n < w->end), w->end), line = lm_trim(next);
        bool      sum = w->code && line.n > 2 && memcmp(line.s, "+ ", 2) == 0;       /* "+ H × I": the calculation's next term */
        size_t    n = sum ? 0 : marker(line);
        bool      equals = sum || (line.n > n + 1 && (line.s[n] == '=' || memcmp(line.s + n, "≈", 2) == 0) && line.s[n + 1] != '=');
        if (!equals || next.s == raw.s)
            return raw;
        memset(d->text + (line.s - d->text), ' ', n);    /* not a minus sign */
        raw.n = (size_t)(next.s + next.n - raw.s);
    }
}

/* Return whether the text after the line may be about another model: the line is doubtful, or introduces the text with unknown words. */
static bool has_doubt(const lm_audit_document *d, lm_extent line, int model)
{
    lm_item items[LM_MOST_ITEMS];
    size_t  n = lm_scan(d, line, items, LM_MOST_ITEMS);
    bool    unknown = false, own = false;

    for (size_t i = 0; i < n; i++) {
        if (items[i].role == LM_DOUBT && !lm_vocable_is(items[i].word, "ordinal"))
            return true;
        unknown |= items[i].role == LM_UNKNOWN;
        own |= items[i].role == LM_MODEL;
    }
    return d->uncertain || model == LM_OTHER_MODEL || n == LM_MOST_ITEMS || (unknown && !own && ends_in_colon(line));
}

/* Return whether the line is about another model, or a case that is none. */
static bool names_other(const lm_audit_document *d, lm_extent line, int model)
{
    lm_item items[LM_MOST_ITEMS];
    size_t  n = lm_scan(d, line, items, LM_MOST_ITEMS);
    bool    other = model == LM_OTHER_MODEL || n == LM_MOST_ITEMS;

    for (size_t i = 0; i < n; i++)
        other |= items[i].foreign || (items[i].role == LM_DOUBT && !lm_vocable_is(items[i].word, "ordinal"));
    return other;
}

static bool has_model(const lm_audit_document *d, lm_extent line)
{
    lm_item items[LM_MOST_ITEMS];

    for (size_t i = 0, n = lm_scan(d, line, items, LM_MOST_ITEMS); i < n; i++)
        if (items[i].role == LM_MODEL)
            return true;
    return false;
}

enum { MOST_CANDIDATES = 4 };

/* Read a text that names no model for each one that the document is about: what is right of one of them is confirmed. */
static bool read_for_each(lm_audit_document *d, const walk *w, lm_extent line)
{
    size_t    before = d->n_statements, n = 0;
    int       scope = d->scope, models[MOST_CANDIDATES];
    bool      uncertain = d->uncertain;
    lm_column columns[LM_MOST_CELLS];

    for (size_t i = 0; i < d->n_known && n < MOST_CANDIDATES; i++)
        if (d->n_given ? i < d->n_given : d->known[i].here)
            models[n++] = (int)i;
    d->candidates = true;
    memcpy(columns, d->columns, sizeof columns);
    for (size_t i = 0; i < n && n < MOST_CANDIDATES; i++) {
        int carry = d->scope = models[i];
        if (w->table) {
            lm_cells row;
            lm_split_row(line, &row);
            lm_read_row(d, &w->head, &row, line);
        } else {
            lm_audit_text(d, line, &carry);
        }
    }
    d->candidates = false;
    d->uncertain  = uncertain;
    d->scope      = scope;
    memcpy(d->columns, columns, sizeof columns);
    return d->n_statements > before;
}

/* Read a line between "$$" lines, or one that begins or ends them, as a formula. False: another line. */
static bool read_block(lm_audit_document *d, walk *w, lm_extent line)
{
    size_t signs = 0;
    bool   math = w->math;

    for (size_t i = 0; i + 1 < line.n; i++)
        if (line.s[i] == '$' && line.s[i + 1] == '$') {
            signs++;
            i++;
        }
    w->math ^= signs % 2;
    if (!math && signs % 2 == 0)
        return false;
    lm_audit_tex(d, line, true, (lm_extent){ "", 0 });
    return true;
}

static lm_extent read_paragraph(lm_audit_document *d, walk *w, lm_extent raw)
{
    lm_extent text = with_results(d, w, whole_text(w, raw)), line = lm_trim(text);
    size_t    n = marker(line);
    bool      found;

    line = (lm_extent){ line.s + n, line.n - n };
    read_caption(d, line);
    int scope = d->scope;
    if (n || !w->open) {
        w->carry = d->scope;
        d->uncertain   = false;
    }
    w->open = !n;
    found = lm_audit_equations(d, line);
    found |= lm_audit_text(d, line, &w->carry);
    found |= lm_audit_formula(d, line, w->carry);
    found |= lm_audit_layers(d, line, w->carry);
    found |= lm_audit_rotary(d, line, w->carry);
    found |= lm_audit_properties(d, line, n > 0, ends_in_colon(line));
    found |= lm_audit_tex_line(d, line, (lm_extent){ "", 0 });
    if (scope == LM_NO_MODEL && (w->carry == LM_NO_MODEL || !has_model(d, line)) && lm_has_digit(line))
        found |= read_for_each(d, w, line);
    w->doubt = has_doubt(d, line, w->carry);
    w->other = w->doubt && names_other(d, line, w->carry);
    if (!found && lm_has_digit(line))
        lm_add_unread(d, line);
    return text;
}

/* Return whether the items are a line of a configuration, such as "num_hidden_layers": 28: one known key and one number. */
static bool is_setting(const lm_item *items, size_t n)
{
    size_t numbers = 0;

    for (size_t i = 0; i < n; i++) {
        numbers += items[i].role == LM_NUMBER;
        if (items[i].role == LM_UNKNOWN || items[i].role == LM_TIMES || items[i].role == LM_SLASH)
            return false;
    }
    return n > 2 && n < 16 && numbers == 1 && items[0].role == LM_QUANTITY && memchr(items[0].at.s, '_', items[0].at.n) &&
           strcmp(items[0].word->value, "architecture.context") != 0 && items[1].role == LM_LINK;
}

/* Return whether the items are a key with a word as value, such as "tie_word_embeddings": true. */
static bool is_word_setting(const lm_item *items, size_t n)
{
    return n > 2 && n < 5 && items[0].role == LM_TEXT_QUANTITY && memchr(items[0].at.s, '_', items[0].at.n) && items[1].role == LM_LINK &&
           (items[2].role == LM_UNKNOWN || items[2].role == LM_NEUTRAL);
}

/* Read code: only configuration lines, calculations and printed modules. Program arguments ("layers=4") may create a model other than
 * that of the text. */
static void read_code(lm_audit_document *d, walk *w, lm_extent *raw)
{
    *raw = with_results(d, w, *raw);
    lm_extent line = lm_trim(*raw), next = lm_trim(line_at(raw->s + raw->n + (raw->s + raw->n < w->end), w->end));
    size_t    n = lm_scan(d, line, d->items, LM_MOST_ITEMS);
    int       carry = d->scope;
    bool      dim = d->uncertain, setting = is_setting(d->items, n) || is_word_setting(d->items, n);

    if (n < LM_MOST_ITEMS)
        lm_audit_sums(d, d->items, n);
    lm_audit_equations(d, line);
    lm_audit_shapes(d, line);
    if (lm_audit_formula(d, line, d->scope))
        return;
    bool printed = lm_audit_printed_table(d, line, d->scope, w->doubt) || lm_audit_module(d, line, d->scope, w->doubt) ||
                   lm_audit_summary(d, line, next, d->scope, w->doubt);
    if (printed || (!setting && lm_audit_drawing(d, line, w->other)) || !setting)
        return;
    d->uncertain = w->doubt || *d->items[1].at.s == '=';
    lm_audit_text(d, line, &carry);
    d->uncertain = dim;
}

static void read_row(lm_audit_document *d, walk *w, lm_extent line)
{
    lm_cells row;

    lm_split_row(line, &row);
    if (!w->table)
        w->head.n = 0;
    if (!is_rule(line) && !(d->scope == LM_NO_MODEL && w->table && read_for_each(d, w, line)))
        lm_read_row(d, &w->head, &row, line);
}

static void read_line(lm_audit_document *d, walk *w, lm_extent *raw)
{
    lm_extent line = lm_trim(*raw), next = lm_trim(line_at(raw->s + raw->n + (raw->s + raw->n < w->end), w->end));
    bool      fence = is_fence(line);
    size_t    level = strspn(line.s, "#");

    if (fence || !line.n) {
        w->code ^= fence;
        if (fence) {
            d->graph = w->code && line.n >= 10 && memcmp(line.s + 3, "mermaid", 7) == 0;
            d->n_subgraphs = 0;
        }
        w->table = w->open = false;
    } else if (w->code) {
        read_code(d, w, raw);
    } else if (read_block(d, w, line)) {
        w->table = w->open = false;
    } else if (level && level < line.n && line.s[level] == ' ') {
        w->open = w->table = w->doubt = w->other = false;
        read_heading(d, w, line);
    } else if (memchr(line.s, '|', line.n) && is_rule(next) && memchr(next.s, '|', next.n)) {
        lm_split_row(line, &w->head);
        memset(d->columns, 0, sizeof d->columns);
        w->table = true;
        w->open  = false;
    } else if (memchr(line.s, '|', line.n) && (w->table || *line.s == '|')) {
        read_row(d, w, line);
    } else {
        w->table = false;
        *raw     = read_paragraph(d, w, *raw);
    }
}

/* Return the end of the front matter, YAML between "---" lines at the beginning of a file. */
static const char *behind_front_matter(const lm_audit_document *d)
{
    const char *close = strncmp(d->text, "---\n", 4) == 0 ? strstr(d->text + 4, "\n---\n") : NULL;

    return close ? close + 5 : d->text;
}

/* Return the model that the whole text is about: the only one given, or the only one named if none is given. */
static int only_model(const lm_audit_document *d)
{
    int only = LM_NO_MODEL;

    if (d->n_given)
        return d->n_given == 1 ? 0 : LM_NO_MODEL;
    for (size_t i = 0; i < d->n_known; i++)
        if (d->known[i].here && (only == LM_NO_MODEL || strcmp(d->known[only].name, d->known[i].name) != 0)) {
            if (only != LM_NO_MODEL)
                return LM_NO_MODEL;
            only = (int)i;
        }
    return only;
}

static void read_lines(lm_audit_document *d)
{
    walk w = { .end = d->text + d->size, .until = d->text };

    d->scope = d->title = only_model(d);
    for (size_t i = 0; i < LEVELS; i++)
        w.scopes[i] = d->scope;
    d->heading = (lm_about){ .model = LM_NO_MODEL };
    d->line    = 1;
    w.at       = behind_front_matter(d);
    for (const char *p = d->text; p < w.at; p++)
        d->line += *p == '\n';
    while (w.at < w.end && !d->failed) {
        lm_extent raw = line_at(w.at, w.end);
        d->from = raw.s;
        read_line(d, &w, &raw);
        for (size_t i = 0; i < raw.n; i++)
            d->line += raw.s[i] == '\n';
        d->line++;
        w.at = raw.s + raw.n + 1;
    }
}

lm_status lm_audit_read(const char *text, size_t size, const char *const *models, size_t n, lm_audit_document **out, lm_error *e)
{
    LM_REQUIRE(e, text && out && (models || !n));
    const char *nul = memchr(text, '\0', size);
    if (nul)
        return lm_fail(e, LM_USAGE, "text", nul - text, "contains a NUL byte; not a text file");
    for (size_t i = 0; i < n; i++)
        LM_REQUIRE(e, models[i]);
    lm_audit_document *d = lm_alloc_zero(1, sizeof *d);
    if (!d || !(d->text = lm_alloc(size + 1))) {
        lm_free(d);
        return lm_fail_memory(e, "a document", size);
    }
    memcpy(d->text, text, size);
    d->text[size] = '\0';
    d->size       = size;
    lm_know_models(d, models, n);
    if (!d->failed)
        read_lines(d);
    if (d->failed) {
        lm_audit_free(d);
        return lm_fail_memory(e, "a document", size);
    }
    *out = d;
    return LM_OK;
}

void lm_audit_free(lm_audit_document *d)
{
    if (!d)
        return;
    lm_arena_free(&d->arena);
    lm_free(d->statements);
    lm_free(d->unread);
    lm_free(d->text);
    lm_free(d);
}
