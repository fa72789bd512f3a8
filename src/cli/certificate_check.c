#include <string.h>

#include "cli/certificate.h"
#include "cli/interrupt.h"
#include "cli/json_given.h"
#include "cli/output.h"
#include "cli/prompt.h"
#include "cli/signature.h"

typedef struct checking {
    lm_certifier c;
    const char  *file;
    const char  *public_key;             /* NULL: the signature is not checked */
    json_t      *certificate, *results;  /* of each reference: {name, repeated} */
} checking;

/* ---- the certificate ---- */

static lm_status check_signature(const checking *k, const lm_text *text, lm_error *e)
{
    const char *path = lm_store_printf(&k->c.cli->store, "%s.sig", k->file);
    lm_text     signature = { 0 };

    if (!k->public_key)
        return LM_OK;
    if (!path)
        return lm_fail_memory(e, "a path", strlen(k->file));
    lm_status status = lm_text_load(&signature, path, 2 * LM_SIGNATURE_BYTES, e);
    if (status == LM_OK) {
        status = lm_check_signature(text, &signature, k->public_key, e);
        if (status == LM_DIFFERS)
            lm_fail_in(e, path);
    }
    lm_text_free(&signature);
    return status;
}

/* Return whether each item of a list has a name and a SHA-256. */
static bool are_files(const json_t *list)
{
    json_t *item;
    size_t  i;

    json_array_foreach(list, i, item)
        if (!json_is_string(json_object_get(item, "name")) || !json_is_string(json_object_get(item, "sha256")))
            return false;
    return json_array_size(list) > 0;
}

static const json_t *certified_files(const checking *k)
{
    return json_object_get(json_object_get(k->certificate, "model"), "files");
}

static lm_status read_certificate(checking *k, lm_error *e)
{
    json_error_t why;
    lm_text      text = { 0 };
    lm_status    status = lm_read_file(k->file, &text, e);

    if (status == LM_OK)
        status = check_signature(k, &text, e);
    if (status == LM_OK)
        k->certificate = lm_json_given(text.data ? text.data : "", text.size, 0, &why);
    lm_text_free(&text);
    LM_TRY(status);
    const char *schema = json_string_value(json_object_get(k->certificate, "schema"));
    if (schema && strcmp(schema, "lamina.certify/1") == 0 && are_files(certified_files(k)) &&
        are_files(json_object_get(k->certificate, "references")))
        return LM_OK;
    lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "not a certificate%s%s", k->certificate ? "" : ": ", k->certificate ? "" : why.text);
    lm_fail_in(e, k->file);
    return lm_fail_hint(e, "lamina certify MODEL REFERENCE -o FILE writes one");
}

/* ---- the files of the model ---- */

static const json_t *find(const json_t *list, const char *key, const char *value)
{
    json_t *item;
    size_t  i;

    json_array_foreach(list, i, item)
        if (strcmp(json_string_value(json_object_get(item, key)), value) == 0)
            return item;
    return NULL;
}

static lm_status differs(const checking *k, const char *name, lm_error *e, const char *how)
{
    lm_fail(e, LM_DIFFERS, name, LM_NO_OFFSET, "%s", how);
    return lm_fail_in(e, k->file);
}

/* Compare two lists of files. A model that is a single file may have another name. */
static lm_status compare_files(const checking *k, const json_t *present, lm_error *e)
{
    const json_t *certified = certified_files(k);
    const bool    single = json_array_size(present) == 1 && json_array_size(certified) == 1;
    json_t       *file;
    size_t        i;

    json_array_foreach(present, i, file) {
        const char   *name = json_string_value(json_object_get(file, "name")), *hash = json_string_value(json_object_get(file, "sha256"));
        const json_t *other = single ? json_array_get(certified, 0) : find(certified, "name", name);
        if (!other)
            return differs(k, name, e, "not a file of the model when it was certified");
        if (strcmp(hash, json_string_value(json_object_get(other, "sha256"))) != 0)
            return differs(k, name, e, "not the file that was certified");
    }
    json_array_foreach(certified, i, file)
        if (!single && !find(present, "name", json_string_value(json_object_get(file, "name"))))
            return differs(k, json_string_value(json_object_get(file, "name")), e, "missing from the model");
    return LM_OK;
}

