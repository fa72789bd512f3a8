/* chapter_formulas.c - the forward pass as formulas (O-40), and the meaning of their letters. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "study/explain/letters.h"
#include "study/facts/forms.h"
#include "study/facts/ledger.h"
#include "study/facts/traits.h"
#include "study/report/chapters.h"
#include "study/report/spelled.h"
#include "base/columns.h"
#include "lamina/study/explain.h"

/* ---- complete forward pass, derived from the operations ---- */

static const char *const small[]  = { "₀", "₁", "₂", "₃", "₄", "₅", "₆", "₇", "₈", "₉" };
static const char *const plain[]  = { "0", "1", "2", "3", "4", "5", "6", "7", "8", "9" };

static const lm_form_words text_words = {
    .token = "W_E[t]", .position = "W_P[pos]", .sine = "PE(pos)", .norm = "Norm", .first_norm = "Norm₀", .nth_norm = "Norm%s",
    .digits = small, .attention = "Attn", .state = "Mix", .inputs = "Inputs", .mlp = "MLP", .tied = "W_E", .head = "W_head", .final = "Norm_f(h_L)",
    .bias = " + b", .times = " · ", .tanh = "tanh", .factor = "λ", .sum = "Σ ", .from = "[j ≥ %u] · ", .last = "h_L",
};

static const lm_form_words latex_words = {
    .token = "W_E[t]", .position = "W_P[\\mathrm{pos}]", .sine = "\\mathrm{PE}(\\mathrm{pos})", .norm = "\\mathrm{Norm}_\\ell",
    .first_norm = "\\mathrm{Norm}_0", .nth_norm = "\\mathrm{Norm}_{\\ell,%s}",
    .digits = plain, .attention = "\\mathrm{Attn}", .state = "\\mathrm{Mix}", .inputs = "\\mathrm{Inputs}", .mlp = "\\mathrm{MLP}", .tied = "W_E", .head = "W_{head}",
    .final = "\\mathrm{Norm}_f(h_L)", .bias = " + b", .times = " \\, ", .tanh = "\\tanh", .factor = "\\lambda", .within = "\\_",
    .sum = "\\sum ", .from = "[j \\ge %u] \\, ", .last = "h_L",
};


static void put_layers(lm_facts *f, lm_text *text, lm_text *latex)
{
    const char *each = _("for each of L layers:");
    lm_value    at[LM_MAX_STREAMS];

    static const char *const names[2][5] = { { "h", "u", "w" }, { "h", "χ", "u", "w", "ψ" } };
    static const char *const sets[2][5]  = { { "h_{\\ell-1}", "u_\\ell", "w_\\ell" },
                                             { "h_{\\ell-1}", "\\chi_\\ell", "u_\\ell", "w_\\ell",
                                               "\\psi_\\ell" } };
    uint32_t n = lm_streams_of(f->ledger, 0, at), several = n == LM_MAX_STREAMS;
    for (uint32_t i = 1; i < n; i++) {
        lm_text_printf(text, "\n%*s  %s = ", (int)lm_text_columns(each), i == 1 ? each : "",
                       i + 1 < n ? names[several][i] : "h'");
        lm_text_printf(latex, " \\\\\n%s &= ", i + 1 < n ? sets[several][i] : "h_\\ell");
        lm_put_form(f->ledger, &text_words, at[i], at, names[several], i, text);
        lm_put_form(f->ledger, &latex_words, at[i], at, sets[several], i, latex);
    }
    lm_text_add_str(latex, " \\quad \\ell = 1 \\ldots L");
}

