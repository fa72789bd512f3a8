/* constraining.c - compile the constraint of --json-schema, --grammar, --grammar-file, --regex or --choice.
 *
 * At most one of the flags may be given. The text of each is read first, then checked and compiled; all later
 * steps know the flag by its index. The grammar, the vocabulary and the first state belong to the
 * lm_constraining; each sequence gets a copy of the state. */
#include "cli/run/constraining.h"

#include <string.h>

#include "cli/base/output.h"
#include "cli/base/prompt.h"
#include "lamina/logits.h"

#define O(field) offsetof(lm_constraint_flags, field)

const lm_flag lm_constraint_flag_table[] = {
    { "--json-schema", "-j", LM_FLAG_TEXT, O(schema), "SCHEMA",
      "constrain the text to JSON valid against this JSON Schema; @FILE: schema from a file; {}: any JSON",
      0, 0, NULL },
    { "--grammar", NULL, LM_FLAG_TEXT, O(grammar), "GBNF",
      "constrain the text to this grammar, in the notation of llama.cpp", 0, 0, NULL },
    { "--grammar-file", NULL, LM_FLAG_TEXT, O(grammar_file), "FILE", "grammar from a file", -1, 0, NULL },
    { "--regex", NULL, LM_FLAG_TEXT, O(regex), "RE",
      "constrain the whole text to this regular expression", 0, 0, NULL },
    { "--choice", NULL, LM_FLAG_LIST, O(choices), "TEXT",
      "constrain the text to TEXT; may be repeated: to one of them", -1, 0, NULL },
    { "--reasoning-budget", NULL, LM_FLAG_I64, O(reasoning), "N",
      "maximum number of reasoning tokens; -1: no limit (-1)", -1, 1e9, NULL },
    { 0 },
};

void lm_constraint_defaults(lm_constraint_flags *f)
{
    f->reasoning = -1;
}

/* ---- grammar ---- */

enum { SCHEMA, GRAMMAR, GRAMMAR_FILE, REGEX, CHOICE, FLAGS };

static const char *const flags[FLAGS] = {
    "--json-schema", "--grammar", "--grammar-file", "--regex", "--choice",
};

/* The text of each flag, or of the file that it names; empty: not given. */
typedef struct wishes { lm_text texts[FLAGS]; } wishes;

/* Read the file of a flag. An empty file sets no constraint, as in llama.cpp and as with an empty text; a
 * warning reports it. */
static lm_status read_file(const char *flag, const char *path, lm_text *out, lm_error *e)
{
    LM_TRY(lm_read_text(path, out, e));
    if (!out->size)
        lm_warn("%s: %s is empty: the text is not constrained by it", flag, lm_input_name(path));
    return LM_OK;
}

static lm_status read_wishes(const lm_constraint_flags *f, wishes *w, lm_error *e)
{
    bool of_file = f->schema && *f->schema == '@';

    if (f->schema && !of_file)
        lm_text_add_str(w->texts + SCHEMA, f->schema);
    if (f->grammar)
        lm_text_add_str(w->texts + GRAMMAR, f->grammar);
    if (f->regex)
        lm_text_add_str(w->texts + REGEX, f->regex);
    if (f->choices.n)
        lm_text_add_str(w->texts + CHOICE, f->choices.items[0]);
    if (of_file)
        LM_TRY(read_file(flags[SCHEMA], f->schema + 1, w->texts + SCHEMA, e));
    return f->grammar_file && *f->grammar_file
               ? read_file(flags[GRAMMAR_FILE], f->grammar_file, w->texts + GRAMMAR_FILE, e)
               : LM_OK;
}

/* Find the flag that was given; *out is FLAGS if none was. LM_USAGE: several were. */
static lm_status the_flag(const wishes *w, size_t *out, lm_error *e)
{
    *out = FLAGS;
    for (size_t i = 0; i < FLAGS; i++) {
        if (w->texts[i].size && *out < FLAGS)
            return lm_fail(e, LM_USAGE, flags[i], LM_NO_OFFSET, "cannot be combined with %s", flags[*out]);
        if (w->texts[i].size)
            *out = i;
    }
    return LM_OK;
}

static lm_status compile(const lm_constraint_flags *f, const lm_text *text, size_t flag, const lm_model *m,
                         lm_grammar **out, lm_error *e)
{
    lm_grammar_options o = { .tokenizer = lm_model_tokenizer(m) };

    if (flag == CHOICE)
        return lm_grammar_choice(f->choices.items, f->choices.n, &o, out, e);
    if (flag == REGEX)
        return lm_grammar_regex(text->data, text->size, &o, out, e);
    return (flag == SCHEMA ? lm_grammar_json_schema : lm_grammar_gbnf)(text->data, text->size, &o, out, e);
}

