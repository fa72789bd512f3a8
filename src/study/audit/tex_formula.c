/* tex_formula.c - judge formulas of transformers, such as "softmax(QK^T / √d) V". A formula is compared with known ones up to its
 * letters. What holds of every model is confirmed; what differs between models is a statement about the model of the text. */
#include <ctype.h>
#include <string.h>

#include "study/audit/terms.h"

enum { MOST_SIDES = 6, MOST_BOUND = 52 };

/* A known formula in plain notation. A letter stands for any name, "#" for any number; norm, attn, mlp, act, kv and cache for names of that
 * kind; "..." for the rest. quantity "": it holds of every model, and `claim` names it. */
typedef struct known_formula { const char *formula, *quantity, *claim; } known_formula;

static const known_formula formulas[] = {
    { "softmax(Q K^T / sqrt(d)) V", "", "scaled dot products" },
    { "softmax(Q K^T / sqrt(#)) V", "", "scaled dot products" },
    { "softmax(Q K^T / d^#) V", "", "scaled dot products" },
    { "Q = x w_q", "", "projections of each head" },
    { "K = x w_k", "", "projections of each head" },
    { "V = x w_v", "", "projections of each head" },
    { "c = w_dkv h", "formulas.latent", "c_KV = W_DKV h" },
    { "K = w_uk c", "formulas.latent_keys", "K = W_UK c_KV" },
    { "V = w_uv c", "formulas.latent_values", "V = W_UV c_KV" },
    { "h = w_e[t] + w_p[p]", "formulas.embedding", "h0 = W_E[t] + W_P[pos]" },
    { "h = w_e[t]", "formulas.embedding", "h0 = W_E[t]" },
    { "sin(p / #^(2 i / d))", "", "sinusoidal positions" },
    { "sin(p o s / #^(2 i / d))", "", "sinusoidal positions" },
    { "R(m) = matrix(cos(m t), -sin(m t); sin(m t), cos(m t))", "", "rotation by an angle" },
    { "q^T R(m)^T R(n) k = q^T R(n - m) k", "", "RoPE's product depends on the distance" },
    { "t = 1 / b^(2 i / d)", "formulas.rope_frequency", "theta_i = base^(-2i/d)" },
    { "t = b^(-2 i / d)", "formulas.rope_frequency", "theta_i = base^(-2i/d)" },
    { "0.5 x (1 + tanh(sqrt(2 / pi)(x + 0.044715 x^3)))", "", "GELU by tanh" },
    { "x sigma(x) = x / (1 + e^(-x))", "", "SiLU" },
    { "silu(x) = x sigma(x)", "", "SiLU" },
    { "silu(x) = x / (1 + e^(-x))", "", "SiLU" },
    { "swiglu(x) = w_down(silu(w_gate x)(w_up x))", "", "gate and up in a gated MLP" },
    { "swiglu(x) = w_down(silu(w_gate x) w_up x)", "", "gate and up in a gated MLP" },
    { "mlp(x) = w_down(silu(w_gate x)(w_up x))", "formulas.mlp", "down(SiLU(gate(x)) * up(x))" },
    { "c = w_dq h", "formulas.query", "c_Q = Norm(W_DQ h)" },
    { "w_dq -> c -> w_uq -> Q", "formulas.query", "c_Q = Norm(W_DQ h)" },
    { "w_p in R^(L d)", "", "a learned position in each row" },
    { "W in R^(d 4 d)", "", "two matrices of four widths" },
    { "W in R^(4 d d)", "", "two matrices of four widths" },
    { "2 d 4 d = 8 d^2", "", "parameters of a plain MLP, or of gate and up" },
    { "2 / 3 4 d", "", "two thirds keep the parameters of a gated MLP" },
    { "softmax(w_r x)", "formulas.router", "softmax(W_r x)" },
    { "(x - m) / sqrt(s^2 + e) g + b", "", "LayerNorm" },
    { "layernorm(x) = g (x - m) / sqrt(s^2 + e) + b", "", "LayerNorm" },
    { "x / sqrt(1 / d sum y^2 + e) g", "", "RMSNorm" },
    { "x / sqrt(mean(x^2) + e) g", "", "RMSNorm" },
    { "x + attn(norm(x))", "", "the order of a norm and its part" },
    { "x + attn(norm(x))", "formulas.after_attention", "x + Attn(Norm(x))" },
    { "x + mlp(norm(x))", "", "the order of a norm and its part" },
    { "norm(x + attn(x))", "", "the order of a norm and its part" },
    { "norm(x + mlp(x))", "", "the order of a norm and its part" },
    { "x + attn(norm(x)) + mlp(norm(x + attn(norm(x))))", "formulas.layer", "x + Attn(Norm(x)) + MLP(Norm(x + Attn(Norm(x))))" },
    { "y = x + attn(z...", "", "a residual step" },
    { "y = x + w_down(silu(w_gate z) w_up z)", "", "a residual step" },
    { "cache = 2 L kv d S bytes", "formulas.kv_bytes", "2 x layers x kv_heads x head_dim x tokens x bytes" },
    { "cache = 2 kv d S # bytes", "formulas.kv_bytes", "2 x layers x kv_heads x head_dim x tokens x bytes" },
};

