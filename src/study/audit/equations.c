/* equations.c - equations in letters, such as "H = head_dim × num_heads" and "2 × H × I + I × H = 3MH²". Both sides are calculated for
 * made-up models: an equation that holds for each of them holds of every model of its kind. */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "study/audit/reading.h"

/* Two models with grouped heads, one that shares nothing, and one whose heads do not fill the hidden width. */
enum { GROUPED, ALSO_GROUPED, UNSHARED, NARROW, MODELS };

typedef struct made_up { double layers, hidden, heads, kv_heads, head_dim, inner, vocabulary; } made_up;

static const made_up models[MODELS] = {
    [GROUPED] = { 11, 120, 12, 4, 10, 420, 1009 },
    [ALSO_GROUPED] = { 7, 252, 18, 3, 14, 945, 2003 },
    [UNSHARED] = { 13, 128, 8, 8, 16, 512, 1511 },
    [NARROW] = { 5, 100, 6, 2, 20, 375, 1213 },
};

/* Return the value of a quantity in a made-up model, or 0 if it has none. */
static double value_of(const char *path, const made_up *m)
{
    const struct { const char *path; double value; } values[] = {
        { "architecture.layers", m->layers }, { "architecture.hidden", m->hidden }, { "architecture.vocabulary", m->vocabulary },
        { "attention.heads", m->heads }, { "attention.kv_heads", m->kv_heads }, { "attention.head_dim", m->head_dim },
        { "attention.group", m->heads / m->kv_heads }, { "attention.kv_dim", m->kv_heads * m->head_dim },
        { "mlp.intermediate", m->inner }, { "mlp.expansion", m->inner / m->hidden },
    };
    lm_extent first = { path, strcspn(path, "|") };

    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (lm_text_is(first, values[i].path))
            return values[i].value;
    return 0;
}

/* A side of an equation: its value in each made-up model, and what it consists of. */
typedef struct side {
    double    values[MODELS];
    lm_extent at;
    size_t    names, numbers, signs;
    bool      vague;                 /* a name has several meanings */
    bool      kv_dim;                /* contains the width of the keys */
    const char *path;                /* the quantity, if the side is one name */
} side;

typedef struct reader {
    const lm_audit_document *d;
    const char              *p, *end;
    side                    *out;
    size_t                   depth;
    bool                     failed;
} reader;

enum { DEEPEST = 8, LONGEST_NAME = 40 };

static bool is_text(const reader *r, const char *text)
{
    size_t n = strlen(text);

    return (size_t)(r->end - r->p) >= n && memcmp(r->p, text, n) == 0;
}

/* Skip spaces, markup and remarks in full-width parentheses. A comment ends the line; the next line continues with a sign. */
static void skip_blank(reader *r)
{
    static const char *const comments[] = { "#", "\xef\xbf\xbd", "←" };
    bool comment = false;

    while (r->p < r->end) {
        for (size_t i = 0; i < sizeof comments / sizeof *comments; i++)
            comment |= is_text(r, comments[i]);
        if (*r->p == '\n') {
            comment = false;
            r->p++;
        } else if (is_text(r, "（")) {
            const char *close = memmem(r->p, (size_t)(r->end - r->p), "）", 3), *line = memchr(r->p, '\n', (size_t)(r->end - r->p));
            r->p = close && (!line || close < line) ? close + 3 : line ? line : r->end;
        } else if (comment || isspace((unsigned char)*r->p) || *r->p == '`' || *r->p == '$') {
            r->p++;
        } else {
            return;
        }
    }
}