static lm_status check_files(const checking *k, lm_error *e)
{
    json_t   *present = NULL;
    lm_status status = lm_certificate_files(&k->c, &present, e);

    if (status == LM_OK)
        status = compare_files(k, present, e);
    json_decref(present);
    return status;
}

/* ---- references ---- */

/* Repeat the comparison with a reference, with the tolerance of the certificate. */
static lm_status repeat(checking *k, const char *path, lm_error *e)
{
    const json_t *references = json_object_get(k->certificate, "references"), *stated;
    json_t       *entry = NULL, *result;
    char          hash[65];
    uint64_t      bytes;
    size_t        i;

    LM_TRY(lm_file_sha256(path, hash, &bytes, e));
    stated = find(references, "sha256", hash);
    if (!stated) {
        lm_fail(e, LM_USAGE, path, LM_NO_OFFSET, "not a reference of the certificate");
        return lm_fail_in(e, k->file);
    }
    k->c.tol = json_number_value(json_object_get(stated, "tol"));
    LM_TRY(lm_certificate_reference(&k->c, path, &entry, e));
    json_decref(entry);
    json_array_foreach(k->results, i, result)
        if (json_array_get(references, i) == stated)
            json_object_set_new(result, "repeated", json_true());
    return LM_OK;
}

static lm_status repeat_all(checking *k, lm_error *e)
{
    json_t *reference;
    size_t  i;

    json_array_foreach(json_object_get(k->certificate, "references"), i, reference)
        json_array_append_new(k->results, json_pack("{s:O, s:b}", "name", json_object_get(reference, "name"), "repeated", 0));
    for (i = 1; i < k->c.cli->n_args; i++)
        LM_TRY(repeat(k, k->c.cli->args[i], e));
    return LM_OK;
}

/* ---- output ---- */

static void result_text(const checking *k, lm_text *out)
{
    json_t *result;
    size_t  i;

    lm_text_printf(out, "certificate      ");
    lm_text_add_str(out, k->file);
    lm_text_printf(out, "\nsignature        %s\n", k->public_key ? "valid" : "not checked (--public-key)");
    lm_text_printf(out, "files            %zu, as certified\n", json_array_size(certified_files(k)));
    json_array_foreach(k->results, i, result) {
        const char *name = json_string_value(json_object_get(result, "name"));
        char        shown[1024];
        lm_escape(shown, sizeof shown, name);
        bool repeated = json_is_true(json_object_get(result, "repeated"));
        lm_text_printf(out, "reference        %s: %s\n", shown, repeated ? "agrees again" : "not repeated");
    }
}

static lm_status print(const checking *k, lm_error *e)
{
    lm_text text = { 0 };

    if (k->c.cli->json) {
        json_t *file = lm_json_of(k->file, strlen(k->file));
        json_t *document = json_pack("{s:o, s:s, s:i, s:O, s:b}", "certificate", file, "signature", k->public_key ? "valid" : "not checked",
                                     "files", (int)json_array_size(certified_files(k)), "references", k->results, "agrees", 1);
        return lm_out_json(k->c.cli, document, e);
    }
    result_text(k, &text);
    return lm_out_take(&text, e);
}

static lm_status check(checking *k, const lm_model *model, lm_error *e)
{
    k->c.model = model;
    LM_TRY(check_files(k, e));
    LM_TRY(repeat_all(k, e));
    return print(k, e);
}

lm_status lm_certificate_verify(lm_cli *cli, lm_model_flags *flags, const char *file, const char *public_key,
                                const lm_engine_options *engine, lm_error *e)
{
    checking  k = { .c = { .cli = cli, .engine = *engine }, .file = file, .public_key = public_key, .results = json_array() };
    lm_model *model = NULL;

    lm_interrupt_watch(NULL);
    flags->o.tokenizer_optional = true;
    lm_status status = read_certificate(&k, e);
    const char *compute = json_string_value(json_object_get(k.certificate, "compute"));
    for (int i = 0; compute && lm_compute_words[i]; i++)
        if (strcmp(compute, lm_compute_words[i]) == 0)
            k.c.engine.compute = (lm_compute)i;
    if (status == LM_OK)
        status = lm_open_model(cli, flags, cli->args[0], &model, e);
    if (status == LM_OK)
        status = check(&k, model, e);
    json_decref(k.certificate);
    json_decref(k.results);
    lm_model_close(model);
    return status;
}
