/* mathml.c - convert the LaTeX of formulas to MathML Core (https://www.w3.org/TR/mathml-core/) by recursive
 * descent: a row is a list of atoms, each with its sub- and superscripts. A command that is not in the tables
 * is an error that names it, so that no formula is shown in part. */
#include "study/page/mathml.h"

#include <ctype.h>
#include <string.h>

#include "study/draw/svg.h"

enum { DEEPEST = 40, WORD = 32 };

typedef struct reader {
    const char *start, *at;
    unsigned    depth;
    lm_error   *e;
} reader;

/* ---- symbols ---- */

static const struct { const char *name, *element, *text; } signs[] = {
    { "cdot", "mo", "·" },      { "times", "mo", "×" },      { "odot", "mo", "⊙" },     { "leftarrow", "mo", "←" }, { "rightarrow", "mo", "→" },
    { "in", "mo", "∈" },        { "le", "mo", "≤" },         { "ge", "mo", "≥" },
    { "iff", "mo", "⇔" },       { "approx", "mo", "≈" },     { "pm", "mo", "±" },
    { "langle", "mo", "⟨" },    { "rangle", "mo", "⟩" },     { "lfloor", "mo", "⌊" },   { "rfloor", "mo", "⌋" },    { "lceil", "mo", "⌈" },
    { "rceil", "mo", "⌉" },     { "ldots", "mo", "…" },      { "top", "mo", "⊤" },       { "infty", "mi", "∞" },
    { "ell", "mi", "ℓ" },       { "theta", "mi", "θ" },      { "sigma", "mi", "σ" },    { "varepsilon", "mi", "ε" },
    { "mu", "mi", "μ" },        { "pi", "mi", "π" },         { "varphi", "mi", "φ" },      { "tau", "mi", "τ" },
            { "alpha", "mi", "α" },    { "Delta", "mi", "Δ" },    { "beta", "mi", "β" },      { "gamma", "mi", "γ" },
    { "varPhi", "mi", "Φ" },        { "lambda", "mi", "λ" },    { "omega", "mi", "ω" },    { "Lambda", "mi", "Λ" },
    { "eta", "mi", "η" },       { "chi", "mi", "χ" },       { "psi", "mi", "ψ" },       { "kappa", "mi", "κ" },
    { "sin", "mi", "sin" },     { "cos", "mi", "cos" },
    { "min", "mi", "min" },     { "max", "mi", "max" },      { "ln", "mi", "ln" },      { "exp", "mi", "exp" },
    { "arg", "mi", "arg" },     { "tanh", "mi", "tanh" },    { "mid", "mo", "∣" },
};

static const struct { const char *name, *width; } spaces[] = {
    { ",", "0.17em" }, { ":", "0.22em" }, { ";", "0.28em" }, { " ", "0.25em" }, { "quad", "1em" }, { "qquad", "2em" },
};

static lm_status unknown(const reader *r, const char *what, size_t n)
{
    return lm_fail(r->e, LM_FAILED, "a formula", r->at - r->start, "%.*s is not understood", (int)n, what);
}

static lm_status read_row(reader *r, const char *end, lm_text *out);
static lm_status read_item(reader *r, lm_text *out);

/* ---- groups and words ---- */

static void skip_blanks(reader *r)
{
    while (*r->at == ' ' || *r->at == '\n')
        r->at++;
}

/* Read the text between braces that contain no braces. */
static lm_status read_plain(reader *r, lm_view *out)
{
    skip_blanks(r);
    const char *close = *r->at == '{' ? strchr(r->at, '}') : NULL;

    if (!close)
        return lm_fail(r->e, LM_FAILED, "a formula", r->at - r->start, "text in braces is missing");
    *out  = (lm_view){ r->at + 1, (size_t)(close - r->at - 1) };
    r->at = close + 1;
    return LM_OK;
}

/* Return whether the letters between braces are a word: three or more, or two capitals. Two with a lower-case
 * letter are indices. */
static bool is_word(const char *at, size_t *n)
{
    size_t i = 1, capitals = 0;

    while (isalpha((unsigned char)at[i])) {
        capitals += isupper((unsigned char)at[i]) != 0;
        i++;
    }
    *n = i - 1;
    return at[i] == '}' && (*n >= 3 || (*n == 2 && capitals == 2));
}

static lm_status read_group(reader *r, lm_text *out)
{
    size_t n;

    skip_blanks(r);
    if (*r->at != '{')
        return read_item(r, out);
    if (is_word(r->at, &n)) {
        lm_text_printf(out, "<mi>%.*s</mi>", (int)n, r->at + 1);
        r->at += n + 2;
        return LM_OK;
    }
    r->at++;
    lm_text_add_str(out, "<mrow>");
    LM_TRY(read_row(r, "}", out));
    lm_text_add_str(out, "</mrow>");
    r->at++;
    return LM_OK;
}

