/* mutants.c - changed descriptions, one after the other: each is opened and run, or rejected. */
#include "mutants.h"

#include <dirent.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lamina/lamina.h"
#include "base/map.h"
#include "runtime/engine/state.h"
#include "../unit/temporary.h"

static const char *now = "";
static char        folder[256];
static lm_map     *seen;

static void crashed(int signal_number)
{
    ssize_t ignored = write(2, now, strlen(now));

    ignored += write(2, "\n", 1);
    (void)ignored;
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static lm_status try(const char *path, bool *ran, lm_error *e)
{
    lm_model         *m = NULL;
    lm_engine        *g = NULL;
    lm_engine_options o = { .context = 8,
                            .sequences = 1,
                            .max_rows = 4,
                            .max_logits = 1,
                            .kv = LM_KV_F32,
                            .compute = LM_COMPUTE_F32,
                            .threads = 1 };
    lm_row rows[4] = { { 0, 0, 0, false }, { 0, 1, 1, false }, { 0, 2, 2, false }, { 0, 3, 3, true } };
    lm_status         status = lm_model_open(path, NULL, &m, e);

    if (status == LM_OK)
        status = lm_engine_new(m, &o, &g, e);
    if (status == LM_OK)
        status = lm_engine_step(g, rows, 4, e);
    *ran = status == LM_OK && lm_engine_logits(g, 3);
    lm_engine_free(g);
    lm_model_close(m);
    return status;
}

void mutant_run(const char *path, const char *what, mutant_count *count)
{
    lm_error e   = { 0 };
    bool     ran = false;

    now              = what;
    lm_status status = try(path, &ran, &e);
    if ((status != LM_OK && (!e.message[0] || e.code != status)) || (status == LM_OK && !ran)) {
        fprintf(stderr, "%s: status %d says \"%s\"\n", what, (int)status, e.message);
        exit(1);
    }
    count->refused += status != LM_OK;
    count->ran += status == LM_OK;
}

static void wrong(const char *what, const char *why, const lm_error *e)
{
    fprintf(stderr, "%s: %s: status %d says \"%s: %s\"\n", what, why, (int)e->code, e->where, e->message);
    exit(1);
}

static void add(mutant_seen *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(mutant_seen *out, const char *format, ...)
{
    size_t  used = strlen(out->model);
    va_list args;

    va_start(args, format);
    vsnprintf(out->model + used, sizeof out->model - used, format, args);
    va_end(args);
}

static uint64_t hash_of(const void *data, size_t n)
{
    const uint8_t *at = data;
    uint64_t       h  = 14695981039346656037u;

    for (size_t i = 0; i < n; i++)
        h = (h ^ at[i]) * 1099511628211u;
    return h;
}

static void see_text(const lm_model *m, mutant_seen *out)
{
    static const char text[] =
        " Hello  world's 1234 \xC3\xA9t\xC3\xA9,\n\tif (x == 10) { a-b_c }\xE4\xBD\xA0\xE5\xA5\xBD <s> </s> "
        "<|endoftext|>";
    const lm_tokenizer *t = lm_model_tokenizer(m);
    const char         *names[] = { NULL, "tool_use", "rag" };
    lm_tokens           ids = { 0 };
    lm_text             back = { 0 };
    uint64_t            pieces = 0;

    if (t && lm_tokenize(t, text, sizeof text - 1, LM_ADD_SPECIAL, &ids, NULL) == LM_OK) {
        add(out, "%s, %zu ids %llx", lm_tokenizer_summary(t), ids.n,
            (unsigned long long)hash_of(ids.ids, ids.n * sizeof *ids.ids));
        if (lm_detokenize(t, ids.ids, ids.n, 0, &back, NULL) == LM_OK)
            add(out, ", back %llx", (unsigned long long)hash_of(back.data, back.size));
        lm_tokens_free(&ids);
        lm_text_free(&back);
    }
    add(out, "\nends");
    for (lm_token i = 0; t && i < (lm_token)lm_tokenizer_size(t); i++) {
        size_t      size  = 0;
        const char *piece = lm_tokenizer_piece(t, i, &size);
        pieces = pieces * 31 + hash_of(piece, piece ? size : 0) + lm_tokenizer_is_special(t, i);
        if (lm_model_is_end(m, i))
            add(out, " %d", i);
    }
    add(out, ", pieces %llx, bos %d, eos %d", (unsigned long long)pieces, t ? lm_tokenizer_bos(t) : -1,
        t ? lm_tokenizer_eos(t) : -1);
    for (size_t i = 0; i < 3; i++) {
        const char *source = lm_model_chat_template(m, names[i]);
        if (source)
            add(out, "\ntemplate %llx", (unsigned long long)hash_of(source, strlen(source)));
    }
}

/* Record changes that a few tokens of a tiny model may not show: windows longer than the prompt, bounds
 * between the same two lanes. */
static void see_program(const lm_program *p, mutant_seen *out)
{
    for (uint32_t i = 0; i < p->n_ropes; i++) {
        const lm_rope_spec *r = &p->ropes[i].spec;
        add(out, "rope %d, base %a", (int)r->type, r->base);
        if (r->type == LM_ROPE_YARN || r->type == LM_ROPE_LONGROPE)
            add(out, ", factor %a of %u, %a, bounds %a %a", r->factor, r->original_context,
                r->attention_factor, r->beta_fast, r->beta_slow);
        add(out, "\n");
    }
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->nodes[i].code == LM_OP_ATTENTION)
            add(out, " window %u", p->nodes[i].attention.spec.window);
        else if (p->nodes[i].code == LM_OP_SELECT_KEYS)
            add(out, " local %u", p->nodes[i].attention.spec.local);
}

static void see_model(const lm_model *m, mutant_seen *out)
{
    lm_model_info i;
    const char   *w;

    *out->warnings = *out->model = '\0';
    for (size_t k = 0; (w = lm_model_warning(m, k)); k++) {
        size_t used = strlen(out->warnings);
        snprintf(out->warnings + used, sizeof out->warnings - used, "%s\n", w);
    }
    lm_model_describe(m, &i);
    add(out, "%s, %s, %u ids, context %u, width %u\n", i.name, i.family, i.n_vocab, i.context_length,
        i.intermediate);
    see_program(m->program, out);
    see_text(m, out);
}

static lm_status see_logits(const lm_model *m, mutant_seen *out, lm_error *e)
{
    lm_engine        *g = NULL;
    lm_engine_options o = { .context = 24,
                            .sequences = 1,
                            .max_rows = 24,
                            .max_logits = 1,
                            .kv = LM_KV_F32,
                            .compute = LM_COMPUTE_F32,
                            .threads = 1 };
    lm_row            rows[24];
    lm_model_info     i;

    lm_model_describe(m, &i);
    for (uint32_t k = 0; k < 24; k++)
        rows[k] = (lm_row){ .token = (lm_token)(k * 7 % i.n_vocab), .position = k, .logits = k == 23 };
    lm_status status = lm_engine_new(m, &o, &g, e);
    if (status == LM_OK)
        status = lm_engine_step(g, rows, 24, e);
    if (status == LM_OK)
        add(out, "\nlogits %llx",
            (unsigned long long)hash_of(lm_engine_logits(g, 23), i.n_vocab * sizeof(float)));
    lm_engine_free(g);
    return status;
}

void mutant_look(const char *path, const char *what, mutant_seen *out)
{
    static const lm_model_options report = { .weights_optional = true };
    lm_error  e = { 0 }, other = { 0 };
    lm_model *m = NULL, *looked = NULL;

    now         = what;
    out->status = lm_model_open(path, NULL, &m, &e);
    bool same   = lm_model_open(path, &report, &looked, &other) == (lm_status)out->status;
    if (!same || strcmp(e.where, other.where) != 0 || strcmp(e.message, other.message) != 0)
        wrong(what, "a report says otherwise", &other);
    lm_model_close(looked);
    if (out->status != LM_OK && (e.code != (lm_status)out->status || !*e.message || !*e.where))
        wrong(what, "not a whole error", &e);
    snprintf(out->where, sizeof out->where, "%s", e.where);
    snprintf(out->message, sizeof out->message, "%s", e.message);
    if (out->status == LM_OK) {
        see_model(m, out);
        if (see_logits(m, out, &e) != LM_OK)
            wrong(what, "opens and does not run", &e);
    }
    lm_model_close(m);
}

bool mutant_is_new(const char *text)
{
    uint64_t known;

    if (lm_map_get(seen, lm_view_of(text), &known))
        return false;
    return lm_map_set(seen, lm_view_of(strdup(text)), 1);
}

const char *mutant_begin(void)
{
    temporary_path(folder, "mutants-XXXXXX");
    seen = lm_map_new(4096);
    if (!mkdtemp(folder) || !seen) {
        perror(folder);
        exit(1);
    }
    signal(SIGSEGV, crashed);
    signal(SIGFPE, crashed);
    signal(SIGABRT, crashed);
    return folder;
}

void mutant_end(void)
{
    struct dirent *d;
    char           path[600];
    DIR           *all = opendir(folder);

    while (all && (d = readdir(all))) {
        snprintf(path, sizeof path, "%s/%.255s", folder, d->d_name);
        unlink(path);
    }
    if (all)
        closedir(all);
    rmdir(folder);
}
