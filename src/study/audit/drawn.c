/* drawn.c - read drawings: the labels of Mermaid graphs and of boxes drawn with lines. A label may name a module with its shape and
 * heads ("k_proj: 3072 → 1024 (8 heads)"), the shape of a tensor, or anything else, which is confirmed but never called wrong. */
#include <ctype.h>
#include <string.h>

#include "study/audit/reading.h"

/* A module of a layer, or one of the model, by the paths of its word in the vocabulary. */
typedef struct module { const char *name, *path; } module;

/* Return the module that the item names; its name is NULL: none. "k_proj" is "layers[0].self_attn.k_proj". */
static module module_of(lm_audit_document *d, const lm_item *x)
{
    const char *path = x->role == LM_PART ? x->word->value : "";
    lm_extent   name = lm_projection_in(path);
    module      m = { NULL, NULL };

    if (name.n && *path == 'l') {
        m.name = lm_arena_strndup(&d->arena, name.s, name.n);
        m.path = lm_arena_strndup(&d->arena, path, (size_t)(name.s + name.n - path));
    } else if (strncmp(path, ";model.embed_tokens", 19) == 0) {
        m = (module){ "embed_tokens", "model.embed_tokens" };
    } else if (strncmp(path, ";lm_head", 8) == 0) {
        m = (module){ "lm_head", "lm_head" };
    }
    return m;
}

static bool is_whole(const lm_item *items, size_t n, size_t i)
{
    return i < n && items[i].role == LM_NUMBER && items[i].number.whole && !items[i].last.n;
}

/* "3072 → 1024" */
static bool is_pair(const lm_item *items, size_t n, size_t i)
{
    return is_whole(items, n, i) && i + 2 < n && items[i + 1].role == LM_TIMES && is_whole(items, n, i + 2);
}

static void add_shape(lm_audit_document *d, const lm_item *x, int model, const module *m, bool unsure)
{
    bool        product = strncmp(m->name, "embed", 5) == 0 || (strncmp(x[1].at.s, "→", 3) != 0 && *x[1].at.s != '-');
    lm_extent   at = { x->at.s, (size_t)(x[2].at.s + x[2].at.n - x->at.s) };
    const char *claim = lm_arena_printf(&d->arena, "%.*s%s%.*s", (int)x->at.n, x->at.s, product ? " × " : "->", (int)x[2].at.n, x[2].at.s);

    lm_add_statement(d, at, model, lm_arena_printf(&d->arena, "%s.shape", *m->path == 'l' ? m->name : m->path), claim, unsure || product);
}

/* Read the label of a module: its shape, then its heads. */
static bool read_module(lm_audit_document *d, const lm_item *items, size_t n, int model, bool unsure)
{
    module m = { NULL, NULL };
    size_t i = 0;

    while (i < n && i < 3 && !m.name)
        m = module_of(d, &items[i++]);
    while (m.name && i < n && !is_pair(items, n, i))
        i++;
    if (!m.name || i >= n)
        return false;
    bool goes_on = i + 3 < n && items[i + 3].role == LM_TIMES;           /* "2048 → 16 × 128" */
    add_shape(d, &items[i], model, &m, unsure || goes_on);
    for (i += 3; i + 1 < n; i++) {
        bool heads = items[i + 1].role == LM_QUANTITY && lm_vocable_is(items[i + 1].word, "attention.heads");
        if (!is_whole(items, n, i) || strncmp(m.path, "layers", 6) != 0)
            continue;
        if (heads)
            lm_add_value(d, items[i].at, model, lm_arena_printf(&d->arena, "%s.heads", m.path), unsure);
        else if (lm_text_is(items[i + 1].at, "dim"))          /* "8 heads × 128 dim" */
            lm_add_value(d, items[i].at, model, "attention.head_dim", true);
    }
    return true;
}