static bool is_name(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Multiply `values` by those of the quantity that the name stands for. False: it stands for none. */
static bool multiply_name(reader *r, lm_extent name, double values[MODELS])
{
    lm_item           items[2];
    size_t            n = lm_scan(r->d, name, items, 2);
    const lm_vocable *word = n == 1 ? lm_symbol(r->d, &items[0]) : NULL;

    if (!word || value_of(word->value, &models[0]) == 0)
        return false;
    for (size_t i = 0; i < MODELS; i++)
        values[i] *= value_of(word->value, &models[i]);
    r->out->names++;
    r->out->path = word->value;
    r->out->vague |= memmem(word->phrase, strlen(word->phrase), "group", 5) != NULL;
    r->out->kv_dim |= lm_vocable_is(word, "attention.kv_dim");
    return true;
}

/* Read a name, or letters side by side: "hidden_size", "MH". */
static void read_name(reader *r, double values[MODELS])
{
    const char *start = r->p;

    while (r->p < r->end && is_name(*r->p))
        r->p++;
    if (r->p - start > LONGEST_NAME) {
        r->failed = true;
    } else if (!multiply_name(r, (lm_extent){ start, (size_t)(r->p - start) }, values)) {
        for (; start < r->p && !r->failed; start++)
            r->failed = !isupper((unsigned char)*start) || !multiply_name(r, (lm_extent){ start, 1 }, values);
    }
}

static void read_number(reader *r, double values[MODELS])
{
    double value = 0, unit = 1;

    for (; r->p < r->end && isdigit((unsigned char)*r->p); r->p++)
        value = 10 * value + (*r->p - '0');
    if (r->p + 1 < r->end && *r->p == '.' && isdigit((unsigned char)r->p[1]))
        for (r->p++; r->p < r->end && isdigit((unsigned char)*r->p); r->p++)
            value += (unit /= 10) * (*r->p - '0');
    for (size_t i = 0; i < MODELS; i++)
        values[i] *= value;
    r->out->numbers++;
}

static void read_sum(reader *r, double values[MODELS]);

/* Read a number, a name or a sum in parentheses, with its exponent, and multiply `values` by it. */
static void read_factor(reader *r, double values[MODELS])
{
    double own[MODELS] = { 1, 1, 1, 1 };

    if (r->p < r->end && *r->p == '(' && r->depth < DEEPEST) {
        r->p++;
        r->depth++;
        read_sum(r, own);
        r->depth--;
        r->failed |= r->p >= r->end || *r->p != ')';
        r->p += !r->failed;
    } else if (r->p < r->end && isdigit((unsigned char)*r->p)) {
        read_number(r, own);
    } else if (r->p < r->end && isalpha((unsigned char)*r->p)) {
        read_name(r, own);
    } else {
        r->failed = true;
    }
    bool square = is_text(r, "²") || is_text(r, "^2");
    r->p += square ? 2 : 0;
    r->failed |= r->p > r->end;
    for (size_t i = 0; i < MODELS && !r->failed; i++)
        values[i] *= square ? own[i] * own[i] : own[i];
}

/* Skip a sign of multiplication or division: '*', '/'. 0: none, but a factor follows, as in "4H" and "H (2 + 3)"; '.': no factor. */
static char operator_at(reader *r)
{
    static const struct { const char *sign; char meaning; } signs[] = {
        { "\\*", '*' }, { "*", '*' }, { "×", '*' }, { "·", '*' }, { "\\times", '*' }, { "/", '/' }, { "÷", '/' },
    };
    bool tight = r->p < r->end && isalpha((unsigned char)*r->p);

    skip_blank(r);
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (is_text(r, signs[i].sign)) {
            r->p += strlen(signs[i].sign);
            skip_blank(r);
            return signs[i].meaning;
        }
    return tight || (r->p < r->end && *r->p == '(') ? 0 : '.';
}

static void read_product(reader *r, double values[MODELS])
{
    read_factor(r, values);
    for (char sign; !r->failed && (sign = operator_at(r)) != '.';) {
        double factor[MODELS] = { 1, 1, 1, 1 };
        read_factor(r, factor);
        r->out->signs++;
        for (size_t i = 0; i < MODELS && !r->failed; i++)
            values[i] = sign == '/' ? values[i] / factor[i] : values[i] * factor[i];
    }
}

static void read_sum(reader *r, double values[MODELS])
{
    skip_blank(r);
    read_product(r, values);
    while (!r->failed && r->p < r->end && *r->p == '+') {
        double term[MODELS] = { 1, 1, 1, 1 };
        r->p++;
        skip_blank(r);
        read_product(r, term);
        r->out->signs++;
        for (size_t i = 0; i < MODELS && !r->failed; i++)
            values[i] += term[i];
    }
    skip_blank(r);
}

/* Read the text as one side; false: it is more, or something else. */
static bool read_side(const lm_audit_document *d, lm_extent text, side *out)
{
    reader r = { .d = d, .p = text.s, .end = text.s + text.n, .out = out };

    *out = (side){ .values = { 1, 1, 1, 1 } };
    skip_blank(&r);
    const char *from = r.p;
    read_sum(&r, out->values);
    const char *to = r.p < r.end ? r.p : r.end;
    while (to > from && (isspace((unsigned char)to[-1]) || to[-1] == '`'))
        to--;
    out->at   = (lm_extent){ from, strcspn(from, "\n") < (size_t)(to - from) ? strcspn(from, "\n") : (size_t)(to - from) };
    out->path = out->names == 1 && !out->numbers ? out->path : NULL;
    return !r.failed && r.p >= r.end && out->names;
}

static bool equal(const side *a, const side *b, int model)
{
    return fabs(a->values[model] - b->values[model]) <= 1e-9 * fabs(a->values[model]);
}

/* ---- what a side counts ---- */

static double attention_of(const made_up *m)
{
    return 2 * m->hidden * m->head_dim * (m->heads + m->kv_heads);
}

/* Return what the side counts in every model, or NULL. `part`: the path of the part that it should be a count of; "": any. */
static const char *rule_of(const side *x, const char *part)
{
    static const char *const names[] = { "parameters of grouped attention", "parameters of a plain MLP, or of gate and up",
                                         "parameters of a gated MLP", "a matrix over the vocabulary", "a matrix over the vocabulary" };
    static const char *const parts[] = { "layers[0].self_attn", "layers[0].mlp", "layers[0].mlp", ";model.embed", ";lm_head" };

    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        bool same = !*part || strncmp(part, parts[k], strlen(parts[k])) == 0;
        for (size_t i = 0; same && i < UNSHARED; i++) {
            const made_up *m = &models[i];
            double counts[] = { attention_of(m), 2 * m->hidden * m->inner, 3 * m->hidden * m->inner, m->hidden * m->vocabulary,
                                m->hidden * m->vocabulary };
            same = fabs(counts[k] - x->values[i]) <= 1e-9 * counts[k];
        }
        if (same)
            return names[k];
    }
    return NULL;
}

