/* families.c - how families of models write calls and reasoning, and which family a chat template belongs to.
 *
 * Families are tried in this order: specific ones come before general ones (<arg_key> before <tool_call>). */
#include <string.h>

#include "text/answer/family.h"

#define JSON_KEYS .name_key = "name", .arguments_key = "arguments"

const lm_answer_family lm_answer_families[] = {
    { .name = "ministral", .has = { "[TOOL_CALLS]", "[ARGS]" }, .lacks = "[CALL_ID]", .form = LM_FORM_NAMED, .call = { "[TOOL_CALLS]", NULL },
      .name_end = "[ARGS]", .ids = LM_IDS_NINE },
    { .name = "mistral-small", .has = { "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]" }, .form = LM_FORM_NAMED, .call = { "[TOOL_CALLS]", NULL },
      .name_end = "[ARGS]", .id_mark = "[CALL_ID]", .ids = LM_IDS_NINE },
    { .name = "muse", .has = { "<atem:function_calls>", "<|message|>" }, .form = LM_FORM_HARMONY,
      .section = { "<atem:function_calls>", "</atem:function_calls>" },
      .call = { "<atem:invoke name=\"", "</atem:invoke>" },
      .name_end = "\">", .argument = { "<atem:parameter name=\"", "</atem:parameter>" }, .key_end = "\">" },
    { .name = "harmony", .has = { "<|channel|>" }, .form = LM_FORM_HARMONY },
    { .name = "kimi-k3", .has = { "<|open|>", "<|close|>", "<|sep|>" }, .form = LM_FORM_TAGGED,
      .section = { "<|open|>tools<|sep|>", "<|close|>tools<|sep|>" },
      .call = { "<|open|>call tool=\"", "<|close|>call<|sep|>" },
      .name_end = "\"", .head_end = "<|sep|>",
      .argument = { "<|open|>argument key=\"", "<|close|>argument<|sep|>" },
      .key_end = "\"", .typed = LM_TYPED_BY_NAME,
      .reasoning = { "<|open|>think<|sep|>", "<|close|>think<|sep|>" },
      .drops = { "<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|close|>message<|sep|>" } },
    { .name = "minimax-m3", .has = { "]<]minimax[>[" }, .form = LM_FORM_NESTED,
      .section = { "]<]minimax[>[<tool_call>", "]<]minimax[>[</tool_call>" },
      .call = { "]<]minimax[>[<invoke name=\"", "]<]minimax[>[</invoke>" }, .name_end = "\">",
      .tag = "]<]minimax[>[",
      .reasoning = { "<mm:think>", "</mm:think>" }, .drops = { "</mm:think>" } },
    { .name = "gigachat3.1", .has = { "<|function_call|>" }, .form = LM_FORM_OBJECT, .call = { "<|function_call|>", NULL }, JSON_KEYS },
    { .name = "gigachat3", .has = { "`function call`", "<|role_sep|>" }, .form = LM_FORM_OBJECT,
      .call = { "<|message_sep|>\n\nfunction call<|role_sep|>\n", NULL }, JSON_KEYS },
    { .name = "solar-open", .has = { "<|tool_call:begin|>", "<|tool_call:args|>" }, .form = LM_FORM_NAMED,
      .section = { "<|tool_calls|>", NULL }, .call = { "<|tool_call:begin|>", "<|tool_call:end|>" },
      .id_first = "<|tool_call:name|>", .name_end = "<|tool_call:args|>", .drops = { "<|content|>" } },
    { .name = "functionary-v3.2", .has = { ">>>all" }, .form = LM_FORM_NAMED, .call = { ">>>", NULL }, .name_end = "\n",
      .prompted = true, .drops = { ">>>all\n" } },
    { .name = "functiongemma", .has = { "<start_function_call>" }, .form = LM_FORM_BRACED,
      .call = { "<start_function_call>", "<end_function_call>" }, .quote = "<escape>" },
    { .name = "step3", .has = { "<｜tool_calls_begin｜>", "steptml" }, .form = LM_FORM_TAGGED,
      .section = { "<｜tool_calls_begin｜>", "<｜tool_calls_end｜>" },
      .call = { "<｜tool_call_begin｜><steptml:invoke name=\"", "</steptml:invoke><｜tool_call_end｜>" },
      .between = "<｜tool_sep｜>",
      .name_end = "\">", .argument = { "<steptml:parameter name=\"", "</steptml:parameter>" },
      .key_end = "\">" },
    { .name = "internlm2", .has = { "<|plugin|>", "<|action_start|>" }, .form = LM_FORM_OBJECT,
      .call = { "<|action_start|><|plugin|>", "<|action_end|>" }, JSON_KEYS },
    { .name = "minicpm3", .has = { "<|tool_call_start|>", "```python" }, .form = LM_FORM_PYTHON,
      .section = { "<|tool_call_start|>\n```python", "```\n<|tool_call_end|>" } },
    { .name = "kimi-k2", .has = { "<|tool_calls_section_begin|>", "<|tool_call_begin|>" },
      .form = LM_FORM_NAMED,
      .section = { "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>" },
      .call = { "<|tool_call_begin|>", "<|tool_call_end|>" },
      .name_end = "<|tool_call_argument_begin|>", .ids = LM_IDS_KIMI },
    { .name = "cohere2", .has = { "<|START_TEXT|>", "<|START_ACTION|>" }, .form = LM_FORM_OBJECT,
      .section = { "<|START_ACTION|>", "<|END_ACTION|>" }, .name_key = "tool_name", .arguments_key = "parameters",
      .ids = LM_IDS_COUNTER, .drops = { "<|START_TEXT|>", "<|END_TEXT|>" } },
    { .name = "command-r7b", .has = { "<|START_ACTION|>" }, .form = LM_FORM_OBJECT, .section = { "<|START_ACTION|>", "<|END_ACTION|>" },
      .name_key = "tool_name", .arguments_key = "parameters", .ids = LM_IDS_COUNTER,
      .drops = { "<|START_RESPONSE|>", "<|END_RESPONSE|>" } },
    { .name = "lfm2", .has = { "<|tool_list_start|>" }, .form = LM_FORM_PYTHON, .section = { "<|tool_call_start|>", "<|tool_call_end|>" } },
    { .name = "lfm2.5", .has = { "List of tools: " }, .form = LM_FORM_PYTHON, .section = { "<|tool_call_start|>", "<|tool_call_end|>" } },
    { .name = "deepseek-v3.2", .has = { "DSML", "function_calls" }, .form = LM_FORM_TAGGED,
      .section = { "<｜DSML｜function_calls>", "</｜DSML｜function_calls>" },
      .call = { "<｜DSML｜invoke name=\"", "</｜DSML｜invoke>" }, .name_end = "\">",
      .argument = { "<｜DSML｜parameter name=\"", "</｜DSML｜parameter>" }, .key_end = "\"",
      .typed = LM_TYPED_AS_TEXT },
    { .name = "deepseek-v4", .has = { "DSML", "tool_calls" }, .form = LM_FORM_TAGGED,
      .section = { "<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>" },
      .call = { "<｜DSML｜invoke name=\"", "</｜DSML｜invoke>" }, .name_end = "\">",
      .argument = { "<｜DSML｜parameter name=\"", "</｜DSML｜parameter>" }, .key_end = "\"",
      .typed = LM_TYPED_AS_TEXT },
    { .name = "gemma4", .has = { "<|tool_call>call:" }, .form = LM_FORM_BRACED, .call = { "<|tool_call>", "<tool_call|>" },
      .drops = { "<|channel>thought", "<channel|>" } },
    { .name = "minicpm5", .has = { "<function name=\"", "<param name=\"", "Tool usage guidelines:" },
      .form = LM_FORM_TAGGED,
      .call = { "<function name=\"", "</function>" }, .name_end = "\">", .argument = { "<param name=\"", "</param>" }, .key_end = "\">",
      .cdata = true },
    { .name = "dots", .has = { "<dots_function_call>" }, .form = LM_FORM_TAGGED,
      .section = { "<dots_function_call>", "</dots_function_call>" },
      .call = { "<invoke name=\"", "</invoke>" },
      .name_end = "\">", .argument = { "<parameter name=\"", "</parameter>" }, .key_end = "\">" },
    { .name = "k2-horizon", .has = { "<ifm|tool_call" }, .form = LM_FORM_TAGGED,
      .section = { "<ifm|tool_calls>", "</ifm|tool_calls>" },
      .call = { "<ifm|tool_call>", "</ifm|tool_call>" },
      .argument = { "<ifm|arg_key>", "</ifm|arg_value>" }, .key_end = "</ifm|arg_key><ifm|arg_value>",
      JSON_KEYS },
    { .name = "minimax-m2", .has = { "<minimax:tool_call>" }, .form = LM_FORM_TAGGED,
      .section = { "<minimax:tool_call>", "</minimax:tool_call>" }, .lines = true, .call = { "<invoke name=\"", "</invoke>" }, .name_end = "\">",
      .argument = { "<parameter name=\"", "</parameter>" }, .key_end = "\">" },
    { .name = "seed-oss", .has = { "seed:tool_call" }, .form = LM_FORM_TAGGED, .section = { "<seed:tool_call>", "</seed:tool_call>" },
      .lines = true,
      .call = { "<function=", "</function>" }, .name_end = ">", .argument = { "<parameter=", "</parameter>" },
      .key_end = ">" },
    { .name = "hunyuan3", .has = { "<tool_sep", "arg_key", ":opensource" }, .form = LM_FORM_TAGGED,
      .section = { "<tool_calls:opensource>", "</tool_calls:opensource>" },
      .call = { "<tool_call:opensource>", "</tool_call:opensource>" }, .name_end = "<tool_sep:opensource>",
      .argument = { "<arg_key:opensource>", "</arg_value:opensource>" },
      .key_end = "</arg_key:opensource><arg_value:opensource>",
      .reasoning = { "<think:opensource>", "</think:opensource>" } },
    { .name = "hunyuan3", .has = { "<tool_sep", "arg_key" }, .form = LM_FORM_TAGGED,
      .section = { "<tool_calls>", "</tool_calls>" },
      .call = { "<tool_call>", "</tool_call>" }, .name_end = "<tool_sep>",
      .argument = { "<arg_key>", "</arg_value>" },
      .key_end = "</arg_key><arg_value>" },
    { .name = "glm-4.7", .has = { "<tool_call>", "</arg_key><arg_value>" }, .form = LM_FORM_TAGGED, .call = { "<tool_call>", "</tool_call>" },
      .argument = { "<arg_key>", "</arg_value>" }, .key_end = "</arg_key><arg_value>" },
    { .name = "glm", .has = { "<tool_call>", "<arg_key>" }, .form = LM_FORM_TAGGED, .call = { "<tool_call>", "</tool_call>" },
      .argument = { "<arg_key>", "</arg_value>" }, .key_end = "</arg_key><arg_value>" },
    { .name = "qwen3-coder", .has = { "<tool_call>", "<function=", "<parameter=" }, .form = LM_FORM_TAGGED,
      .section = { "<tool_call>", "</tool_call>" }, .call = { "<function=", "</function>" }, .name_end = ">",
      .argument = { "<parameter=", "</parameter>" }, .key_end = ">", .own_lines = true },
    { .name = "deepseek-r1", .has = { "<｜tool▁calls▁begin｜>", "```json" }, .form = LM_FORM_NAMED,
      .section = { "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>" },
      .call = { "<｜tool▁call▁begin｜>function<｜tool▁sep｜>", "```<｜tool▁call▁end｜>" }, .name_end = "```json" },
    { .name = "deepseek-v3.1", .has = { "<｜tool▁calls▁begin｜>" }, .form = LM_FORM_NAMED,
      .section = { "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>" },
      .call = { "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>" },
      .name_end = "<｜tool▁sep｜>" },
    { .name = "nemotron-v2", .has = { "<TOOLCALL>" }, .form = LM_FORM_OBJECT, .section = { "<TOOLCALL>", "</TOOLCALL>" }, JSON_KEYS },
    { .name = "nemotron-mini", .has = { "<toolcall>" }, .form = LM_FORM_OBJECT, .call = { "<toolcall>", "</toolcall>" }, JSON_KEYS },
    { .name = "longcat", .has = { "<longcat_tool_call>" }, .form = LM_FORM_OBJECT,
      .call = { "<longcat_tool_call>", "</longcat_tool_call>" }, JSON_KEYS },
    { .name = "granite-20b-fc", .has = { "<function_call>" }, .form = LM_FORM_OBJECT, .call = { "<function_call>", NULL }, JSON_KEYS },
    { .name = "apertus", .has = { "<|tools_prefix|>" }, .form = LM_FORM_KEYED, .section = { "<|tools_prefix|>", "<|tools_suffix|>" } },
    { .name = "phi4-mini", .has = { "<|/tool_call|>" }, .form = LM_FORM_OBJECT, .section = { "<|tool_call|>", "<|/tool_call|>" },
      .section_also = "functools", JSON_KEYS },
    { .name = "phi4-mini", .has = { "<|tool|>", "<|/tool|>" }, .form = LM_FORM_OBJECT, .section = { "<|tool_call|>", "<|/tool_call|>" },
      .section_also = "functools", JSON_KEYS },
    { .name = "functools", .has = { "functools" }, .form = LM_FORM_OBJECT, .section = { "functools[", "]" }, JSON_KEYS },
    { .name = "olmo3", .has = { "<function_calls>", "</functions>" }, .form = LM_FORM_PYTHON,
      .section = { "<function_calls>", "</function_calls>" } },
    { .name = "ernie4.5", .has = { "<tool_call>", "<response>" }, .form = LM_FORM_OBJECT, .call = { "<tool_call>", "</tool_call>" },
      JSON_KEYS, .drops = { "<response>", "</response>" } },
    { .name = "granite3", .has = { "<|tool_call|>" }, .form = LM_FORM_OBJECT,
      .section = { "<|tool_call|>", NULL }, .section_also = "<tool_call>", JSON_KEYS,
      .drops = { "<response>", "</response>" } },
    { .name = "hunyuan", .has = { "<tool_calls>", "<|extra_0|>" }, .form = LM_FORM_OBJECT, .section = { "<tool_calls>", "</tool_calls>" },
      JSON_KEYS, .drops = { "<answer>", "</answer>" } },
    { .name = "apriel", .has = { "<tool_calls>", "</tool_calls>" }, .form = LM_FORM_OBJECT, .section = { "<tool_calls>", "</tool_calls>" },
      JSON_KEYS, .drops = { "[BEGIN FINAL RESPONSE]", "[END FINAL RESPONSE]" } },
    { .name = "hermes", .has = { "<tool_call>" }, .form = LM_FORM_OBJECT, .call = { "<tool_call>", "</tool_call>" }, JSON_KEYS },
    { .name = "mistral", .has = { "[TOOL_CALLS]" }, .form = LM_FORM_OBJECT,
      .section = { "[TOOL_CALLS]", NULL }, JSON_KEYS,
      .ids = LM_IDS_NINE },
    { .name = "functionary-v3.1", .has = { "<function=", "</function>" }, .form = LM_FORM_NAMED, .call = { "<function=", "</function>" },
      .name_end = ">" },
    { .name = "command-r-plus", .has = { "Action:", "```json", "tool_name" }, .form = LM_FORM_OBJECT,
      .section = { "Action: ```json", "```" }, .section_also = "Action:\n```json", .name_key = "tool_name",
      .arguments_key = "parameters" },
    { .name = "xlam", .has = { "make calls in a single JSON array" }, .form = LM_FORM_OBJECT, .bare = true, .array = true, JSON_KEYS },
    { .name = "llama4-pythonic", .has = { "<|python_start|>" }, .form = LM_FORM_PYTHON,
      .section = { "<|python_start|>", "<|python_end|>" }, .bare = true },
    { .name = "llama4-pythonic", .has = { "<|header_start|>", "[func_name1(" }, .form = LM_FORM_PYTHON,
      .section = { "<|python_start|>", "<|python_end|>" }, .bare = true },
    { .name = "pythonic", .has = { "[func_name1(" }, .form = LM_FORM_PYTHON, .bare = true },
    { .name = "llama4-json", .has = { "<|header_start|>", "ipython", "parameters" }, .form = LM_FORM_OBJECT,
      .bare = true, .name_key = "name", .arguments_key = "parameters" },
    { .name = "llama3", .has = { "<|start_header_id|>", "ipython", "parameters" }, .form = LM_FORM_OBJECT,
      .section = { "<|python_tag|>", NULL }, .bare = true, .name_key = "name",
      .arguments_key = "parameters" },
    { 0 },
};

