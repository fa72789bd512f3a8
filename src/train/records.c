/* records.c - convert data records to tokens, and mark which of them are trained. */
#include "train/records.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/jsontext.h"
#include "lamina/model.h"

static const char *const form_names[LM_RECORD_FORMS] = {
    "messages", "prompt and completion", "instruction and output", "conversations", "text", "input_ids"
};

static lm_status refuse(lm_record_reader *r, const char *why)
{
    return lm_fail(r->e, LM_USAGE, NULL, LM_NO_OFFSET, "%s", why);
}

/* ---- members ---- */

/* Check all members of a record. */
static lm_status check_record(lm_record_reader *r, json_t *record, lm_record_form form)
{
    static const char *const used[LM_RECORD_FORMS][6] = {
        { "messages", "tools", "parallel_tool_calls", "chat_template_kwargs" },
        { "prompt", "completion", "tools", "chat_template_kwargs" },
        { "instruction", "input", "output", "system" },
        { "conversations", "tools", "system" },
        { "text" },
        { "input_ids", "labels", "attention_mask" },
    };
    const char *name;
    json_t *value;

    json_object_foreach(record, name, value) {
        bool known = json_is_null(value) || lm_record_is_switch(name) ||
                     (json_is_string(value) && !json_string_length(value)) ||
                     (json_is_array(value) && !json_array_size(value));
        for (size_t i = 0; !known && used[form][i]; i++)
            known = strcmp(used[form][i], name) == 0;
        if (!known)
            LM_TRY(lm_record_unused(r, name));
    }
    return LM_OK;
}

void lm_record_describe(const lm_record_reader *r, lm_train_data *out)
{
    const char *name;
    json_t *value;
    size_t at = 0;

    snprintf(out->form, sizeof out->form, "%s", r->known ? form_names[r->form] : "text");
    json_object_foreach(r->unused, name, value) {
        at += (size_t)snprintf(out->unused + at, sizeof out->unused - at, "%s%.40s", at ? ", " : "", name);
        if (at >= sizeof out->unused - 44)
            break;
    }
}

/* Set *out to the list of tools, a new reference or NULL; data sets also have it as a string of JSON. */
static lm_status tools_of(lm_record_reader *r, json_t *record, json_t **out)
{
    json_t *tools = json_object_get(record, "tools");
    bool    text  = json_is_string(tools) && json_string_length(tools);

    *out = text ? lm_json_read(json_string_value(tools), json_string_length(tools), 0, NULL)
                : json_incref(tools);
    if (!tools || json_is_null(*out) || (json_is_string(tools) && !text)) {
        json_decref(*out);
        *out = NULL;
        return LM_OK;
    }
    if (json_is_array(*out))
        return LM_OK;
    json_decref(*out);
    return lm_fail(r->e, LM_USAGE, "tools", LM_NO_OFFSET, "is not a list of tools");
}

/* Read a conversation with the tools and variables of its record. */
static lm_status conversation(lm_record_reader *r, json_t *record, json_t *messages, size_t from,
                              lm_text_record *out)
{
    lm_conversation c = { .messages = messages,
                          .variables = json_object_get(record, "chat_template_kwargs"),
                          .from = from };

    if (c.variables && !json_is_object(c.variables) && !json_is_null(c.variables))
        return lm_fail(r->e, LM_USAGE, "chat_template_kwargs", LM_NO_OFFSET, "is not an object");
    LM_TRY(tools_of(r, record, &c.tools));
    lm_status status = lm_record_conversation(r, &c, out);
    json_decref(c.tools);
    return status;
}

static json_t *message(const char *role, json_t *content)
{
    return json_pack("{s:s, s:O}", "role", role, "content", content);
}

/* Put the record's system prompt, if any, before the messages. */
static lm_status add_system(lm_record_reader *r, json_t *record, json_t *messages)
{
    json_t *system = json_object_get(record, "system");

    if (!system || json_is_null(system) || (json_is_string(system) && !json_string_length(system)))
        return LM_OK;
    if (!json_is_string(system))
        return lm_fail(r->e, LM_USAGE, "system", LM_NO_OFFSET, "is not a text");
    json_array_insert_new(messages, 0, message("system", system));
    return LM_OK;
}