/* Name the flag in an error, before the location in a schema: "--json-schema: #/properties/a/not: ...".
 * LM_UNSUPPORTED becomes LM_USAGE. */
static lm_status named(const char *flag, lm_status status, lm_error *e)
{
    char where[sizeof e->where], message[sizeof e->message];

    if (status != LM_USAGE && status != LM_UNSUPPORTED && status != LM_LIMIT)
        return status;
    memcpy(where, e->where, sizeof where);
    memcpy(message, e->message, sizeof message);
    return lm_fail(e, status == LM_LIMIT ? LM_LIMIT : LM_USAGE, flag, e->offset, "%s%s%s", where,
                   *where ? ": " : "", message);
}

/* Set the reasoning budget. LM_USAGE: the chat template does not mark the end of reasoning. */
static lm_status open_reasoning(const lm_constraint_flags *f, lm_constraining *out, lm_error *e)
{
    out->reasoning = f->reasoning;
    if (f->reasoning < 0)
        return LM_OK;
    lm_answer_style_of(lm_model_chat_template(out->model, NULL), &out->style);
    if (!out->style.reasoning_end)
        return lm_fail(e, LM_USAGE, "--reasoning-budget", LM_NO_OFFSET,
                       "the model's chat template does not mark reasoning");
    return LM_OK;
}

static lm_status constrain(const lm_constraint_flags *f, const wishes *w, lm_constraining *out, lm_error *e)
{
    size_t flag;

    LM_TRY(the_flag(w, &flag, e));
    if (flag == FLAGS)
        return LM_OK;
    if (!lm_model_tokenizer(out->model))
        return lm_fail(e, LM_USAGE, flags[flag], LM_NO_OFFSET, "the model has no tokenizer");
    LM_TRY(named(flags[flag], compile(f, w->texts + flag, flag, out->model, &out->grammar, e), e));
    LM_TRY(named(flags[flag], lm_model_vocabulary(out->model, &out->vocabulary, e), e));
    return lm_constraint_new(out->grammar, out->vocabulary, &out->constraint, e);
}

lm_status lm_constraining_open(const lm_constraint_flags *f, bool ignore_eos, const lm_model *m,
                               lm_constraining *out, lm_error *e)
{
    wishes w = { 0 };
    lm_status status;

    out->model = m;
    out->ignore_eos = ignore_eos;
    LM_TRY(open_reasoning(f, out, e));
    status = read_wishes(f, &w, e);
    if (status == LM_OK)
        status = constrain(f, &w, out, e);
    for (size_t i = 0; i < FLAGS; i++)
        lm_text_free(w.texts + i);
    return status;
}

static lm_status in_reasoning(const lm_constraining *c, const lm_tokens *prompt, bool *out, lm_error *e)
{
    lm_text   text   = { 0 };
    lm_status status = lm_detokenize(lm_model_tokenizer(c->model), prompt->ids, prompt->n, 0, &text, e);

    if (status == LM_OK)
        *out = lm_answer_in_reasoning(&c->style, text.data ? text.data : "", text.size);
    lm_text_free(&text);
    return status;
}

lm_status lm_constraining_sequence(const lm_constraining *c, const lm_tokens *prompt, lm_sequence_options *o,
                                   lm_error *e)
{
    lm_logits_options    l = { .budget = c->reasoning >= 0 && c->style.reasoning_end,
                               .style = &c->style,
                               .endless = c->ignore_eos ? c->model : NULL };
    lm_logits_processor *p;

    if (l.budget) {
        l.tokenizer      = lm_model_tokenizer(c->model);
        l.max_reasoning = (uint64_t)c->reasoning;
        LM_TRY(in_reasoning(c, prompt, &l.in_reasoning, e));
    }
    if (c->constraint)
        LM_TRY(lm_constraint_clone(c->constraint, &l.constraint, e));
    LM_TRY(lm_logits_new(&l, &p, e));
    lm_logits_into(p, o);
    return LM_OK;
}

void lm_constraining_close(lm_constraining *c)
{
    lm_constraint_free(c->constraint);
    lm_vocabulary_free(c->vocabulary);
    lm_grammar_free(c->grammar);
    lm_answer_style_free(&c->style);
    *c = (lm_constraining){ 0 };
}
