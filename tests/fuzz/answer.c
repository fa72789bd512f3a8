/* answer.c - fuzz target: answers of every family, split anywhere. The first byte selects the family, the
 * second the split. */
#include "fuzz.h"
#include "lamina/answer.h"

static const char *const templates[] = {
    "[TOOL_CALLS][ARGS][THINK]", "[TOOL_CALLS][ARGS][CALL_ID]", "<|channel|>", "<|tool_calls_section_begin|><|tool_call_begin|><think>",
    "<|START_ACTION|><|START_THINKING|>", "<|tool_list_start|>", "DSML function_calls <think>", "<|tool_call>call: <|channel>thought",
    "<minimax:tool_call>", "seed:tool_call <seed:think>", "<tool_call><arg_key>", "<tool_call><function=<parameter=<think>",
    "<｜tool▁calls▁begin｜>```json", "<｜tool▁calls▁begin｜><think>", "<TOOLCALL>", "<|tools_prefix|>", "<|/tool_call|>", "<|tool_call|>",
    "<tool_call>{\"name\": …} <think>", "[TOOL_CALLS]", "<function=</function>", "Action:```json tool_name", "<|start_header_id|> ipython parameters",
    "<atem:function_calls><|message|>", "<|open|><|close|><|sep|>", "]<]minimax[>[", "<|function_call|>", "<|tool_call:begin|><|tool_call:args|>", ">>>all",
    "<start_function_call>", "<｜tool_calls_begin｜>steptml", "<|plugin|><|action_start|>", "<|tool_call_start|>```python", "<tool_sep arg_key", "functools",
    "<function_calls></functions>", "<tool_call><response><think>", "make calls in a single JSON array", "<|python_start|>", "[func_name1(",
    "<dots_function_call>", "<ifm|tool_call>",
    "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls %}<t>{\"name\": \"{{ c.function.name }}\", \"args\": {{ c.function.arguments | tojson }}}</t>"
    "{% endfor %}{% endfor %}<think>",
};
static const char *const pieces[] = {
    "<tool_call>", "</tool_call>", "{\"name\": \"f\", \"arguments\": {", "}}", "\"a\": 1", "<think>", "</think>", "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]",
    "<|channel|>analysis", "<|channel|>final", "<|message|>", "<|end|>", "<|start|>assistant", " to=functions.f", "<|call|>", "<function=f>",
    "<parameter=a>", "</parameter>", "</function>", "f<arg_key>a</arg_key>", "<arg_value>x</arg_value>", "call:f{", "<|\"|>", "f(a='x')",
    "<|tool_call_start|>[", "]<|tool_call_end|>", "<|START_ACTION|>[", "{\"tool_name\": \"f\", \"parameters\": {}}", "]<|END_ACTION|>", "\\u00e9", "<|tool_call>",
    "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "\n", "{}", "[", "]", "f", "\"",
    "]<]minimax[>[<tool_call>", "]<]minimax[>[<invoke name=\"f\">", "]<]minimax[>[<a>", "]<]minimax[>[</a>", "]<]minimax[>[</invoke>", ">>>", "all\n",
    "<|open|>call tool=\"f\" index=\"1\"<|sep|>", "<|close|>call<|sep|>", "<|open|>argument key=\"a\" type=\"string\"<|sep|>", "<|close|>argument<|sep|>",
    " to=self<|message|>", " to=f<|message|>", "<atem:invoke name=\"f\">", "</atem:invoke>", "<|eom|>", "functools[",
};

typedef struct received { lm_text texts[2], calls; uint32_t n; bool open; } received;

static void on_event(void *arg, const lm_answer_event *event)
{
    received *h = arg;

    switch (event->kind) {
    case LM_ANSWER_REASONING:
    case LM_ANSWER_CONTENT:
        PROMISE(!h->open && event->size);
        lm_text_add(&h->texts[event->kind], event->text, event->size);
        break;
    case LM_ANSWER_CALL:
        PROMISE(!h->open && event->call == h->n && *event->id);
        h->open = true;
        lm_text_printf(&h->calls, "\n%u %s ", event->call, event->id);
        break;
    case LM_ANSWER_ARGUMENTS:
        PROMISE(h->open && event->call == h->n);
        lm_text_add(&h->calls, event->text, event->size);
        break;
    case LM_ANSWER_CALL_END:
        PROMISE(h->open);
        h->open = false;
        h->n++;
        break;
    }
}

static void hear(const lm_answer_style *s, const lm_answer_options *o, const char *text, size_t size,
                 unsigned seed, received *h)
{
    lm_answer *a;

    PROMISE(lm_answer_new(s, o, &a, NULL) == LM_OK);
    for (size_t at = 0; at < size;) {
        size_t n = seed ? 1 + below(&seed, 9) : size;
        n = n < size - at ? n : size - at;
        PROMISE(lm_answer_feed(a, text + at, n, on_event, h, NULL) == LM_OK);
        at += n;
    }
    PROMISE((o->ids ? lm_answer_cut : lm_answer_end)(a, on_event, h, NULL) == LM_OK);
    PROMISE(!h->open);
    lm_answer_free(a);
}

static void same(const lm_text *a, const lm_text *b)
{
    PROMISE(a->size == b->size && (!a->size || memcmp(a->data, b->data, a->size) == 0));
}

static void forget(received *h)
{
    lm_text_free(&h->texts[0]);
    lm_text_free(&h->texts[1]);
    lm_text_free(&h->calls);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    const char *piece = pieces[below(&seed, sizeof pieces / sizeof *pieces)];
    size_t n = strlen(piece), at;

    if (size < 2 || below(&seed, 3) == 0 || size + n > max_size)
        return LLVMFuzzerMutate(data, size, max_size);
    at = 2 + below(&seed, size - 1);
    memmove(data + at + n, data + at, size - at);
    memcpy(data + at, piece, n);
    return size + n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lm_answer_tool tools[] = {
        { .name = "f", .parameters = "{\"properties\": {\"a\": {\"type\": \"string\"}}}" }, { .name = "g" }
    };
    static const char *const ends[] = { "<|im_end|>", NULL };
    received whole = { 0 }, cut = { 0 };
    lm_answer_style s;

    if (size < 2)
        return 0;
    lm_answer_options o = { .tools = tools,
                            .n_tools = 2,
                            .ends = ends,
                            .in_reasoning = data[1] & 1,
                            .eager = data[1] & 2,
                            .ids = data[1] >> 3 & 1,
                            .keep_reasoning = data[1] & 4 };
    lm_answer_style_of(templates[data[0] % (sizeof templates / sizeof *templates)], &s);
    hear(&s, &o, (const char *)data + 2, size - 2, 0, &whole);
    hear(&s, &o, (const char *)data + 2, size - 2, 1 + data[1], &cut);
    same(&whole.texts[0], &cut.texts[0]);
    same(&whole.texts[1], &cut.texts[1]);
    same(&whole.calls, &cut.calls);
    forget(&whole);
    forget(&cut);
    lm_answer_style_free(&s);
    return 0;
}