/* ---- texts and pairs ---- */

static lm_status end_text(lm_record_reader *r, lm_tokens *ids)
{
    lm_token eos = lm_tokenizer_eos(r->tokenizer);

    if (eos >= 0 && (!ids->n || !lm_model_is_end(r->o->model, ids->ids[ids->n - 1])))
        return lm_tokens_add(ids, eos, r->e);
    return LM_OK;
}

lm_status lm_record_plain_text(lm_record_reader *r, const char *text, size_t size, lm_text_record *out)
{
    LM_TRY(lm_tokenize(r->tokenizer, text, size, LM_ADD_SPECIAL | LM_NO_PARSE_SPECIAL, &out->ids, r->e));
    return end_text(r, &out->ids);
}

/* A merge across the boundary moves it: the first token that differs belongs to the completion. */
static lm_status pair(lm_record_reader *r, const char *prompt, const char *completion, lm_text_record *out)
{
    lm_text both = { 0 };
    lm_tokens before = { 0 };
    lm_status status;

    lm_text_printf(&both, "%s%s", prompt, completion);
    if (both.failed)
        return lm_fail_memory(r->e, "a text", 0);
    status = lm_tokenize(r->tokenizer, prompt, strlen(prompt), LM_ADD_SPECIAL | LM_NO_PARSE_SPECIAL, &before,
                         r->e);
    if (status == LM_OK)
        status = lm_record_plain_text(r, both.data, both.size, out);
    if (status == LM_OK && before.n && lm_model_is_end(r->o->model, before.ids[before.n - 1]))
        before.n--;                      /* the token that the tokenizer appends to every text */
    size_t from = lm_record_common(&before, &out->ids);
    out->mask = status == LM_OK ? lm_alloc_zero(out->ids.n + 1, sizeof *out->mask) : NULL;
    if (status == LM_OK && !out->mask)
        status = lm_fail_memory(r->e, "a text", out->ids.n);
    for (size_t i = r->o->all ? 1 : from; status == LM_OK && i < out->ids.n; i++)
        out->mask[i] = true;
    lm_tokens_free(&before);
    lm_text_free(&both);
    return status;
}

/* ---- forms ---- */

static lm_status messages_of(lm_record_reader *r, json_t *record, lm_text_record *out)
{
    json_t *messages = json_object_get(record, "messages");

    if (!json_is_array(messages) || !json_array_size(messages))
        return refuse(r, "\"messages\" is not a list of messages");
    return conversation(r, record, messages, 0, out);
}

static lm_status pair_of(lm_record_reader *r, json_t *record, lm_text_record *out)
{
    json_t *prompt = json_object_get(record, "prompt"), *completion = json_object_get(record, "completion"),
           *tools;

    if (json_is_string(prompt) && json_is_string(completion)) {
        LM_TRY(tools_of(r, record, &tools));
        json_decref(tools);
        return tools ? lm_fail(r->e, LM_USAGE, "tools", LM_NO_OFFSET, "needs lists of messages, not texts")
                     : pair(r, json_string_value(prompt), json_string_value(completion), out);
    }
    if (!json_is_array(prompt) || !json_is_array(completion))
        return refuse(r, "\"prompt\" and \"completion\" must be two texts or two lists of messages");
    json_t *all = json_array();
    json_array_extend(all, prompt);
    json_array_extend(all, completion);
    lm_status status = conversation(r, record, all, json_array_size(prompt), out);
    json_decref(all);
    return status;
}

