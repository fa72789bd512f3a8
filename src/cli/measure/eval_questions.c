/* eval_questions.c - multiple-choice questions from files of JSON lines. */
#include <string.h>

#include "cli/base/interrupt.h"
#include "cli/base/jsonl.h"
#include "cli/base/prompt.h"
#include "cli/measure/eval.h"

enum { SEQUENCES = 32, LOGIT_ROWS = 256, FIRST_ROOM = 256 };

/* The questions as tokens, allocated in the command's store. */
typedef struct questions {
    lm_evaluation    *v;
    lm_eval_question *shots;         /* the example questions of --shots-file */
    lm_eval_item     *items;
    size_t            n_shots, n_items, room, longest;
    lm_eval_form      form;          /* of the first question */
    json_t           *details;
} questions;

static void *grown(lm_store *store, void *old, size_t n, size_t *room, size_t size)
{
    if (n < *room)
        return old;
    size_t more = *room ? 2 * *room : FIRST_ROOM;
    void  *made = lm_store_array(store, more, size);
    if (made && n)
        memcpy(made, old, n * size);
    *room = made ? more : *room;
    return made;
}

/* ---- questions ---- */

/* Write the text before a question: the introduction of its subject, and --shots questions of that subject
 * with their answers. */
static lm_status write_before(const questions *q, const lm_eval_question *question, lm_text *out, lm_error *e)
{
    uint32_t used = 0;

    if (question->before)
        lm_text_add_str(out, question->before);
    for (size_t i = 0; i < q->n_shots && used < q->v->o->shots; i++) {
        const lm_eval_question *s = &q->shots[i];
        if (question->before && s->before && strcmp(question->before, s->before) != 0)
            continue;
        lm_text_add_str(out, s->contexts[s->answer]);
        lm_text_add_str(out, s->continuations[s->answer]);
        lm_text_add_str(out, "\n\n");
        used++;
    }
    if (used < q->v->o->shots)
        return lm_fail(e, LM_USAGE, "--shots", LM_NO_OFFSET, "only %u of %u examples are available", used,
                       q->v->o->shots);
    return LM_OK;
}

