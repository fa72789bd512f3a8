/* talk.c - what the loop of `lamina chat` and its slash commands share: the flags that may be set, and
 * showing an answer. */
#include <inttypes.h>

#include "cli/base/tokenjson.h"
#include "cli/run/talk.h"

#define O(field) offsetof(lm_talk_flags, field)

const lm_flag lm_talk_flag_table[] = {
    { "--system", "-sys --system-prompt", LM_FLAG_TEXT, O(system), "TEXT", "system message", 0, 0, NULL },
    { "--load", NULL, LM_FLAG_TEXT, O(load), "FILE", "continue a conversation saved by /save", 0, 0, NULL },
    { "--predict", "-n --n-predict", LM_FLAG_I64, O(predict), "N",
      "maximum number of tokens of an answer; -1: no limit (-1)", -1, 1e15, NULL },
    { "--reverse-prompt", "-r --stop", LM_FLAG_LIST, O(stops), "TEXT",
      "stop string: end the answer before TEXT; may be repeated", -1, 0, NULL },
    { "--escape", "-e", LM_FLAG_SWITCH, O(escape), NULL,
      "process escapes in -r: \\n, \\t, \\\\ ... (default)", 0, 0, NULL },
    { "--no-escape", NULL, LM_FLAG_SWITCH, O(no_escape), NULL,
      "leave backslashes in -r as they are", 0, 0, NULL },
    { "--single-turn", "-st", LM_FLAG_SWITCH, O(single), NULL, "end after the first answer", 0, 0, NULL },
    { "--mlock", NULL, LM_FLAG_SWITCH, O(lock), NULL,
      "keep the weights in RAM: lock the memory of the program", 0, 0, NULL },
    { "--chat-template", NULL, LM_FLAG_TEXT, O(chat.template_name), "NAME",
      "name of one of the model's chat templates", 0, 0, NULL },
    { "--chat-template-file", NULL, LM_FLAG_TEXT, O(chat.template_file), "FILE",
      "Jinja chat template to use instead of the model's", 0, 0, NULL },
    { "--chat-template-kwargs", NULL, LM_FLAG_TEXT, O(chat.kwargs), "JSON",
      "additional template variables, as a JSON object", 0, 0, NULL },
    { "--parse-special", NULL, LM_FLAG_SWITCH, O(chat.parse_content), NULL,
      "parse special tokens in messages", 0, 0, NULL },
    { 0 },
};

/* ---- answers ---- */

static void meter(const lm_talk *t)
{
    const lm_generation *x = &t->s.last;
    char used[LM_FORMATTED], all[LM_FORMATTED], rate[LM_FORMATTED];
    uint32_t length = lm_engine_length(t->s.engine, 0), context = lm_engine_context(t->s.engine);

    if (!lm_err_is_terminal())
        return;
    lm_faint_note("%zu token%s, %s  ·  context %s of %s (%.0f %%)%s", x->ids.n, x->ids.n == 1 ? "" : "s",
                  lm_format_rate(rate, lm_display_continued(x), x->generate_seconds),
                  lm_format_count(used, length), lm_format_count(all, context), 100.0 * length / context,
                  x->stop == LM_STOP_CANCELLED ? "  ·  interrupted"
                  : x->stop == LM_STOP_LENGTH  ? "  ·  stopped: length"
                                               : "");
    if (x->stop == LM_STOP_CONTEXT)
        lm_note("the context is full: /reset starts over, -c makes it larger");
}

static json_t *answer_json(const lm_session *s)
{
    return json_pack("{s:s, s:o, s:o, s:s, s:o, s:o}", "role", "assistant",
                     "content", lm_json_of(s->last.text.data, s->last.text.size),
                     "ids", lm_ids_json(s->last.ids.ids, s->last.ids.n),
                     "stop_reason", lm_stop_word(s->last.stop),
                     "stop_string", lm_display_stop_string(&s->last, s->stops.items),
                     "timings", lm_display_timings(&s->last));
}

lm_status lm_talk_show(lm_talk *t, lm_status status, lm_error *e)
{
    if (status != LM_OK)
        return status;
    lm_display_warn(&t->s.last);
    status = t->s.cli->json ? lm_out_json_line(lm_json_document(t->s.cli, answer_json(&t->s)), e)
                            : lm_out_text("\n", 1, e);
    meter(t);
    return status;
}
