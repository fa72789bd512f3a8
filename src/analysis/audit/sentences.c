/* sentences.c - "24 query heads", "Head dimension: 128", "~3GB (FP32) or ~1.5GB (FP16)", "θ₁₅ ≈ 0.001". */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "analysis/audit/reading.h"

/* ---- "8 KV heads" ---- */

/* Whether `phrase` stands at p as whole words; behind it at *after. */
static bool phrase_at(const char *p, const char *end, const char *phrase, const char **after)
{
    size_t n = strlen(phrase);

    if ((size_t)(end - p) < n || strncasecmp(p, phrase, n) != 0)
        return false;
    if (isalnum((unsigned char)phrase[n - 1]) && p + n < end && isalnum((unsigned char)p[n]))
        return false;
    *after = p + n;
    return true;
}

static const lm_phrase *phrase_behind(const char *p, const char *end, const char **after)
{
    static const char *const links[] = { "個 ", "个 ", "個", "个", "× ", "hidden ", "decoder ", "transformer ", "total ", "separate " };
    const lm_phrase *best = NULL;

    for (int more = 0; more < 2; more++) {
        for (; p < end && (*p == ' ' || *p == '-' || *p == '*'); p++)
            ;
        for (const lm_phrase *q = lm_phrases; q->phrase; q++) {
            const char *behind;
            if (q->after && phrase_at(p, end, q->phrase, &behind) && (!best || strlen(q->phrase) > strlen(best->phrase))) {
                best   = q;
                *after = behind;
            }
        }
        if (best)
            break;
        for (size_t i = 0; i < sizeof links / sizeof *links; i++)
            if ((size_t)(end - p) > strlen(links[i]) && strncasecmp(p, links[i], strlen(links[i])) == 0) {
                p += strlen(links[i]);
                break;
            }
    }
    return best;
}

static bool calculates_plainly(const char *start, const char *p)
{
    while (p > start && p[-1] == ' ')
        p--;
    return p > start && (strchr("+*/^=", p[-1]) || (p - start >= 2 && memcmp(p - 2, "×", 2) == 0) ||
                         (p - start >= 3 && memcmp(p - 3, "÷", 2) == 0));
}

/* Behind a number that belongs to others: "32 KV heads × 128", "8,192 × 112 KB", "3072 / 128 = …". */
static bool calculates(const char *start, const char *p)
{
    while (p > start && p[-1] == ' ')
        p--;
    if (p - start >= 2 && p[-1] == '*' && p[-2] == '*')   /* bold */
        return calculates_plainly(start, p - 2);
    return calculates_plainly(start, p);
}

/* "3 query heads per KV head", "每 3 個 Q heads 共享 1 個 KV head", "each KV head is shared by 3 query heads": how many share, not how many
 * there are. `*after`: behind what says so. */
static bool shares_one(lm_extent line, const char *p, const char **after)
{
    const char *end = line.s + line.n, *q = *after;
    lm_extent   before = { line.s, (size_t)(p - line.s) }, behind = { q, (size_t)(end - q < 40 ? end - q : 40) };

    if (before.n > 40)
        before = (lm_extent){ p - 40, 40 };
    if (lm_span_has(before, "shared by") && lm_span_has(before, "kv"))
        return true;
    if (!lm_span_has(behind, "kv") && !lm_span_has(behind, "key"))
        return false;
    bool shared = lm_span_has(behind, "共享") || lm_span_has(behind, "share") || lm_span_has(behind, " per ");
    for (size_t i = 0; i < behind.n; i++)
        if (isdigit((unsigned char)behind.s[i])) {
            bool one = behind.s[i] == '1' && !(i + 1 < behind.n && isdigit((unsigned char)behind.s[i + 1]));
            *after = one && shared ? behind.s + behind.n : *after;
            return one && shared;
        }
    return lm_span_has(behind, " per ") || (shared && (lm_span_has(behind, "one ") || lm_span_has(behind, "a kv") ||
                                                       lm_span_has(behind, "each")));
}