static const lm_answer_mark_pair reasonings[] = {
    { "<ifm|think>", "</ifm|think>" }, { "[THINK]", "[/THINK]" }, { "<|START_THINKING|>", "<|END_THINKING|>" }, { "<seed:think>", "</seed:think>" },
    { "Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]" },
    { "<|channel>thought", "<channel|>" }, { "<|inner_prefix|>", "<|inner_suffix|>" }, { "<think>", "</think>" },
};

static bool belongs(const lm_answer_family *f, const char *text)
{
    for (size_t i = 0; i < LM_FAMILY_HAS && f->has[i]; i++)
        if (!strstr(text, f->has[i]))
            return false;
    return !f->lacks || !strstr(text, f->lacks);
}

void lm_answer_style_of(const char *chat_template, lm_answer_style *out)
{
    if (!out)
        return;
    *out = (lm_answer_style){ 0 };
    if (!chat_template)
        return;
    for (const lm_answer_family *f = lm_answer_families; f->name && !out->family; f++)
        if (belongs(f, chat_template))
            out->family = f;
    if (out->family && ((const lm_answer_family *)out->family)->reasoning.open) {
        out->reasoning     = ((const lm_answer_family *)out->family)->reasoning.open;
        out->reasoning_end = ((const lm_answer_family *)out->family)->reasoning.close;
        return;
    }
    for (size_t i = 0; i < sizeof reasonings / sizeof *reasonings; i++) {
        const lm_answer_mark_pair *r = reasonings + i;
        if (!strstr(chat_template, r->open) && !strstr(chat_template, r->close))
            continue;
        out->reasoning     = r->open;
        out->reasoning_end = r->close;
        return;
    }
}

