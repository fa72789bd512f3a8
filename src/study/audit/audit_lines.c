/* audit_lines.c - walk over a text: headings, tables, settings, lists and code, and the model and the doubts
 * that hold for each.
 *
 * A model holds from the heading, caption or line "Model: NAME" that names it to the next one. A passage is
 * doubtful if its heading, its caption or the paragraph above it may be about something else ("The draft
 * model", "GPT-9"). */
#include <ctype.h>
#include <string.h>

#include "study/audit/audit_document.h"

enum { LEVELS = 7, MAX_CAPTIONS = 8 };

/* A line that ends in a colon: what follows, and what is indented deeper, is of it. */
/* scope: LM_NO_MODEL: that of the heading */
typedef struct caption { size_t indent; int scope; bool doubt, deeper; } caption;

typedef struct walk {
    lm_audit_document *d;
    const char        *at, *end;
    lm_table_head      head;
    lm_printed         printed;
    bool               table, code, settings;            /* settings: code in YAML or JSON */
    bool               section_doubt, text_doubt;        /* of the heading; of the paragraph above */
    int                scopes[LEVELS];                   /* by level of heading; LM_NO_MODEL: not named */
    size_t             level;
    caption            captions[MAX_CAPTIONS];
    size_t             n_captions;
} walk;

static lm_extent line_at(const char *p, const char *end)
{
    const char *stop = p < end ? memchr(p, '\n', (size_t)(end - p)) : NULL;

    return (lm_extent){ p, (size_t)((stop ? stop : end) - p) };
}

static lm_extent next_line(const walk *w, lm_extent line)
{
    const char *p = line.s + line.n;

    return line_at(p < w->end ? p + 1 : p, w->end);
}

/* Return whether the line is the rule below a table's head: "---|:--:|", "----  ----". */
static bool is_rule(lm_extent s)
{
    size_t dashes = 0;

    for (size_t i = 0; i < s.n; i++) {
        if (!strchr("|:- \t+=", s.s[i]))
            return false;
        dashes += s.s[i] == '-' || s.s[i] == '=';
    }
    return dashes > 0;
}

static bool is_fence(lm_extent s)
{
    return lm_extent_begins(s, "```") || lm_extent_begins(s, "~~~");
}

/* Return the bytes of the marker before a list item or quotation: "- ", "1. ", "> "; 0: none. */
static size_t marker(lm_extent s)
{
    size_t n = 0;

    if (s.n > 1 && strchr("-*+>", *s.s) && s.s[1] == ' ')
        return 2;
    if (s.n > 3 && lm_extent_begins(s, "• "))
        return strlen("• ");
    while (n < s.n && n < 3 && isdigit((unsigned char)s.s[n]))
        n++;
    return n && n + 1 < s.n && strchr(".)", s.s[n]) && s.s[n + 1] == ' ' ? n + 2 : 0;
}

/* ---- what a passage is about ---- */

/* Return whether the label has a word that may be the name of an unknown model: letters with digits,
 * "Foo-7B". */
static bool has_foreign_name(const lm_audit_document *d, lm_extent text)
{
    lm_lexeme x[LM_MAX_LEXEMES];
    size_t    n = lm_scan(d, text, x, LM_MAX_LEXEMES);

    for (size_t i = 0; i < n; i++) {
        bool upper = false;
        for (size_t k = 0; k < x[i].at.n; k++)
            upper |= isupper((unsigned char)x[i].at.s[k]);
        if (x[i].kind == LM_LEX_UNKNOWN && upper && x[i].at.n > 1 && x[i].at.s[1] != '-' &&
            lm_has_digit(x[i].at))
            return true;
    }
    return false;
}

/* Set the model and the doubt of the current passage. */
static void settle(walk *w)
{
    const caption *c = w->n_captions ? &w->captions[w->n_captions - 1] : NULL;

    int            named = c && c->scope != LM_NO_MODEL ? c->scope : w->scopes[w->level];

    w->d->scope    = named != LM_NO_MODEL ? named : lm_only_model(w->d);
    w->d->assumed  = named == LM_NO_MODEL && !w->d->n_given;
    w->d->doubtful = w->section_doubt || w->text_doubt || (c && c->doubt);
}