/* "KV:8 heads", "Q: 32 heads": what the bare word counts. */
static const char *head_path(const lm_phrase *q, const char *start, const char *p)
{
    if (strcmp(q->phrase, "heads") != 0)
        return q->path;
    while (p > start && (p[-1] == ' ' || p[-1] == ':'))
        p--;
    return p - start >= 2 && strncasecmp(p - 2, "kv", 2) == 0 ? "attention.kv_heads" : q->path;
}

/* "for 8K context", "at 4,096 tokens": a case that is looked at, and "per layer", of one layer only. */
static bool of_a_case(lm_extent line, const char *p, size_t n, const char *after, const char *path)
{
    lm_extent before = { line.s, (size_t)(p - line.s) }, behind = { after, (size_t)(line.s + line.n - after) };
    if (before.n > 6)
        before = (lm_extent){ p - 6, 6 };
    if (behind.n > 24)
        behind.n = 24;
    if (strcmp(path, "architecture.context") == 0)
        return lm_span_has(before, "for ") || lm_span_has(before, "at ") || lm_span_has(before, "with ") || lm_span_has(before, "of ");
    lm_extent said = { line.s, (size_t)(p - line.s) };
    if (said.n > 16)
        said = (lm_extent){ p - 16, 16 };
    if (strncmp(path, "parameters.", 11) == 0 && (lm_span_has(said, "save") || lm_span_has(said, "saving") || lm_span_has(said, "adds")))
        return true;                         /* of a part */
    if (strncmp(path, "parameters.", 11) == 0 && n < 6 && !isalpha((unsigned char)p[n - 1]))            /* "2 active" of something else */
        return true;
    if (strncmp(path, "parameters.", 11) == 0)
        return lm_span_has(behind, "per ") || lm_span_has(behind, "each") || lm_span_has(line, "per layer") ||
            lm_span_has(line, "each layer") || lm_span_has(line, "per-layer");
    return false;
}

/* "~75M parameters per layer" under a heading about the MLP: of which part; NULL. */
static const char *of_a_layer(const lm_reading *d, const char *after, const char *end)
{
    lm_extent behind = { after, (size_t)(end - after < 12 ? end - after : 12) };
    bool      mlp = lm_span_has(d->heading, "mlp") || lm_span_has(d->heading, "feed-forward") || lm_span_has(d->caption, "mlp");
    bool      attention = lm_span_has(d->heading, "attention") || lm_span_has(d->caption, "attention");

    if (!lm_span_has(behind, "per layer") || mlp == attention)
        return NULL;
    return mlp ? "layers[0].mlp.parameters" : "layers[0].self_attn.parameters";
}

static bool read_counts(lm_reading *d, lm_extent line, int scope)
{
    const char *end = line.s + line.n, *after = end;
    bool        found = false;

    for (const char *p = line.s; p < end; p++) {
        size_t n = lm_number_here(line.s, p, end);
        if (!n)
            continue;
        const lm_phrase *q = phrase_behind(p + n, end, &after);
        if (q && !calculates(line.s, p) && !strstr(q->path, "%N") && !strstr(q->path, " / ")) {
            bool        heads = strcmp(q->path, "attention.heads") == 0;
            const char *path  = heads && shares_one(line, p, &after) ? "attention.group" : head_path(q, line.s, p);
            const char *part = strcmp(path, "parameters.total") == 0 ? of_a_layer(d, after, end) : NULL;
            if (part)
                lm_say(d, (lm_extent){ p, n }, lm_model_of(d, line, p, after, scope), part, lm_arena_strndup(&d->arena, p, n));
            else if (!of_a_case(line, p, n, after, path))
                lm_say(d, (lm_extent){ p, n }, lm_model_of(d, line, p, after, scope), path, lm_arena_strndup(&d->arena, p, n));
            found = true;
            p = after - 1;
        } else {
            p += n - 1;
        }
    }
    return found;
}

/* ---- "~3GB (FP32) or ~1.5GB (FP16)" ---- */

static const char *const precisions[][2] = {
    { "fp32", "f32" }, { "float32", "f32" }, { "fp16", "f16" }, { "float16", "f16" }, { "bf16", "bf16" }, { "bfloat16", "bf16" },
    { "int8", "int8" }, { "8-bit", "int8" }, { "int4", "int4" }, { "4-bit", "int4" },
};