/* Read \text{…}, in which escaped percent signs, underscores and the like stand for themselves. */
static lm_status read_text(reader *r, const char *element, lm_text *out)
{
    lm_view text;

    LM_TRY(read_plain(r, &text));
    lm_text_printf(out, "<%s>", element);
    for (size_t i = 0; i < text.size; i++) {
        bool escaped = text.data[i] == '\\' && i + 1 < text.size && strchr("%_#&$", text.data[i + 1]);
        size_t n = 1;
        i += escaped;
        while (i + n < text.size && text.data[i + n] != '\\')
            n++;
        lm_markup_text_n(out, text.data + i, n);
        i += n - 1;
    }
    lm_text_printf(out, "</%s>", element);
    return LM_OK;
}

/* ---- commands ---- */

static lm_status read_two(reader *r, const char *element, lm_text *out)
{
    lm_text_printf(out, "<%s>", element);
    LM_TRY(read_group(r, out));
    LM_TRY(read_group(r, out));
    lm_text_printf(out, "</%s>", element);
    return LM_OK;
}

static size_t command_length(const char *at)
{
    size_t n = 0;

    while (isalpha((unsigned char)at[n]))
        n++;
    return n ? n : *at != '\0';
}

static bool named(const char *at, size_t n, const char *name)
{
    return strlen(name) == n && memcmp(at, name, n) == 0;
}

/* Read the bracket after \left or \right; '.' means none. */
static lm_status read_fence(reader *r, lm_text *out)
{
    skip_blanks(r);
    if (*r->at == '\\') {
        size_t n = command_length(r->at + 1);
        for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
            if (named(r->at + 1, n, signs[i].name)) {
                lm_text_printf(out, "<mo stretchy=\"true\">%s</mo>", signs[i].text);
                r->at += 1 + n;
                return LM_OK;
            }
        if (r->at[1] != '{' && r->at[1] != '}')
            return unknown(r, r->at, n + 1);
        r->at++;
    } else if (!*r->at || !strchr("()[]|.", *r->at)) {
        return unknown(r, r->at, *r->at != '\0');
    }
    if (*r->at != '.')
        lm_text_printf(out, "<mo stretchy=\"true\">%c</mo>", *r->at);
    r->at++;
    return LM_OK;
}

static lm_status read_fenced(reader *r, lm_text *out)
{
    lm_text_add_str(out, "<mrow>");
    LM_TRY(read_fence(r, out));
    LM_TRY(read_row(r, "\\right", out));
    r->at += strlen("\\right");
    LM_TRY(read_fence(r, out));
    lm_text_add_str(out, "</mrow>");
    return LM_OK;
}

/* Read \begin{pmatrix} a & b \\ c & d \end{pmatrix}. */
static lm_status read_environment(reader *r, lm_text *out)
{
    static const struct { const char *name, *open, *close, *kind; } kinds[] = {
        { "pmatrix", "<mo stretchy=\"true\">(</mo>", "<mo stretchy=\"true\">)</mo>", "matrix" },
        { "aligned", "", "", "aligned" },
        { "cases", "<mo stretchy=\"true\">{</mo>", "", "cases" },
    };
    lm_view name;
    size_t  k = 0;

    LM_TRY(read_plain(r, &name));
    while (k < sizeof kinds / sizeof *kinds && !lm_view_is(name, kinds[k].name))
        k++;
    if (k == sizeof kinds / sizeof *kinds)
        return unknown(r, name.data, name.size);
    lm_text_printf(out, "<mrow>%s<mtable class=\"%s\"><mtr><mtd>", kinds[k].open, kinds[k].kind);
    for (;;) {
        LM_TRY(read_row(r, "&", out));
        if (*r->at == '&') {
            lm_text_add_str(out, "</mtd><mtd>");
            r->at++;
        } else if (strncmp(r->at, "\\\\", 2) == 0) {
            lm_text_add_str(out, "</mtd></mtr><mtr><mtd>");
            r->at += 2;
        } else {
            break;
        }
    }
    r->at += strlen("\\end");
    LM_TRY(read_plain(r, &name));
    lm_text_printf(out, "</mtd></mtr></mtable>%s</mrow>", kinds[k].close);
    return LM_OK;
}

static lm_status read_decorated(reader *r, const char *open, const char *close, lm_text *out)
{
    lm_text_add_str(out, open);
    LM_TRY(read_group(r, out));
    lm_text_add_str(out, close);
    return LM_OK;
}

