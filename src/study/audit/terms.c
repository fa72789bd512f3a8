/* terms.c - read formulas as terms. */
#include <ctype.h>
#include <string.h>

#include "study/audit/terms.h"

enum { DEEPEST = 8 };

typedef struct reader {
    const char *p, *end;
    lm_formula *out;
    int         depth;
    bool        tex, matrix, failed;
} reader;

bool lm_term_is(const lm_term *x, const char *name)
{
    return strcmp(x->name, name) == 0;
}

static bool starts(const reader *r, const char *text)
{
    size_t n = strlen(text);

    return (size_t)(r->end - r->p) >= n && memcmp(r->p, text, n) == 0;
}

static lm_term *add(reader *r, lm_extent at, const char *name, size_t n)
{
    if (r->out->n == LM_MOST_FORMULA || n >= LM_LONGEST_TERM) {
        r->failed = true;
        return NULL;
    }
    lm_term *x = &r->out->terms[r->out->n++];
    *x = (lm_term){ .at = at, .letter = n == 1 && isalpha((unsigned char)*name) ? *name : '\0' };
    for (size_t i = 0; i < n; i++)
        x->name[i] = (char)tolower((unsigned char)name[i]);
    return x;
}

static void add_sign(reader *r, const char *sign)
{
    add(r, (lm_extent){ r->p, 0 }, sign, strlen(sign));
}

static void read_all(reader *r);

/* Take the group "{…}", or the character or command, at p. */
static lm_extent take_group(reader *r)
{
    const char *s = r->p;
    int         depth = 0;

    while (r->p < r->end && *r->p == ' ')
        s = ++r->p;
    if (r->p < r->end && *r->p == '\\') {
        for (r->p++; r->p < r->end && isalpha((unsigned char)*r->p);)
            r->p++;
        return (lm_extent){ s, (size_t)(r->p - s) };
    }
    char open = r->p < r->end ? *r->p : ' ', close = open == '{' ? '}' : ')';
    if (open != '{' && (open != '(' || r->tex)) {
        r->p += r->p < r->end;
        while (r->p < r->end && (*r->p & 0xc0) == 0x80)
            r->p++;
        return (lm_extent){ s, (size_t)(r->p - s) };
    }
    for (; r->p < r->end; r->p++) {
        depth += *r->p == open;
        depth -= *r->p == close;
        if (!depth)
            break;
    }
    r->failed |= r->p >= r->end;
    r->p += r->p < r->end;
    return (lm_extent){ s + 1, r->p > s + 1 ? (size_t)(r->p - s - 2) : 0 };
}

/* Read the inside of a group. */
static void read_inside(reader *r, lm_extent group)
{
    reader inner = { group.s, group.s + group.n, r->out, r->depth + 1, r->tex, r->matrix, r->failed };

    if (r->depth < DEEPEST)
        read_all(&inner);
    r->failed |= inner.failed || r->depth >= DEEPEST;
}

static bool opens(const lm_term *x)
{
    return lm_term_is(x, "(") || lm_term_is(x, "[");
}

static bool closes(const lm_term *x)
{
    return lm_term_is(x, ")") || lm_term_is(x, "]");
}

/* Return the index behind the parentheses at i, or i if none open there. */
static size_t behind_group(const lm_formula *f, size_t i)
{
    size_t depth = 0;

    if (i < f->n && opens(&f->terms[i]))
        do {
            depth += opens(&f->terms[i]);
            depth -= closes(&f->terms[i]);
        } while (++i < f->n && depth);
    return i;
}

/* Return whether the terms from `from` on are one: a name or number with its exponent, or a function with its argument. */
static bool is_one(const lm_formula *f, size_t from)
{
    size_t i = from + 1;

    if (from < f->n && f->terms[from].word)
        i = behind_group(f, i);
    if (i < f->n && lm_term_is(&f->terms[i], "^"))
        i = i + 1 < f->n && opens(&f->terms[i + 1]) ? behind_group(f, i + 1) : i + 2;
    return i == f->n;
}

static bool is_sum(const lm_formula *f, size_t from)
{
    size_t depth = 0;

    for (size_t i = from; i < f->n; i++) {
        depth += opens(&f->terms[i]);
        depth -= depth && closes(&f->terms[i]);
        if (!depth && (lm_term_is(&f->terms[i], "+") || lm_term_is(&f->terms[i], "-")))
            return true;
    }
    return false;
}

