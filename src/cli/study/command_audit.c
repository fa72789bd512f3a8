/* lamina audit - check statements about models against their facts: study/audit finds and judges them, this
 * file opens the models and prints the result. One thread. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/columns.h"
#include "cli/base/options.h"
#include "cli/base/output.h"
#include "cli/base/prompt.h"
#include "lamina/study/audit.h"

#define MAX_BYTES (UINT64_C(16) << 20)

typedef struct audit_options { lm_flag_list models; bool quiet_ones, strict; } audit_options;

#define O(field) offsetof(audit_options, field)

static const lm_flag audit_flag_table[] = {
    { "--wrong-only", NULL, LM_FLAG_SWITCH, O(quiet_ones), NULL, "show only wrong statements", 0, 0, NULL },
    { "--strict", NULL, LM_FLAG_SWITCH, O(strict), NULL,
      "exit with status 5 also if something could not be checked", 0, 0, NULL },
    { 0 },
};

static const lm_flag audit_model_table[] = {
    { "--model", "-m", LM_FLAG_LIST, O(models), "MODEL",
      "model that the document describes: a .gguf file, a Hugging Face folder, a preset; may be repeated "
      "(default: the presets it names)", 0, 0, NULL },
    { 0 },
};

static const lm_flag_group audit_groups[] = {
    { "output", audit_flag_table, 0 },
    { "model", audit_model_table, 0 },
    { 0 },
};

/* A model that statements are about, opened once, in the store. `error`: why it could not be opened. */
typedef struct audit_model {
    const char         *name;
    lm_model           *model;
    lm_facts           *facts;
    lm_error            error;
    struct audit_model *next;
} audit_model;

typedef struct audit {
    lm_cli        *cli;
    audit_options *o;
    audit_model   *models;
    const char    *name;                 /* of the document, for messages */
    lm_text        text, out;            /* the document; what is printed */
    lm_audit_document *document;
    const char    *line;                 /* of the document, where the statements are that are judged */
    size_t         counts[4], statements, unread;
    /* the first one whose quantity is unknown, but near a known one; NULL: none */
    const lm_audit_statement *misspelt;
    const char    *meant;                /* the known quantity */
    json_t        *list, *unread_list;
} audit;

/* ---- models ---- */

static lm_status open_model(audit *a, audit_model *m, lm_error *e)
{
    lm_model_flags flags = { 0 };
    const char    *path  = NULL;

    flags.o.weights_optional = flags.o.tokenizer_optional = true;
    LM_TRY(lm_find_model(a->cli, &flags, m->name, &path, e));
    LM_TRY(lm_model_open(path, &flags.o, &m->model, e));
    return lm_facts_new(m->model, NULL, &m->facts, e);
}

static lm_status find_model(audit *a, const char *name, audit_model **out, lm_error *e)
{
    for (audit_model *m = a->models; m; m = m->next)
        if (strcmp(m->name, name) == 0) {
            *out = m;
            return LM_OK;
        }
    audit_model *m = lm_store_new(&a->cli->store, 1, audit_model);
    if (!m || !(m->name = lm_store_strdup(&a->cli->store, name)))
        return lm_fail_memory(e, "a model", sizeof *m);
    m->next   = a->models;
    a->models = *out = m;
    open_model(a, m, &m->error);
    return LM_OK;
}

/* ---- statements ---- */

/* Return the text with control characters escaped for the terminal, or "" if out of memory. */
static const char *escaped(audit *a, const char *text)
{
    size_t size = 4 * strlen(text) + 1;
    char  *out  = lm_store_array(&a->cli->store, 1, size);

    if (out)
        lm_escape(out, size, text);
    return out ? out : "";
}

/* Return the verdict as an identifier for JSON, without spaces. */
static const char *json_word(lm_claim verdict)
{
    return verdict == LM_CLAIM_NOT_CHECKABLE ? "not_checkable" : lm_claim_word(verdict);
}

static json_t *json_text(const char *text)
{
    return lm_json_of(text, strlen(text));
}

static lm_status add_json(audit *a, const lm_audit_statement *s, const lm_judgement *j, const char *why,
                          lm_error *e)
{
    json_t *text = lm_json_of(a->line, strcspn(a->line, "\r\n"));
    json_t *one  = json_pack("{s:I, s:o, s:s, s:o, s:s, s:s?, s:s, s:s?, s:o, s:o, s:o}", "line",
                             (json_int_t)s->line, "text", text, "verdict", json_word(j->verdict), "true",
                             json_text(j->truth), "kind", why, "nearest", j->nearest, "fact", j->path,
                             "derivation", j->derivation, "model", json_text(s->model), "quantity",
                             json_text(s->quantity), "said", json_text(s->claim));

    return json_array_append_new(a->list, one) == 0 ? LM_OK
           : lm_fail_memory(e, "the statements", a->statements);
}

/* Print the line, the verdict, the model, the fact, what is said, what it is, why, and how the fact
 * follows. */