static bool is_harmony(const lm_answer_style *s)
{
    const lm_answer_family *f = s->family;

    return f && f->form == LM_FORM_HARMONY;
}

const char *lm_answer_style_name(const lm_answer_style *s)
{
    return s && s->family ? ((const lm_answer_family *)s->family)->name : NULL;
}

const char *lm_answer_family_name(size_t i)
{
    return i < sizeof lm_answer_families / sizeof *lm_answer_families ? lm_answer_families[i].name : NULL;
}

const char *lm_answer_mark(const lm_answer_style *s, size_t i)
{
    static const char *const harmony[] = { "<|channel|>", "<|message|>", "<|start|>",    "<|end|>",
                                           "<|call|>",    "<|return|>",  "<|constrain|>" };
    static const lm_answer_family none;
    static const lm_answer_style empty;
    if (!s)
        s = &empty;
    const lm_answer_family *f = s->family ? s->family : &none;
    const char *const all[] = {
        s->reasoning, s->reasoning_end, f->section.open,
        f->section.close, f->call.open, f->call.close,
        f->name_end, f->id_mark, f->argument.open,
        f->argument.close, f->key_end, f->drops[0],
        f->drops[1],       f->drops[2],      f->form == LM_FORM_BRACED && !f->quote ? "<|\"|>" : f->quote,
        f->section_also, f->head_end,
        f->id_first
    };
    size_t n = sizeof harmony / sizeof *harmony;

    if (is_harmony(s)) {
        if (i < n)
            return harmony[i];
        i -= n;
    }
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        if (all[k] && i-- == 0)
            return all[k];
    return NULL;
}

/* Return the position after the last occurrence of a mark; 0: not found. */
static size_t last_of(const char *text, size_t size, const char *mark)
{
    size_t n = strlen(mark);

    for (size_t i = size; i >= n; i--)
        if (memcmp(text + i - n, mark, n) == 0)
            return i;
    return 0;
}

bool lm_answer_in_reasoning(const lm_answer_style *s, const char *prompt, size_t size)
{
    size_t open, after;

    if (!s || !prompt || !s->reasoning || is_harmony(s))
        return false;
    open = last_of(prompt, size, s->reasoning);
    if (!open || last_of(prompt, size, s->reasoning_end) > open)
        return false;
    /* reasoning was opened by the end of the prompt, not by a message that mentions the mark */
    for (after = open; after < size && (prompt[after] == '\n' || prompt[after] == ' '); after++)
        ;
    return after == size;
}
