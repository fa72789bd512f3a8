/* lamina audit - check statements about models against their facts. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/columns.h"
#include "cli/study/audit_marks.h"
#include "cli/base/options.h"
#include "cli/base/output.h"
#include "cli/base/prompt.h"
#include "lamina/audit.h"

enum { MAX_CELLS = 32 };

#define MAX_BYTES (UINT64_C(16) << 20)

enum { AS_TEXT, AS_MARKDOWN, AS_HTML };
static const char *const format_words[] = { "text", "md", "html", NULL };

typedef struct audit_options { lm_flag_list models; bool quiet_ones, strict; int format; } audit_options;

#define O(field) offsetof(audit_options, field)

static const lm_flag audit_flag_table[] = {
    { "--wrong-only", NULL, LM_FLAG_SWITCH, O(quiet_ones), NULL, "show only wrong statements", 0, 0, NULL },
    { "--strict", NULL, LM_FLAG_SWITCH, O(strict), NULL,
      "exit with status 5 also if something could not be checked", 0, 0, NULL },
    { "--format", NULL, LM_FLAG_WORD, O(format), "text|md|html",
      "text: the statements; md, html: the document with its marks", 0, 0,
      format_words },
    { 0 },
};

static const lm_flag audit_model_table[] = {
    { "--model", "-m", LM_FLAG_LIST, O(models), "MODEL",
      "model that the document describes: a .gguf file, a Hugging Face folder, a preset; may be repeated "
      "(default: the presets it names)", 0, 0,
          NULL },
    { 0 },
};

static const lm_flag_group audit_groups[] = {
    { "output", audit_flag_table, 0 },
    { "model", audit_model_table, 0 },
    { 0 },
};

/* A model that statements are about, opened once. `error`: why it could not be opened. */
typedef struct subject { const char *name; lm_model *model; lm_facts *facts; lm_error error; } subject;

typedef struct audit {
    lm_cli        *cli;
    audit_options *o;
    subject      **subjects;             /* each in the store; the array is allocated with realloc */
    /* unknown: rows and lines not understood */
    size_t         n_subjects, capacity, line, counts[4], statements, unknown;
    /* of the first unknown quantity that is near a known one; 0: none */
    size_t         misspelt_line;
    const char    *misspelt, *meant;             /* in the store */
    json_t        *list, *unread;
    const char    *name;                 /* of the document, for messages */
    bool           table;                /* a list of statements, not a document */
    const char    *text;                 /* the current line; continues past its end */
    lm_text         out;
} audit;

/* Append a new subject. NULL: out of memory. */
static subject *add_subject(audit *a, const char *name)
{
    if (a->n_subjects == a->capacity) {
        size_t    capacity  = a->capacity ? 2 * a->capacity : 64;
        subject **grown = realloc(a->subjects, capacity * sizeof *grown);
        if (!grown)
            return NULL;
        a->subjects = grown;
        a->capacity     = capacity;
    }
    subject *s = lm_store_new(&a->cli->store, 1, subject);
    if (!s || !(s->name = lm_store_strdup(&a->cli->store, name)))
        return NULL;
    return a->subjects[a->n_subjects++] = s;
}

static lm_status open_subject(audit *a, subject *s, lm_error *e)
{
    lm_model_flags flags = { 0 };
    const char    *path  = NULL;

    (void)a;
    flags.o.weights_optional = flags.o.tokenizer_optional = true;
    LM_TRY(lm_find_model(a->cli, &flags, s->name, &path, e));
    LM_TRY(lm_model_open(path, &flags.o, &s->model, e));
    return lm_facts_new(s->model, NULL, &s->facts, e);
}