/* Write the prompt that models without a template were trained with. */
static lm_status alpaca_pair(lm_record_reader *r, json_t *record, const char *instruction, const char *input,
                             const char *output, lm_text_record *out)
{
    const char *system = json_string_value(json_object_get(record, "system"));
    lm_text     text = { 0 };

    if (system && *system)
        lm_text_printf(&text, "%s\n\n", system);
    lm_text_printf(&text, "### Instruction:\n%s\n\n", instruction);
    if (input && *input)
        lm_text_printf(&text, "### Input:\n%s\n\n", input);
    lm_text_add_str(&text, "### Response:\n");
    lm_status status = text.failed ? lm_fail_memory(r->e, "a text", 0) : pair(r, text.data, output, out);
    lm_text_free(&text);
    return status;
}

static lm_status alpaca_of(lm_record_reader *r, json_t *record, lm_text_record *out)
{
    json_t *output = json_object_get(record, "output"), *given = json_object_get(record, "input");
    const char *instruction = json_string_value(json_object_get(record, "instruction")),
               *input = json_string_value(given);
    lm_text text = { 0 };

    if (!instruction || !json_is_string(output) || (given && !input && !json_is_null(given)))
        return refuse(r, "\"instruction\", \"input\" and \"output\" must be texts");
    if (!r->chat)
        return alpaca_pair(r, record, instruction, input, json_string_value(output), out);
    lm_text_printf(&text, input && *input ? "%s\n\n%s" : "%s", instruction, input);
    json_t *content = lm_json_text(text.data ? text.data : "", text.size);
    json_t *all = json_pack("[o, o]", message("user", content), message("assistant", output));
    json_decref(content);
    lm_status status = all ? add_system(r, record, all) : lm_fail_memory(r->e, "a conversation", 0);
    if (status == LM_OK)
        status = conversation(r, NULL, all, 0, out);
    json_decref(all);
    lm_text_free(&text);
    return status;
}

/* Write a turn of ShareGPT, {"from", "value"} or {"role", "content"}, as a message. */
static json_t *turn_of(lm_record_reader *r, const json_t *turn)
{
    static const char *const roles[][2] = { { "human", "user" },        { "user", "user" },
                                            { "gpt", "assistant" },     { "assistant", "assistant" },
                                            { "chatgpt", "assistant" }, { "system", "system" },
                                            { "tool", "tool" },         { "function", "tool" },
                                            { "observation", "tool" } };
    json_t *m = json_is_object(turn) ? json_copy((json_t *)(uintptr_t)turn) : NULL,   /* only read */
           *from = json_object_get(m, "from"), *value = json_object_get(m, "value");
    const char *name = json_string_value(from ? from : json_object_get(m, "role")), *role = NULL;

    for (size_t k = 0; name && k < sizeof roles / sizeof *roles; k++)
        role = strcmp(name, roles[k][0]) == 0 ? roles[k][1] : role;
    if (!role || (from && json_object_get(m, "role")) || (value && json_object_get(m, "content")) ||
        (from && !json_is_string(value))) {
        json_decref(m);
        refuse(r, "a turn needs \"from\" (human, gpt, system, tool) and a text \"value\", or \"role\" and "
                  "\"content\"");
        return NULL;
    }
    if (value)
        json_object_set(m, "content", value);
    json_object_del(m, "from");
    json_object_del(m, "value");
    json_object_set_new(m, "role", json_string(role));
    return m;
}

static lm_status sharegpt_of(lm_record_reader *r, json_t *record, lm_text_record *out)
{
    json_t *turns = json_object_get(record, "conversations"), *all = json_array(), *turn;
    size_t i;
    lm_status status = json_is_array(turns) && json_array_size(turns)
                           ? LM_OK
                           : refuse(r, "\"conversations\" is not a list of turns");

    json_array_foreach(turns, i, turn) {
        json_t *m = status == LM_OK ? turn_of(r, turn) : NULL;
        if (m)
            json_array_append_new(all, m);
        else
            status = LM_USAGE;
    }
    if (status == LM_OK)
        status = add_system(r, record, all);
    if (status == LM_OK)
        status = conversation(r, record, all, 0, out);
    json_decref(all);
    return status;
}