/* Append the formulas of Attn and MLP, one per line; a formula such as "Q = [...]" contains its own name. */
static void put_parts(lm_facts *f, lm_text *text, lm_text *latex)
{
    static const struct { const char *fact, *name, *latex; } parts[] = {
        { "latent", NULL, NULL },  { "query", "𝐐", "\\mathbf{Q}" },          { "key", "𝐊", "\\mathbf{K}" },          { "latent_keys", NULL, NULL },
        { "value", "𝐕", "\\mathbf{V}" },     { "latent_values", NULL, NULL }, { "attention", "a", "a" },    { "attention_output", "Attn(x)", "\\mathrm{Attn}(x)" },
        { "low", "Low(x)", "\\mathrm{Low}(x)" }, { "predict", "Predict(x)[j]", "\\mathrm{Predict}(x)[j]" }, { "correct", "Correct(x, y)[j]", "\\mathrm{Correct}(x, y)[j]" },
        { "router", "g", "g" },    { "top", "Top(x)", "\\mathrm{Top}(x)" }, { "mixture", "MLP(x)", "\\mathrm{MLP}(x)" }, { "mlp", NULL, "\\mathrm{MLP}(x)" },
    };
    bool mixes = lm_facts_has(f, "formulas.mixture");

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const char *form = lm_facts_has(f, "formulas.%s", parts[i].fact)
                               ? lm_facts_text(f, "formulas.%s", parts[i].fact)
                               : NULL;
        const char *name = parts[i].name, *set = parts[i].latex, *equals = form ? strstr(form, " = ") : NULL;
        char        own[32], normed[64];
        if (!form)
            continue;
        if (strcmp(parts[i].fact, "mlp") == 0) {
            name = mixes ? "E_i(x)" : "MLP(x)";      /* each expert of a mixture is such an MLP */
            set  = mixes ? "E_i(x)" : set;
        }
        if (equals && (!name || equals == form + 1)) {
            snprintf(own, sizeof own, "%.*s", (int)(equals - form), form);
            name  = own;
            form = equals + 3;
        }
        /* two lines of the list */
        if (strcmp(parts[i].fact, "latent") == 0 && lm_facts_has(f, "formulas.latent_norm")) {
            snprintf(normed, sizeof normed, "Norm(%s)", form);
            form = normed;
        }
        lm_text_add_str(text, "\n");
        lm_text_add_str(latex, " \\\\\n");
        if (name == own) {
            lm_spell_formula(own, text, latex);
        } else {
            lm_text_add_str(text, name);
            lm_text_add_str(latex, set);
        }
        lm_text_add_str(text, " = ");
        lm_text_add_str(latex, " &= ");
        lm_spell_formula(form, text, latex);
    }
}

/* Write the box of the forward pass and append its text to `out`. */
static void write_forward(lm_document *d, lm_text *out)
{
    lm_facts *f = d->facts;
    lm_traits t;
    lm_text    text = { 0 }, latex = { 0 };

    lm_find_traits(f->ledger, &t);
    if (!f->s.program->n_layers)
        return;
    lm_form_words text_head = text_words, latex_head = latex_words;
    if (!t.n_final_norms)
        text_head.final = latex_head.final = "h_L";
    lm_text_add_str(&text, "h₀ = ");
    lm_text_add_str(&latex, "\\boxed{\\begin{aligned}\nh_0 &= ");
    lm_value first = f->s.program->modules[f->ledger->layer[0]].in;
    lm_put_form(f->ledger, &text_words, first, NULL, NULL, 0, &text);
    lm_put_form(f->ledger, &latex_words, first, NULL, NULL, 0, &latex);
    put_layers(f, &text, &latex);
    lm_text_add_str(&text, "\nlogits = ");
    lm_text_add_str(&latex, " \\\\\n\\mathrm{logits} &= ");
    lm_put_head_form(f->ledger, &text_head, &text);
    lm_put_head_form(f->ledger, &latex_head, &latex);
    put_parts(f, &text, &latex);
    lm_text_add_str(&latex, "\n\\end{aligned}}");
    d->failed |= text.failed || latex.failed;
    lm_doc_formula_of(d, NULL, text.data ? text.data : "", latex.data ? latex.data : "");
    lm_text_add_str(out, text.data ? text.data : "");
    lm_text_free(&text);
    lm_text_free(&latex);
    lm_doc_text(d, t.tied ? _("W_E is the embedding table, also used as the head.")
                          : _("W_E is the embedding table."));
}

/* ---- all formulas and their letters ---- */

/* A letter of the list of letters, found by its LaTeX; what differs here, or is missing there, stands
 * here. */
struct letter {
    const char *latex, *path, *meaning;
    const char *text;            /* the letter as text; NULL: as the list has it */
    const char *in_text;         /* what formulas have in its place; NULL: the letter */
    bool        indexed;         /* also with an index */
};

static const struct letter letters[] = {
    { .latex = "L", .path = "architecture.layers" },
    { .latex = "D", .path = "architecture.hidden" },
    { .latex = "F", .path = "mlp.intermediate" },
    { .latex = "F_E", .path = "mlp.expert_width", .meaning = N_("width of an expert") },
    { .latex = "H", .path = "attention.heads" },
    { .latex = "G", .path = "attention.kv_heads" },
    { .latex = "K", .path = "attention.head_dim", .meaning = N_("dimensions of a query or key head") },
    { .latex = "K_V", .path = "attention.value_dim", .meaning = N_("dimensions of a value head") },
    { .latex = "K_R", .path = "rope.dim" },
};