/* What the letters of a known formula stand for. */
typedef struct binding { char letter[MOST_BOUND]; lm_extent at[MOST_BOUND]; size_t n; } binding;

/* The sides of a formula: terms between signs of equality or membership. */
typedef struct sides { const lm_term *at[MOST_SIDES]; size_t size[MOST_SIDES], n; } sides;

/* Return whether the name is of a kind that a known formula asks for. */
static bool is_of_kind(const char *kind, const char *name)
{
    static const char *const norms[] = { "norm", "rmsnorm", "layernorm", "ln", NULL };
    static const char *const attentions[] = { "attn", "attention", "gqa", "mha", "mqa", "mla", "sa", "selfattention",
                                              "self-attention", NULL };
    static const char *const mlps[] = { "mlp", "ffn", "moe", "moe-ffn", NULL };
    static const char *const acts[] = { "relu", "gelu", "silu", "swish", NULL };
    lm_extent                text = { name, strlen(name) };

    if (strcmp(kind, "norm") == 0)
        return lm_text_among(text, norms);
    if (strcmp(kind, "attn") == 0)
        return lm_text_among(text, attentions);
    if (strcmp(kind, "mlp") == 0)
        return lm_text_among(text, mlps);
    if (strcmp(kind, "act") == 0)
        return lm_text_among(text, acts);
    if (strcmp(kind, "kv") == 0 || strcmp(kind, "cache") == 0)
        return strstr(name, kind) != NULL;
    return strcmp(kind, name) == 0 || (*kind == '(' && *name == '[') || (*kind == ')' && *name == ']');
}

/* Let a letter stand for a name: for the same one everywhere, and no other letter for it. */
static bool bind(binding *b, char letter, lm_extent at)
{
    for (size_t i = 0; i < b->n; i++) {
        bool same = lm_same_text(b->at[i], at);
        if (b->letter[i] == letter || same)
            return b->letter[i] == letter && same;
    }
    if (b->n == MOST_BOUND)
        return false;
    b->letter[b->n] = letter;
    b->at[b->n++]   = at;
    return true;
}

static bool matches_side(const lm_term *known, size_t n, const lm_term *x, size_t m, binding *b)
{
    bool open = n && lm_term_is(&known[n - 1], "...");

    n -= open;
    if (open ? m < n : m != n)
        return false;
    for (size_t i = 0; i < n; i++) {
        bool same = known[i].letter              ? x[i].word && bind(b, known[i].letter, x[i].at)
                    : lm_term_is(&known[i], "#") ? x[i].number
                                                 : is_of_kind(known[i].name, x[i].name);
        if (!same)
            return false;
    }
    return true;
}

