/* lamina template - render a chat template. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/base/json_given.h"
#include "cli/base/jsonl.h"
#include "cli/base/options.h"
#include "cli/base/output.h"
#include "cli/base/prompt.h"

typedef struct template_options {
    lm_model_flags model;                                /* only --model and --pre */
    const char    *context, *jsonl, *name;
    bool           show;
} template_options;

#define O(field) offsetof(template_options, field)

static const lm_flag template_flag_table[] = {
    { "--variables", "--context", LM_FLAG_TEXT, O(context), "FILE",
      "JSON object with the variables (messages, tools ...); -: standard input", 0, 0, NULL },
    { "--jsonl", NULL, LM_FLAG_TEXT, O(jsonl), "FILE",
      "JSON lines {\"template\", \"context\"}; prints {\"text\"} or {\"error\"} per line", 0, 0, NULL },
    { "--chat-template", NULL, LM_FLAG_TEXT, O(name), "NAME",
      "name of the chat template (default: the model's default)", 0, 0, NULL },
    { "--show", NULL, LM_FLAG_SWITCH, O(show), NULL, "print the template source", 0, 0, NULL },
    { "--model", "-m", LM_FLAG_TEXT, O(model.model), "MODEL",
      "model; same as the first argument", 0, 0, NULL },
    { "--pre", NULL, LM_FLAG_TEXT, O(model.o.pre), "NAME",
      "pre-tokenizer to use when a GGUF file names an unknown one", 0, 0, NULL },
    { 0 },
};

static const lm_flag_group template_groups[] = { { "template", template_flag_table, 0 }, { 0 } };

static lm_status render(const char *source, size_t n, const char *name, const char *context, size_t size,
                        lm_rendering *out, lm_error *e)
{
    lm_template *t = NULL;
    lm_status status = lm_template_new(source, n, name, &t, e);

    if (status == LM_OK)
        status = lm_template_render(t, context, size, out, e);
    lm_template_free(t);
    return status;
}

/* ---- --jsonl ---- */

static lm_status answer(const char *key, const char *text, size_t n, lm_error *e)
{
    return lm_jsonl_write(json_pack("{s:o}", key, lm_json_of(text ? text : "", n)), e);
}

/* Render the template of a line and print the text, or the line's error. Only failures of output and memory
 * end the run. */
static lm_status template_line(void *arg, json_t *value, const char *why, const lm_text *line, lm_error *e)
{
    json_t *source = json_object_get(value, "template"), *variables = json_object_get(value, "context");
    lm_rendering r = { 0 };
    lm_error wrong;
    char text[2048];
    lm_text context = { 0 };
    lm_status status;

    (void)arg;
    if (!value) {
        snprintf(text, sizeof text, "not JSON: %s", why);
        return answer("error", text, strlen(text), e);
    }
    if (!json_is_string(source) || !json_is_object(variables)) {
        snprintf(text, sizeof text, "not an object with \"template\", a string, and \"context\", an object");
        return answer("error", text, strlen(text), e);
    }
    status = lm_json_print_as_written(variables, line, &context, &wrong);
    if (status == LM_OK)
        status = render(json_string_value(source), json_string_length(source), "template", context.data,
                        context.size, &r, &wrong);
    lm_text_free(&context);
    if (status == LM_NO_MEMORY) {
        *e = wrong;
        return status;
    }
    if (status == LM_OK) {
        status = answer("text", r.text.data, r.text.size, e);
    } else {
        lm_error_text(&wrong, text, sizeof text);
        status = answer("error", text, strlen(text), e);
    }
    lm_rendering_free(&r);
    return status;
}

/* ---- rendering of one template ---- */

/* A template, its file, and the variables given by the model. */
typedef struct material { lm_text source; const char *file; json_t *given; } material;

static bool is_template_file(const char *argument)
{
    const char *dot = argument ? strrchr(argument, '.') : NULL;
    struct stat st;

    return argument && stat(argument, &st) == 0 && S_ISREG(st.st_mode) &&
           !(dot && (!strcmp(dot, ".gguf") || !strcmp(dot, ".json")));
}

static lm_status from_model(lm_cli *cli, template_options *o, material *out, lm_error *e)
{
    lm_model *m = NULL;
    lm_model_info info;
    const char *source, *path;
    lm_status status = lm_find_weights(cli, &o->model, cli->args[0], &path, e);

    if (status == LM_USAGE)
        lm_fail_hint(e, "name a .gguf file, a Hugging Face folder or a .jinja file");
    LM_TRY(status);
    o->model.model = path;
    o->model.o.structure_only = true;
    LM_TRY(lm_open_model(cli, &o->model, NULL, &m, e));
    lm_model_describe(m, &info);
    source = lm_model_chat_template(m, o->name);
    out->file = lm_store_strdup(&cli->store, info.source);
    if (source) {
        lm_text_add_str(&out->source, source);
        out->given = lm_special_variables(lm_model_tokenizer(m));
    } else {
        lm_fail(e, LM_USAGE, o->name, LM_NO_OFFSET,
                o->name ? "the model has no template of this name" : "the model has no chat template");
        lm_fail_in(e, info.source);
        status = LM_USAGE;
    }
    lm_model_close(m);
    return status;
}