/* Latent attention: the heads before the latent is absorbed. */
static const struct letter latent_letters[] = {
    { .latex = "H", .path = "attention.latent.heads" },
    { .latex = "K", .path = "attention.latent.qk_dim", .meaning = N_("dimensions of a query or key head, K_N + K_R") },
    { .latex = "K_N", .path = "attention.latent.nope_dim", .meaning = N_("dimensions of a query or key head without the shared ones") },
    { .latex = "K_V", .path = "attention.latent.v_dim", .meaning = N_("dimensions of a value head") },
    { .latex = "K_R", .path = "attention.latent.rope_dim", .meaning = N_("dimensions of the key that all heads share") },
    { .latex = "R", .path = "attention.latent.kv_rank" },
    { .latex = "R_q", .path = "attention.latent.q_rank", .meaning = N_("width of the latent of queries") },
};

/* What has no size of its own. */
static const struct letter other_letters[] = {
    { .latex = "S" },
    { .latex = "b_v" },
    { .latex = "t" },
    { .latex = "\\mathrm{pos}" },
    { .latex = "h", .indexed = true },
    { .latex = "\\ell", .in_text = "h'" },
    { .latex = "u", .meaning = N_("residual stream after the attention of a layer") },
    { .latex = "w", .meaning = N_("residual stream after the MLP of a layer") },
    { .latex = "\\chi", .indexed = true },
    { .latex = "\\psi", .indexed = true },
    { .latex = "\\kappa", .indexed = true },
    { .latex = "x" },
    { .latex = "y" },
    { .latex = "\\mathrm{Predict}", .text = "Predict" },
    { .latex = "\\mathrm{Correct}", .text = "Correct" },
    { .latex = "\\mathrm{Match}", .text = "Match" },
    { .latex = "\\mathrm{Top}", .text = "Top" },
    { .latex = "\\mathrm{Low}", .text = "Low" },
    { .latex = "\\mathrm{Mix}", .text = "Mix" },
    { .latex = "\\mathrm{Inputs}", .text = "Inputs" },
    { .latex = "\\lambda" },
    { .latex = "s_i" },
    { .latex = "\\mathrm{Norm}", .meaning = N_("norm, named after its position; Norm_f is the last one"), .text = "Norm", .indexed = true },
    { .latex = "\\mathbf{Q}", .text = "𝐐" },
    { .latex = "\\mathbf{K}", .text = "𝐊" },
    { .latex = "\\mathbf{V}", .text = "𝐕" },
    { .latex = "a", .meaning = N_("output of the heads, before the output matrix") },
    { .latex = "c_{KV}" },
    { .latex = "c_Q", .meaning = N_("latent of queries") },
    { .latex = "m_r" },
    { .latex = "s_r" },
    { .latex = "g" },
    { .latex = "E_i" },
    { .latex = "E_s" },
    { .latex = "c", .meaning = N_("correction of the experts' weights, used only to select experts") },
    { .latex = "W_{\\ldots}" },
    { .latex = "\\mathrm{PE}" },
    { .latex = "b_{\\ldots}" },
    { .latex = "i" },
    { .latex = "j" },
    { .latex = "\\mathrm{base}" },
    { .latex = "\\theta" },
    { .latex = "\\gamma" },
    { .latex = "\\beta" },
    { .latex = "\\mu" },
    { .latex = "\\mathrm{var}" },
    { .latex = "\\varepsilon" },
};

/* Return a letter with what the list of letters has of it. */
static struct letter complete(const struct letter *x)
{
    const lm_letter *listed = lm_letter_of(x->latex);
    struct letter    whole  = *x;

    if (!whole.text)
        whole.text = listed ? listed->unicode : x->latex;
    if (!whole.meaning)
        whole.meaning = listed ? listed->meaning : "";
    return whole;
}

/* Return whether a letter is in the formulas; W_… and b_… with any index. */
static bool occurs(const char *formulas, const struct letter *x)
{
    const char *letter = x->in_text ? x->in_text : x->text, *index = strstr(letter, "_…");
    bool        may    = index || x->indexed;
    size_t      n      = index ? (size_t)(index - letter) : strlen(letter);

    for (const char *at = formulas; *at; at++) {
        if (strncmp(at, letter, n) != 0 ||
            (at > formulas && (isalnum((unsigned char)at[-1]) || at[-1] == '_')))
            continue;
        /* a letter of its own */
        if (index && strncmp(at, "b_v", 3) == 0 && !isalnum((unsigned char)at[3]))
            continue;
        bool indexed = at[n] == '_' || isdigit((unsigned char)at[n]);
        if (indexed ? may : !index && !isalnum((unsigned char)at[n]))
            return true;
    }
    return false;
}

/* Add a letter of the formulas, unless its quantity does not exist in the model (a latent of queries, a dense
 * MLP). */