/* Count code points, as Python's len does. */
static size_t count_characters(const char *s)
{
    size_t n = 0;

    for (; *s; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

static lm_status encode(questions *q, const lm_text *before, const lm_eval_question *question, uint32_t k,
                        lm_eval_choice *out, lm_error *e)
{
    lm_store *store = &q->v->cli->store;
    lm_text   context = { 0 };
    lm_tokens ids = { 0 };
    size_t    n = 0;

    lm_text_add(&context, before->data, before->size);
    lm_text_add_str(&context, question->contexts[k]);
    lm_status status = context.failed ? lm_fail_memory(e, "a question", context.size)
                                      : lm_eval_pair(q->v->model, context.data, question->continuations[k],
                                                     !q->v->o->bare, &ids, &n, e);
    lm_token *kept = status == LM_OK ? lm_store_new(store, ids.n, lm_token) : NULL;
    if (status == LM_OK && !kept)
        status = lm_fail_memory(e, "a question", ids.n * sizeof *kept);
    if (status == LM_OK) {
        memcpy(kept, ids.ids, ids.n * sizeof *kept);
        *out = (lm_eval_choice){ .context = kept,
                                 .n_context = n,
                                 .continuation = kept + n,
                                 .n_continuation = ids.n - n,
                                 .characters = count_characters(question->answers[k]),
                                 .bytes = strlen(question->answers[k]) };
        q->longest = ids.n > q->longest ? ids.n : q->longest;
    }
    lm_text_free(&context);
    lm_tokens_free(&ids);
    return status;
}

static lm_status add_item(questions *q, const lm_eval_question *question, lm_error *e)
{
    lm_store       *store   = &q->v->cli->store;
    lm_eval_choice *choices = lm_store_new(store, question->n, lm_eval_choice);
    lm_text         before  = { 0 };

    q->items = grown(store, q->items, q->n_items, &q->room, sizeof *q->items);
    if (!choices || !q->items)
        return lm_fail_memory(e, "questions", q->n_items * sizeof *q->items);
    lm_status status = write_before(q, question, &before, e);
    if (status == LM_OK && before.failed)
        status = lm_fail_memory(e, "a question", before.size);
    for (uint32_t k = 0; status == LM_OK && k < question->n; k++)
        status = encode(q, &before, question, k, &choices[k], e);
    lm_text_free(&before);
    LM_TRY(status);
    if (!q->n_items)
        q->form = question->form;
    q->items[q->n_items++] = (lm_eval_item){ .choices = choices,
                                             .n = question->n,
                                             .answer = question->answer };
    return LM_OK;
}

/* ---- files ---- */

static lm_status read_question(const questions *q, json_t *value, const char *why, lm_eval_question *out,
                               lm_error *e)
{
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;

    if (!value)
        return lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "not JSON: %s", why);
    if (!text)
        return lm_fail_memory(e, "a question", 0);
    lm_error  why_not = { .offset = LM_NO_OFFSET };
    lm_status status  = lm_eval_question_read(text, strlen(text), (lm_eval_form)q->v->o->form, out, &why_not);
    free(text);
    if (status == LM_OK)
        return LM_OK;
    return lm_fail(e, status, NULL, LM_NO_OFFSET, "%s%s%s", why_not.where, why_not.where[0] ? " " : "",
                   why_not.message);
}

static lm_status on_line(void *arg, json_t *value, const char *why, const lm_text *line, lm_error *e)
{
    questions       *q = arg;
    lm_eval_question question;

    (void)line;
    if (q->v->o->limit && q->n_items >= q->v->o->limit)
        return LM_OK;
    LM_TRY(read_question(q, value, why, &question, e));
    lm_status status = add_item(q, &question, e);
    lm_eval_question_free(&question);
    return status;
}

typedef struct shot_list { questions *q; size_t room; } shot_list;

static lm_status on_shot(void *arg, json_t *value, const char *why, const lm_text *line, lm_error *e)
{
    shot_list *l = arg;
    questions *q = l->q;

    (void)line;
    q->shots = grown(&q->v->cli->store, q->shots, q->n_shots, &l->room, sizeof *q->shots);
    if (!q->shots)
        return lm_fail_memory(e, "questions", q->n_shots * sizeof *q->shots);
    LM_TRY(read_question(q, value, why, &q->shots[q->n_shots], e));
    bool gap = q->shots[q->n_shots].form == LM_EVAL_FORM_WINOGRANDE;
    q->n_shots++;
    return gap ? lm_fail(e, LM_USAGE, "--shots", LM_NO_OFFSET, "questions of this form take no examples")
               : LM_OK;
}

static lm_status read_files(questions *q, lm_error *e)
{
    const lm_eval_flags *o = q->v->o;
    shot_list            l = { .q = q };

    if (!o->file)
        return lm_fail(e, LM_USAGE, q->v->kind, LM_NO_OFFSET, "requires --file, questions as JSON lines");
    if (!lm_model_tokenizer(q->v->model))
        return lm_fail(e, LM_USAGE, "--file", LM_NO_OFFSET, "the model has no tokenizer");
    if (!!o->shots != !!o->shots_file)
        return lm_fail(e, LM_USAGE, "--shots", LM_NO_OFFSET, "--shots and --shots-file require each other");
    if (o->shots_file)
        LM_TRY(lm_jsonl_read(o->shots_file, true, on_shot, &l, e));
    LM_TRY(lm_jsonl_read(o->file, true, on_line, q, e));
    if (q->n_items)
        return LM_OK;
    lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "has no questions");
    return lm_fail_in(e, lm_input_name(o->file));
}

/* ---- results ---- */

static void on_item(void *arg, size_t index, const lm_eval_item *item, const lm_eval_item_result *r)
{
    questions *q    = arg;
    json_t    *list = q->details ? json_array() : NULL;

    for (uint32_t k = 0; k < item->n; k++) {
        if (q->v->o->csv)
            lm_text_printf(&q->v->csv, "%zu,%u,%d,%d,%.9g,%zu,%zu,%zu\n", index, k, k == item->answer,
                           k == r->best, r->logprobs[k], item->choices[k].n_continuation,
                           item->choices[k].characters, item->choices[k].bytes);
        if (list)
            json_array_append_new(list, json_pack("{s:f, s:b, s:I, s:I}", "logprob", r->logprobs[k],
                                                  "greedy", r->greedy[k],
                                                  "tokens", (json_int_t)item->choices[k].n_continuation,
                                                  "characters", (json_int_t)item->choices[k].characters));
    }
    if (list)
        json_array_append_new(q->details,
                              json_pack("{s:I, s:I, s:I, s:o}", "answer", (json_int_t)item->answer,
                                        "best", (json_int_t)r->best,
                                        "best_norm", (json_int_t)r->best_normalized, "choices", list));
}