/* Read \mathbb{R} or \mathbf{q}, as a character: MathML Core has no styles of letters. */
static lm_status read_styled(reader *r, bool blackboard, lm_text *out)
{
    lm_view letter;

    LM_TRY(read_plain(r, &letter));
    bool known = blackboard ? lm_view_is(letter, "R") || lm_view_is(letter, "N")
                            : letter.size == 1 && isalpha((unsigned char)*letter.data);
    if (!known)
        return unknown(r, letter.data, letter.size);
    if (blackboard)
        lm_text_printf(out, "<mi>%s</mi>", *letter.data == 'R' ? "ℝ" : "ℕ");
    else
        lm_text_printf(out, "<mi>&#x%x;</mi>",
                       isupper((unsigned char)*letter.data) ? 0x1d400 + (unsigned)(*letter.data - 'A')
                                                            : 0x1d41a + (unsigned)(*letter.data - 'a'));
    return LM_OK;
}

static lm_status read_command(reader *r, lm_text *out)
{
    const char *name = r->at + 1;
    size_t      n    = command_length(name);

    r->at = name + n;
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (named(name, n, signs[i].name)) {
            lm_text_printf(out, "<%s>%s</%s>", signs[i].element, signs[i].text, signs[i].element);
            return LM_OK;
        }
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        if (named(name, n, spaces[i].name)) {
            lm_text_printf(out, "<mspace width=\"%s\"/>", spaces[i].width);
            return LM_OK;
        }
    if (named(name, n, "frac"))
        return read_two(r, "mfrac", out);
    if (named(name, n, "sqrt"))
        return read_decorated(r, "<msqrt>", "</msqrt>", out);
    if (named(name, n, "hat"))
        return read_decorated(r, "<mover accent=\"true\">", "<mo>^</mo></mover>", out);
    if (named(name, n, "boxed"))
        return read_decorated(r, "<mrow class=\"boxed\">", "</mrow>", out);
    if (named(name, n, "text"))
        return read_text(r, "mtext", out);
    if (named(name, n, "mathrm") || named(name, n, "operatorname"))
        return read_text(r, "mi", out);
    if (named(name, n, "left"))
        return read_fenced(r, out);
    if (named(name, n, "begin"))
        return read_environment(r, out);
    if (n == 1 && strchr("{}%_#&", *name)) {
        lm_text_add_str(out, "<mo>");
        lm_markup_text_n(out, name, 1);
        lm_text_add_str(out, "</mo>");
        return LM_OK;
    }
    if (named(name, n, "mathbf") || named(name, n, "mathbb"))
        return read_styled(r, name[n - 1] == 'b', out);
    r->at = name;
    return unknown(r, name - 1, n + 1);
}

/* ---- letters, numbers ---- */

/* Read a number: "394{,}002{,}432", "0.5". */
static void read_number(reader *r, lm_text *out)
{
    lm_text_add_str(out, "<mn>");
    for (;;) {
        if (isdigit((unsigned char)*r->at) || (*r->at == '.' && isdigit((unsigned char)r->at[1]))) {
            lm_text_add_char(out, *r->at++);
        } else if (strncmp(r->at, "{,}", 3) == 0) {
            lm_text_add_char(out, ',');
            r->at += 3;
        } else {
            break;
        }
    }
    lm_text_add_str(out, "</mn>");
}

static lm_status read_character(reader *r, lm_text *out)
{
    static const char operators[] = "+=<>()[]|/;:,!*.";
    char              c = *r->at;

    if (isdigit((unsigned char)c)) {
        read_number(r, out);
        return LM_OK;
    }
    if (isalpha((unsigned char)c)) {
        lm_text_printf(out, "<mi>%c</mi>", c);
    } else if (c == '-') {
        lm_text_add_str(out, "<mo>−</mo>");
    } else if (c == '\'') {
        lm_text_add_str(out, "<mo>′</mo>");
    } else if (strchr(operators, c)) {
        lm_text_add_str(out, strchr("()[]|", c) ? "<mo stretchy=\"false\">" : "<mo>");
        lm_markup_text_n(out, &c, 1);
        lm_text_add_str(out, "</mo>");
    } else {
        return unknown(r, r->at, 1);
    }
    r->at++;
    return LM_OK;
}

/* Read a symbol, a command or a group, without its sub- and superscripts. */
static lm_status read_item(reader *r, lm_text *out)
{
    skip_blanks(r);
    if (++r->depth > DEEPEST)
        return lm_fail(r->e, LM_FAILED, "a formula", LM_NO_OFFSET, "it is nested too deeply");
    lm_status status = !*r->at ? lm_fail(r->e, LM_FAILED, "a formula", LM_NO_OFFSET, "it ends too early")
                       : *r->at == '{'  ? read_group(r, out)
                       : *r->at == '\\' ? read_command(r, out)
                                        : read_character(r, out);
    r->depth--;
    return status;
}

/* ---- rows ---- */

/* Read a sum sign, whose sub- and superscripts are limits. */
static bool reads_sum(reader *r)
{
    if (strncmp(r->at, "\\sum", 4) != 0)
        return false;
    r->at += 4;
    return true;
}