static void write_letter(lm_document *d, lm_doc_table *t, const char *formulas, const struct letter *letter)
{
    const struct letter x = complete(letter);

    if (!occurs(formulas, &x) ||
        (x.path && (!lm_facts_has(d->facts, "%s", x.path) || !lm_facts_count(d->facts, "%s", x.path))))
        return;
    lm_next_row(t);
    lm_cell_math(t, x.text, x.latex);
    if (x.path)
        lm_cell_fact(t, LM_EXACT, "%s", x.path);
    else
        lm_cell_empty(t);
    lm_cell(t, _(x.meaning));
}

static const char *title_of(const char *name)
{
    static const struct { const char *name, *title; } titles[] = {
        { "attention", N_("attention") },       { "query", N_("queries") },               { "key", N_("keys") },
        { "value", N_("values") },              { "attention_output", N_("output of the attention") }, { "mask", N_("mask: key j as seen by query i") },
        { "head_map", N_("key/value head of query head i") }, { "kv_bytes", N_("bytes of the cache") }, { "latent", N_("latent of keys and values") },
        { "latent_norm", N_("norm of the latent") }, { "latent_keys", N_("keys from the latent") }, { "latent_values", N_("values from the latent") },
        { "mlp", "MLP" },                       { "top", N_("gates of an MLP that are kept") },
                             { "mlp_inner", N_("inside the MLP") },    { "mlp_parameters", N_("parameters of an MLP") },
        { "expert_parameters", N_("parameters of an expert") }, { "norm", N_("norm") },   { "norm_parameters", N_("parameters of a norm") },
        { "after_attention", N_("stream after the attention") }, { "after_mixing", N_("stream after the part with a state") },
        { "after_mlp", N_("stream after the MLP") }, { "after_inputs", N_("stream after the inputs of the layer") }, { "layer", N_("a whole layer") },
        { "rope_frequency", N_("frequencies of RoPE") }, { "router", N_("router") },     { "mixture", N_("mixture of experts") },
        { "low", N_("residual of low rank") }, { "predict", N_("prediction of stream j") }, { "correct", N_("correction of stream j") },
        { "selection", N_("choice of experts") }, { "choice", N_("choice of keys") },
        { "embedding", N_("embedding") },       { "positions", N_("positions") }, { "head", N_("output head") },
    };

    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
        if (strcmp(titles[i].name, name) == 0)
            return _(titles[i].title);
    return name;
}

/* Add a formula as text if it is a sentence, otherwise as mathematics. */
static void write_formula(lm_document *d, lm_doc_table *t, const char *form)
{
    lm_text unicode = { 0 }, latex = { 0 };

    if (strstr(form, " of ") || strstr(form, " from ") || strstr(form, " else ") ||
        strncmp(form, "top-", 4) == 0 || (unsigned char)*form >= 0x80) {
        if (strncmp(form, "top-", 4) == 0)       /* the same letters in every language */
            lm_cell_code(t, form);
        else
            lm_cell(t, _(form));
        return;
    }
    lm_spell_formula(form, &unicode, &latex);
    lm_cell_math(t, unicode.data ? unicode.data : "", latex.data ? latex.data : "");
    d->failed |= unicode.failed || latex.failed;
    lm_text_free(&unicode);
    lm_text_free(&latex);
}

/* Return a formula as it is shown: width and rotated dimensions are both "d" in the facts, and the title
 * names what is computed. */
static const char *shown(const lm_fact *x)
{
    static const struct { const char *name, *text, *shown; } others[] = {
        { "norm_parameters", "d", "D" }, { "norm_parameters", "2d", "2 x D" }, { "rope_frequency", "theta_i = base^(-2i/d)", "theta_i = base^(-2i/rope_dim)" },
    };

    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(others[i].name, x->name) == 0 && strcmp(others[i].text, x->text) == 0)
            return others[i].shown;
    const char *form = x->text, *equals = strcmp(x->name, "head_map") == 0 ? strstr(form, " = ") : NULL;
    return equals ? equals + 3 : form;
}