static sides split(const lm_term *terms, size_t n)
{
    sides  s = { .n = 0 };
    size_t from = 0;

    for (size_t i = 0; i <= n && s.n < MOST_SIDES; i++) {
        if (i < n && !lm_term_is(&terms[i], "=") && !lm_term_is(&terms[i], "in"))
            continue;
        s.at[s.n]     = terms + from;
        s.size[s.n++] = i - from;
        from = i + 1;
    }
    return s;
}

/* Return whether two sides of the formula are the known ones, or one if there is only one. */
static bool matches(const sides *known, const sides *x)
{
    for (size_t i = 0; i < x->n; i++) {
        binding b = { .n = 0 };
        if (!matches_side(known->at[0], known->size[0], x->at[i], x->size[i], &b))
            continue;
        if (known->n == 1)
            return true;
        for (size_t k = i + 1; k < x->n; k++) {
            binding both = b;
            if (matches_side(known->at[1], known->size[1], x->at[k], x->size[k], &both))
                return true;
        }
    }
    return false;
}

/* A known formula as terms, which is read once in a document. */
struct lm_known_formula {
    const char             *text;
    lm_formula              terms;
    struct lm_known_formula *next;
};

/* Return the terms of a known formula; NULL: out of memory. */
static const lm_formula *terms_of(lm_audit_document *d, const char *text)
{
    for (struct lm_known_formula *f = d->formulas; f; f = f->next)
        if (f->text == text)
            return &f->terms;
    struct lm_known_formula *f = lm_arena_new(&d->arena, 1, struct lm_known_formula);
    if (!f || !lm_read_formula((lm_extent){ text, strlen(text) }, false, &f->terms)) {
        d->failed |= !f;
        return NULL;
    }
    f->text = text;
    f->next = d->formulas;
    d->formulas = f;
    return &f->terms;
}

static bool is_formula(lm_audit_document *d, const char *text, const sides *x)
{
    const lm_formula *known = terms_of(d, text);

    if (!known)
        return false;
    sides k = split(known->terms, known->n);
    return matches(&k, x);
}

/* ---- statements ---- */

static void add_known(lm_audit_document *d, lm_extent at, const known_formula *k)
{
    if (*k->quantity)
        lm_add_statement(d, at, d->scope, k->quantity, k->claim, strcmp(k->quantity, "formulas.latent_keys") != 0);
    else
        lm_add_rule(d, at, k->claim);
}

/* "FFN(x) = W_2 ReLU(W_1 x + b_1) + b_2": the activation of the model that the heading names. */
static bool add_activation(lm_audit_document *d, const sides *x)
{
    static const char *const plain[] = { "mlp(x) = V act(W x + a) + b", "mlp(x) = V act(W x)" };
    bool found = false;

    for (size_t i = 0; i < sizeof plain / sizeof *plain && d->scope >= 0; i++)
        found |= is_formula(d, plain[i], x);
    for (size_t i = 0; found && i < x->size[1]; i++)
        if (is_of_kind("act", x->at[1][i].name)) {
            lm_extent   at = x->at[1][i].at;
            const char *open = memchr(at.s, '{', at.n), *close = memrchr(at.s, '}', at.n);
            lm_extent   name = open && close ? (lm_extent){ open + 1, (size_t)(close - open - 1) } : at;
            lm_add_value(d, name, d->scope, "mlp.activation|architecture.mlp", false);
        }
    return found;
}