static void show_share(lm_evaluation *v, const char *label, const char *key, const lm_eval_share *s)
{
    char name[64];

    lm_eval_figure(v, label, key, s->share, "%.2f %% ± %.2f %% (95 %%: %.2f … %.2f %%)", 100 * s->share,
                   100 * s->error, 100 * s->low, 100 * s->high);
    snprintf(name, sizeof name, "%s_stderr", key);
    json_object_set_new(v->document, name, lm_json_finite(s->error));
    snprintf(name, sizeof name, "%s_interval", key);
    json_object_set_new(v->document, name, json_pack("[f, f]", s->low, s->high));
}

static void show(questions *q, const lm_choices_figures *f)
{
    lm_evaluation *v = q->v;

    json_object_set_new(v->document, "task", json_string(lm_eval_form_word(q->form)));
    json_object_set_new(v->document, "shots", json_integer(v->o->shots));
    json_object_set_new(v->document, "n", json_integer((json_int_t)f->n));
    lm_eval_figure(v, "questions", NULL, 0, "%llu, form %s, %u shots", (unsigned long long)f->n,
                   lm_eval_form_word(q->form), v->o->shots);
    show_share(v, "accuracy", "accuracy", &f->accuracy);
    show_share(v, "acc. by length", "accuracy_norm", &f->normalized);
    show_share(v, "acc. by bytes", "accuracy_bytes", &f->by_bytes);
    show_share(v, "acc. by tokens", "accuracy_tokens", &f->by_tokens);
    json_object_set_new(v->document, "stderr", lm_json_finite(f->accuracy.error));
    if (q->details)
        json_object_set(v->document, "items", q->details);
}

static lm_status start(questions *q, lm_error *e)
{
    lm_evaluation    *v = q->v;
    lm_engine_options engine;
    lm_model_info     info;
    size_t            context = q->longest < 64 ? 64 : q->longest;

    lm_model_describe(v->model, &info);
    if (info.context_length && context > info.context_length)
        context = info.context_length;
    if (v->o->run.context > 0)
        context = (size_t)v->o->run.context;
    LM_TRY(lm_eval_engine(v, v->model, (uint32_t)context, SEQUENCES, LOGIT_ROWS, &engine, e));
    /* Several questions in parallel, but not SEQUENCES of the longest. */
    uint64_t min = 2 * context, all = (uint64_t)context * SEQUENCES, limit = 16384;
    engine.kv_positions = all < limit ? all : min > limit ? min : limit;
    LM_TRY(lm_start_engine(v->model, &engine, &v->engine, e));
    lm_interrupt_watch(v->engine);
    return LM_OK;
}

static lm_status ask(questions *q, lm_error *e)
{
    lm_evaluation          *v = q->v;
    lm_choices_figures      f;
    lm_eval_choices_options o = {
        .state = v->o->state, .progress = lm_eval_progress, .progress_arg = v, .item = on_item, .item_arg = q
    };

    LM_TRY(read_files(q, e));
    LM_TRY(start(q, e));
    lm_text_add_str(&v->csv, "question,choice,right,best,logprob,tokens,characters,bytes\n");
    v->bar           = lm_progress_start("asking");
    lm_status status = lm_eval_choices(v->engine, q->items, q->n_items, &o, &f, e);
    lm_progress_end(&v->bar);
    LM_TRY(status);
    show(q, &f);
    return LM_OK;
}

lm_status lm_evaluate_questions(lm_evaluation *v, lm_error *e)
{
    questions q      = { .v = v, .details = v->o->details ? json_array() : NULL };
    lm_status status = ask(&q, e);

    for (size_t i = 0; i < q.n_shots; i++)
        lm_eval_question_free(&q.shots[i]);
    json_decref(q.details);
    return status;
}
