#include "cli/constraining.h"

#include <stdlib.h>
#include <string.h>

#include "cli/prompt.h"

#define O(field) offsetof(lm_constraint_flags, field)

const lm_flag lm_constraint_flag_table[] = {
    { "--json-schema", "-j", LM_FLAG_TEXT, O(schema), "SCHEMA",
      "the text is JSON that fits this JSON Schema; @FILE: the schema of a file; {}: any JSON", 0, 0, NULL },
    { "--grammar", NULL, LM_FLAG_TEXT, O(grammar), "GBNF", "the text fits this grammar, as llama.cpp writes them", 0, 0, NULL },
    { "--grammar-file", NULL, LM_FLAG_TEXT, O(grammar_file), "FILE", "the same, of a file", 0, 0, NULL },
    { "--regex", NULL, LM_FLAG_TEXT, O(regex), "RE", "the text matches this regular expression as a whole", 0, 0, NULL },
    { "--choice", NULL, LM_FLAG_LIST, O(choices), "TEXT", "the text is TEXT; may be repeated: one of them", 0, 0, NULL },
    { 0 },
};

/* ---- the grammar ---- */

/* The word of the flag that was given; NULL: none. LM_USAGE: several. */
static lm_status the_flag(const lm_constraint_flags *f, const char **out, lm_error *e)
{
    const struct { const char *flag; bool given; } all[] = {
        { "--json-schema", f->schema != NULL }, { "--grammar", f->grammar != NULL }, { "--grammar-file", f->grammar_file != NULL },
        { "--regex", f->regex != NULL },        { "--choice", f->choices.n > 0 },
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

    if (f->regex)
        return lm_grammar_regex(f->regex, strlen(f->regex), &o, out, e);
    if (f->grammar)
        return lm_grammar_gbnf(f->grammar, strlen(f->grammar), &o, out, e);
    if (f->choices.n)
        return lm_grammar_choice(f->choices.items, f->choices.n, &o, out, e);
    if (f->schema && f->schema[0] != '@')
        return lm_grammar_json_schema(f->schema, strlen(f->schema), &o, out, e);
    status = lm_read_text(f->schema ? f->schema + 1 : f->grammar_file, &text, e);
    if (status == LM_OK && f->schema)
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

static lm_status model_vocabulary(const lm_model *m, lm_vocabulary **out, lm_error *e)
{
    lm_model_info info;
    lm_token     *ends;
    size_t        n = 0;

    lm_model_describe(m, &info);
    ends = malloc((info.n_vocab + 1) * sizeof *ends);
    if (!ends)
        return lm_fail_memory(e, "the vocabulary", info.n_vocab * sizeof *ends);
    for (uint32_t i = 0; i < info.n_vocab; i++)
        if (lm_model_is_end(m, (lm_token)i))
            ends[n++] = (lm_token)i;
    lm_status status = lm_vocabulary_new(lm_model_tokenizer(m), info.n_vocab, ends, n, out, e);
    free(ends);
    return status;
}

lm_status lm_constraining_open(const lm_constraint_flags *f, const lm_model *m, lm_constraining *out, lm_error *e)
{
    const char *flag;

    LM_TRY(the_flag(f, &flag, e));
    if (!flag)
        return LM_OK;
    if (!lm_model_tokenizer(m))
        return lm_fail(e, LM_USAGE, flag, LM_NO_OFFSET, "the model has no tokenizer");
    LM_TRY(named(flag, compile(f, m, &out->grammar, e), e));
    LM_TRY(named(flag, model_vocabulary(m, &out->vocabulary, e), e));
    return lm_constraint_new(out->grammar, out->vocabulary, &out->constraint, e);
}

void lm_constraining_sequence(const lm_constraining *c, lm_sequence_options *o)
{
    if (!c->constraint)
        return;
    lm_constraint_reset(c->constraint);
    o->logits     = lm_constraint_logits;
    o->logits_arg = c->constraint;
}

void lm_constraining_close(lm_constraining *c)
{
    lm_constraint_free(c->constraint);
    lm_vocabulary_free(c->vocabulary);
    lm_grammar_free(c->grammar);
    *c = (lm_constraining){ 0 };
}