/* Put the terms from `from` on into parentheses. */
static void enclose(reader *r, size_t from)
{
    lm_formula *f = r->out;

    if (f->n + 2 > LM_MOST_FORMULA) {
        r->failed = true;
        return;
    }
    const char *at = from < f->n ? f->terms[from].at.s : r->p;
    memmove(&f->terms[from + 1], &f->terms[from], (f->n - from) * sizeof *f->terms);
    f->terms[from] = (lm_term){ .name = "(", .at = { at, 0 } };
    f->n++;
    add_sign(r, ")");
}

static void read_fraction(reader *r)
{
    size_t from = r->out->n;

    read_inside(r, take_group(r));
    if (is_sum(r->out, from))
        enclose(r, from);
    add_sign(r, "/");
    from = r->out->n;
    read_inside(r, take_group(r));
    if (!is_one(r->out, from))
        enclose(r, from);
}

/* Copy the letters, digits and hyphens of a script, without fonts and braces: "\text{down}" is "down". Returns how many. */
static size_t label_of(lm_extent s, char out[LM_LONGEST_TERM])
{
    size_t n = 0;

    for (size_t i = 0; i < s.n && n + 1 < LM_LONGEST_TERM; i++) {
        if (s.s[i] == '\\') {
            while (i + 1 < s.n && isalpha((unsigned char)s.s[i + 1]))
                i++;
        } else if (isalnum((unsigned char)s.s[i]) || (s.s[i] == '-' && n)) {
            out[n++] = s.s[i];
        } else if (!strchr("{} ", s.s[i])) {
            return 0;
        }
    }
    out[n] = '\0';
    return n;
}

/* Return whether a script is part of the name, not an index: "down", "kv", "E". */
static bool is_label(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isalpha((unsigned char)s[i]) && s[i] != '-')
            return false;
    return n > 1 || (n == 1 && isupper((unsigned char)*s));
}

static void add_label(reader *r, lm_term *x, const char *label, size_t n)
{
    size_t m = strlen(x->name);

    if (m + n + 2 > LM_LONGEST_TERM) {
        r->failed = true;
        return;
    }
    x->name[m++] = '_';
    for (size_t i = 0; i <= n; i++)
        x->name[m + i] = (char)tolower((unsigned char)label[i]);
    x->letter = '\0';
}

static void add_exponent(reader *r, lm_extent group)
{
    add_sign(r, "^");
    size_t from = r->out->n;
    read_inside(r, group);
    if (r->out->n > from + 1)
        enclose(r, from);
}

/* "^T", "^\top" */
static bool is_transposed(lm_extent group, const char *label, size_t n)
{
    return (n == 1 && *label == 'T') || (group.n == 4 && memcmp(group.s, "\\top", 4) == 0);
}

/* Return whether what stands above the name may be its label: it is a matrix, not a number or the set of numbers. */
static bool is_matrix(const lm_term *x)
{
    return (isupper((unsigned char)x->letter) || strchr(x->name, '_')) && !lm_term_is(x, "r");
}

/* Read one script of the name at `x`: a label or an index belongs to it. "^T" and exponents are kept for later. */
static void read_script(reader *r, size_t x, bool above, bool *transposed, lm_extent *exponent)
{
    char      label[LM_LONGEST_TERM];
    lm_extent group = take_group(r);
    size_t    n = label_of(group, label);
    lm_term  *name = &r->out->terms[x];

    if (lm_term_is(name, "sum"))
        return;
    if (above && is_transposed(group, label, n)) {
        *transposed = true;
        return;
    }
    if ((!above || is_matrix(name)) && is_label(label, n))
        add_label(r, name, label, n);
    else if (above)
        *exponent = group;
    if (!exponent->s)
        name->at.n = (size_t)(r->p - name->at.s);
}

static void read_scripts(reader *r, size_t x)
{
    bool      transposed = false;
    lm_extent exponent = { NULL, 0 };

    while (r->p < r->end && !r->failed && strchr("_^'", *r->p)) {
        char sign = *r->p++;
        if (sign != '\'')
            read_script(r, x, sign == '^', &transposed, &exponent);
    }
    if (transposed)
        add_sign(r, "^t");
    if (exponent.s)
        add_exponent(r, exponent);
}

