/* spans.c - "Layer 0 ~ Layer 27", "repeat 16×", "Q ∈ R^{n × 32 × 64}", "[Q1 Q2 Q3] [Q4 Q5 Q6]", "2048 → 8192 → 2048", "(d=2048)". */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "analysis/audit/reading.h"

/* Digits at p, with groups of thousands, also as LaTeX sets them ("500{,}000"). */
static size_t digits_at(const char *p, const char *end)
{
    const char *s = p;

    while (p < end && (isdigit((unsigned char)*p) || (*p == ',' && end - p > 3 && isdigit((unsigned char)p[1]) &&
        isdigit((unsigned char)p[3])) ||
                       (*p == '.' && p + 1 < end && isdigit((unsigned char)p[1])) || (end - p > 5 && memcmp(p, "{,}", 3) == 0)))
        p += *p == '{' ? 3 : 1;
    return (size_t)(p - s);
}

static bool starts(const char *p, const char *end, const char *word)
{
    size_t n = strlen(word);
    return (size_t)(end - p) >= n && memcmp(p, word, n) == 0;
}

/* Without what LaTeX writes between groups. */
static void say_number(lm_reading *d, lm_extent value, int model, const char *path)
{
    char  *claim = lm_arena_strndup(&d->arena, value.s, value.n);
    size_t n = 0;

    if (!claim) {
        d->failed = true;
        return;
    }
    for (const char *p = claim; *p; p++)
        if (*p != '{' && *p != '}')
            claim[n++] = *p;
    claim[n] = '\0';
    lm_say(d, value, model, path, claim);
}

static const char *find(const char *p, const char *end, const char *word)
{
    for (; p + strlen(word) <= end; p++)
        if (starts(p, end, word))
            return p;
    return NULL;
}

/* ---- layers ---- */

/* Between the ends of a range: "0, 1, ..., 27", "0 ~ Layer 27", "0–27". Where the last number begins; NULL: no range. */
static const char *end_of_range(const char *p, const char *end)
{
    static const char *const marks[] = { "...", "…", "\\ldots", "\\dots", "~", "–", "-", " to ", " through " };
    bool range = false;

    for (const char *stop = end - p > 32 ? p + 32 : end; p < stop;) {
        bool mark = false;
        for (size_t i = 0; i < sizeof marks / sizeof *marks && !mark; i++)
            if (starts(p, end, marks[i])) {
                p += strlen(marks[i]);
                mark = range = true;
            }
        if (mark)
            continue;
        if (range && isdigit((unsigned char)*p))
            return p;
        if (starts(p, end, "Layer ") || starts(p, end, "layer "))
            p += 6;
        else if (*p == ' ' || *p == ',' || (!range && isdigit((unsigned char)*p)))
            p++;
        else
            return NULL;
    }
    return NULL;
}

static bool read_layer_range(lm_reading *d, lm_extent line, int model)
{
    const char *end = line.s + line.n;

    if (!lm_span_has(line, "layer"))
        return false;
    for (const char *p = line.s; p + 1 < end; p++) {
        bool alone = *p == '0' && !isalnum((unsigned char)p[1]) && p[1] != '.' && (p == line.s || (!isalnum((unsigned char)p[-1]) &&
            p[-1] != '.' && p[-1] != '['));
        const char *last  = alone ? end_of_range(p + 1, end) : NULL;
        size_t      n     = last ? digits_at(last, end) : 0;
        if (n && !(last + n < end && isalpha((unsigned char)last[n]))) {
            say_number(d, (lm_extent){ last, n }, model, "architecture.last_layer");
            return true;
        }
    }
    return false;
}

/* "Layer 27 — the last", "i = 27: last layer". */
static bool read_last_layer(lm_reading *d, lm_extent line, int model)
{
    static const char *const leads[] = { "Layer ", "layer ", "i = ", "i=" };
    const char *end = line.s + line.n;

    if (!(lm_span_has(line, "last") || lm_span_has(line, "最後") || lm_span_has(line, "最后") || lm_span_has(line, "final layer")) ||
        !(lm_span_has(line, "layer") || lm_span_has(line, "層") || lm_span_has(line, "层")))
        return false;
    for (size_t i = 0; i < sizeof leads / sizeof *leads; i++) {
        const char *p = find(line.s, end, leads[i]);
        size_t      n = p ? digits_at(p + strlen(leads[i]), end) : 0;
        if (n && n < 4) {
            say_number(d, (lm_extent){ p + strlen(leads[i]), n }, model, "architecture.last_layer");
            return true;
        }
    }
    return false;
}