/* "Q ∈ R^(n × 32 × 64)": the heads, and the width of each. */
static bool add_tensor(lm_audit_document *d, const lm_term *x, size_t n)
{
    static const char *const heads[][2] = { { "q", "attention.heads" }, { "k", "attention.kv_heads" }, { "v", "attention.kv_heads" } };
    bool tensor = n == 9 && lm_term_is(&x[1], "in") && lm_term_is(&x[2], "r") && lm_term_is(&x[3], "^") && x[5].word && x[6].number &&
                  x[7].number;

    for (size_t i = 0; tensor && d->scope >= 0 && i < 3; i++) {
        if (!lm_term_is(&x[0], heads[i][0]) || !isupper((unsigned char)x[0].letter))
            continue;
        lm_add_statement(d, x[6].at, d->scope, heads[i][1], lm_arena_strdup(&d->arena, x[6].name), false);
        lm_add_statement(d, x[7].at, d->scope, "attention.head_dim", lm_arena_strdup(&d->arena, x[7].name), false);
        return true;
    }
    return false;
}

/* "V_{⌊i/4⌋}" and "K_{⌊i/4⌋}": the query heads that share a key. */
static void add_map(lm_audit_document *d, const lm_term *x)
{
    const char *floor = x->word && strchr("kv", *x->name) ? memmem(x->at.s, x->at.n, "\\lfloor", 7) : NULL, *end = x->at.s + x->at.n;
    const char *slash = floor ? memchr(floor, '/', (size_t)(end - floor)) : NULL;
    size_t      n = 0;

    while (slash && slash + 1 + n < end && isdigit((unsigned char)slash[1 + n]))
        n++;
    if (n && d->scope >= 0)
        lm_add_value(d, (lm_extent){ slash + 1, n }, d->scope, "attention.group", false);
}

/* Return whether the term is the name: with its labels, or with its indices as written, so that "d_c" is not "d". */
static bool is_called(const lm_term *x, const char *name)
{
    bool written = lm_text_is(x->at, name);

    return written || (strlen(name) > 1 && lm_term_is(x, name));
}

/* "θ_base = 500,000", "d_c = 512": what names that are used in formulas stand for. "d" alone is the width of anything. Nothing is
 * certain: a definition may take the numbers of another model. */
static void add_values(lm_audit_document *d, const lm_term *x, size_t n)
{
    static const struct { const char *name, *quantity; } names[] = {
        { "theta_base", "rope.base" }, { "n_rep", "attention.group" }, { "n-rep", "attention.group" },
        { "d", "architecture.hidden|attention.head_dim|rope.dim" }, { "d_model", "architecture.hidden" },
        { "d_c", "attention.latent.kv_rank" }, { "d_k", "attention.head_dim" }, { "d_h", "attention.head_dim" },
        { "d_head", "attention.head_dim" }, { "d_ff", "mlp.intermediate" },
    };

    for (size_t i = 0; i + 2 < n && d->scope >= 0; i++) {
        bool alone = x[i].word && lm_term_is(&x[i + 1], "=") && x[i + 2].number && !(i && x[i - 1].word) &&
                     (i + 3 == n || (strchr(",;)", *x[i + 3].name) && *x[i + 3].name));
        for (size_t k = 0; alone && k < sizeof names / sizeof *names; k++) {
            if (is_called(&x[i], names[k].name))
                lm_add_statement(d, x[i + 2].at, d->scope, names[k].quantity, lm_arena_strdup(&d->arena, x[i + 2].name), true);
        }
    }
}

/* "l = 0, …, 15": the numbers of the layers. */
static void add_layers(lm_audit_document *d, const lm_term *x, size_t n)
{
    for (size_t i = 0; i + 6 < n && d->scope >= 0; i++) {
        bool dots = lm_term_is(&x[i + 4], "ldots") || lm_term_is(&x[i + 4], "dots") || lm_term_is(&x[i + 4], "...");
        if (lm_term_is(&x[i], "l") && lm_term_is(&x[i + 1], "=") && lm_term_is(&x[i + 2], "0") && lm_term_is(&x[i + 3], ",") && dots &&
            lm_term_is(&x[i + 5], ",") && x[i + 6].number)
            lm_add_statement(d, x[i + 6].at, d->scope, "architecture.last_layer", lm_arena_strdup(&d->arena, x[i + 6].name), true);
    }
}

