/* prompt.c - texts, token ids and conversations as a command receives them.
 *
 * Everything that is read is bounded by LM_MAX_INPUT. A chat is rendered from a copy of its variables with
 * the messages added (lm_chat_tokens); an lm_chat owns template and variables, and may be used by one thread
 * at a time. */
#include "cli/base/prompt.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json_exact.h"
#include "cli/base/interrupt.h"
#include "cli/base/json_given.h"
#include "cli/base/output.h"

/* ---- text and ids ---- */

const char *lm_input_name(const char *path)
{
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

/* Read standard input to its end, with one Ctrl-D on a terminal. Ctrl-C ends it at any time
 * (LM_CANCELLED). */
static lm_status read_input(lm_text *out, lm_error *e)
{
    char    chunk[4096];
    ssize_t n = 1;

    if (isatty(STDIN_FILENO))
        lm_note("type the text; Ctrl-D ends it");
    while (n != 0 && !out->failed && out->size <= LM_MAX_INPUT) {
        if (!lm_interrupt_wait(STDIN_FILENO))
            return lm_fail(e, LM_CANCELLED, NULL, LM_NO_OFFSET, "interrupted");
        n = read(STDIN_FILENO, chunk, sizeof chunk);
        if (n > 0)
            lm_text_add(out, chunk, (size_t)n);
        else if (n < 0 && errno != EINTR && errno != EAGAIN)
            return lm_fail(e, LM_IO, "standard input", LM_NO_OFFSET, "%s", strerror(errno));
    }
    return LM_OK;
}

static lm_status check_size(const lm_text *out, lm_error *e)
{
    if (out->failed)
        lm_fail_memory(e, NULL, out->size);
    else if (out->size > LM_MAX_INPUT)
        lm_fail(e, LM_LIMIT, NULL, LM_NO_OFFSET, "longer than %zu bytes", LM_MAX_INPUT);
    else
        return LM_OK;
    return lm_fail_in(e, "standard input");
}

lm_status lm_read_file(const char *path, lm_text *out, lm_error *e)
{
    size_t before = out->size;

    if (strcmp(path, "-") == 0) {
        LM_TRY(read_input(out, e));
        LM_TRY(check_size(out, e));
        return lm_check_text(out, before, NULL, e) == LM_OK ? LM_OK : lm_fail_in(e, "standard input");
    }
    FILE *f = fopen(path, "rb");
    if (!f)
        return lm_fail_errno(e, path, "cannot be opened");
    lm_status status = lm_read_stream(f, path, LM_MAX_INPUT, out, e);
    fclose(f);
    return status;
}

lm_status lm_read_document(const char *path, uint64_t max, lm_text *out, lm_error *e)
{
    size_t before = out->size;

    LM_TRY(lm_text_load(out, path, max, e));
    return lm_check_text(out, before, path, e) == LM_OK ? LM_OK : lm_fail_in(e, path);
}

lm_status lm_read_text(const char *path, lm_text *out, lm_error *e)
{
    LM_TRY(lm_read_file(path, out, e));
    if (out->size && out->data[out->size - 1] == '\n') {
        out->data[--out->size] = 0;
        if (out->size && out->data[out->size - 1] == '\r')
            out->data[--out->size] = 0;
    }
    return LM_OK;
}

lm_status lm_read_tokens(const char *path, const lm_tokenizer *t, unsigned flags, lm_tokens *out, lm_error *e)
{
    lm_text   text   = { 0 };
    lm_status status = lm_read_text(path, &text, e);

    if (status == LM_OK)
        status = lm_tokenize(t, text.data ? text.data : "", text.size, flags, out, e);
    lm_text_free(&text);
    return status;
}

lm_status lm_added_bos(const lm_tokenizer *t, bool *added, lm_token *bos, lm_error *e)
{
    lm_tokens empty  = { 0 };
    lm_status status = lm_tokenize(t, "", 0, LM_ADD_SPECIAL, &empty, e);

    if (status == LM_OK && empty.n && empty.ids[0] == lm_tokenizer_bos(t)) {
        *added = true;
        *bos   = empty.ids[0];
    }
    lm_tokens_free(&empty);
    return status;
}

static void unescape(const char *text, lm_text *out)
{
    static const char letters[] = "ntr0\\\"'", values[] = "\n\t\r\0\\\"'";

    for (const char *at = text; *at; at++) {
        const char *known = *at == '\\' && at[1] ? strchr(letters, at[1]) : NULL;
        if (known) {
            lm_text_add_char(out, values[known - letters]);
            at++;
        } else if (*at == '\\' && at[1] == 'x' && isxdigit((unsigned char)at[2]) &&
                   isxdigit((unsigned char)at[3])) {
            lm_text_add_char(out, (char)strtol((char[]){ at[2], at[3], 0 }, NULL, 16));
            at += 3;
        } else {
            lm_text_add_char(out, *at);
        }
    }
}

void lm_add_given(const char *text, bool escapes, lm_text *out)
{
    if (escapes)
        unescape(text, out);
    else
        lm_text_add_str(out, text);
}

lm_status lm_unescape_all(lm_cli *cli, lm_flag_list *list, bool escapes, lm_error *e)
{
    const char **made = lm_store_new(&cli->store, list->n + 1, const char *);
    lm_text text = { 0 };

    for (size_t i = 0; made && escapes && i < list->n; i++) {
        lm_text_clear(&text);
        unescape(list->items[i], &text);
        made[i] = lm_store_strndup(&cli->store, text.data ? text.data : "", text.size);
        made = made[i] ? made : NULL;
    }
    lm_text_free(&text);
    if (!made)
        return lm_fail_memory(e, "flags", list->n);
    if (escapes && list->n)
        list->items = made;
    return LM_OK;
}

lm_status lm_read_ids(const char *text, const char *where, lm_tokens *out, lm_error *e)
{
    const char *at = text + strspn(text, " \t\r\n");
    bool list = *at == '[';

    at += list;
    at += strspn(at, " \t\r\n");
    while (*at && *at != ']') {
        char *end;
        long id = strtol(at, &end, 10);
        if (end == at || id < 0 || id > INT32_MAX || (*end && !strchr(" \t\r\n,]", *end)))
            return lm_fail(e, LM_USAGE, where, LM_NO_OFFSET, "\"%.*s\" is not a token id",
                           1 + (int)strcspn(at + 1, " \t\r\n,]"), at);
        LM_TRY(lm_tokens_add(out, (lm_token)id, e));
        at = end + strspn(end, " \t\r\n");
        if (*at == ',')                                  /* skip one only: two commas are a missing id */
            at += 1 + strspn(at + 1, " \t\r\n");
    }
    if (list != (*at == ']'))
        return lm_fail(e, LM_USAGE, where, LM_NO_OFFSET,
                       list ? "unclosed list: missing ']'" : "']' without its '['");
    at += *at == ']';
    at += strspn(at, " \t\r\n");
    if (*at)
        return lm_fail(e, LM_USAGE, where, LM_NO_OFFSET, "unexpected \"%.*s\" after the list",
                       (int)strcspn(at, " ]\n"), at);
    return LM_OK;
}

/* ---- chat ---- */

static void set_token(json_t *variables, const char *name, const lm_tokenizer *t, lm_token id)
{
    size_t n = 0;
    const char *piece = id >= 0 ? lm_tokenizer_piece(t, id, &n) : NULL;

    if (piece)
        json_object_set_new(variables, name, json_stringn(piece, n));
}

json_t *lm_special_variables(const lm_tokenizer *t)
{
    json_t *variables = json_object();

    if (variables && t) {
        set_token(variables, "bos_token", t, lm_tokenizer_bos(t));
        set_token(variables, "eos_token", t, lm_tokenizer_eos(t));
    }
    return variables;
}

/* Reject variables that the program sets and warn about those that the template does not use: none is
 * silently ignored. */
static lm_status check_variables(const lm_prompt_template *c, json_t *given, lm_error *e)
{
    const char *name;
    json_t *value;

    json_object_foreach(given, name, value) {
        if (strcmp(name, "messages") == 0 || strcmp(name, "add_generation_prompt") == 0)
            return lm_fail(e, LM_USAGE, "--chat-template-kwargs", LM_NO_OFFSET, "%s is set by the program",
                           name);
        if (strcmp(name, "now") && !lm_template_uses(c->template, name))
            lm_warn("--chat-template-kwargs: the chat template of this model does not use '%.60s'; ignored",
                    name);
    }
    return LM_OK;
}

static lm_status read_variables(const lm_template_flags *o, lm_prompt_template *c, lm_error *e)
{
    json_error_t why;
    json_t *more;

    c->variables = lm_special_variables(c->tokenizer);
    if (!o->kwargs || !*o->kwargs)
        return LM_OK;
    more = lm_json_given(o->kwargs, strlen(o->kwargs), JSON_REJECT_DUPLICATES, &why);
    if (!more)
        return lm_fail(e, LM_USAGE, "--chat-template-kwargs", LM_NO_OFFSET, "%s", why.text);
    if (!json_is_object(more)) {
        json_decref(more);
        return lm_fail(e, LM_USAGE, "--chat-template-kwargs", LM_NO_OFFSET, "not a JSON object");
    }
    lm_text_add_wide_numbers(&c->wide, o->kwargs, strlen(o->kwargs));
    lm_status status = check_variables(c, more, e);
    json_object_update(c->variables, more);
    json_decref(more);
    return status;
}

static lm_status read_template(const lm_model *m, const lm_template_flags *o, lm_prompt_template *c,
                               lm_error *e)
{
    const char *source;
    lm_model_info info;
    lm_text text = { 0 };
    lm_status status;

    if (o->template_file) {
        /* Keeps the last newline: the template engine handles it. */
        status = lm_read_file(o->template_file, &text, e);
        if (status == LM_OK)
            status = lm_template_new(text.data ? text.data : "", text.size, o->template_file, &c->template,
                                     e);
        lm_text_free(&text);
        return status;
    }
    const char *name = o->template_name && *o->template_name ? o->template_name : NULL;

    source = lm_model_chat_template(m, name);
    lm_model_describe(m, &info);
    if (source)
        return lm_template_new(source, strlen(source), info.source, &c->template, e);
    if (name)
        lm_fail(e, LM_USAGE, "--chat-template", LM_NO_OFFSET, "the model has no template named %s", name);
    else
        lm_fail(e, LM_USAGE, "--chat", LM_NO_OFFSET, "the model has no chat template");
    lm_fail_hint(e, "--chat-template-file FILE gives one");
    return LM_USAGE;
}

lm_status lm_prompt_template_open(const lm_model *m, const lm_template_flags *o, lm_prompt_template *out,
                                  lm_error *e)
{
    lm_prompt_template c = { .tokenizer = lm_model_tokenizer(m), .parse_content = o->parse_content };
    lm_status status;

    if (!c.tokenizer)
        return lm_fail(e, LM_USAGE, "--chat", LM_NO_OFFSET, "the model has no tokenizer");
    status = read_template(m, o, &c, e);
    if (status == LM_OK)
        status = read_variables(o, &c, e);
    if (status == LM_OK)
        *out = c;
    else
        lm_prompt_template_close(&c);
    return status;
}

void lm_prompt_template_close(lm_prompt_template *c)
{
    lm_template_free(c->template);
    json_decref(c->variables);
    lm_text_free(&c->wide);
    *c = (lm_prompt_template){ 0 };
}

/* Fail if the template has omitted a part of the messages, since the model would answer something else. */
static lm_status check_rendered(json_t *messages, const lm_text *rendered, lm_error *e)
{
    char *json = json_dumps(messages, JSON_COMPACT);
    lm_status status = json ? lm_messages_rendered(json, strlen(json), rendered, e)
                            : lm_fail_memory(e, "the conversation", 0);

    free(json);
    return status;
}

lm_status lm_prompt_template_tokens(const lm_prompt_template *c, json_t *messages, lm_tokens *out,
                                    lm_text *rendered, lm_error *e)
{
    json_t *context = json_copy(c->variables);
    lm_rendering r = { 0 };
    lm_text text = { 0 };
    lm_status status;

    json_object_set(context, "messages", messages);
    json_object_set_new(context, "add_generation_prompt", json_true());
    status = lm_json_print_given(context, JSON_COMPACT, &c->wide, &text, e);
    json_decref(context);
    if (status == LM_OK)
        status = lm_template_render(c->template, text.data, text.size, &r, e);
    lm_text_free(&text);
    if (status == LM_OK)
        status = check_rendered(messages, &r.text, e);
    if (status == LM_OK)
        status = lm_tokenize_rendering(c->tokenizer, &r, c->parse_content, out, e);
    if (status == LM_OK && rendered)
        lm_text_add(rendered, r.text.data, r.text.size);
    lm_rendering_free(&r);
    return status;
}
