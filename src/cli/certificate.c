#include "cli/certificate.h"

#include <errno.h>
#include <inttypes.h>
#include <sodium/crypto_hash_sha256.h>
#include <sodium/utils.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/interrupt.h"
#include "cli/json_given.h"
#include "cli/jsonl.h"
#include "cli/output.h"
#include "cli/prompt.h"
#include "cli/tokenjson.h"

/* ---- files ---- */

/* The files of a folder besides its weights that decide what a model computes and how texts are read. */
static const char *const beside_weights[] = {
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer.model", "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json", "vocab.json", "merges.txt", "encoder.json", "chat_template.jinja", "chat_template.json", NULL,
};

lm_status lm_file_sha256(const char *path, char out[65], uint64_t *bytes, lm_error *e)
{
    unsigned char            block[1 << 16], hash[crypto_hash_sha256_BYTES];
    crypto_hash_sha256_state state;
    struct stat              st;
    lm_progress              bar = lm_progress_start("hashing");
    FILE                    *f = fopen(path, "rb");
    size_t                   n;
    bool                     ended = false;

    *bytes = 0;
    if (!f || fstat(fileno(f), &st) != 0) {
        int why = errno;
        if (f)
            fclose(f);
        errno = why;
        return lm_fail_errno(e, path, "cannot be opened");
    }
    crypto_hash_sha256_init(&state);
    while (!ended && (n = fread(block, 1, sizeof block, f)) > 0) {
        crypto_hash_sha256_update(&state, block, n);
        *bytes += n;
        ended = !lm_interrupt_progress(&bar, (double)*bytes / (double)(st.st_size ? st.st_size : 1));
    }
    bool failed = ferror(f) != 0;
    lm_progress_end(&bar);
    fclose(f);
    if (ended)
        return lm_fail(e, LM_CANCELLED, NULL, LM_NO_OFFSET, "interrupted");
    if (failed)
        return lm_fail_errno(e, path, "cannot be read");
    crypto_hash_sha256_final(&state, hash);
    sodium_bin2hex(out, 65, hash, sizeof hash);
    return LM_OK;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static lm_status add_file(json_t *list, const char *path, lm_error *e)
{
    char     hash[65];
    uint64_t bytes;

    LM_TRY(lm_file_sha256(path, hash, &bytes, e));
    json_array_append_new(list, json_pack("{s:o, s:I, s:s}", "name", lm_json_of(base_name(path), strlen(base_name(path))), "bytes",
                                          (json_int_t)bytes, "sha256", hash));
    return LM_OK;
}

/* Add the files with weights, in the order of their tensors. */
static lm_status add_weights(const lm_certifier *c, json_t *list, lm_error *e)
{
    lm_text   report = { 0 };
    lm_status status = lm_model_report(c->model, LM_REPORT_TENSORS, NULL, &report, e);
    json_t   *tensors = status == LM_OK ? json_loadb(report.data, report.size, 0, NULL) : NULL, *tensor, *seen = json_object();
    size_t    i;

    lm_text_free(&report);
    json_array_foreach(tensors, i, tensor) {
        const char *file = json_string_value(json_object_get(tensor, "file"));
        if (status != LM_OK || !file || json_object_get(seen, file))
            continue;
        json_object_set_new(seen, file, json_true());
        status = add_file(list, file, e);
    }
    json_decref(seen);
    json_decref(tensors);
    return status;
}

lm_status lm_certificate_files(const lm_certifier *c, json_t **out, lm_error *e)
{
    lm_model_info info;
    struct stat   st;

    *out = json_array();
    LM_TRY(add_weights(c, *out, e));
    lm_model_describe(c->model, &info);
    for (size_t i = 0; beside_weights[i]; i++) {
        const char *path = lm_store_printf(&c->cli->store, "%s/%s", info.source, beside_weights[i]);
        if (!path)
            return lm_fail_memory(e, "a path", strlen(info.source));
        if (stat(path, &st) == 0)
            LM_TRY(add_file(*out, path, e));
    }
    return LM_OK;
}

/* ---- logits ---- */

static lm_status logits(const lm_certifier *c, const char *path, json_t *entry, lm_error *e)
{
    lm_progress       bar = lm_progress_start("loading");
    lm_verify_options o = { .engine = c->engine, .tol = c->tol };
    lm_verdict        v;

    o.engine.progress = lm_interrupt_progress;
    o.engine.progress_arg = &bar;
    lm_status status = lm_verify(c->model, path, &o, &v, e);
    lm_progress_end(&bar);
    LM_TRY(status);
    if (!v.agrees) {
        lm_fail(e, LM_DIFFERS, "logits", LM_NO_OFFSET, "the model does not agree: relative error %.3g, at most %.3g is allowed",
                v.max_rel_err, v.tol);
        lm_fail_in(e, path);
        return lm_fail_hint(e, "lamina verify %s %s shows where", c->cli->args[0], path);
    }
    json_object_set_new(entry, "kind", json_string("logits"));
    json_object_set_new(entry, "source", lm_json_of(v.source, strnlen(v.source, sizeof v.source)));
    json_object_set_new(entry, "rows", json_integer((json_int_t)v.rows));
    json_object_set_new(entry, "tol", json_real(v.tol));
    json_object_set_new(entry, "max_rel_err", lm_json_finite(v.max_rel_err));
    json_object_set_new(entry, "mean_kl", lm_json_finite(v.mean_kl));
    json_object_set_new(entry, "argmax_agreement", json_real(v.argmax_agreement));
    return LM_OK;
}

/* ---- texts ---- */

typedef struct texts {
    const lm_tokenizer *tokenizer;
    lm_template        *template;
    json_t             *variables;       /* bos_token and the like */
    size_t              tokenized, rendered;
} texts;

static lm_status check_ids(const texts *t, json_t *value, lm_error *e)
{
    json_t    *text = json_object_get(value, "text");
    unsigned   flags = json_is_false(json_object_get(value, "add_special_tokens")) ? 0 : LM_ADD_SPECIAL;
    lm_tokens  ids = { 0 }, expected = { 0 };
    lm_status  status = lm_ids_of(json_object_get(value, "ids"), &expected, e);
    size_t     i = 0;

    if (status == LM_OK)
        status = lm_tokenize(t->tokenizer, json_string_value(text), json_string_length(text), flags, &ids, e);
    while (status == LM_OK && i < ids.n && i < expected.n && ids.ids[i] == expected.ids[i])
        i++;
    if (status == LM_OK && (i < ids.n || i < expected.n))
        status = lm_fail(e, LM_DIFFERS, NULL, LM_NO_OFFSET, "token %zu differs: %" PRId32 " instead of %" PRId32 " (-1: the end)",
                         i, i < ids.n ? ids.ids[i] : -1, i < expected.n ? expected.ids[i] : -1);
    lm_tokens_free(&ids);
    lm_tokens_free(&expected);
    return status;
}

/* Print the variables of a line for the template, with numbers as they are written there. */
static lm_status print_variables(const texts *t, json_t *value, const lm_text *line, lm_text *out, lm_error *e)
{
    json_t *variables = json_copy(value);

    json_object_del(variables, "rendered");
    json_object_update_missing(variables, t->variables);
    lm_status status = lm_json_print_as_written(variables, line, out, e);
    json_decref(variables);
    return status;
}

static lm_status check_rendering(const texts *t, json_t *value, const lm_text *line, lm_error *e)
{
    json_t      *expected = json_object_get(value, "rendered");
    const char  *text = json_string_value(expected);
    size_t       n = json_string_length(expected), i = 0;
    lm_text      context = { 0 };
    lm_rendering r = { 0 };
    lm_status    status = print_variables(t, value, line, &context, e);

    if (status == LM_OK)
        status = lm_template_render(t->template, context.data, context.size, &r, e);
    while (status == LM_OK && i < n && i < r.text.size && text[i] == r.text.data[i])
        i++;
    if (status == LM_OK && (i < n || i < r.text.size))
        status = lm_fail(e, LM_DIFFERS, NULL, LM_NO_OFFSET, "the rendered text differs at byte %zu", i);
    lm_rendering_free(&r);
    lm_text_free(&context);
    return status;
}

static lm_status check_line(void *arg, json_t *value, const char *why, const lm_text *line, lm_error *e)
{
    texts *t = arg;

    if (json_is_string(json_object_get(value, "text")) && json_is_array(json_object_get(value, "ids"))) {
        if (!t->tokenizer)
            return lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "the model has no tokenizer");
        t->tokenized++;
        return check_ids(t, value, e);
    }
    if (json_is_array(json_object_get(value, "messages")) && json_is_string(json_object_get(value, "rendered"))) {
        if (!t->template)
            return lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "the model has no chat template");
        t->rendered++;
        return check_rendering(t, value, line, e);
    }
    return lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "not {\"text\", \"ids\"} or {\"messages\", \"rendered\"}%s%s", why ? ": " : "",
                   why ? why : "");
}