static void read_heading(walk *w, size_t level, lm_extent text)
{
    lm_label l       = lm_label_of(w->d, text);
    bool     foreign = l.model == LM_NO_MODEL && has_foreign_name(w->d, text);
    int      model   = foreign ? LM_OTHER_MODEL : l.model;

    w->level = level < LEVELS ? level : LEVELS - 1;
    for (size_t i = w->level; i < LEVELS; i++)
        w->scopes[i] = model != LM_NO_MODEL ? model : w->scopes[w->level - 1];
    w->section_doubt = l.doubt;
    w->d->counts     = l.counts;
    w->text_doubt    = w->table = false;
    w->n_captions    = 0;
    settle(w);
}

/* Leave the captions that the line is not below. */
static void leave_captions(walk *w, size_t indent)
{
    while (w->n_captions) {
        caption *c = &w->captions[w->n_captions - 1];
        if (indent > c->indent)
            c->deeper = true;
        if (indent > c->indent || (indent == c->indent && !c->deeper))
            break;
        w->n_captions--;
    }
}

/* Read "NAME OF A MODEL:" or "vision_config:". */
static void read_caption(walk *w, lm_extent text, size_t indent)
{
    lm_label l     = lm_label_of(w->d, text);
    bool     inner = false;

    while (w->n_captions && w->captions[w->n_captions - 1].indent >= indent)
        w->n_captions--;
    if (w->n_captions == MAX_CAPTIONS)
        w->n_captions--;
    inner = w->n_captions && w->captions[w->n_captions - 1].doubt;
    int outer = w->n_captions ? w->captions[w->n_captions - 1].scope : LM_NO_MODEL;
    bool doubt = l.unclear || l.doubt || inner;
    w->captions[w->n_captions++] = (caption){ indent, l.model != LM_NO_MODEL ? l.model : outer, doubt,
                                              false };
    w->text_doubt = false;
    settle(w);
}

/* ---- texts ---- */

/* Return the end of the part of a line that begins at p: a comma, a semicolon or "and", outside
 * parentheses. */
static const char *end_of_part(const char *p, const char *end, size_t *gap)
{
    static const char *const gaps[] = { ", and ", ", ", "; ", " and ", " or ", " · ", " • " };
    int depth = 0;

    for (*gap = 0; p < end; p++) {
        depth += (*p == '(') - (*p == ')');
        for (size_t i = 0; depth <= 0 && i < sizeof gaps / sizeof *gaps; i++)
            if (lm_extent_begins((lm_extent){ p, (size_t)(end - p) }, gaps[i])) {
                *gap = strlen(gaps[i]);
                return p;
            }
    }
    return end;
}

/* Return the colon or equals sign that ends a name; NULL: none. */
static const char *end_of_name(lm_extent s)
{
    for (size_t i = 1; i + 1 < s.n; i++)
        if ((s.s[i] == ':' && (isspace((unsigned char)s.s[i + 1]) || strchr("*`\"", s.s[i + 1]))) ||
            (s.s[i] == '=' && s.s[i + 1] == ' ' && s.s[i - 1] == ' '))
            return s.s + i;
    return NULL;
}

/* Find the only number that is no number of tokens ("at 8,192"), no factor ("× 36") and no second of a pair.
 * Returns its place; n: there is none; SIZE_MAX: there are several. */
static size_t only_number(const lm_lexeme *x, size_t n)
{
    size_t at = n;

    for (size_t i = 0; i < n; i++) {
        lm_lexeme_kind before = i ? x[i - 1].kind : LM_LEX_UNKNOWN;
        lm_lexeme_kind next   = i + 1 < n ? x[i + 1].kind : LM_LEX_UNKNOWN;
        bool           second = before == LM_LEX_SLASH && i > 1 && x[i - 2].kind == LM_LEX_NUMBER;
        if (x[i].kind != LM_LEX_NUMBER || second || before == LM_LEX_AT)
            continue;
        if (at < n || before == LM_LEX_TIMES || next == LM_LEX_TIMES)
            return SIZE_MAX;
        at = i;
    }
    return at;
}

/* Read a part without a name of its own, such as "36 layers" or "GPT-2 has 12 layers": one number, and words
 * that are all known. `name`: of the parts before it. Returns whether every word is known; *found: it was a
 * statement. */