/* "2048 → 8192 → 2048": the widths of an MLP, or of one expert of several kinds. */
static bool read_mlp(lm_audit_document *d, const lm_item *items, size_t n, int model)
{
    for (size_t i = 1; i + 4 < n; i++) {
        if (items[0].role == LM_NUMBER || !is_pair(items, n, i) || !is_pair(items, n, i + 2) || !lm_same_text(items[i].at, items[i + 4].at))
            continue;
        lm_add_value(d, items[i].at, model, "architecture.hidden", true);
        lm_add_value(d, items[i + 2].at, model, "mlp.intermediate", true);
        return true;
    }
    return false;
}

/* "batch, seq_len, 3072": the last number of a tensor's shape is the width of something. */
static bool read_tensor(lm_audit_document *d, lm_extent label, int model)
{
    static const char *const sizes[] = { "batch", "b,", "B,", "1,", "bsz", "seq", "T,", "n ", "(batch" };
    const char *comma = memrchr(label.s, ',', label.n);
    bool        tensor = false;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        tensor |= label.n > strlen(sizes[i]) && memcmp(label.s, sizes[i], strlen(sizes[i])) == 0;
    if (!tensor || !comma)
        return false;
    lm_extent last = lm_trim((lm_extent){ comma + 1, (size_t)(label.s + label.n - comma - 1) });
    size_t    n = 0;
    while (n < last.n && (isdigit((unsigned char)last.s[n]) || last.s[n] == ','))
        n++;
    if (!n)
        return false;
    lm_add_statement(d, label, model, "architecture.hidden|architecture.vocabulary|mlp.intermediate|attention.head_dim",
                     lm_arena_strndup(&d->arena, last.s, n), true);
    return true;
}

static bool is_layer(const lm_item *x)
{
    return x->role == LM_PART && strncmp(x->word->value, "layers[0].parameters", 20) == 0;
}

/* "θ₁₅ ≈ 0.002": the frequency of a pair of dimensions. */
static bool read_frequency(lm_audit_document *d, lm_extent label, int model, bool unsure)
{
    const char *p = label.s + 2, *end = label.s + label.n;
    unsigned    pair = 0, digits = 0;
    lm_item     items[4];

    if (label.n < 8 || memcmp(label.s, "θ", 2) != 0)
        return false;
    for (; end - p > 3 && memcmp(p, "\xe2\x82", 2) == 0 && (unsigned char)p[2] >= 0x80 && (unsigned char)p[2] <= 0x89; p += 3, digits++)
        pair = 10 * pair + ((unsigned char)p[2] - 0x80);
    size_t n = lm_scan(d, (lm_extent){ p, (size_t)(end - p) }, items, 4);
    if (!digits || digits > 3 || n < 2 || (items[0].role != LM_LINK && items[0].role != LM_LEAD) || items[1].role != LM_NUMBER)
        return false;
    const char *about = items[0].role == LM_LEAD ? "about " : "";
    lm_add_statement(d, items[1].at, model, lm_arena_printf(&d->arena, "rope.theta[%u]", pair),
                     lm_arena_printf(&d->arena, "%s%.*s", about, (int)items[1].at.n, items[1].at.s), unsure);
    return true;
}

/* "Q K^T / √128": what the scores are divided by. */
static void read_scale(lm_audit_document *d, lm_extent label, int model)
{
    const char *root = memmem(label.s, label.n, "√", 3);
    size_t      n = 0;

    while (root && root + 3 + n < label.s + label.n && isdigit((unsigned char)root[3 + n]))
        n++;
    if (n && (memmem(label.s, label.n, "K^T", 3) || memmem(label.s, label.n, "softmax", 7)))
        lm_add_value(d, (lm_extent){ root + 3, n }, model, "attention.scale_sqrt_of", true);
}

/* "Decoder Layer × 16", "16 × decoder block": the number of layers. */
static bool read_stack(lm_audit_document *d, const lm_item *items, size_t n, int model)
{
    for (size_t i = 0; i + 2 < n; i++) {
        const lm_item *x = &items[i];
        bool           behind = is_layer(x) && x[1].role == LM_TIMES && is_whole(items, n, i + 2);
        if (!behind && !(is_whole(items, n, i) && x[1].role == LM_TIMES && is_layer(x + 2)))
            continue;
        lm_add_value(d, behind ? x[2].at : x->at, model, "architecture.layers", true);
        return true;
    }
    return false;
}