static lm_status text_of(lm_record_reader *r, json_t *record, lm_text_record *out)
{
    json_t *text = json_object_get(record, "text");

    if (!json_is_string(text))
        return refuse(r, "\"text\" is not a string");
    return lm_record_plain_text(r, json_string_value(text), json_string_length(text), out);
}

static lm_status ids_of(lm_record_reader *r, json_t *record, lm_text_record *out)
{
    json_t *ids = json_object_get(record, "input_ids"), *labels = json_object_get(record, "labels");
    size_t n = json_array_size(ids);

    json_t *seen = json_object_get(record, "attention_mask"), *one;
    size_t k;

    json_array_foreach(seen, k, one)
        if (json_integer_value(one) != 1)
            return refuse(r, "\"attention_mask\" leaves out tokens; leave them out of \"input_ids\"");
    if (!n || (labels && json_array_size(labels) != n))
        return refuse(r, "\"input_ids\" must be a list of token ids, and \"labels\" as long");
    out->mask = lm_alloc_zero(n + 1, sizeof *out->mask);
    if (!out->mask)
        return lm_fail_memory(r->e, "a text", n);
    for (size_t i = 0; i < n; i++) {
        json_t *id = json_array_get(ids, i), *label = labels ? json_array_get(labels, i) : id;
        json_int_t x = json_integer_value(id), y = json_integer_value(label);
        if (!json_is_integer(id) || !json_is_integer(label) || x < 0 ||
            (uint64_t)x >= lm_tokenizer_size(r->tokenizer))
            return refuse(r, "\"input_ids\" contains an id that is not a token of the model");
        if (y != -100 && y != x)
            return refuse(r, "a label is neither -100 nor its token");
        out->mask[i] = i > 0 && y != -100;
        LM_TRY(lm_tokens_add(&out->ids, (lm_token)x, r->e));
    }
    return LM_OK;
}

typedef lm_status (*form_reader)(lm_record_reader *r, json_t *record, lm_text_record *out);

static const form_reader form_readers[LM_RECORD_FORMS] = {
    messages_of, pair_of, alpaca_of, sharegpt_of, text_of, ids_of
};

static lm_status form_of(lm_record_reader *r, json_t *record, lm_record_form *out)
{
    static const char *const keys[LM_RECORD_FORMS] = { "messages",      "prompt", "instruction",
                                             "conversations", "text",   "input_ids" };

    if (!json_is_object(record))
        return refuse(r, "not a JSON object");
    if (json_object_get(record, "chosen") && json_object_get(record, "rejected"))
        return refuse(r, "preferences (chosen, rejected) are not learnt from");
    for (lm_record_form f = 0; f < LM_RECORD_FORMS; f++)
        if (json_object_get(record, keys[f])) {
            *out = f;
            return LM_OK;
        }
    return refuse(r, "has none of the keys messages, prompt, instruction, conversations, text, input_ids");
}

/* Remove the labels of a record that says so. */
static lm_status drop_untrained(lm_record_reader *r, json_t *record, lm_text_record *out)
{
    bool trained = true;

    LM_TRY(lm_record_trained(r, record, &trained));
    if (trained)
        return LM_OK;
    lm_free(out->mask);
    out->mask = lm_alloc_zero(out->ids.n + 1, sizeof *out->mask);
    return out->mask ? LM_OK : lm_fail_memory(r->e, "a text", out->ids.n);
}

lm_status lm_record_read(lm_record_reader *r, json_t *record, lm_text_record *out)
{
    lm_record_form form = LM_RECORD_FORMS;

    LM_TRY(form_of(r, record, &form));
    if (r->known && form != r->form)
        return lm_fail(r->e, LM_USAGE, NULL, LM_NO_OFFSET, "is a record of %s; those before it are of %s",
                       form_names[form], form_names[r->form]);
    LM_TRY(check_record(r, record, form));
    LM_TRY(form_readers[form](r, record, out));
    LM_TRY(drop_untrained(r, record, out));
    r->form  = form;
    r->known = true;
    return LM_OK;
}