static bool read_phrase(lm_audit_document *d, lm_extent part, const lm_label *name, bool *found)
{
    lm_lexeme x[LM_MAX_LEXEMES];
    lm_label  l = { .model = LM_NO_MODEL }, rest = l;
    size_t    n = lm_scan(d, part, x, LM_MAX_LEXEMES), at = only_number(x, n);

    *found = false;
    if (n == LM_MAX_LEXEMES || at == SIZE_MAX)
        return false;
    size_t led = at < n && at && x[at - 1].kind == LM_LEX_LEAD ? at - 1 : at;
    lm_label_add(&l, x, led);
    if (at == n)
        return !l.unclear && !l.quantity && !l.part;
    lm_label_add(&rest, x + at + 1, n - at - 1);
    if (!l.quantity && !l.part && !rest.quantity && !rest.part)
        lm_label_inherit(&l, name);
    if (l.model == LM_NO_MODEL && rest.model == LM_NO_MODEL)
        l.model = name->model;
    if (!l.unclear && !rest.unclear)
        *found = lm_read_value(d, (lm_extent){ x[led].at.s, (size_t)(part.s + part.n - x[led].at.s) }, &l);
    return *found;
}

/* Read "Layers: 36". Returns whether every word is known; *found: it was a statement. */
static bool read_named(lm_audit_document *d, lm_extent part, const char *colon, lm_label *name, bool *found)
{
    lm_extent value = { colon + 1, (size_t)(part.s + part.n - colon - 1) };
    lm_label  l     = lm_label_of(d, (lm_extent){ part.s, (size_t)(colon - part.s) });

    *found = false;
    if (l.unclear)
        return false;
    if (!l.quantity && !l.part && name->quantity)
        lm_label_inherit(&l, name);
    l.model = l.model == LM_NO_MODEL ? name->model : l.model;
    *name = l;
    if (lm_label_is(&l, "@model")) {     /* read_text keeps it for the lines that follow */
        int model = lm_label_of(d, value).model;
        d->scope  = model == LM_NO_MODEL ? LM_OTHER_MODEL : model;
        return true;
    }
    if (!l.quantity && !l.part)          /* "GPT-2: 12 layers" */
        return read_phrase(d, value, &l, found);
    *found = lm_read_value(d, value, &l);
    return *found;
}

/* Read the parts of a sentence. If one of them is not understood, the others may depend on it, and are not
 * called wrong. */
static bool read_sentence(lm_audit_document *d, lm_extent s, int *model)
{
    size_t      before = d->n_statements, gap;
    lm_label    name   = { .model = *model };
    bool        clear  = true, whole = false;
    const char *colon  = end_of_name(s);

    /* a name may contain commas: "KV cache, 8,192 tokens, FP16: 288 MiB" */
    if (colon)
        whole = !lm_label_of(d, (lm_extent){ s.s, (size_t)(colon - s.s) }).unclear;
    for (const char *p = s.s, *end = s.s + s.n, *stop; p < end; p = stop + gap) {
        bool found;
        stop = end_of_part(whole ? colon : p, end, &gap);
        lm_extent   part  = { p, (size_t)(stop - p) };
        int         named = lm_label_of(d, part).model;
        *model     = named == LM_NO_MODEL ? *model : named;
        name.model = *model;
        const char *own  = whole ? colon : end_of_name(part);
        bool ok = own ? read_named(d, part, own, &name, &found) : read_phrase(d, part, &name, &found);
        clear &= ok || !lm_trim(part).n;
        whole = false;
    }
    for (size_t i = before; !clear && i < d->n_statements; i++)
        d->statements[i].unsure = true;
    return d->n_statements > before;
}

/* Return the bytes of the first sentence of a line. */
static size_t sentence_of(lm_extent s)
{
    for (size_t i = 0; i + 1 < s.n; i++)
        if (strchr(".!?", s.s[i]) && s.s[i + 1] == ' ' && i + 2 < s.n)
            return i + 1;
    return s.n;
}