/* Return whether a number of the label has a name: "theta=500000", "32 heads". */
static bool has_named_number(const lm_item *items, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (items[i].role == LM_NUMBER && ((i && items[i - 1].role == LM_LINK) || (i + 1 < n && items[i + 1].role == LM_QUANTITY)))
            return true;
    return false;
}

/* "Q:32 heads, KV:8 heads", "32 pairs": heads by the letter of what they are heads of, and pairs of dimensions that rotate together. */
static void read_heads(lm_audit_document *d, const lm_item *items, size_t n, int model)
{
    for (size_t i = 0; i + 1 < n; i++) {
        bool heads = items[i + 1].role == LM_QUANTITY && lm_vocable_is(items[i + 1].word, "attention.heads");
        if (!is_whole(items, n, i))
            continue;
        if (lm_text_is(items[i + 1].at, "pairs"))
            lm_add_value(d, items[i].at, model, "rope.pairs", true);
        else if (heads && i > 1 && items[i - 1].role == LM_LINK && strchr("QKV", *items[i - 2].at.s))
            lm_add_value(d, items[i].at, model, *items[i - 2].at.s == 'Q' ? "attention.heads" : "attention.kv_heads", true);
    }
}

/* Read the formulas of each line, such as "softmax(W_r x)" and "d=2048". */
static void read_formulas(lm_audit_document *d, lm_extent label, int model)
{
    int scope = d->scope;

    d->scope = model;
    for (const char *from = label.s, *end = label.s + label.n, *at; from < end; from = at) {
        const char *stop = memmem(from, (size_t)(end - from), "<br", 3), *close = stop ? memchr(stop, '>', (size_t)(end - stop)) : NULL;
        at = close ? close + 1 : end;
        lm_audit_tex(d, (lm_extent){ from, (size_t)((close ? stop : end) - from) }, false, (lm_extent){ "", 0 });
    }
    d->scope = scope;
}

static void read_label(lm_audit_document *d, lm_extent label, int model, bool unsure)
{
    read_formulas(d, label, model);
    size_t n = lm_scan(d, label, d->items, LM_MOST_ITEMS);
    int    carry = model;
    bool   dim = d->uncertain;

    if (n == LM_MOST_ITEMS || read_tensor(d, label, model) || read_frequency(d, label, model, unsure))
        return;
    lm_audit_kinds(d, d->items, n, model, true);
    for (size_t i = 0; i < n; i++)
        if (d->items[i].role == LM_SAYS)
            lm_audit_phrase(d, &d->items[i], model, true);
    read_heads(d, d->items, n, model);
    read_scale(d, label, model);
    if (read_stack(d, d->items, n, model) || read_module(d, d->items, n, model, unsure) || read_mlp(d, d->items, n, model))
        return;
    if (!has_named_number(d->items, n))
        return;
    for (const char *from = label.s, *end = label.s + label.n, *at; from < end; from = at) {
        const char *stop = memmem(from, (size_t)(end - from), "<br", 3);         /* each line of the label */
        at = stop ? stop + 3 : end;
        d->uncertain = true;
        lm_audit_text(d, (lm_extent){ from, (size_t)((stop ? stop : end) - from) }, &carry);
    }
    d->uncertain = dim;
}

/* Return the bytes at s that separate labels: brackets, quotes, arrows, lines of boxes. */
static size_t border_at(const char *s, const char *end)
{
    static const char *const borders[] = { "-->", "-.->", "---", "│", "├", "└", "┌", "┐", "┘", "─", "↓", "═", "║" };

    if (*s && strchr("[]{}\"|", *s))
        return 1;
    for (size_t i = 0; i < sizeof borders / sizeof *borders; i++)
        if (lm_text_begins((lm_extent){ s, (size_t)(end - s) }, borders[i]))
            return strlen(borders[i]);
    return 0;
}