static lm_status check_texts(const lm_certifier *c, const char *path, json_t *entry, lm_error *e)
{
    const char *source = lm_model_chat_template(c->model, NULL);
    texts       t = { .tokenizer = lm_model_tokenizer(c->model) };
    lm_status   status = source ? lm_template_new(source, strlen(source), "chat template", &t.template, e) : LM_OK;

    t.variables = t.tokenizer ? lm_special_variables(t.tokenizer) : json_object();
    if (status == LM_OK)
        status = lm_jsonl_read(path, check_line, &t, e);
    if (status == LM_OK && !t.tokenized && !t.rendered) {
        lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "no lines");
        status = lm_fail_in(e, path);
    }
    lm_template_free(t.template);
    json_decref(t.variables);
    json_object_set_new(entry, "kind", json_string("texts"));
    json_object_set_new(entry, "tokenized", json_integer((json_int_t)t.tokenized));
    json_object_set_new(entry, "rendered", json_integer((json_int_t)t.rendered));
    return status;
}

lm_status lm_certificate_reference(const lm_certifier *c, const char *path, json_t **out, lm_error *e)
{
    const char *dot = strrchr(path, '.');
    json_t     *list = json_array();
    lm_status   status = add_file(list, path, e);

    *out = json_incref(json_array_get(list, 0));
    json_decref(list);
    if (status == LM_OK)
        status = (dot && strcmp(dot, ".safetensors") == 0 ? logits : check_texts)(c, path, *out, e);
    if (status != LM_OK) {
        json_decref(*out);
        *out = NULL;
    }
    return status;
}
