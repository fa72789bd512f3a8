/* lamina certify - record what a model's files are and which references it agrees with. */
#include <stdlib.h>
#include <string.h>

#include "cli/certificate.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/signature.h"

typedef struct certify_options {
    const char *output, *key, *cpu;
    int         compute;
    uint32_t    threads;
    double      tol;
    bool        force;
} certify_options;

#define O(field) offsetof(certify_options, field)

static const lm_flag certify_flag_table[] = {
    { "--output", "-o", LM_FLAG_OUTPUT, O(output), "FILE", "certificate to write (default: standard output)", 0, 0, NULL },
    { "--force", NULL, LM_FLAG_SWITCH, O(force), NULL, "replace the FILE of --output if it exists", 0, 0, NULL },
    { "--key", NULL, LM_FLAG_TEXT, O(key), "FILE",
      "private key (Ed25519, PEM) that signs the certificate; the signature is FILE.sig of --output", 0, 0, NULL },
    { "--compute", NULL, LM_FLAG_WORD, O(compute), "auto|fine|f32",
      "f32: float32 arithmetic, like the references (default); auto, fine: the fast paths", 0, 0, lm_compute_words },
    { "--tol", NULL, LM_FLAG_DOUBLE, O(tol), "X", "maximum relative error of a row of logits (1e-4)", 0, 1e3, NULL },
    { "--cpu", NULL, LM_FLAG_TEXT, O(cpu), "LEVEL",
      "highest instruction set to use: ref, avx2, avx512 ... (default: the best available)", 0, 0, NULL },
    { "--threads", "-t", LM_FLAG_COUNT, O(threads), "N", "threads (default: physical cores)", 0, 1024, NULL },
    { 0 },
};

static const lm_flag_group certify_groups[] = { { "certificate", certify_flag_table, 0 }, { 0 } };

static void certify_defaults(void *options)
{
    certify_options *o = options;

    o->compute = LM_COMPUTE_F32;
    o->tol = -1;
}

/* Reject a level that this machine lacks, whether or not a reference needs the engine. */
static lm_status check_level(const lm_machine *m, const char *level, lm_error *e)
{
    for (size_t i = 0; m->levels[i]; i++)
        if (!level || strcmp(level, m->levels[i]) == 0)
            return LM_OK;
    lm_fail(e, LM_USAGE, "--cpu", LM_NO_OFFSET, "not an instruction set level of this machine: %s", level);
    return lm_fail_hint(e, "lamina doctor lists them");
}

static lm_status describe(const lm_certifier *c, const certify_options *o, json_t *document, lm_error *e)
{
    lm_model_info info;
    lm_machine    machine;
    json_t       *model, *files = NULL;

    LM_TRY(lm_machine_describe(&machine, e));
    LM_TRY(check_level(&machine, o->cpu, e));
    lm_model_describe(c->model, &info);
    model = json_object();
    json_object_set_new(document, "lamina", json_string(lm_version()));
    json_object_set_new(document, "processor", json_string(machine.cpu));
    json_object_set_new(document, "cpu", json_string(o->cpu ? o->cpu : machine.usable));
    json_object_set_new(document, "compute", json_string(lm_compute_words[o->compute]));
    json_object_set_new(document, "model", model);
    json_object_set_new(model, "name", json_string(info.name));
    json_object_set_new(model, "family", json_string(info.family));
    lm_status status = lm_certificate_files(c, &files, e);
    json_object_set_new(model, "files", files);
    return status;
}

static lm_status compare(const lm_certifier *c, json_t *document, lm_error *e)
{
    json_t *references = json_array(), *entry;

    json_object_set_new(document, "references", references);
    for (size_t i = 1; i < c->cli->n_args; i++) {
        LM_TRY(lm_certificate_reference(c, c->cli->args[i], &entry, e));
        json_array_append_new(references, entry);
    }
    return LM_OK;
}

/* Write the signature before the certificate, so that no certificate lacks the signature that was requested. */
static lm_status save(const certify_options *o, const lm_text *text, lm_cli *cli, lm_error *e)
{
    const char *path = o->key ? lm_store_printf(&cli->store, "%s.sig", o->output) : NULL;
    lm_text     signature = { 0 };
    lm_status   status = LM_OK;

    if (o->key && !path)
        return lm_fail_memory(e, "a path", strlen(o->output));
    if (o->key)
        status = lm_sign(text, o->key, &signature, e);
    if (status == LM_OK && o->key)
        status = lm_text_save(&signature, path, e);
    lm_text_free(&signature);
    if (status == LM_OK)
        status = lm_text_save(text, o->output, e);
    if (status == LM_OK)
        lm_note("%s: %zu reference%s agree%s%s", o->output, cli->n_args - 1, cli->n_args == 2 ? "" : "s", cli->n_args == 2 ? "s" : "",
                o->key ? ", signed" : "");
    return status;
}

static lm_status deliver(lm_cli *cli, const certify_options *o, json_t *document, lm_error *e)
{
    lm_text   text = { 0 };
    lm_status status = LM_OK;

    if (o->output) {
        json_t *whole = lm_json_document(cli, json_incref(document));
        char   *printed = json_dumps(whole, JSON_INDENT(2));
        if (printed) {
            lm_text_add_str(&text, printed);
            lm_text_add_char(&text, '\n');
        }
        status = printed ? save(o, &text, cli, e) : lm_fail_memory(e, "the certificate", 0);
        free(printed);
        json_decref(whole);
        lm_text_free(&text);
    }
    if (status == LM_OK && (cli->json || !o->output))
        status = lm_out_json(cli, json_incref(document), e);
    return status;
}

static lm_status certify(lm_cli *cli, void *options, lm_error *e)
{
    certify_options *o = options;
    lm_model_flags   flags = { .o = { .tokenizer_optional = true } };
    lm_certifier     c = { .cli = cli, .tol = o->tol > 0 ? o->tol : o->tol < 0 ? 1e-4 : -1 };
    json_t          *document = json_object();
    lm_model        *model = NULL;

    if (o->key && !o->output)
        return json_decref(document), lm_fail(e, LM_USAGE, "--key", LM_NO_OFFSET, "requires --output");
    c.engine = (lm_engine_options){ .compute = (lm_compute)o->compute, .cpu = o->cpu, .threads = o->threads, .kv = LM_KV_F32 };
    lm_interrupt_watch(NULL);
    lm_status status = lm_open_model(cli, &flags, cli->args[0], &model, e);
    c.model = model;
    if (status == LM_OK)
        status = describe(&c, o, document, e);
    if (status == LM_OK)
        status = compare(&c, document, e);
    if (status == LM_OK)
        status = deliver(cli, o, document, e);
    json_decref(document);
    lm_model_close(model);
    return status;
}

const lm_command lm_command_certify = {
    .name = "certify",
    .usage = "MODEL REFERENCE... [-o FILE] [--key FILE]",
    .summary = "record the hashes of a model and the references it agrees with",
    .about = "  REFERENCE is a .safetensors file of logits, as for lamina verify, or JSON lines: {\"text\", \"ids\"} for the tokenizer,\n"
             "  {\"messages\" and other variables, \"rendered\"} for the chat template. If the model differs from one of them, the exit\n"
             "  status is 5 and there is no certificate. lamina verify MODEL --certificate FILE checks it.\n",
    .groups = certify_groups,
    .min_args = 2,
    .max_args = 64,
    .options_size = sizeof(certify_options),
    .defaults = certify_defaults,
    .run = certify,
};
