/* modules.c - modules as frameworks print them: "(q_proj): Linear(in_features=3072, …)", "k_proj: 3072 → 1024 (8 heads × 128 dim)". */
#include <ctype.h>
#include <string.h>

#include "analysis/audit/reading.h"

/* Digits and groups of digits at p. */
static lm_extent number_at(const char *p, const char *end)
{
    const char *s = p;

    while (p < end && (isdigit((unsigned char)*p) || (*p == ',' && p + 1 < end && isdigit((unsigned char)p[1])) ||
                       (*p == '.' && p + 1 < end && isdigit((unsigned char)p[1]))))
        p++;
    if (p < end && *p == 'e' && p + 1 < end && (p[1] == '-' || isdigit((unsigned char)p[1])) && p > s)
        for (p += 2; p < end && isdigit((unsigned char)*p); p++)
            ;
    return (lm_extent){ s, (size_t)(p - s) };
}

static const char *find(const char *p, const char *end, const char *word)
{
    size_t n = strlen(word);

    for (; p + n <= end; p++)
        if (memcmp(p, word, n) == 0)
            return p;
    return NULL;
}

static void say_number(lm_reading *d, lm_extent number, int model, const char *path)
{
    if (number.n)
        lm_say(d, number, model, path, lm_arena_strndup(&d->arena, number.s, number.n));
}

/* The value behind "name=" within the line. */
static bool say_argument(lm_reading *d, lm_extent line, int model, const char *name, const char *path)
{
    const char *end = line.s + line.n, *at = find(line.s, end, name);

    if (!at || !path)
        return false;
    lm_extent value = number_at(at + strlen(name), end);
    if (!value.n)                                        /* True, False */
        while (value.s + value.n < end && isalpha((unsigned char)value.s[value.n]))
            value.n++;
    say_number(d, value, model, path);
    return value.n > 0;
}

static const char *const layer_parts[][2] = {
    { "q_proj", "self_attn" }, { "k_proj", "self_attn" }, { "v_proj", "self_attn" }, { "o_proj", "self_attn" },
    { "gate_proj", "mlp" },    { "up_proj", "mlp" },      { "down_proj", "mlp" },
};

/* Where the facts have the module of this name; NULL: they do not. */
static const char *module_path(lm_reading *d, lm_extent line, const char *field)
{
    if (lm_span_has(line, "lm_head"))
        return lm_arena_printf(&d->arena, "lm_head.%s", field);
    for (size_t i = 0; i < sizeof layer_parts / sizeof *layer_parts; i++)
        if (lm_span_has(line, layer_parts[i][0]))
            return lm_arena_printf(&d->arena, "layers[0].%s.%s.%s", layer_parts[i][1], layer_parts[i][0], field);
    return NULL;
}

/* "3072 → 1024" behind the name of a matrix. */
static bool read_arrow(lm_reading *d, lm_extent line, int model)
{
    const char *end = line.s + line.n, *arrow = find(line.s, end, "→"), *p;
    size_t      width = strlen("→");

    if (!arrow && (arrow = find(line.s, end, "->")))
        width = 2;
    if (!arrow || !module_path(d, line, "in_features"))
        return false;
    for (p = arrow; p > line.s && p[-1] == ' '; p--)
        ;
    const char *stop = p;
    while (p > line.s && (isdigit((unsigned char)p[-1]) || p[-1] == ','))
        p--;
    const char *q = arrow + width;
    while (q < end && *q == ' ')
        q++;
    lm_extent in = { p, (size_t)(stop - p) }, out = number_at(q, end);
    if (!in.n || !out.n)
        return false;
    say_number(d, in, model, module_path(d, line, "in_features"));
    say_number(d, out, model, module_path(d, line, "out_features"));
    for (q = out.s + out.n; q < end; q++) {              /* "(8 heads × 128 dim)" */
        lm_extent n = isdigit((unsigned char)*q) && !isalnum((unsigned char)q[-1]) ? number_at(q, end) : (lm_extent){ 0 };
        if (!n.n)
            continue;
        q = n.s + n.n;
        if (end - q >= 5 && memcmp(q, " head", 5) == 0)
            say_number(d, n, model, module_path(d, line, "heads"));
        else if (end - q >= 4 && memcmp(q, " dim", 4) == 0)
            say_number(d, n, model, "attention.head_dim");
    }
    return true;
}

/* "Embedding(128256, 3072)", "embed_tokens (128256 → 3072)". */
static bool read_embedding(lm_reading *d, lm_extent line, int model)
{
    const char *end = line.s + line.n, *at = find(line.s, end, "Embedding("), *embed = find(line.s, end, "embed_tokens");
    size_t      skip = strlen("Embedding(");

    if (!at && embed && (at = find(embed, end, "(")))
        skip = 1;
    if (!at || find(line.s, end, "rotary") || find(line.s, end, "Rotary"))
        return false;
    lm_extent rows = number_at(at + skip, end);
    const char *p = rows.s + rows.n;
    while (p < end && !isdigit((unsigned char)*p) && *p != ')')
        p++;
    lm_extent columns = number_at(p, end);
    if (rows.n < 2 || columns.n < 2)
        return false;
    say_number(d, rows, model, "model.embed_tokens.num_embeddings");
    say_number(d, columns, model, "model.embed_tokens.embedding_dim");
    return true;
}

/* "(0-27): 28 x LlamaDecoderLayer(". */
static bool read_repeats(lm_reading *d, lm_extent line, int model)
{
    const char *end = line.s + line.n, *at = find(line.s, end, "): "), *p;

    if (!at || at == line.s || !isdigit((unsigned char)at[-1]))
        return false;
    lm_extent n = number_at(at + 3, end);
    p = n.s + n.n;
    if (!n.n || p + 3 > end || p[0] != ' ' || p[1] != 'x')
        return false;
    say_number(d, n, model, "architecture.layers");
    const char *dash = find(line.s, at, "-");
    if (dash)
        say_number(d, number_at(dash + 1, at), model, "architecture.last_layer");
    return true;
}

bool lm_read_modules(lm_reading *d, lm_extent line, int model)
{
    bool found = read_repeats(d, line, model);
    const char *act = find(line.s, line.s + line.n, "(act_fn): ");

    if (act) {
        lm_extent word = { act + strlen("(act_fn): "), 0 };
        while (word.s + word.n < line.s + line.n && isalnum((unsigned char)word.s[word.n]))
            word.n++;
        if (word.n > 10 && memcmp(word.s + word.n - 10, "Activation", 10) == 0)
            word.n -= 10;
        say_number(d, word, model, "mlp.activation");
        return word.n > 0;
    }
    bool norm  = lm_span_has(line, "norm");

    if (read_embedding(d, line, model))
        return true;
    if (find(line.s, line.s + line.n, "in_features=")) {
        found |= say_argument(d, line, model, "in_features=", module_path(d, line, "in_features"));
        found |= say_argument(d, line, model, "out_features=", module_path(d, line, "out_features"));
        found |= say_argument(d, line, model, "bias=", module_path(d, line, "bias"));
        return found;
    }
    if (norm) {
        const char *open = find(line.s, line.s + line.n, "((");
        if (open && lm_span_has(line, "RMSNorm(")) {
            say_number(d, number_at(open + 2, line.s + line.n), model, "architecture.hidden");
            found = true;
        }
        found |= say_argument(d, line, model, "eps=", "architecture.norm_eps");
    }
    if (lm_span_has(line, "rope"))
        found |= say_argument(d, line, model, "theta=", "rope.base");
    return read_arrow(d, line, model) || found;
}
