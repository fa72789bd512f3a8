#include "cli/constraining.h"

#include <stdlib.h>
#include <string.h>

#include "cli/prompt.h"
#include "lamina/logits.h"

#define O(field) offsetof(lm_constraint_flags, field)

const lm_flag lm_constraint_flag_table[] = {
    { "--json-schema", "-j", LM_FLAG_TEXT, O(schema), "SCHEMA",
      "the text is JSON that fits this JSON Schema; @FILE: the schema of a file; {}: any JSON", 0, 0, NULL },
    { "--grammar", NULL, LM_FLAG_TEXT, O(grammar), "GBNF", "the text fits this grammar, as llama.cpp writes them", 0, 0, NULL },
    { "--grammar-file", NULL, LM_FLAG_TEXT, O(grammar_file), "FILE", "the same, of a file", 0, 0, NULL },
    { "--regex", NULL, LM_FLAG_TEXT, O(regex), "RE", "the text matches this regular expression as a whole", 0, 0, NULL },
    { "--choice", NULL, LM_FLAG_LIST, O(choices), "TEXT", "the text is TEXT; may be repeated: one of them", -1, 0, NULL },
    { "--reasoning-budget", NULL, LM_FLAG_I64, O(reasoning), "N",
      "most tokens of reasoning, which is ended there; -1: any number (default -1)", -1, 1e9, NULL },
    { 0 },
};

void lm_constraint_defaults(lm_constraint_flags *f)
{
    f->reasoning = -1;
}

/* ---- the grammar ---- */

static bool given(const char *text)
{
    return text && *text;                /* an empty text asks for nothing */
}

/* The word of the flag that was given; NULL: none. LM_USAGE: several. */
static lm_status the_flag(const lm_constraint_flags *f, const char **out, lm_error *e)
{
    const struct { const char *flag; bool given; } all[] = {
        { "--json-schema", given(f->schema) }, { "--grammar", given(f->grammar) }, { "--grammar-file", given(f->grammar_file) },
        { "--regex", given(f->regex) },        { "--choice", f->choices.n > 0 },
    };

    *out = NULL;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].given && *out)
            return lm_fail(e, LM_USAGE, all[i].flag, LM_NO_OFFSET, "cannot be combined with %s", *out);
        if (all[i].given)
            *out = all[i].flag;
    }
    return LM_OK;
}

static lm_status compile(const lm_constraint_flags *f, const lm_model *m, lm_grammar **out, lm_error *e)
{
    lm_grammar_options o = { .tokenizer = lm_model_tokenizer(m) };
    lm_text            text = { 0 };
    lm_status          status;

    if (given(f->regex))
        return lm_grammar_regex(f->regex, strlen(f->regex), &o, out, e);
    if (given(f->grammar))
        return lm_grammar_gbnf(f->grammar, strlen(f->grammar), &o, out, e);
    if (f->choices.n)
        return lm_grammar_choice(f->choices.items, f->choices.n, &o, out, e);
    if (given(f->schema) && f->schema[0] != '@')
        return lm_grammar_json_schema(f->schema, strlen(f->schema), &o, out, e);
    status = lm_read_text(given(f->schema) ? f->schema + 1 : f->grammar_file, &text, e);
    if (status == LM_OK && given(f->schema))
        status = lm_grammar_json_schema(text.data ? text.data : "", text.size, &o, out, e);
    else if (status == LM_OK)
        status = lm_grammar_gbnf(text.data ? text.data : "", text.size, &o, out, e);
    lm_text_free(&text);
    return status;
}

/* The flag stands first, then where in a schema: "--json-schema: #/properties/a/not: ...". */
static lm_status named(const char *flag, lm_status status, lm_error *e)
{
    char where[sizeof e->where], message[sizeof e->message];

    if (status != LM_USAGE && status != LM_UNSUPPORTED && status != LM_LIMIT)
        return status;
    memcpy(where, e->where, sizeof where);
    memcpy(message, e->message, sizeof message);
    return lm_fail(e, status == LM_LIMIT ? LM_LIMIT : LM_USAGE, flag, e->offset, "%s%s%s", where, *where ? ": " : "", message);
}

/* A budget needs marks that tell where reasoning ends. */
static lm_status open_reasoning(const lm_constraint_flags *f, lm_constraining *out, lm_error *e)
{
    out->reasoning = f->reasoning;
    if (f->reasoning < 0)
        return LM_OK;
    lm_answer_style_of(lm_model_chat_template(out->model, NULL), &out->style);
    if (!out->style.reasoning_end)
        return lm_fail(e, LM_USAGE, "--reasoning-budget", LM_NO_OFFSET, "the model's chat template has no marks of reasoning");
    return LM_OK;
}

lm_status lm_constraining_open(const lm_constraint_flags *f, const lm_model *m, lm_constraining *out, lm_error *e)
{
    const char *flag;

    out->model = m;
    LM_TRY(open_reasoning(f, out, e));
    LM_TRY(the_flag(f, &flag, e));
    if (!flag)
        return LM_OK;
    if (!lm_model_tokenizer(m))
        return lm_fail(e, LM_USAGE, flag, LM_NO_OFFSET, "the model has no tokenizer");
    LM_TRY(named(flag, compile(f, m, &out->grammar, e), e));
    LM_TRY(named(flag, lm_model_vocabulary(m, &out->vocabulary, e), e));
    return lm_constraint_new(out->grammar, out->vocabulary, &out->constraint, e);
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

lm_status lm_constraining_sequence(const lm_constraining *c, const lm_tokens *prompt, lm_sequence_options *o, lm_error *e)
{
    lm_logits_options    l = { .budget = c->reasoning >= 0 && c->style.reasoning_end, .style = &c->style };
    lm_logits_processor *p;

    if (l.budget) {
        l.tokenizer      = lm_model_tokenizer(c->model);
        l.most_reasoning = (uint64_t)c->reasoning;
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
    *c = (lm_constraining){ 0 };
}