/* Behind a number: "GB", "GiB", "MB"; the length with the number and its unit, 0: no size. */
static size_t size_here(const char *p, const char *end, size_t n)
{
    const char *u = p + n;

    while (u < end && *u == ' ')
        u++;
    if (u + 1 < end && strchr("KMGTkmg", *u) && (u[1] == 'B' || (u[1] == 'i' && u + 2 < end && u[2] == 'B')))
        return (size_t)(u + (u[1] == 'i' ? 3 : 2) - p);
    return 0;
}

/* The nearest precision to a size: behind it in parentheses or "in FP16", or before it in its clause. */
static const char *precision_of(lm_extent line, const char *p, const char *after)
{
    const char *end = line.s + line.n, *stop = after, *start = p;

    while (stop < end && stop - after < 28 && *stop != ')' && !(stop > after && isdigit((unsigned char)*stop) && stop[-1] == '~') &&
        *stop != ';')
        stop++;
    while (start > line.s && p - start < 40 && !lm_ends_clause(start))
        start--;
    for (int side = 0; side < 2; side++)
        for (size_t i = 0; i < sizeof precisions / sizeof *precisions; i++)
            if (lm_span_has(side ? (lm_extent){ start, (size_t)(p - start) } : (lm_extent){ after, (size_t)(stop - after) },
                            precisions[i][0]))
                return precisions[i][1];
    return NULL;
}

static bool read_sizes(lm_reading *d, lm_extent line, int scope)
{
    const char *end = line.s + line.n;
    bool        found = false;

    if (!(lm_span_has(line, "size") || lm_span_has(line, "weights") || lm_span_has(line, "model") || lm_span_has(line, "checkpoint")) ||
        lm_span_has(line, "cache") ||
        lm_span_has(line, "×") || lm_span_has(line, "activations") || lm_span_has(line, "embedding"))
        return false;
    for (const char *p = line.s; p < end; p++) {
        size_t n = lm_digits_here(line.s, p, end), m = n ? size_here(p, end, n) : 0;
        const char *as = m ? precision_of(line, p, p + m) : NULL;
        if (as) {
            const char *from = p > line.s && p[-1] == '~' ? p - 1 : p;
            lm_say(d, (lm_extent){ from, m + (size_t)(p - from) }, lm_model_of(d, line, p, p + m, scope),
                   lm_arena_printf(&d->arena, "weights.as.%s.bytes", as),
                   lm_arena_strndup(&d->arena, from, m + (size_t)(p - from)));
            found = true;
        }
        p += n ? n - 1 : 0;
    }
    return found;
}

/* ---- "5.6 GFLOPs per token" ---- */
static bool read_operations(lm_reading *d, lm_extent line, int scope)
{
    const char *end = line.s + line.n;
    bool        found = false;

    for (const char *p = line.s; p < end; p++) {
        size_t n = lm_digits_here(line.s, p, end);
        if (!n)
            continue;
        const char *u = p + n;
        while (u < end && *u == ' ')
            u++;
        size_t head = u < end && strchr("MGTP", *u) ? 1 : 0;
        head += head && u + 1 < end && u[1] == ' ';
        if (!head || (size_t)(end - u) < head + 4 || strncasecmp(u + head, "FLOP", 4) != 0 || calculates(line.s, p)) {
            p += n - 1;
            continue;
        }
        const char *stop = u + head + 4, *path = NULL;
        while (stop < end && isalpha((unsigned char)*stop))
            stop++;
        if (lm_span_has(line, "per layer"))
            path = "flops.layer[0].matmul";
        else if (lm_span_has(line, "token") || lm_span_has(line, "layers"))
            path = "flops.layers|flops.per_token_matmul";
        if (path) {
            lm_say(d, (lm_extent){ p, (size_t)(stop - p) }, lm_model_of(d, line, p, stop, scope), path,
                   lm_arena_strndup(&d->arena, p, (size_t)(stop - p)));
            found = true;
        }
        p = stop - 1;
    }
    return found;
}