static lm_status read_scripts(reader *r, lm_text *base, bool sum, lm_text *out)
{
    static const char *const elements[2][4] = { { NULL, "msub", "msup", "msubsup" },
                                                { NULL, "munder", "mover", "munderover" } };
    lm_text                   below = { 0 }, above = { 0 };
    lm_status                status = LM_OK;

    for (;;) {
        skip_blanks(r);
        if (*r->at != '_' && *r->at != '^')
            break;
        lm_text *script = *r->at == '_' ? &below : &above;
        if (script->size) {
            status = lm_fail(r->e, LM_FAILED, "a formula", r->at - r->start,
                             "a second script at the same place");
            break;
        }
        r->at++;
        status = read_group(r, script);
        if (status != LM_OK)
            break;
    }
    const char *element = elements[sum][(below.size > 0) + 2 * (above.size > 0)];
    if (status == LM_OK && element)
        lm_text_printf(out, "<%s>%s%s%s</%s>", element, base->data, below.size ? below.data : "",
                       above.size ? above.data : "", element);
    else if (status == LM_OK && base->size)
        lm_text_add_str(out, base->data);
    out->failed |= below.failed || above.failed || base->failed;
    lm_text_free(&below);
    lm_text_free(&above);
    return status;
}

/* Return whether the next input is `end`, which is not consumed; '&' stands for every end of a cell. */
static bool at_end(const reader *r, const char *end)
{
    if (*end == '&')
        return *r->at == '&' || strncmp(r->at, "\\\\", 2) == 0 || strncmp(r->at, "\\end", 4) == 0;
    return *end && strncmp(r->at, end, strlen(end)) == 0;
}

static bool is_function(const char *at)
{
    static const char *const words[] = { "sin", "cos", "tanh", "ln", "exp", "max", "min", "arg" };
    size_t                   n = *at == '\\' ? command_length(at + 1) : 0;

    for (size_t i = 0; n && i < sizeof words / sizeof *words; i++)
        if (named(at + 1, n, words[i]))
            return true;
    return false;
}

/* Add a thin space between the name of a function and a letter beside it, as TeX does. */
static void put_thin(bool between, lm_text *out)
{
    if (between)
        lm_text_printf(out, "<mspace width=\"%s\"/>", spaces[0].width);
}

static bool ends_with_letter(const lm_text *out)
{
    return out->size > 5 && !out->failed && memcmp(out->data + out->size - 5, "</mi>", 5) == 0;
}

static bool letter_follows(const reader *r)
{
    size_t n = *r->at == '\\' ? command_length(r->at + 1) : 0;

    for (size_t i = 0; n && i < sizeof signs / sizeof *signs; i++)
        if (named(r->at + 1, n, signs[i].name))
            return strcmp(signs[i].element, "mi") == 0 && !is_function(r->at);
    return isalnum((unsigned char)*r->at);
}

static lm_status read_row(reader *r, const char *end, lm_text *out)
{
    for (;;) {
        lm_text base = { 0 };
        skip_blanks(r);
        if (at_end(r, end))
            return LM_OK;
        if (!*r->at)
            return *end ? lm_fail(r->e, LM_FAILED, "a formula", LM_NO_OFFSET, "%s is missing",
                                  *end == '&' ? "\\end" : end)
                        : LM_OK;
        bool      word   = is_function(r->at), sum = reads_sum(r);
        lm_status status = LM_OK;
        put_thin(word && ends_with_letter(out), out);
        if (sum)
            lm_text_add_str(&base, "<mo largeop=\"true\">∑</mo>");
        else
            status = read_item(r, &base);
        if (status == LM_OK)
            status = read_scripts(r, &base, sum, out);
        put_thin(status == LM_OK && word && letter_follows(r), out);
        lm_text_free(&base);
        if (status != LM_OK)
            return status;
    }
}

static void take_back(lm_text *out, size_t size)
{
    if (out->failed)
        return;
    out->size       = size;
    out->data[size] = '\0';
}

lm_status lm_mathml_row(const char *latex, lm_text *out, lm_error *e)
{
    reader r    = { .start = latex, .at = latex, .e = e };
    size_t size = out->size;

    lm_text_add_str(out, "<mrow>");
    lm_status status = read_row(&r, "", out);
    if (status != LM_OK) {
        take_back(out, size);
        return status;
    }
    lm_text_add_str(out, "</mrow>");
    return LM_OK;
}

lm_status lm_mathml(const char *latex, bool block, lm_text *out, lm_error *e)
{
    size_t size = out->size;

    lm_text_add_str(out, block ? "<math display=\"block\">" : "<math>");
    lm_status status = lm_mathml_row(latex, out, e);
    if (status != LM_OK) {
        take_back(out, size);
        return status;
    }
    lm_text_add_str(out, "</math>");
    return LM_OK;
}