static lm_status find_subject(audit *a, const char *name, subject **out, lm_error *e)
{
    for (size_t i = 0; i < a->n_subjects; i++)
        if (strcmp(a->subjects[i]->name, name) == 0) {
            *out = a->subjects[i];
            return LM_OK;
        }
    if (!(*out = add_subject(a, name)))
        return lm_fail_memory(e, "models", a->n_subjects * sizeof(subject));
    open_subject(a, *out, &(*out)->error);
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

/* Remember the first unknown quantity that has a near match: the command fails with it. */
static lm_status note_misspelt(audit *a, const char *quantity, const lm_judgement *j, lm_error *e)
{
    if (!j->nearest || a->misspelt_line)
        return LM_OK;
    a->misspelt_line = a->line;
    a->misspelt      = lm_store_strdup(&a->cli->store, quantity);
    a->meant         = lm_store_strdup(&a->cli->store, j->nearest);
    return a->misspelt && a->meant ? LM_OK : lm_fail_memory(e, "the statements", a->statements);
}

/* Return the verdict as an identifier for JSON, without spaces. */
static const char *json_word(lm_claim verdict)
{
    return verdict == LM_CLAIM_NOT_CHECKABLE ? "not_checkable" : lm_claim_word(verdict);
}

static lm_status show(audit *a, const char *model, const char *quantity, const char *claim,
                      const lm_judgement *j, const char *why, lm_error *e)
{
    a->counts[j->verdict]++;
    a->statements++;
    LM_TRY(note_misspelt(a, quantity, j, e));
    if (a->cli->json) {
        json_t *one = json_pack("{s:I, s:o, s:s, s:o, s:s, s:s?, s:s, s:o, s:o, s:o}", "line",
                                (json_int_t)a->line, "text", lm_json_of(a->text, strcspn(a->text, "\r\n")),
                                "verdict", json_word(j->verdict), "true",
                                lm_json_of(j->truth, strlen(j->truth)), "kind", why, "nearest", j->nearest,
                                "fact", j->path, "model", lm_json_of(model, strlen(model)), "quantity",
                                lm_json_of(quantity, strlen(quantity)), "said",
                                lm_json_of(claim, strlen(claim)));
        return json_array_append_new(a->list, one) == 0 ? LM_OK
                                                        : lm_fail_memory(e, "the statements", a->statements);
    }
    if (a->o->quiet_ones && j->verdict != LM_CLAIM_WRONG && !j->nearest)
        return LM_OK;
    const char *word = _(lm_claim_word(j->verdict));
    unsigned    used = lm_text_columns(word);
    lm_text_printf(&a->out, "%5zu  %s%*s  %s  %s: %s", a->line, word, used < 13 ? (int)(13 - used) : 0, "",
                   escaped(a, model), escaped(a, quantity), escaped(a, claim));
    if (j->verdict == LM_CLAIM_WRONG || j->verdict == LM_CLAIM_ROUNDED)
        lm_text_printf(&a->out, _("; it is %s"), escaped(a, j->truth));
    lm_text_printf(&a->out, "%s%s", *why ? " (" : "", *why ? _(why) : "");
    if (j->nearest)
        lm_text_printf(&a->out, _("; did you mean %s?"), j->nearest);
    lm_text_add_str(&a->out, *why ? ")\n" : "\n");
    return LM_OK;
}

static lm_status judge(audit *a, const char *model, const char *quantity, const char *claim, lm_error *e)
{
    lm_judgement j = { .verdict = LM_CLAIM_NOT_CHECKABLE };
    char         why[2048];
    subject     *s;

    LM_TRY(find_subject(a, model, &s, e));
    if (!s->facts) {
        lm_error_text(&s->error, why, sizeof why);
        return show(a, model, quantity, claim, &j, s->error.code == LM_NOT_FOUND ? N_("no such model") : why,
                    e);
    }
    LM_TRY(lm_facts_judge(s->facts, quantity, claim, &j, e));
    return show(a, model, quantity, claim, &j, j.why, e);
}

/* ---- lists of statements ---- */

static size_t split(char *line, char separator, char *cells[MAX_CELLS])
{
    size_t n = 0;

    for (char *p = line; p && n < MAX_CELLS;) {
        char *end  = strchr(p, separator);
        cells[n++] = p;
        if (end)
            *end++ = '\0';
        p = end;
    }
    return n;
}

/* Terminate `line` at its line end, LF or CR LF. Return the next line, or NULL. */
static char *end_line(char *line)
{
    char  *next = strchr(line, '\n');
    size_t n;

    if (next)
        *next++ = '\0';
    n = strlen(line);
    if (n && line[n - 1] == '\r')
        line[n - 1] = '\0';
    return next;
}

static int column(char *const *names, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            return (int)i;
    return -1;
}

/* Fail with an error about the current line of the document. */
static lm_status fail_at_line(const audit *a, int64_t offset, const char *what, lm_error *e)
{
    char where[32];

    snprintf(where, sizeof where, "line %zu", a->line);
    lm_fail(e, LM_USAGE, where, offset, "%s", what);
    return lm_fail_in(e, a->name);
}

/* Check a table whose first line names its columns: model (or asked), quantity, and claim (or seed_value or
 * value). */
static lm_status audit_table(audit *a, char *text, lm_error *e)
{
    char *names[MAX_CELLS], *cells[MAX_CELLS], *next = NULL;
    int   model = -1, quantity = -1, claim = -1;

    for (char *line = text; line && *line; line = next) {
        next = end_line(line);
        a->line++;
        if (a->line == 1) {
            size_t n = split(line, '\t', names);
            model    = column(names, n, "asked") >= 0 ? column(names, n, "asked") : column(names, n, "model");
            quantity = column(names, n, "quantity");
            claim = column(names, n, "claim") >= 0        ? column(names, n, "claim")
                    : column(names, n, "seed_value") >= 0 ? column(names, n, "seed_value")
                                                          : column(names, n, "value");
            if (quantity < 0 || claim < 0 || (model < 0 && a->o->models.n != 1))
                return fail_at_line(a, LM_NO_OFFSET, "missing columns: model, quantity and claim", e);
            continue;
        }
        a->text  = lm_store_strdup(&a->cli->store, line);
        size_t n = split(line, '\t', cells);
        int    last = quantity > claim ? quantity : claim;
        last = model > last ? model : last;
        if ((size_t)last >= n && !(n == 1 && !*cells[0]))                /* skip empty lines */
            return fail_at_line(a, LM_NO_OFFSET, "fewer columns than the header line", e);
        if ((size_t)last < n)
            LM_TRY(
                judge(a, model < 0 ? a->o->models.items[0] : cells[model], cells[quantity], cells[claim], e));
    }
    return LM_OK;
}

/* ---- documents ---- */

/* Check and print one statement of the document. *j receives the judgement, for the marks. */
static lm_status judge_statement(audit *a, const char *text, const lm_audit_statement *statement,
                                 lm_judgement *j, lm_error *e)
{
    size_t   at = statement->at;
    subject *s  = NULL;

    while (at && text[at - 1] != '\n')
        at--;
    a->text = text + at;
    a->line = statement->line;
    LM_TRY(lm_audit_judge(statement, NULL, j, e));
    if (*statement->model && *statement->quantity) {
        LM_TRY(find_subject(a, statement->model, &s, e));
        if (!s->facts) {
            *e = s->error;
            return e->code;
        }
        LM_TRY(lm_audit_judge(statement, s->facts, j, e));
    }
    if (statement->candidate && j->verdict != LM_CLAIM_CONFIRMED) {
        j->verdict = LM_CLAIM_NOT_CHECKABLE;
        return LM_OK;
    }
    return show(a, statement->model, statement->quantity, statement->claim, j, j->why, e);
}

static lm_status show_unread(audit *a, const lm_audit_unread *u, lm_error *e)
{
    a->unknown++;
    if (a->cli->json) {
        json_t *one = json_pack("{s:I, s:o}", "line", (json_int_t)u->line, "text",
                                lm_json_of(u->text, strlen(u->text)));
        return json_array_append_new(a->unread, one) == 0 ? LM_OK : lm_fail_memory(e, "the rows", a->unknown);
    }
    if (!a->o->quiet_ones && a->o->format == AS_TEXT)
        lm_text_printf(&a->out, _("%5zu  not understood: %s\n"), u->line, escaped(a, u->text));
    return LM_OK;
}

static lm_status judge_document(audit *a, const lm_audit_document *d, const char *text, size_t size,
                                lm_error *e)
{
    size_t                    n = 0, n_marks = 0;
    const lm_audit_statement *s;
    const lm_audit_unread    *u;

    while (lm_audit_statement_at(d, n))
        n++;
    lm_claim_mark *marks = lm_store_new(&a->cli->store, n + 1, lm_claim_mark);
    if (!marks)
        return lm_fail_memory(e, "the statements", n);
    for (size_t i = 0; (s = lm_audit_statement_at(d, i)); i++) {
        lm_judgement j;
        LM_TRY(judge_statement(a, text, s, &j, e));
        if (j.verdict != LM_CLAIM_NOT_CHECKABLE)
            marks[n_marks++] = (lm_claim_mark){ s->at, s->size, j.verdict,
                                                lm_store_strdup(&a->cli->store, j.truth) };
    }
    for (size_t i = 0; (u = lm_audit_unread_at(d, i)); i++)
        LM_TRY(show_unread(a, u, e));
    if (a->o->format != AS_TEXT && !a->cli->json) {
        lm_text_clear(&a->out);
        lm_mark_document(&a->out, text, size, marks, n_marks, a->o->format == AS_HTML);
    }
    if (!n && !a->o->models.n)
        return lm_fail(e, LM_USAGE, "-m", LM_NO_OFFSET, "required, because the document names no preset");
    return LM_OK;
}

static lm_status audit_document(audit *a, const char *text, size_t size, lm_error *e)
{
    lm_audit_document *d      = NULL;
    lm_status          status = LM_OK;

    for (size_t i = 0; i < a->o->models.n && status == LM_OK; i++) {
        subject *s;
        status = find_subject(a, a->o->models.items[i], &s, e);
        if (status == LM_OK && !s->facts) {
            *e     = s->error;
            status = e->code;
        }
    }
    if (status == LM_OK)
        status = lm_audit_read(text, size, a->o->models.items, a->o->models.n, &d, e);
    if (status == LM_OK)
        status = judge_document(a, d, text, size, e);
    lm_audit_free(d);
    return status;
}

/* Return whether the first line of a text is the header of a list of statements. */
static bool is_table(const char *text)
{
    size_t n = strcspn(text, "\r\n");

    return memmem(text, n, "quantity", 8) && memchr(text, '\t', n);
}

/* Load the file, or standard input for "-". A file is a list of statements if its name ends in .tsv, standard
 * input if its first line is the header of one. */
static lm_status load(audit *a, lm_text *text, lm_error *e)
{
    const char *path = a->cli->args[0];
    size_t      n    = strlen(path);

    if (strcmp(path, "-") == 0) {
        a->name = "standard input";
        LM_TRY(lm_read_file(path, text, e));
        lm_text_add_str(text, "");                    /* allocate a string even if there are no bytes */
        a->table = text->data && is_table(text->data);
        return text->data ? LM_OK : lm_fail_memory(e, a->name, 0);
    }
    a->name  = path;
    a->table = n > 4 && strcmp(path + n - 4, ".tsv") == 0;
    return lm_text_load(text, path, MAX_BYTES, e);
}

/* Reject a NUL byte, which would silently end the document. */
static lm_status refuse_nul(audit *a, const char *text, size_t size, lm_error *e)
{
    size_t at = strlen(text);

    if (at == size)
        return LM_OK;
    a->line = 1;
    for (size_t i = 0; i < at; i++)
        a->line += text[i] == '\n';
    return fail_at_line(a, (int64_t)at, "contains a NUL byte; not a text file", e);
}

static lm_status write_json(audit *a, lm_status verdict, lm_error *e)
{
    json_t *document = json_pack("{s:O, s:O}", "statements", a->list, "rows_not_understood", a->unread);

    for (int i = 0; i < 4; i++)
        json_object_set_new(document, json_word((lm_claim)i), json_integer((json_int_t)a->counts[i]));
    if (verdict != LM_OK)
        json_object_set_new(document, "error", lm_json_error(e));
    return lm_out_json(a->cli, document, e);
}

static lm_status write_text(audit *a, lm_error *e)
{
    if (a->o->format != AS_TEXT && !a->table)
        return lm_out_buf(&a->out, e);
    lm_text_printf(&a->out,
                   P_(a->statements,
                      "%zu statement: %zu confirmed, %zu rounded, %zu wrong, %zu not checkable\n",
                      "%zu statements: %zu confirmed, %zu rounded, %zu wrong, %zu not checkable\n"),
                   a->statements, a->counts[LM_CLAIM_CONFIRMED], a->counts[LM_CLAIM_ROUNDED],
                   a->counts[LM_CLAIM_WRONG], a->counts[LM_CLAIM_NOT_CHECKABLE]);
    if (a->unknown)
        lm_text_printf(&a->out,
                       P_(a->unknown, "%zu row or line not understood\n",
                          "%zu rows and lines not understood\n"),
                       a->unknown);
    if (!a->table)
        lm_text_printf(&a->out,
                       P_(a->statements + a->unknown, "checked %zu of %zu statement\n",
                          "checked %zu of %zu statements\n"),
                       a->counts[LM_CLAIM_CONFIRMED] + a->counts[LM_CLAIM_ROUNDED] +
                           a->counts[LM_CLAIM_WRONG],
                       a->statements + a->unknown);
    return lm_out_buf(&a->out, e);
}

/* Return the result of the command: an error if a statement is wrong, a quantity is misspelt, or with
 * --strict a statement was not checked. */
static lm_status conclude(const audit *a, lm_error *e)
{
    size_t wrong = a->counts[LM_CLAIM_WRONG], unchecked = a->counts[LM_CLAIM_NOT_CHECKABLE] + a->unknown;
    char   where[32];

    if (wrong) {
        lm_fail(e, LM_DIFFERS, NULL, LM_NO_OFFSET, "%zu of %zu statement%s %s wrong", wrong, a->statements,
                a->statements == 1 ? "" : "s", wrong == 1 ? "is" : "are");
    } else if (a->misspelt_line) {
        snprintf(where, sizeof where, "line %zu", a->misspelt_line);
        lm_fail(e, LM_USAGE, where, LM_NO_OFFSET, "unknown quantity \"%s\"", a->misspelt);
        lm_fail_hint(e, "did you mean %s?", a->meant);
    } else if (a->o->strict && (unchecked || !a->statements)) {
        lm_fail(e, LM_DIFFERS, NULL, LM_NO_OFFSET, "%zu of %zu statement%s could not be checked (--strict)",
                unchecked, a->statements + a->unknown, a->statements + a->unknown == 1 ? "" : "s");
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
    audit     a      = { .cli = cli, .o = options, .list = json_array(), .unread = json_array() };
    lm_text   text   = { 0 };
    lm_status status = load(&a, &text, e);

    if (status == LM_OK)
        status = refuse_nul(&a, text.data, text.size, e);
    if (status == LM_OK)
        status = a.table ? audit_table(&a, text.data, e) : audit_document(&a, text.data, text.size, e);
    if (status == LM_OK)
        status = finish(&a, e);
    for (size_t i = 0; i < a.n_subjects; i++) {
        lm_facts_free(a.subjects[i]->facts);
        lm_model_close(a.subjects[i]->model);
    }
    free(a.subjects);
    lm_text_free(&text);
    lm_text_free(&a.out);
    json_decref(a.list);
    json_decref(a.unread);
    return status;
}

const lm_command lm_command_audit = {
    .name = "audit",
    .usage = "FILE.tsv | DOCUMENT | - [-m MODEL]...",
    .summary = "check statements about models in a document",
    .about = "  FILE.tsv starts with a header line: model, quantity, claim. A document is Markdown, HTML or plain text:\n"
             "  its tables, lists and sentences are read, each about the model that its row, column, sentence or heading names.\n"
             "  - reads either from standard input.\n"
             "  A quantity is a key of config.json (num_hidden_layers) or a path of lamina inspect --query.\n"
             "  Exit status 5 if a statement is wrong, 2 if a quantity is misspelt. With --strict also 5 if a statement cannot be\n"
             "  checked, or a row of a table not understood.\n",
    .groups = audit_groups,
    .min_args = 1,
    .max_args = 1,
    .options_size = sizeof(audit_options),
    .run = run_audit,
};