/* Copy the context as it is written and insert at its beginning the model's variables that it does not
 * contain. Parsing it and writing it again could change numbers. */
static lm_status complete(const material *m, const lm_text *context, lm_text *out, lm_error *e)
{
    const char *at = context->data ? context->data + strspn(context->data, " \t\r\n") : "", *key;
    json_t *written = json_loadb(context->data ? context->data : "", context->size,
                                 JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, NULL),
           *value;
    bool first = true;

    if (!json_is_object(written) || !json_object_size(m->given)) {
        lm_text_add(out, context->data, context->size);           /* unchanged: the renderer reports errors */
    } else {
        lm_text_add_char(out, '{');
        json_object_foreach(m->given, key, value) {
            char *text = json_object_get(written, key) ? NULL : json_dumps(value, JSON_ENCODE_ANY);
            if (text)
                lm_text_printf(out, "%s\"%s\":%s", first ? "" : ",", key, text);
            first = first && !text;
            free(text);
        }
        if (!first && json_object_size(written))
            lm_text_add_char(out, ',');
        lm_text_add(out, at + 1, context->size - (size_t)(at + 1 - context->data));
    }
    json_decref(written);
    return out->failed ? lm_fail_memory(e, "the context", out->size) : LM_OK;
}

static lm_status print_rendering(lm_cli *cli, const lm_text *text, lm_error *e)
{
    if (cli->json)
        return lm_out_json(cli, json_pack("{s:o}",
                                          "text", lm_json_of(text->data ? text->data : "", text->size)), e);
    return lm_out_text(text->data, text->size, e);
}

static lm_status render_one(lm_cli *cli, template_options *o, const material *m, lm_error *e)
{
    lm_text given = { 0 }, context = { 0 };
    lm_rendering r = { 0 };
    lm_status status;

    if (o->show)
        return print_rendering(cli, &m->source, e);
    status = lm_read_file(o->context, &given, e);
    if (status == LM_OK)
        status = complete(m, &given, &context, e);
    if (status == LM_OK)
        status = render(m->source.data ? m->source.data : "", m->source.size, m->file,
                        context.data ? context.data : "", context.size, &r, e);
    if (status != LM_OK)
        lm_fail_in(e, lm_input_name(o->context));        /* errors of the template already name its file */
    if (status == LM_OK)
        status = print_rendering(cli, &r.text, e);
    lm_rendering_free(&r);
    lm_text_free(&context);
    lm_text_free(&given);
    return status;
}

static lm_status template(lm_cli *cli, void *options, lm_error *e)
{
    template_options *o = options;
    material m = { 0 };
    lm_status status;

    if ((o->context != NULL) + (o->jsonl != NULL) + o->show != 1)
        return lm_fail(e, LM_USAGE, cli->command->name, LM_NO_OFFSET,
                       "requires exactly one of --variables, --jsonl and --show");
    if (o->jsonl) {
        if (cli->n_args || o->model.model || o->name || o->model.o.pre)
            return lm_fail(e, LM_USAGE, "--jsonl", LM_NO_OFFSET, "cannot be combined with %s",
                           o->name ? "--chat-template" : o->model.o.pre ? "--pre" : "MODEL");
        return lm_jsonl_read(o->jsonl, false, template_line, NULL, e);
    }
    if (!o->model.model && is_template_file(cli->args[0])) {
        m.file = cli->args[0];
        status = o->name ? lm_fail(e, LM_USAGE, "--chat-template", LM_NO_OFFSET, "%s is one template", m.file)
                         : lm_read_file(m.file, &m.source, e);
    } else {
        status = from_model(cli, o, &m, e);
    }
    if (status == LM_OK && m.source.failed)
        status = lm_fail_memory(e, "the template", m.source.size);
    if (status == LM_OK)
        status = render_one(cli, o, &m, e);
    json_decref(m.given);
    lm_text_free(&m.source);
    return status;
}

const lm_command lm_command_template = {
    .name = "template",
    .usage = "[MODEL | FILE.jinja] --variables FILE.json | MODEL --show | --jsonl FILE",
    .summary = "render a chat template",
    .about = "  Prints the prompt exactly as transformers' apply_chat_template does. bos_token and eos_token "
             "default to the\n"
             "  model's; set \"now\" to an ISO date to fix the time that strftime_now returns.\n"
             "  A template that does not use tool_calls but has a known form of its own gets calls and "
             "results in it.\n",
    .groups = template_groups,
    .max_args = 1,
    .options_size = sizeof(template_options),
    .run = template,
};