/* Return whether the sentence ends with the line, so that the next one cannot take it back. */
static bool ends_here(const walk *w, lm_extent raw)
{
    lm_extent next = lm_trim(next_line(w, raw)), line = lm_trim(raw);

    return !next.n || marker(next) || *next.s == '#' || *next.s == '|' || is_fence(next) ||
           strchr(".:;!", line.s[line.n - 1]) ||
           end_of_name(next);
}

/* Return whether the text only names a model, or ends in a colon: the lines that follow are of it. */
static bool is_caption(lm_extent text, const lm_label *all, bool item)
{
    return (text.n && text.s[text.n - 1] == ':') ||
           (!item && all->model >= 0 && !all->unclear && !all->quantity && !all->part);
}

/* Read the sentences of a line. What one of them doubts, the next ones do not restore. */
static bool read_sentences(lm_audit_document *d, lm_extent text)
{
    bool found = false;
    int  model = LM_NO_MODEL;            /* the last one that the line has named */

    while (text.n) {
        lm_extent sentence = { text.s, sentence_of(text) };
        d->doubtful |= lm_label_of(d, sentence).doubt;
        found |= read_sentence(d, sentence, &model);
        text = lm_trim((lm_extent){ text.s + sentence.n, text.n - sentence.n });
    }
    return found;
}

static void read_text(walk *w, lm_extent raw, size_t indent)
{
    lm_audit_document *d     = w->d;
    lm_extent          line  = lm_trim(raw);
    size_t             n     = marker(line);
    lm_extent          text  = lm_strip_markup((lm_extent){ line.s + n, line.n - n });
    lm_label           all   = lm_label_of(d, text);
    int                scope = d->scope;

    if (is_caption(text, &all, n)) {
        read_caption(w, text, indent);
        return;
    }
    bool prose = !n && !end_of_name(text), doubt = d->doubtful;
    if (prose) {
        w->text_doubt = all.doubt || all.model == LM_OTHER_MODEL || (all.model >= 0 && all.model != scope) ||
                        has_foreign_name(d, text);
        d->doubtful |= !ends_here(w, raw);
    }
    bool found  = read_sentences(d, text);
    d->doubtful = doubt;
    if (d->scope != scope)               /* "Model: GPT-2" */
        *(w->n_captions ? &w->captions[w->n_captions - 1].scope : &w->scopes[w->level]) = d->scope;
    else if (!found && lm_has_digit((lm_extent){ line.s + n, line.n - n }))
        lm_add_unread(d, line);
}

/* ---- code ---- */

/* Read a fenced block of JSON, whose first line is at `raw`. Returns the line that ends it; n is 0: it is no
 * JSON. */
static lm_extent read_json_block(walk *w, lm_extent raw)
{
    lm_extent line = raw;

    while (line.s < w->end && !is_fence(lm_trim(line)))
        line = next_line(w, line);
    bool json = lm_read_json(w->d, (lm_extent){ raw.s, (size_t)(line.s - raw.s) });
    return (lm_extent){ line.s, json ? line.n : 0 };
}

/* Read a line "key: value" of code. What a program assigns ("layers=4") may make another model. */
static void read_code(walk *w, lm_extent raw, size_t indent)
{
    lm_extent   line  = lm_trim(raw);
    const char *colon = end_of_name(line), *equals = colon && *colon == '=' ? colon : NULL;

    if (lm_read_printed_table(w->d, &w->printed, line))
        return;
    if (lm_read_module(w->d, line)) {
        w->printed.modules = true;
        return;
    }
    if (line.n && line.s[line.n - 1] == ':') {
        read_caption(w, line, indent);
        return;
    }
    if (!colon || *line.s == '(')
        return;
    lm_extent key   = lm_strip_markup((lm_extent){ line.s, (size_t)(colon - line.s) });
    lm_extent value = lm_strip_markup((lm_extent){ colon + 1, (size_t)(line.s + line.n - colon - 1) });
    bool      doubt = w->d->doubtful;
    w->d->doubtful |= equals != NULL;
    if (w->settings || memchr(key.s, '_', key.n))
        lm_read_setting(w->d, w->d->scope, key, value, false);
    w->d->doubtful = doubt;
}

/* Begin or end a block of code. */
static void read_fence(walk *w, lm_extent line)
{
    lm_extent language = lm_trim((lm_extent){ line.s + 3, line.n - 3 });

    w->code     = !w->code;
    w->settings = lm_extent_is(language, "json") || lm_extent_is(language, "yaml") ||
                  lm_extent_is(language, "yml");
    w->printed  = (lm_printed){ .n_columns = 0 };
    w->table    = false;
}

