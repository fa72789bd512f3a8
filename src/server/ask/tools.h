/* tools.h - the tools of a request, whether they may be called, and how their calls are constrained and
 * parsed.
 *
 * lm_tools_read fills an lm_tools from the body, lm_tools_prepare completes it with the rendered prompt. It
 * owns what it points to until lm_tools_free; a parser of answers (lm_answer) uses it until then. */
#ifndef LM_SERVER_TOOLS_H
#define LM_SERVER_TOOLS_H

#include "lamina/answer.h"
#include "lamina/grammar.h"
#include "server/ask/fields.h"
#include "server/models/service.h"

typedef enum lm_tool_use { LM_TOOLS_AUTO, LM_TOOLS_NONE, LM_TOOLS_REQUIRED } lm_tool_use;

typedef struct lm_tools {
    json_t         *list;            /* in the form for templates: {type, function: {name, description,
                                        parameters}}; NULL: none */
    lm_answer_tool *items;           /* those that may be called */
    size_t          n;
    json_t         *texts;           /* the schemas of `items`, as strings */
    json_t         *wants_strict;    /* [list] booleans */
    bool           *strict;          /* [n] for `items` */
    lm_tool_use     use;
    bool            single;
    bool            no_reasoning;    /* the request turns reasoning off */
    bool            in_reasoning;    /* the prompt ends inside reasoning */
    bool            eager;           /* a grammar enforces the form of calls */
    bool            reads;           /* the output is parsed at all */
} lm_tools;

/* Read `tools` in the form of OpenAI (also its older `functions`), Anthropic (input_schema) or ollama, and
 * `choice` in that of OpenAI (also allowed_tools) or Anthropic. `enforced`: by name, the schemas of arguments
 * that differ from the parameters that the model sees. Each of these may be NULL. LM_USAGE names the field.
 * lm_tools_free frees what `out` points to, also on failure. */
lm_status lm_tools_read(const json_t *tools, json_t *choice, const json_t *enforced, bool single,
                        lm_tools *out, lm_error *e);
void      lm_tools_free(lm_tools *t);

/* Determine whether the rendered prompt ends inside reasoning, and constrain the output: if *grammar is NULL,
 * make one for tool calls; otherwise make it apply after that reasoning. `w`: white space between the parts
 * of arguments. What a grammar cannot enforce of a tool's parameters is left free, with a line in `warnings`;
 * for a tool that must be called or is strict, it is LM_USAGE. */
lm_status lm_tools_prepare(const lm_service *s, lm_tools *t, const lm_text *prompt, lm_whitespace w,
                           lm_grammar **grammar, json_t *warnings, lm_error *e);

/* Return the options for lm_answer_new; `t` and `ends`, NULL-ended, must outlive the lm_answer. */
lm_answer_options lm_tools_options(const lm_tools *t, const char *const *ends, uint64_t ids);

/* Set the template variables that switch reasoning on or off, under the names that model families use. */
void lm_reasoning_switch(json_t *kwargs, bool on);

#endif
