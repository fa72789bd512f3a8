/* tools.h - tools that a request has, whether they may be called, and how its reasoning is to be. */
#ifndef LM_SERVER_TOOLS_H
#define LM_SERVER_TOOLS_H

#include "lamina/answer.h"
#include "lamina/grammar.h"
#include "server/ask/fields.h"
#include "server/models/service.h"

typedef enum lm_tool_use { LM_TOOLS_AUTO, LM_TOOLS_NONE, LM_TOOLS_REQUIRED } lm_tool_use;

/* Taken by lm_turn_start, also on failure. */
typedef struct lm_tools {
    json_t         *list;            /* as templates know them: {type, function: {name, description, parameters}}; NULL: none */
    lm_answer_tool *items;           /* those that may be called */
    size_t          n;
    json_t         *texts;           /* of their schemas */
    json_t         *wants_strict;    /* [list] booleans */
    bool           *strict;          /* [n] of those that may be called */
    lm_tool_use     use;
    bool            single;
    bool            in_reasoning, keep_reasoning;
    bool            eager;           /* a grammar holds calls to their form */
    bool            reads;           /* the answer is read at all */
    bool            unread;          /* calls are content */
    int64_t         budget;          /* most tokens of reasoning; -1: any number */
} lm_tools;

/* `tools` as OpenAI writes them (also its older `functions`), Anthropic's (input_schema) or ollama's; `choice` as OpenAI (also
 * allowed_tools) or Anthropic. * Either may be NULL. LM_USAGE names the field. *out NULL: no memory, an error. Freed by lm_tools_free. */
lm_status lm_tools_read(const json_t *tools, json_t *choice, bool single, lm_tools **out, lm_error *e);
void      lm_tools_free(lm_tools *t);

/* After the prompt was rendered: has it begun reasoning? And what the answer must fit: *grammar is
 * made where it is NULL, and put behind reasoning where it is not. `w`: between the parts of arguments. What a grammar cannot hold of the
 * parameters of a tool that need not be called is left free, which `warnings` say; of one that must, or is strict, it is LM_USAGE. */
lm_status lm_tools_prepare(const lm_service *s, lm_tools *t, const lm_text *prompt, lm_whitespace w, lm_grammar **grammar, json_t *warnings,
                           lm_error *e);

/* What lm_answer_new wants; `ends` NULL-ended and kept by the caller. */
lm_answer_options lm_tools_options(const lm_tools *t, const char *const *ends, uint64_t ids);

/* Variables of templates that switch reasoning on or off: the names that families know. */
void lm_reasoning_switch(json_t *kwargs, bool on);

#endif