static void print_statement(audit *a, const lm_audit_statement *s, const lm_judgement *j, const char *why)
{
    const char *word    = _(lm_claim_word(j->verdict)), *derivation = j->derivation ? j->derivation : "";
    unsigned    columns = lm_text_columns(word);

    lm_text_printf(&a->out, "%5zu  %s%*s  %s  %s: %s", s->line, word, columns < 13 ? (int)(13 - columns) : 0,
                   "", escaped(a, s->model),
                   escaped(a, s->listed || !*j->path ? s->quantity : j->path), escaped(a, s->claim));
    if (j->verdict == LM_CLAIM_WRONG || j->verdict == LM_CLAIM_ROUNDED)
        lm_text_printf(&a->out, _("; it is %s"), escaped(a, j->truth));
    if (*why || *derivation)
        lm_text_printf(&a->out, " (%s%s%s", *why ? _(why) : "", *why && *derivation ? "; " : "",
                       escaped(a, derivation));
    if (j->nearest)
        lm_text_printf(&a->out, _("; did you mean %s?"), j->nearest);
    lm_text_add_str(&a->out, *why || *derivation ? ")\n" : "\n");
}

static lm_status add_unread(audit *a, size_t line, const char *text, lm_error *e)
{
    a->unread++;
    if (a->cli->json) {
        json_t *one = json_pack("{s:I, s:o}", "line", (json_int_t)line, "text", json_text(text));
        return json_array_append_new(a->unread_list, one) == 0 ? LM_OK
               : lm_fail_memory(e, "the rows", a->unread);
    }
    if (!a->o->quiet_ones)
        lm_text_printf(&a->out, _("%5zu  not understood: %s\n"), line, escaped(a, text));
    return LM_OK;
}

/* Judge a statement and show it. A key that the model's configuration does not have is no statement about
 * it. */
static lm_status judge(audit *a, const lm_audit_statement *s, lm_error *e)
{
    lm_judgement j = { .verdict = LM_CLAIM_NOT_CHECKABLE };
    char         failure[2048] = "";
    audit_model *m;

    LM_TRY(find_model(a, s->model, &m, e));
    if (m->facts) {
        LM_TRY(lm_audit_judge(s, m->facts, &j, e));
    } else if (s->listed) {
        lm_error_text(&m->error, failure, sizeof failure);
    } else {
        *e = m->error;
        return e->code;
    }
    if (s->key && !*j.path)
        return add_unread(a, s->line, s->quantity, e);
    const char *why = !*failure ? j.why : m->error.code == LM_NOT_FOUND ? N_("no such model") : failure;
    a->counts[j.verdict]++;
    a->statements++;
    if (j.nearest && !a->misspelt) {
        a->misspelt = s;
        a->meant    = j.nearest;
    }
    if (a->cli->json)
        return add_json(a, s, &j, why, e);
    if (!a->o->quiet_ones || j.verdict == LM_CLAIM_WRONG || j.nearest)
        print_statement(a, s, &j, why);
    return LM_OK;
}

/* Judge the statements of a document in the order of its lines, with the lines that were not understood
 * between them. */
static lm_status judge_all(audit *a, lm_error *e)
{
    const lm_audit_document  *d = a->document;
    const lm_audit_statement *s;
    const lm_audit_unread    *u;
    size_t                    n = 0, line = 1;

    a->line = a->text.data;
    for (size_t i = 0; (s = lm_audit_statement_at(d, i)); i++) {
        for (; (u = lm_audit_unread_at(d, n)) && u->line < s->line; n++)
            LM_TRY(add_unread(a, u->line, u->text, e));
        for (; line < s->line; line++)
            a->line = strchr(a->line, '\n') + 1;
        LM_TRY(judge(a, s, e));
    }
    for (; (u = lm_audit_unread_at(d, n)); n++)
        LM_TRY(add_unread(a, u->line, u->text, e));
    size_t size = strlen(a->name);
    bool   list = size > 4 && strcmp(a->name + size - 4, ".tsv") == 0;
    if (!a->statements && !a->o->models.n && !list)
        return lm_fail(e, LM_USAGE, "-m", LM_NO_OFFSET, "required, because the document names no preset");
    return LM_OK;
}

static lm_status read_document(audit *a, lm_error *e)
{
    for (size_t i = 0; i < a->o->models.n; i++) {
        audit_model *m;
        LM_TRY(find_model(a, a->o->models.items[i], &m, e));
        if (!m->facts) {
            *e = m->error;
            return e->code;
        }
    }
    if (lm_audit_read(a->text.data, a->text.size, a->o->models.items, a->o->models.n, &a->document,
                      e) == LM_OK)
        return LM_OK;
    return lm_fail_in(e, a->name);
}

/* ---- the document ---- */

/* Load the file, or standard input for "-". */
static lm_status load(audit *a, lm_error *e)
{
    const char *path = a->cli->args[0];

    a->name = strcmp(path, "-") == 0 ? "standard input" : path;
    if (a->name == path)
        return lm_read_document(path, MAX_BYTES, &a->text, e);
    LM_TRY(lm_read_file(path, &a->text, e));
    lm_text_add_str(&a->text, "");                    /* allocate a string even if there are no bytes */
    return a->text.data ? LM_OK : lm_fail_memory(e, a->name, 0);
}