static bool is_drawing(const lm_audit_document *d, lm_extent line)
{
    static const char *const signs[] = { "│", "├", "└", "→", "↓", "]  " };

    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (memmem(line.s, line.n, signs[i], strlen(signs[i])))
            return true;
    return d->graph || (line.n && line.s[line.n - 1] == ']');
}

/* "2019 : GPT-2", and below it ": LayerNorm (Post)": a timeline lists what each model uses. */
static bool read_timeline(lm_audit_document *d, lm_extent line)
{
    const char *colon = memchr(line.s, ':', line.n);
    bool        year = line.n > 5 && isdigit((unsigned char)*line.s) && colon && colon - line.s < 8;

    if (!d->graph || !(year || colon == line.s))
        return false;
    lm_extent text = lm_trim((lm_extent){ colon + 1, (size_t)(line.s + line.n - colon - 1) });
    size_t    n = lm_scan(d, text, d->items, LM_MOST_ITEMS);
    if (year) {
        d->n_subgraphs  = 1;
        d->subgraphs[0] = n && d->items[0].role == LM_MODEL ? d->items[0].model : LM_OTHER_MODEL;
    } else if (d->n_subgraphs && n < LM_MOST_ITEMS && lm_only_kinds(d->items, n)) {
        lm_audit_kinds(d, d->items, n, d->subgraphs[0], false);
    }
    return true;
}

/* "subgraph Flow ["GQA (GPT-2)"]" up to "end": what it contains is about the model that it names. */
static void read_subgraph(lm_audit_document *d, lm_extent line)
{
    bool begins = line.n > 9 && memcmp(line.s, "subgraph ", 9) == 0;

    if (begins && d->n_subgraphs < LM_MOST_SUBGRAPHS) {
        lm_about a = lm_label_of(d, (lm_extent){ line.s + 9, line.n - 9 });
        for (size_t i = 0, n = lm_scan(d, line, d->items, LM_MOST_ITEMS); i < n; i++)
            if (d->items[i].role == LM_UNKNOWN && d->items[i].foreign && lm_has_digit(d->items[i].at))
                a.model = LM_OTHER_MODEL;                /* "GPT-9" */
        d->subgraphs[d->n_subgraphs] = a.model != LM_NO_MODEL ? a.model : lm_model_of_drawing(d);
        d->n_subgraphs++;
    } else if (line.n == 3 && memcmp(line.s, "end", 3) == 0 && d->n_subgraphs) {
        d->n_subgraphs--;
    }
}

int lm_model_of_drawing(const lm_audit_document *d)
{
    return d->n_subgraphs ? d->subgraphs[d->n_subgraphs - 1] : d->scope;
}

bool lm_audit_drawing(lm_audit_document *d, lm_extent line, bool unsure)
{
    int         model;
    const char *from = line.s, *end = line.s + line.n;

    if (read_timeline(d, line))
        return true;
    if (d->graph)
        read_subgraph(d, line);
    model = lm_model_of_drawing(d);
    lm_audit_layers(d, line, model);
    lm_audit_rotary(d, line, model);
    if (model == LM_OTHER_MODEL && !d->n_subgraphs && d->title >= 0) {       /* of several models, among them that of the document */
        model  = d->title;
        unsure = true;
    }
    if (model < 0 || !is_drawing(d, line) || (line.n > 6 && memcmp(line.s, "style ", 6) == 0))
        return false;
    for (const char *p = line.s; p <= end; p++) {
        size_t n = p < end ? border_at(p, end) : 1;
        if (!n)
            continue;
        lm_extent label = lm_trim((lm_extent){ from, (size_t)(p - from) });
        if (label.n > 2)
            read_label(d, label, model, unsure || model != d->scope);
        from = p + n;
        p   += n - 1;
    }
    return true;
}