/* How a quantity follows from others. */
typedef struct meaning { const char *path, *name, *form; } meaning;

/* Return that of the quantity, or NULL. */
static const meaning *meaning_of(const char *path)
{
    static const meaning meanings[] = {
        { "architecture.hidden", "heads fill the hidden width", "num_heads × head_dim" },
        { "attention.heads", "heads in groups", "num_kv_heads × group_size" },
        { "attention.kv_dim", "width of the keys", "num_kv_heads × head_dim" },
        { "mlp.intermediate", "the inner width is a multiple", "expansion × hidden_size" },
        { "attention.head_dim", "heads fill the hidden width", "hidden_size / num_heads" },
        { "attention.group", "heads in groups", "num_heads / num_kv_heads" },
    };

    for (size_t i = 0; path && i < sizeof meanings / sizeof *meanings; i++)
        if (strncmp(path, meanings[i].path, strlen(meanings[i].path)) == 0)
            return &meanings[i];
    return NULL;
}

/* ---- equations ---- */

/* Return whether the equation contradicts what the document itself says: each side is one name or a product of names, and it holds of
 * no model. The document must have defined the width of the keys, which some take for that of one head. */
static bool contradicts(const lm_audit_document *d, const side *a, const side *b)
{
    bool plain = a->path && b->signs && !a->numbers && !b->numbers && a->names + b->names > 2 && !a->vague && !b->vague;

    for (int i = 0; i < MODELS; i++)
        plain &= !equal(a, b, i);
    return plain && d->key_width && (a->kv_dim || b->kv_dim) && !d->aside && !d->uncertain;
}

/* Judge "a = b". Returns whether a statement was added. */
static bool judge(lm_audit_document *d, const side *a, const side *b)
{
    bool holds = equal(a, b, GROUPED) && equal(a, b, ALSO_GROUPED) && (d->scope == LM_NO_MODEL || equal(a, b, NARROW));
    const meaning *m = meaning_of(a->path);
    const char    *count = rule_of(b, "");

    d->key_width |= holds && a->kv_dim && a->path;
    if (holds)
        lm_add_rule(d, b->at, m ? m->name : count ? count : "an identity");
    else if (m && contradicts(d, a, b))
        lm_add_judged(d, b->at, m->form, N_("the two sides are never equal"));
    else
        return false;
    return true;
}

/* Return the part that a label before a formula names: "FFN parameters". */
static const char *part_in(const lm_audit_document *d, lm_extent label)
{
    lm_about a = lm_label_of(d, label);

    return a.part ? a.part->value : NULL;
}

/* Return the bytes of "=" or a colon at s; 0: neither. */
static size_t separator_at(const char *start, const char *s, const char *end)
{
    if (*s == '=')
        return (s + 1 < end && s[1] == '=') || (s > start && strchr("=<>!", s[-1])) ? 0 : 1;
    return *s == ':' ? 1 : end - s > 2 && memcmp(s, "：", 3) == 0 ? 3 : 0;
}

/* Judge a side by the side before it, or by the part that a label before it names. */
static bool judge_side(lm_audit_document *d, const side *before, const side *now, const char *part)
{
    if (before)
        return now->signs + before->signs && judge(d, before, now);
    if (!part || !now->signs || !rule_of(now, part))
        return false;
    lm_add_rule(d, now->at, rule_of(now, part));
    return true;
}

enum { MOST_SIDES = 64 };

bool lm_audit_equations(lm_audit_document *d, lm_extent text)
{
    const char *from = text.s, *end = text.s + text.n, *part = NULL;
    side        before = { 0 }, now;
    bool        found = false, readable = false;
    size_t      sides = 0;

    for (const char *p = text.s; p <= end && sides < MOST_SIDES; p++) {
        size_t n = p < end ? separator_at(text.s, p, end) : 1;
        if (!n)
            continue;
        sides++;
        lm_extent piece = { from, (size_t)(p - from) };
        bool      side_of_equation = read_side(d, piece, &now);
        if (side_of_equation)
            found |= judge_side(d, readable ? &before : NULL, &now, part);
        else
            part = part_in(d, piece) ? part_in(d, piece) : part;
        readable = side_of_equation || (readable && from[-1] != '=');
        before   = side_of_equation ? now : before;
        from = p + n;
        p   += n - 1;
    }
    return found;
}