static lm_status write_json(audit *a, lm_status verdict, lm_error *e)
{
    json_t *document = json_pack("{s:O, s:O}", "statements", a->list, "rows_not_understood", a->unread_list);

    for (int i = 0; i < 4; i++)
        json_object_set_new(document, json_word((lm_claim)i), json_integer((json_int_t)a->counts[i]));
    if (verdict != LM_OK)
        json_object_set_new(document, "error", lm_json_error(e));
    return lm_out_json(a->cli, document, e);
}

static lm_status write_text(audit *a, lm_error *e)
{
    const size_t *n = a->counts;

    lm_text_printf(&a->out, P_(a->statements,
                               "%zu statement: %zu confirmed, %zu rounded, %zu wrong, %zu not checkable\n",
                               "%zu statements: %zu confirmed, %zu rounded, %zu wrong, %zu not checkable\n"),
                   a->statements, n[LM_CLAIM_CONFIRMED], n[LM_CLAIM_ROUNDED], n[LM_CLAIM_WRONG],
                   n[LM_CLAIM_NOT_CHECKABLE]);
    if (a->unread)
        lm_text_printf(&a->out, P_(a->unread, "%zu row or line not understood\n",
                                   "%zu rows and lines not understood\n"), a->unread);
    return lm_out_buf(&a->out, e);
}

/* Return the result of the command: an error if a statement is wrong, a quantity is misspelt, or with
 * --strict a statement was not checked. */
static lm_status conclude(const audit *a, lm_error *e)
{
    size_t wrong = a->counts[LM_CLAIM_WRONG], unchecked = a->counts[LM_CLAIM_NOT_CHECKABLE] + a->unread,
                   all = a->statements + a->unread;
    char   where[32];

    if (wrong) {
        lm_fail(e, LM_DIFFERS, NULL, LM_NO_OFFSET, "%zu of %zu statement%s %s wrong", wrong, a->statements,
                a->statements == 1 ? "" : "s", wrong == 1 ? "is" : "are");
    } else if (a->misspelt) {
        snprintf(where, sizeof where, "line %zu", a->misspelt->line);
        lm_fail(e, LM_USAGE, where, LM_NO_OFFSET, "unknown quantity \"%s\"", a->misspelt->quantity);
        lm_fail_hint(e, "did you mean %s?", a->meant);
    } else if (a->o->strict && (unchecked || !a->statements)) {
        lm_fail(e, LM_DIFFERS, NULL, LM_NO_OFFSET, "%zu of %zu statement%s could not be checked (--strict)",
                unchecked, all,
                all == 1 ? "" : "s");
    } else {
        return LM_OK;
    }
    return lm_fail_in(e, a->name);
}

static lm_status finish(audit *a, lm_error *e)
{
    lm_status verdict;

    if (!a->statements)
        lm_note("no statements found to check");
    verdict = conclude(a, e);
    LM_TRY(a->cli->json ? write_json(a, verdict, e) : write_text(a, e));
    return verdict;
}

static lm_status run_audit(lm_cli *cli, void *options, lm_error *e)
{
    audit     a      = { .cli = cli, .o = options, .list = json_array(), .unread_list = json_array() };
    lm_status status = load(&a, e);

    if (status == LM_OK)
        status = read_document(&a, e);
    if (status == LM_OK)
        status = judge_all(&a, e);
    if (status == LM_OK)
        status = finish(&a, e);
    for (audit_model *m = a.models; m; m = m->next) {
        lm_facts_free(m->facts);
        lm_model_close(m->model);
    }
    lm_audit_free(a.document);
    lm_text_free(&a.text);
    lm_text_free(&a.out);
    json_decref(a.list);
    json_decref(a.unread_list);
    return status;
}

const lm_command lm_command_audit = {
    .name = "audit",
    .usage = "DOCUMENT | FILE.tsv | - [-m MODEL]...",
    .summary = "check statements about models in a document",
    .about =
        "  A document is Markdown, plain text, JSON or YAML. Its tables, lines \"name: value\", keys of\n"
        "  config.json, printed modules and tables of torchinfo are read, each about the model that its "
        "row,\n"
        "  column, line or heading names.\n"
        "  FILE.tsv is a list of statements if its header line has the columns model, quantity and claim. A\n"
        "  quantity is a key of config.json (num_hidden_layers) or a path of lamina inspect --query.\n"
        "  - reads either from standard input.\n"
        "  Exit status 5 if a statement is wrong, 2 if a quantity is misspelt. With --strict also 5 if a\n"
        "  statement cannot be checked, or a row not understood.\n",
    .groups = audit_groups,
    .min_args = 1,
    .max_args = 1,
    .options_size = sizeof(audit_options),
    .run = run_audit,
};