/* ---- "θ₁₅ ≈ 0.001" ---- */
static bool read_frequencies(lm_reading *d, lm_extent line, int scope)
{
    const char *end = line.s + line.n;
    bool        found = false;

    for (const char *p = line.s; p + 5 < end; p++) {
        unsigned index = 0, digits = 0;
        if (memcmp(p, "θ", 2) != 0)
            continue;
        const char *q = p + 2;
        for (; q + 3 <= end && (unsigned char)q[0] == 0xE2 && (unsigned char)q[1] == 0x82 && (unsigned char)q[2] >= 0x80 &&
             (unsigned char)q[2] <= 0x89 && digits < 4; q += 3, digits++)
            index = index * 10 + ((unsigned char)q[2] - 0x80);
        while (q < end && (*q == ' ' || *q == '='))
            q++;
        if (q + 3 < end && memcmp(q, "≈", 3) == 0)
            q += 3;
        while (q < end && *q == ' ')
            q++;
        size_t n = digits && q < end ? lm_digits_here(line.s, q, end) : 0;
        if (n && q + n + 2 < end && q[n] == 'e' && (q[n + 1] == '-' || isdigit((unsigned char)q[n + 1])))
            for (n += 2; q + n < end && isdigit((unsigned char)q[n]); n++)
                ;
        if (n) {
            lm_say(d, (lm_extent){ q, n }, scope, lm_arena_printf(&d->arena, "rope.theta[%u]", index), lm_arena_strndup(&d->arena, q, n));
            found = true;
        }
    }
    return found;
}

/* ---- "Head dimension: 128", "Params size (MB): 7213.50" ---- */

/* Of the parenthesis in a label: "MB"; "" where it is no unit. */
static const char *unit_of(lm_reading *d, lm_extent label, bool *of_bytes)
{
    const char *open = memchr(label.s, '(', label.n), *close = open ? memchr(open, ')', (size_t)(label.s + label.n - open)) : NULL;
    lm_extent     unit = open && close ? (lm_extent){ open + 1, (size_t)(close - open - 1) } : (lm_extent){ "", 0 };

    *of_bytes = lm_span_has(unit, "byte");
    if (lm_span_has(unit, "gigabyte"))
        return "G";
    if (lm_span_has(unit, "megabyte"))
        return "M";
    if (unit.n && unit.n <= 3 && strchr("KMGTk", *unit.s))
        return lm_arena_strndup(&d->arena, unit.s, unit.n);
    return "";
}

static bool read_labelled(lm_reading *d, lm_extent line, int scope)
{
    const char *end = line.s + line.n, *p = line.s, *colon = NULL;
    size_t      width = 1;
    bool        of_bytes;

    while (p < end && (*p == ' ' || *p == '*' || *p == '-' || *p == '+' || *p == '>' || *p == '#' || *p == '\t' || *p == '"'))
        p++;
    for (const char *q = p; q < end && q - p < 64 && !colon; q++)
        if (*q == ':' || *q == '=') {
            colon = q;
        } else if (memcmp(q, "：", end - q >= 3 ? 3 : 1) == 0 && end - q >= 3) {
            colon = q;
            width = 3;
        }
    if (!colon)
        return false;
    lm_extent     label = { p, (size_t)(colon - p) }, value = lm_trim((lm_extent){ colon + width, (size_t)(end - colon) - width });
    const char *name = lm_label(d, label), *path = lm_phrase_path(name);
    if (!path || strstr(path, " / ") || strstr(path, "%N"))
        return false;
    while (value.n && (*value.s == '*' || *value.s == ' '))
        value = (lm_extent){ value.s + 1, value.n - 1 };
    size_t n = 0;
    while (n < value.n && !(value.s[n] == ';' || value.s[n] == '<' || (value.s[n] == ',' && n + 1 < value.n && value.s[n + 1] == ' ') ||
                            (value.n - n > 4 && memcmp(value.s + n, " or ", 4) == 0) ||
                                (value.n - n > 2 && memcmp(value.s + n, "·", 2) == 0)))
        n++;
    value.n = n;
    const char *unit = unit_of(d, label, &of_bytes);
    if (!value.n || memchr(value.s, '\\', value.n) || memchr(value.s, '=', value.n) || lm_span_has(value, "per layer"))
        return false;
    if (of_bytes && lm_span_has(label, "mult-add"))
        lm_say_judged(d, label, LM_CLAIM_WRONG, -1, "multiplications are no bytes");
    int model = lm_mentioned(d, label, NULL);
    lm_say(d, value, model == LM_NO_MODEL ? scope : model, path, lm_arena_printf(&d->arena, "%s%s%s", lm_plain(d, value), *unit ? " "
            : "", unit));
    return true;
}