/* ---- contradictions ---- */

/* Return whether the term is a matrix of which rows are looked up: "W_E[t]". */
static bool has_rows(const lm_audit_document *d, const lm_term *x)
{
    for (size_t i = 0; i < d->n_rows; i++)
        if (lm_term_is(x, d->rows[i]))
            return true;
    return false;
}

static void add_rows(lm_audit_document *d, const lm_term *terms, size_t n)
{
    for (size_t i = 0; i + 1 < n && d->n_rows < sizeof d->rows / sizeof *d->rows; i++)
        if (terms[i].word && isupper((unsigned char)*terms[i].at.s) && lm_term_is(&terms[i + 1], "[") && !has_rows(d, &terms[i]))
            memcpy(d->rows[d->n_rows++], terms[i].name, sizeof terms[i].name);
}

/* Return whether the terms are a vector: "h", "Norm(h)". */
static bool is_vector(const lm_term *x, size_t n)
{
    bool name = n && x[0].word && islower((unsigned char)x[0].letter);

    return n == 1 ? name : n == 4 && is_of_kind("norm", x[0].name) && lm_term_is(&x[1], "(") && x[2].word && lm_term_is(&x[3], ")");
}

/* A matrix whose rows are looked up, "W[t]", makes logits as "W h" or "h W^T"; "W^T h" would need a column for each token. */
static bool judge_head(lm_audit_document *d, const lm_term *terms, size_t n, lm_extent at, const sides *x)
{
    add_rows(d, terms, n);
    if (x->n < 2 || !lm_term_is(x->at[0], "logits") || x->size[0] != 1 || x->size[1] < 2)
        return false;
    const lm_term *y = x->at[1];
    size_t         m = x->size[1];
    bool           turned = lm_term_is(&y[1], "^t"), last_turned = lm_term_is(&y[m - 1], "^t");
    const lm_term *last = &y[m - 1 - (last_turned && m > 2)];
    bool           left = has_rows(d, &y[0]) && is_vector(y + 1 + turned, m - 1 - turned);
    bool           right = has_rows(d, last) && is_vector(y, (size_t)(last - y));
    bool           wrong = left ? turned : right && !last_turned;
    if (!wrong)
        return false;
    lm_extent   name = left ? y[0].at : last->at;
    const char *truth = lm_arena_printf(&d->arena, left ? "%.*s h" : "h %.*s^T", (int)name.n, name.s);
    d->failed |= !truth;
    if (truth)
        lm_add_judged(d, at, truth, left ? N_("rows are looked up in the matrix, so it is not transposed")
                                         : N_("a row vector is multiplied by the transposed matrix"));
    return true;
}

/* "Post-Norm" beside the formula of a pre-norm, and the reverse. */
static bool judge_order(lm_audit_document *d, lm_extent at, lm_extent label, const sides *x)
{
    bool pre = is_formula(d, "x + attn(norm(x))", x) || is_formula(d, "x + mlp(norm(x))", x);
    bool post = is_formula(d, "norm(x + attn(x))", x) || is_formula(d, "norm(x + mlp(x))", x);

    while (label.n && *label.s == '*')
        label.s++, label.n--;
    bool says_pre  = lm_word_begins(label, "pre-norm");
    bool says_post = lm_word_begins(label, "post-norm");

    if (pre && says_post)
        lm_add_judged(d, at, "Norm(x + Attn(x))", N_("the formula of a pre-norm"));
    if (post && says_pre)
        lm_add_judged(d, at, "x + Attn(Norm(x))", N_("the formula of a post-norm"));
    return (pre && says_post) || (post && says_pre);
}

/* ---- reading ---- */