static void write_letters(lm_document *d, const lm_fact *g, const char *forward)
{
    lm_traits traits;
    lm_text   formulas = { 0 }, latex = { 0 };

    lm_find_traits(d->facts->ledger, &traits);
    lm_text_printf(&formulas, "%s\n", forward);
    for (const lm_fact *x = lm_fact_first(g); x; x = lm_fact_next(x)) {
        lm_spell_formula(shown(x), &formulas, &latex);
        lm_text_add_char(&formulas, '\n');
    }
    d->failed |= formulas.failed || latex.failed;
    lm_doc_table *t = lm_doc_table_of(d, "letters", NULL, "lrl", "", "", "");
    for (size_t i = 0; i < sizeof letters / sizeof *letters && formulas.data; i++)
        if (!traits.latent ||
            (strncmp(letters[i].path, "attention.", 10) != 0 && strcmp(letters[i].path, "rope.dim") != 0))
            write_letter(d, t, formulas.data, &letters[i]);
    for (size_t i = 0; traits.latent && i < sizeof latent_letters / sizeof *latent_letters && formulas.data;
         i++)
        write_letter(d, t, formulas.data, &latent_letters[i]);
    for (size_t i = 0; i < sizeof other_letters / sizeof *other_letters && formulas.data; i++)
        write_letter(d, t, formulas.data, &other_letters[i]);
    lm_text_free(&formulas);
    lm_text_free(&latex);
}

static void write_table(lm_document *d, const lm_fact *g)
{
    lm_doc_table *t = lm_doc_table_of(d, "formula-table", NULL, "ll", "", "");
    lm_traits     traits;
    char          mask[160];

    lm_find_traits(d->facts->ledger, &traits);
    for (const lm_fact *x = lm_fact_first(g); x; x = lm_fact_next(x)) {
        lm_next_row(t);
        lm_cell(t, title_of(x->name));
        write_formula(d, t,
                      strcmp(x->name, "mask") == 0 ? lm_mask_text(&traits, mask, sizeof mask) : shown(x));
    }
}

static const lm_fact *formulas_of(lm_document *d)
{
    const lm_fact *g = NULL;

    return lm_facts_find(d->facts, "formulas", &g, NULL) == LM_OK ? g : NULL;
}

void lm_part_formulas(lm_document *d)
{
    const lm_fact *g = formulas_of(d);

    if (!g)
        return;
    write_table(d, g);
    write_letters(d, g, "");
}

/* Return whether a paragraph of a forward pass is prose: below the name of an operation its values are
 * indented. */
static bool is_prose(const char *from, const char *end)
{
    const char *line = memchr(from, '\n', (size_t)(end - from));

    return *from != ' ' && !(line && line + 1 < end && line[1] == ' ');
}

static void write_values(lm_document *d, const char *from, const char *end)
{
    while (end > from && end[-1] == '\n')
        end--;
    if (end > from)
        lm_doc_verbatim(d, from, (size_t)(end - from));
}

/* Add the text of a forward pass: prose as paragraphs, which are wrapped on narrow pages, and values as they
 * are aligned. */
static void write_pass(lm_document *d, const char *text)
{
    const char *values = text;           /* start of the values not yet written */

    for (const char *at = text, *end; *at; at = end + strspn(end, "\n")) {
        end = strstr(at, "\n\n");
        end = end ? end : at + strlen(at);
        if (!is_prose(at, end))
            continue;
        write_values(d, values, at);
        values = end + strspn(end, "\n");
        while (*at == '-' || *at == ' ')
            at++;
        size_t n = (size_t)(end - at);
        while (n && (at[n - 1] == '-' || at[n - 1] == ' ' || at[n - 1] == '\n'))
            n--;
        lm_doc_textf(d, "%.*s", (int)n, at);
    }
    write_values(d, values, values + strlen(values));
}

/* Add the model as numbers and as source code, each in a closed fold. */
static void write_folds(lm_document *d)
{
    const char *forward = lm_shared(d)->forward;
    lm_text     code    = { 0 };

    if (forward) {
        lm_doc_fold(d, "forward-pass", _("A forward pass with its numbers"));
        write_pass(d, forward);
        lm_doc_close(d);
    }
    /* A program with an operation that has no form in PyTorch has no listing. */
    if (lm_shared(d)->listing && lm_listing_write(d->facts, LM_LISTING_PYTORCH, &code, NULL) == LM_OK) {
        lm_doc_fold(d, "pytorch", _("The model in PyTorch"));
        lm_doc_verbatim(d, code.data, code.size);
        lm_doc_close(d);
    }
    lm_text_free(&code);
}

void lm_chapter_formulas(lm_document *d)
{
    const lm_fact *g   = formulas_of(d);
    lm_text        box = { 0 };

    lm_doc_open(d, "formulas", "O-40", _("The forward pass as formulas"));
    write_forward(d, &box);
    d->failed |= box.failed;
    if (g) {
        lm_doc_fold(d, "formula-list", _("Every formula"));
        write_letters(d, g, box.data ? box.data : "");
        write_table(d, g);
        lm_doc_close(d);
    }
    write_folds(d);
    lm_doc_close(d);
    lm_text_free(&box);
}