/* "Its context is 2,048 tokens", "a head dimension of 128": the phrase before a number. */
static bool read_before(lm_reading *d, lm_extent line, int scope)
{
    static const char *const links[] = { " is ", " of ", " was " };
    const char *end = line.s + line.n;
    bool        found = false;

    for (size_t l = 0; l < sizeof links / sizeof *links; l++)
        for (size_t at = 3, m = strlen(links[l]); at + m < line.n; at++) {
            const char *p = line.s + at + m, *behind = line.s + at;
            size_t      n = memcmp(line.s + at, links[l], m) == 0 && isdigit((unsigned char)*p) ? lm_number_here(line.s, p, end) : 0;
            const lm_phrase *best = NULL;
            for (const lm_phrase *q = lm_phrases; n && q->phrase; q++) {
                size_t k = strlen(q->phrase);
                if (k > 4 && k <= at && strncasecmp(behind - k, q->phrase, k) == 0 &&
                    (k == at || !isalnum((unsigned char)behind[-(ptrdiff_t)k - 1])) &&
                    (!best || k > strlen(best->phrase)) && strncmp(q->path, "parameters", 10) != 0 && !strstr(q->path, "%N") &&
                        !strstr(q->path, " / "))
                    best = q;
            }
            if (best && strcmp(best->path, "architecture.layers") != 0 && p + n < end && strncmp(p + n, " of ", 4) != 0) {
                lm_say(d, (lm_extent){ p, n }, lm_model_of(d, line, p, p + n, scope), best->path, lm_arena_strndup(&d->arena, p, n));
                found = true;
            }
        }
    return found;
}

/* Words of a diagram about one model, with at most one kind of each. */
static bool is_short(lm_extent line)
{
    return line.n < 100 && !lm_span_has(line, " vs ") && !lm_span_has(line, "-->") && !lm_span_has(line, "---");
}

/* "Parameters: ~1.24B · Type: …": each on its own. */
static bool read_labels(lm_reading *d, lm_extent line, int scope)
{
    static const char *const ends[] = { " · ", ". " };
    const char *end = line.s + line.n;
    bool        found = false;

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        for (const char *stop; (stop = memmem(line.s, line.n, ends[i], strlen(ends[i]))) != NULL;) {
            found |= read_labelled(d, (lm_extent){ line.s, (size_t)(stop - line.s) }, scope);
            line = (lm_extent){ stop + strlen(ends[i]), (size_t)(end - stop) - strlen(ends[i]) };
        }
    return found | read_labelled(d, line, scope);
}

bool lm_read_sentence(lm_reading *d, lm_extent line, bool code)
{
    int  scope = d->scope;
    bool found = lm_read_myths(d, line);
    bool more = lm_read_lore(d, line, scope) | lm_read_spans(d, line, scope) |
                lm_read_assignments(d, line, scope); /* beside what else it says */

    if (code && scope >= 0 && is_short(line))
        found |= lm_read_kinds(d, line, scope);
    if (lm_read_modules(d, line, scope))
        return true;
    found |= read_frequencies(d, line, scope) | lm_read_activation(d, line, scope);
    found |= lm_read_chain(d, line, scope);
    if (found)
        return true;
    found |= read_sizes(d, line, scope) | read_operations(d, line, scope);
    if (!found)
        found = read_labels(d, line, scope);
    if (!found || !code)
        found |= read_counts(d, line, scope) | read_before(d, line, scope);
    found |= lm_read_shares(d, line, scope) | lm_read_cache(d, line, scope);
    return found | more;
}

bool lm_read_counts(lm_reading *d, lm_extent line, int scope)
{
    return read_counts(d, line, scope);
}