static void add_name(reader *r, const char *from, const char *name, size_t n)
{
    size_t   x = r->out->n;
    lm_term *t = add(r, (lm_extent){ from, (size_t)(r->p - from) }, name, n);

    if (t) {
        t->word = true;
        read_scripts(r, x);
    }
}

/* "\text{Attn}", "\text{ where }": a name, or words between formulas. */
static void read_text(reader *r, const char *from)
{
    static const char *const between[] = { "where", "for", "if", "with", "and", "otherwise" };
    lm_extent s = lm_trim(take_group(r));
    char      name[LM_LONGEST_TERM];
    size_t    n = 0;

    for (size_t i = 0; i < sizeof between / sizeof *between; i++) {
        size_t m = strlen(between[i]);
        if (s.n >= m && tolower((unsigned char)*s.s) == *between[i] && memcmp(s.s + 1, between[i] + 1, m - 1) == 0) {
            add_sign(r, ";");
            return;
        }
    }
    for (size_t i = 0; i < s.n && n + 1 < LM_LONGEST_TERM; i++)
        name[n++] = s.s[i] == ' ' || s.s[i] == '_' ? '-' : s.s[i];
    if (n)
        add_name(r, from, name, n);
}

/* "\begin{pmatrix} a & b \\ c & d \end{pmatrix}" becomes "matrix(a, b; c, d)". */
static void read_environment(reader *r, bool begin)
{
    lm_extent name = take_group(r);
    bool      matrix = name.n > 6 && memcmp(name.s + name.n - 6, "matrix", 6) == 0;

    r->failed |= lm_text_is(name, "cases");
    if (matrix && begin)
        add_name(r, name.s, "matrix", 6);
    if (matrix)
        add_sign(r, begin ? "(" : ")");
    r->matrix = matrix && begin;
}

/* Read the operand or operands of a command. False: it is none that has some. */
static bool read_operands(reader *r, const char *from, lm_extent name)
{
    static const char *const fonts[] = { "text", "mathrm", "operatorname", "textrm", "mathbf", "mathbb", "mathit", "hat", "tilde", "bar",
                                         "vec", NULL };
    static const char *const one[] = { "frac", "dfrac", "tfrac", NULL }, *const root[] = { "sqrt", NULL };
    static const char *const begin[] = { "begin", NULL }, *const end[] = { "end", NULL };

    if (lm_text_among(name, fonts)) {
        read_text(r, from);
    } else if (lm_text_among(name, one)) {
        read_fraction(r);
    } else if (lm_text_among(name, root)) {
        add_name(r, from, "sqrt", 4);
        size_t at = r->out->n;
        read_inside(r, take_group(r));
        enclose(r, at);
    } else if (lm_text_among(name, begin) || lm_text_among(name, end)) {
        read_environment(r, lm_text_among(name, begin));
    } else {
        return false;
    }
    return true;
}

static void read_command(reader *r)
{
    static const char *const left_out[] = { "cdot", "times", "odot", "left", "right", "bigl", "bigr", "big", "Big", "displaystyle", "boxed",
                                            NULL };
    static const struct { const char *name, *sign; } signs[] = {
        { "quad", ";" }, { "qquad", ";" }, { "approx", "=" }, { "in", "in" }, { "to", "->" }, { "rightarrow", "->" }, { "rfloor", ")" },
    };
    const char *from = r->p++;

    if (r->p < r->end && !isalpha((unsigned char)*r->p)) {               /* "\,", "\\" */
        if (*r->p++ == '\\')
            add_sign(r, ";");
        return;
    }
    while (r->p < r->end && isalpha((unsigned char)*r->p))
        r->p++;
    lm_extent name = { from + 1, (size_t)(r->p - from - 1) };
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (lm_text_is(name, signs[i].name)) {
            add_sign(r, signs[i].sign);
            return;
        }
    if (lm_text_among(name, left_out) || read_operands(r, from, name))
        return;
    bool floor = lm_text_is(name, "lfloor");
    add_name(r, from, floor ? "floor" : name.s, floor ? 5 : name.n);
    if (floor)
        add_sign(r, "(");
}

