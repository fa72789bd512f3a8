/* schema.c - convert a JSON Schema to a grammar. */
#include "grammar/schema/schema.h"

#include <string.h>

#include "base/error.h"
#include "base/jsontext.h"

static lm_status read_document(lm_schema *s, const char *text, size_t size)
{
    json_error_t why;

    s->root = lm_json_read(text, size, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
    if (!s->root)
        return lm_fail(s->e, LM_USAGE, NULL, why.position >= 0 ? why.position : LM_NO_OFFSET, "no JSON: %s",
                       why.text);
    const char *dialect = json_string_value(json_object_get(s->root, "$schema"));
    s->old = dialect && strstr(dialect, "draft-07");
    if (dialect && !s->old && !strstr(dialect, "2020-12/schema") && !strstr(dialect, "2019-09/schema"))
        return lm_fail(s->e, LM_UNSUPPORTED, "#/$schema", LM_NO_OFFSET,
                       "$schema: this dialect cannot be enforced by a grammar");
    return LM_OK;
}

static lm_status compile(lm_schema *s, const lm_grammar_options *o, const char *text, size_t size,
                         lm_expr_id *root)
{
    LM_TRY(read_document(s, text, size));
    s->rules = lm_map_new(64);
    s->made  = json_array();
    if (!s->rules || !s->made)
        return lm_schema_memory(s);
    lm_json_prelude(s->p, o ? o->whitespace : LM_WHITESPACE_NONE, s);
    if (o && o->strict)
        LM_TRY(lm_schema_strict(s));
    const lm_places whole = { NULL, { s->root, s->root, "#" } };
    return lm_schema_value(s, &whole, root);
}

lm_status lm_grammar_add_schema(lm_terms *p, const char *text, size_t size, const lm_grammar_options *o,
                                lm_expr_id *root, lm_error *e)
{
    lm_schema s = {
        .p = p, .o = o, .compile = lm_schema_value, .apply = lm_shapes_apply, .spread = lm_schema_spread
    };

    *root = LM_NOTHING;
    s.e = e ? e : &s.mine;
    *s.e = (lm_error){ .offset = LM_NO_OFFSET };
    lm_status status = compile(&s, o, text, size, root);
    json_decref(s.root);
    json_decref(s.made);
    lm_map_free(s.rules);
    lm_arena_free(&s.arena);
    return status;
}

lm_status lm_grammar_json_schema(const char *text, size_t size, const lm_grammar_options *o, lm_grammar **out,
                                 lm_error *e)
{
    LM_REQUIRE(e, (text || !size) && out);
    lm_terms   pool;
    lm_error  mine, *why = e ? e : &mine;
    lm_expr_id root = LM_NOTHING;
    uint32_t  rule;

    LM_TRY(lm_grammar_begin(&pool, o, size, why));
    lm_status status = lm_grammar_add_schema(&pool, text, size, o, &root, why);
    if (status == LM_OK)
        status = lm_grammar_finish(&pool, root, out, &rule, why);
    else
        lm_terms_free(&pool);
    if (status == LM_USAGE && why->where[0] == '\0' && root != LM_NOTHING)
        status = lm_fail(why, LM_USAGE, "#", LM_NO_OFFSET, "no value fits the schema");
    return status;
}