/* "repeat 16×", "repeated 28 times", "複 28 次", "Decoder Layer × 16". */
static bool read_repeats(lm_reading *d, lm_extent line, int model)
{
    static const char *const leads[] = { "repeat ", "repeated ", "複 ", "复 ", "Layer × ", "Layers × ", "Block × ", "Layer x ", "layer × " };
    const char *end = line.s + line.n;

    for (size_t i = 0; i < sizeof leads / sizeof *leads; i++) {
        const char *p = find(line.s, end, leads[i]);
        size_t      n = p ? digits_at(p + strlen(leads[i]), end) : 0;
        const char *behind = n ? p + strlen(leads[i]) + n : end;
        bool        times = i > 3 || starts(behind, end, "×") || starts(behind, end, " times") || starts(behind, end, " 次") ||
            starts(behind, end, "x");
        if (!n || !times)
            continue;
        say_number(d, (lm_extent){ behind - n, n }, model, "architecture.layers");
        return true;
    }
    return false;
}

/* ---- shapes ---- */

/* "Q \in \mathbb{R}^{n \times 32 \times 64}": heads and their width. */
static bool read_spaces(lm_reading *d, lm_extent line, int model)
{
    const char *end = line.s + line.n;
    bool        found = false;

    for (const char *p = line.s; (p = find(p, end, "\\mathbb{R}^{")) != NULL;) {
        const char *name = p;
        lm_extent   size[4];
        size_t      n = 0;
        while (name > line.s && (name[-1] == ' ' || islower((unsigned char)name[-1]) || name[-1] == '\\'))
            name--;
        bool query = name > line.s && name[-1] == 'Q', key = name > line.s && (name[-1] == 'K' || name[-1] == 'V');
        for (p += strlen("\\mathbb{R}^{"); p < end && *p != '}';) {
            size_t k = digits_at(p, end);
            if (k && n < 4)
                size[n++] = (lm_extent){ p, k };
            p += k ? k : 1;
        }
        bool expanded = lm_span_has(line, "repeat") || lm_span_has(line, "expanded");
        if (n != 2 || !(query || key || expanded))
            continue;
        say_number(d, size[0], model, key && !expanded ? "attention.kv_heads" : "attention.heads");
        say_number(d, size[1], model, "attention.head_dim");
        found = true;
    }
    return found;
}

/* "2048 → 8192 → 2048" of an MLP. */
static bool read_there_and_back(lm_reading *d, lm_extent line, int model)
{
    const char *end = line.s + line.n;
    lm_extent   size[3];
    size_t      n = 0;

    if (!(lm_span_has(line, "mlp") || lm_span_has(line, "ffn") || lm_span_has(line, "feed")))
        return false;
    for (const char *p = line.s; p < end && n < 3;) {
        size_t k = (p == line.s || !isalnum((unsigned char)p[-1])) ? digits_at(p, end) : 0;
        if (k && n && !find(size[n - 1].s, p, "→") && !find(size[n - 1].s, p, "->"))
            n = 0;
        if (k)
            size[n++] = (lm_extent){ p, k };
        p += k ? k : 1;
    }
    if (n < 3 || size[0].n != size[2].n || memcmp(size[0].s, size[2].s, size[0].n) != 0)
        return false;
    say_number(d, size[0], model, "architecture.hidden");
    say_number(d, size[1], model, "mlp.intermediate");
    return true;
}

/* "[Q1 Q2 Q3] [Q4 Q5 Q6] ... [Q22 Q23 Q24]", "K1/V1 … K8/V8". */
static bool read_drawn_heads(lm_reading *d, lm_extent line, int model)
{
    const char *end = line.s + line.n, *open = find(line.s, end, "[Q1"), *last = NULL;
    size_t      members = 0, n = 0;

    for (const char *p = open; p && p < end && *p != ']'; p++)
        members += *p == 'Q';
    if (members > 1)
        lm_say(d, (lm_extent){ open, (size_t)(end - open) }, model, "attention.group", lm_arena_printf(&d->arena, "%zu", members));
    for (const char *p = line.s; p + 1 < end; p++)
        if (isdigit((unsigned char)p[1]) && ((open && *p == 'Q') || (*p == 'V' && p > line.s + 2 && p[-1] == '/')))
            last = p;
    if (!last || !(n = digits_at(last + 1, end)))
        return false;
    say_number(d, (lm_extent){ last + 1, n }, model, *last == 'Q' ? "attention.heads" : "attention.kv_heads");
    return true;
}