/* ---- lines ---- */

/* Return whether a table begins at the line, and read its head. */
static bool begins_table(walk *w, lm_extent raw, lm_extent line)
{
    lm_extent next = lm_trim(next_line(w, raw));
    lm_cells  one, two;

    if (memchr(line.s, '|', line.n) && memchr(next.s, '|', next.n) && is_rule(next))
        return lm_read_head(w->d, line, false, &w->head);
    lm_split_row(line, true, &one);
    lm_split_row(next, true, &two);
    return one.n > 1 && (one.n == two.n || is_rule(next)) && !marker(line) &&
           !lm_extent_begins(line, "Layer (type") &&
           lm_read_head(w->d, line, true, &w->head);
}

/* Read a row of the table that is open, or a row of a table without a head. False: another line. */
static bool read_row(walk *w, lm_extent line)
{
    lm_cells row;

    if (w->table && w->head.by_gaps) {
        lm_split_row(line, true, &row);
        if (row.n != w->head.cells.n && !is_rule(line))
            return false;
    } else if (!memchr(line.s, '|', line.n) || !(w->table || *line.s == '|')) {
        return false;
    }
    if (!w->table)
        w->head = (lm_table_head){ .column[0].model = LM_NO_MODEL };
    if (!is_rule(line))
        lm_read_row(w->d, &w->head, line);
    return true;
}

static size_t heading_level(const walk *w, lm_extent raw, lm_extent line)
{
    size_t    level = strspn(line.s, "#");
    lm_extent next  = lm_trim(next_line(w, raw));
    bool      under = next.n > 2 && !memchr(line.s, '|', line.n) && strspn(next.s, "=") >= next.n;

    if (level && level < line.n && line.s[level] == ' ')
        return level;
    return lm_extent_begins(line, "<h") || under;
}

/* Read the line `raw` and return the last one that was read with it. */
static lm_extent read_line(walk *w, lm_extent raw)
{
    lm_extent line   = lm_trim(raw);
    size_t    indent = (size_t)(line.s - raw.s), level;

    if (!line.n || is_fence(line)) {
        w->table = false;
        if (line.n)
            read_fence(w, line);
        lm_extent next = next_line(w, raw), last;
        if (line.n && w->code && (last = read_json_block(w, next)).n) {
            w->code = false;
            return last;
        }
        return raw;
    }
    if (!w->table || w->head.by_gaps)
        leave_captions(w, indent);
    settle(w);
    if (w->table && read_row(w, line))
        return raw;
    w->table = begins_table(w, raw, line);
    if (w->table)
        return raw;
    if (w->code)
        read_code(w, raw, indent);
    else if ((level = heading_level(w, raw, line)))
        read_heading(w, level, (lm_extent){ line.s + strspn(line.s, "#"), line.n - strspn(line.s, "#") });
    else if (!read_row(w, line) && !is_rule(line))
        read_text(w, raw, indent);
    return raw;
}

/* Return the end of the front matter, YAML between "---" lines at the beginning of a file. */
static const char *behind_front_matter(const lm_audit_document *d)
{
    const char *close = strncmp(d->text, "---\n", 4) == 0 ? strstr(d->text + 4, "\n---\n") : NULL;

    return close ? close + 5 : d->text;
}

void lm_read_lines(lm_audit_document *d)
{
    walk        w    = { .d = d, .end = d->text + d->size };
    const char *line = d->text;

    for (size_t i = 0; i < LEVELS; i++)
        w.scopes[i] = LM_NO_MODEL;
    d->from = d->text;
    d->line = 1;
    settle(&w);
    if (lm_read_json(d, (lm_extent){ d->text, d->size }))
        return;
    for (w.at = behind_front_matter(d); w.at < w.end && !d->failed;) {
        lm_extent raw = line_at(w.at, w.end);
        for (; line < raw.s; line++)
            d->line += *line == '\n';
        d->from      = raw.s;
        lm_extent last = read_line(&w, raw);
        w.at = last.s + last.n + 1;
    }
}