/* "4096", "500{,}000", "0.044715" */
static void read_number(reader *r)
{
    const char *from = r->p;
    char        digits[LM_LONGEST_TERM] = "";
    size_t      n = 0;

    while (r->p < r->end && n + 1 < sizeof digits) {
        bool comma = *r->p == ',' && r->end - r->p > 3 && isdigit((unsigned char)r->p[1]) && isdigit((unsigned char)r->p[3]);
        bool group = comma || starts(r, "{,}");
        bool point = *r->p == '.' && r->p + 1 < r->end && isdigit((unsigned char)r->p[1]);
        if (group)
            r->p += *r->p == ',' ? 1 : 3;
        else if (isdigit((unsigned char)*r->p) || point)
            digits[n++] = *r->p++;
        else
            break;
    }
    lm_term *x = add(r, (lm_extent){ from, (size_t)(r->p - from) }, digits, n);
    if (x)
        x->number = true;
    if (r->p < r->end && *r->p == '^') {
        r->p++;
        add_exponent(r, take_group(r));
    }
}

static bool goes_on(const reader *r)
{
    const char *p = r->p;
    bool        hyphen = *p == '-' && p + 1 < r->end && isalpha((unsigned char)p[1]) && isalpha((unsigned char)p[-1]);

    return isalnum((unsigned char)*p) || *p == '_' || hyphen;
}

/* A letter of TeX, or a word of plain text: "W_down". */
static void read_letters(reader *r)
{
    const char *from = r->p++;

    while (!r->tex && r->p < r->end && goes_on(r))
        r->p++;
    add_name(r, from, from, (size_t)(r->p - from));
}

/* Read a sign or letter that is not ASCII. */
static void read_other(reader *r)
{
    static const struct { const char *sign, *name; bool word; } signs[] = {
        { "×", "", false }, { "·", "", false }, { "⊙", "", false }, { "−", "-", false }, { "≈", "=", false }, { "∈", "in", false },
        { "→", "->", false }, { "√", "sqrt", true }, { "θ", "theta", true }, { "γ", "gamma", true }, { "β", "beta", true },
        { "μ", "mu", true }, { "σ", "sigma", true }, { "ε", "epsilon", true }, { "π", "pi", true }, { "²", "^", false },
    };
    const char *from = r->p;

    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        if (!starts(r, signs[i].sign))
            continue;
        r->p += strlen(signs[i].sign);
        if (signs[i].word)
            add_name(r, from, signs[i].name, strlen(signs[i].name));
        else if (*signs[i].name)
            add_sign(r, signs[i].name);
        if (*signs[i].name == '^') {
            lm_term *two = add(r, (lm_extent){ from, 2 }, "2", 1);
            if (two)
                two->number = true;
        }
        return;
    }
    r->failed = true;
}

static void read_one(reader *r)
{
    char c = *r->p;

    if (isspace((unsigned char)c) || strchr("${}", c) || c == '*' || (c == '&' && !r->matrix)) {
        r->p++;
    } else if (c == '\\') {
        read_command(r);
    } else if (isdigit((unsigned char)c)) {
        read_number(r);
    } else if (isalpha((unsigned char)c)) {
        read_letters(r);
    } else if (starts(r, "...") || starts(r, "->")) {
        bool dots = *r->p == '.';
        add_sign(r, dots ? "..." : "->");
        r->p += dots ? 3 : 2;
    } else if (c == '^') {                   /* of a parenthesis */
        r->p++;
        lm_extent group = take_group(r);
        if (group.n == 1 && *group.s == 'T')
            add_sign(r, "^t");
        else
            add_exponent(r, group);
    } else if (strchr("+-/=,;()[]<>:#|", c)) {
        char sign[2] = { c, '\0' };
        add(r, (lm_extent){ r->p, 1 }, sign, 1);
        r->p++;
    } else if (c == '&') {
        r->p++;
        add_sign(r, ",");
    } else if (c & 0x80) {
        read_other(r);
    } else {
        r->failed = true;
    }
}

static void read_all(reader *r)
{
    while (r->p < r->end && !r->failed)
        read_one(r);
}

bool lm_read_formula(lm_extent text, bool tex, lm_formula *out)
{
    reader r = { .p = text.s, .end = text.s + text.n, .out = out, .tex = tex };

    out->n = 0;
    read_all(&r);
    return !r.failed && out->n;
}