bool lm_read_spans(lm_reading *d, lm_extent line, int model)
{
    return read_layer_range(d, line, model) | read_last_layer(d, line, model) | read_repeats(d, line, model) | read_spaces(d, line, model) |
           read_there_and_back(d, line, model) | read_drawn_heads(d, line, model);
}

/* ---- "rope_theta = 500000.0", "d_c=512" ---- */

static const char *path_of_symbol(lm_reading *d, lm_extent name, lm_extent line)
{
    static const char *const symbols[][2] = {
        { "d_c", "attention.latent.kv_rank" }, { "theta_{\\text{base}}", "rope.base" }, { "θ_base", "rope.base" }, { "θ", "rope.base" },
        { "d", "architecture.hidden|attention.head_dim|rope.dim" }, { "n_layers", "architecture.layers" },
    };

    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        if (strlen(symbols[i][0]) == name.n && memcmp(symbols[i][0], name.s, name.n) == 0)
            return symbols[i][1];
    if (name.n == 1 && *name.s == 'W' && lm_span_has(line, "window"))
        return "attention.window";
    const char *label = lm_label(d, name), *path = name.n > 2 ? lm_phrase_path(label) : NULL;
    return path && !strstr(path, "%N") && !strstr(path, " / ") && !strstr(path, "parameters") ? path : NULL;
}

static bool is_name(char c) { return isalnum((unsigned char)c) || strchr("_{}\\", c) || (unsigned char)c >= 0x80; }

/* Behind a number: whether it is worked with. */
static bool goes_on(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '$'))
        p++;
    return p < end && (strchr("*/+^", *p) || isalnum((unsigned char)*p) || starts(p, end, "×") || starts(p, end, "÷") ||
                       starts(p, end, "\\times") || starts(p, end, "·"));
}

/* "eps = 1e-6", "eps 1e-5", "epsilon of 1e-05". */
static bool read_epsilon(lm_reading *d, lm_extent line, int model)
{
    const char *end = line.s + line.n, *p = memmem(line.s, line.n, "eps", 3);

    if (!p || (p > line.s && (isalnum((unsigned char)p[-1]) || p[-1] == '_')))
        return false;
    for (p += starts(p, end, "epsilon") ? 7 : 3; p < end && (*p == ' ' || *p == '=' || *p == ':'); p++)
        ;
    p += starts(p, end, "of ") ? 3 : 0;
    size_t n = digits_at(p, end);
    if (n && end - p > (ptrdiff_t)n + 2 && p[n] == 'e' && p[n + 1] == '-')
        for (n += 2; p + n < end && isdigit((unsigned char)p[n]); n++)
            ;
    if (!n)
        return false;
    say_number(d, (lm_extent){ p, n }, model, "architecture.norm_eps");
    return true;
}

bool lm_read_assignments(lm_reading *d, lm_extent line, int model)
{
    const char *end = line.s + line.n;
    bool        found = read_epsilon(d, line, model);

    for (const char *p = line.s; p < end; p++) {
        const char *q = p + 1, *stop = p, *start;
        if (*p != '=')
            continue;
        while (q < end && (*q == ' ' || *q == '$'))
            q++;
        while (stop > line.s && (stop[-1] == ' ' || stop[-1] == '$' || stop[-1] == '`'))
            stop--;
        for (start = stop; start > line.s && is_name(start[-1]); start--)
            ;
        while (start < stop && *start == '\\')
            start++;
        size_t      n    = digits_at(q, end);
        const char *path = n && start < stop && !goes_on(q + n, end)
                               ? path_of_symbol(d, (lm_extent){ start, (size_t)(stop - start) }, line)
                               : NULL;
        if (path) {
            say_number(d, (lm_extent){ q, n }, model, path);
            found = true;
        }
    }
    return found;
}