/* Return the text of the terms, with the "\\frac{" before the first one. */
static lm_extent extent_of(const lm_audit_document *d, const lm_term *x, size_t n)
{
    const lm_term *last = &x[n - 1];
    const char    *from = x->at.s, *end = last->at.s + last->at.n, *name = from;

    while (name > d->text && (name[-1] == '{' || isalpha((unsigned char)name[-1])))
        name--;
    if (name < from && from[-1] == '{' && name > d->text && name[-1] == '\\')
        from = name - 1;
    return (lm_extent){ from, (size_t)(end - from) };
}

/* Judge one formula of n terms. */
static bool judge(lm_audit_document *d, const lm_term *terms, size_t n, lm_extent label)
{
    sides     x = split(terms, n);
    lm_extent at = extent_of(d, terms, n);
    bool      found = judge_head(d, terms, n, at, &x) || judge_order(d, at, label, &x) || add_activation(d, &x) || add_tensor(d, terms, n);

    bool any = found;
    for (size_t i = 0; i < n; i++)
        add_map(d, &terms[i]);
    for (size_t i = 0; !found && i < sizeof formulas / sizeof *formulas; i++)
        if (is_formula(d, formulas[i].formula, &x)) {
            add_known(d, at, &formulas[i]);
            any   = true;
            found = *formulas[i].quantity != '\0';       /* what holds of every model may also be said of this one */
        }
    return any;
}

/* Judge the formulas of a text, which are separated by commas outside of parentheses and by words. */
bool lm_audit_tex(lm_audit_document *d, lm_extent text, bool tex, lm_extent label)
{
    lm_formula f;
    bool       found = false;
    size_t     depth = 0, from = 0;

    if (!lm_read_formula(text, tex, &f))
        return false;
    add_values(d, f.terms, f.n);
    add_layers(d, f.terms, f.n);
    for (size_t i = 0; i <= f.n; i++) {
        const lm_term *x = &f.terms[i];
        depth += i < f.n && (lm_term_is(x, "(") || lm_term_is(x, "["));
        depth -= i < f.n && depth && (lm_term_is(x, ")") || lm_term_is(x, "]"));
        if (i < f.n && (depth || !(lm_term_is(x, ",") || lm_term_is(x, ";"))))
            continue;
        if (i > from + 2)
            found |= judge(d, f.terms + from, i - from, label);
        from = i + 1;
    }
    return found;
}

/* "γ and β → 2d params": the weights of a norm. */
static bool add_vectors(lm_audit_document *d, lm_extent line)
{
    bool        gain = memmem(line.s, line.n, "$\\gamma$", 8) || memmem(line.s, line.n, "γ", 2);
    bool        bias = memmem(line.s, line.n, "$\\beta$", 7) || memmem(line.s, line.n, "β", 2);
    const char *two = bias ? "$2d$ param" : "$d$ param", *at = gain ? memmem(line.s, line.n, two, strlen(two)) : NULL;

    if (at)
        lm_add_rule(d, (lm_extent){ at, strlen(two) - 6 },
                    bias ? "LayerNorm has a gain and a bias for each element" : "RMSNorm has a gain for each element");
    return at != NULL;
}

/* Judge the formulas between dollar signs. `label`: what the row of a table is about. */
bool lm_audit_tex_line(lm_audit_document *d, lm_extent line, lm_extent label)
{
    const char *p = line.s, *end = line.s + line.n;
    bool        found = false;

    found = add_vectors(d, line);
    while (p < end && (p = memchr(p, '$', (size_t)(end - p)))) {
        size_t      n = p + 1 < end && p[1] == '$' ? 2 : 1;
        const char *close = p + n < end ? memmem(p + n, (size_t)(end - p) - n, "$$", n) : NULL;
        if (!close)
            break;
        found |= lm_audit_tex(d, (lm_extent){ p + n, (size_t)(close - p) - n }, true, label);
        p = close + n;
    }
    return found;
}
