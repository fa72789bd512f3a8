/* questions.c - turn questions of several data sets into contexts and continuations, as lm-eval does. */
#include <jansson.h>
#include <string.h>
#include <utf8proc.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/str.h"
#include "lamina/eval.h"

static const char *const words[] = { "any", "plain", "hellaswag", "winogrande", "arc", "mmlu" };

const char *lm_eval_form_word(lm_eval_form f)
{
    return (unsigned)f < LM_EVAL_FORM_COUNT ? words[f] : NULL;
}

/* ---- strings, by the rules of Python ---- */

/* Return the first character of a text, and its number of bytes; a byte that is not valid UTF-8 is returned
 * as it is. */
static utf8proc_int32_t character(const char *s, size_t n, size_t *bytes)
{
    utf8proc_int32_t c    = 0;
    utf8proc_ssize_t took = utf8proc_iterate((const uint8_t *)s, (utf8proc_ssize_t)n, &c);

    *bytes = took > 0 ? (size_t)took : 1;
    return took > 0 ? c : (uint8_t)*s;
}

/* Return str.isspace of one character. */
static bool is_space(utf8proc_int32_t c)
{
    if ((c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85)
        return true;
    utf8proc_category_t k = utf8proc_category(c);
    return k == UTF8PROC_CATEGORY_ZS || k == UTF8PROC_CATEGORY_ZL || k == UTF8PROC_CATEGORY_ZP;
}

static lm_view stripped_end(lm_view v)
{
    size_t end = 0;

    for (size_t at = 0, bytes; at < v.size; at += bytes)
        if (!is_space(character(v.data + at, v.size - at, &bytes)))
            end = at + bytes;
    return (lm_view){ v.data, end };
}

static lm_view stripped(lm_view v)
{
    for (size_t bytes; v.size && is_space(character(v.data, v.size, &bytes)); v.size -= bytes)
        v.data += bytes;
    return stripped_end(v);
}

static void add_character(lm_text *out, utf8proc_int32_t c)
{
    uint8_t bytes[4];

    lm_text_add(out, bytes, (size_t)utf8proc_encode_char(c, bytes));
}

/* Append str.capitalize of a text: the first letter in title case, all others in lower case. */
static void add_capitalized(lm_text *out, lm_view v)
{
    for (size_t at = 0, bytes; at < v.size; at += bytes) {
        utf8proc_int32_t c = character(v.data + at, v.size - at, &bytes);
        add_character(out, at ? utf8proc_tolower(c) : utf8proc_totitle(c));
    }
}

static void add_replaced(lm_text *out, lm_view v, const char *what, const char *with)
{
    size_t n = strlen(what);

    for (size_t at = 0; at < v.size;) {
        bool here = v.size - at >= n && memcmp(v.data + at, what, n) == 0;
        if (here)
            lm_text_add_str(out, with);
        else
            lm_text_add(out, v.data + at, 1);
        at += here ? n : 1;
    }
}

/* Append a text without what is in square brackets on one line. */
static void add_without_brackets(lm_text *out, lm_view v)
{
    for (size_t at = 0; at < v.size;) {
        const char *rest = v.data + at, *close = *rest == '[' ? memchr(rest, ']', v.size - at) : NULL;
        bool        gone = close && !memchr(rest, '\n', (size_t)(close - rest));
        if (!gone)
            lm_text_add(out, rest, 1);
        at += gone ? (size_t)(close - rest) + 1 : 1;
    }
}

/* Append a text of HellaSwag, cleaned as in lm-eval: these texts come from WikiHow. */
static void add_cleaned(lm_text *out, lm_view v)
{
    lm_text a = { 0 }, b = { 0 };

    add_replaced(&a, stripped(v), " [title]", ". ");
    add_without_brackets(&b, lm_text_view(&a));
    add_replaced(out, lm_text_view(&b), "  ", " ");
    out->failed |= a.failed || b.failed;
    lm_text_free(&a);
    lm_text_free(&b);
}

/* ---- JSON members ---- */

static lm_status missing(const char *name, const char *what, lm_error *e)
{
    return lm_fail(e, LM_USAGE, name, LM_NO_OFFSET, "%s", what);
}

static lm_status text_of(const json_t *doc, const char *name, lm_view *out, lm_error *e)
{
    const json_t *v = json_object_get(doc, name);

    if (!json_is_string(v))
        return missing(name, "is not a text", e);
    *out = (lm_view){ json_string_value(v), json_string_length(v) };
    return LM_OK;
}

static lm_status list_of(const json_t *list, const char *name, lm_view *out, uint32_t *n, lm_error *e)
{
    size_t count = json_array_size(list);

    if (count < 2 || count > LM_EVAL_MAX_CHOICES)
        return missing(name, "is not a list of 2 to 64 texts", e);
    for (size_t i = 0; i < count; i++) {
        const json_t *v = json_array_get(list, i);
        if (!json_is_string(v))
            return missing(name, "is not a list of texts", e);
        out[i] = (lm_view){ json_string_value(v), json_string_length(v) };
    }
    *n = (uint32_t)count;
    return LM_OK;
}

/* Read the index of a choice: a number, or a string that contains one ("3"). */
static lm_status index_of(const json_t *doc, const char *name, uint32_t n, uint32_t *out, lm_error *e)
{
    const json_t *v    = json_object_get(doc, name);
    const char   *text = json_string_value(v);
    json_int_t    i    = -1;

    if (json_is_integer(v))
        i = json_integer_value(v);
    else if (text && text[0] >= '0' && text[0] <= '9' &&
             (!text[1] || (text[1] >= '0' && text[1] <= '9' && !text[2])))
        i = text[1] ? 10 * (text[0] - '0') + text[1] - '0' : text[0] - '0';
    if (i < 0 || i >= (json_int_t)n)
        return missing(name, "is not the number of one of the choices", e);
    *out = (uint32_t)i;
    return LM_OK;
}

static lm_status take(lm_text *t, char **out, lm_error *e)
{
    lm_text_add(t, "", 0);
    *out = t->failed ? NULL : lm_strdup(t->data ? t->data : "");
    lm_text_free(t);
    return *out ? LM_OK : lm_fail_memory(e, "a question", 0);
}

/* Add a choice: a context, `lead` and a continuation, and the answer whose length counts. */
static lm_status add_choice(lm_eval_question *q, lm_view context, const char *lead, lm_view continuation,
                            lm_view answer, lm_error *e)
{
    lm_text a = { 0 }, b = { 0 }, c = { 0 };
    uint32_t i = q->n++;

    lm_text_add_view(&a, context);
    lm_text_add_str(&b, lead);
    lm_text_add_view(&b, continuation);
    lm_text_add_view(&c, answer);
    lm_status status = take(&a, &q->contexts[i], e), other = take(&b, &q->continuations[i], e);
    status = status == LM_OK ? other : status;
    other  = take(&c, &q->answers[i], e);
    return status == LM_OK ? other : status;
}

static lm_status add_choices(lm_eval_question *q, lm_view context, const char *lead, const lm_view *choices,
                             uint32_t n, lm_error *e)
{
    for (uint32_t i = 0; i < n; i++)
        LM_TRY(add_choice(q, context, lead, choices[i], choices[i], e));
    return LM_OK;
}

/* ---- forms ---- */

static bool ends_blank(lm_view v) { return stripped_end(v).size < v.size; }

static lm_status read_plain(const json_t *doc, lm_eval_question *q, lm_error *e)
{
    static const char *const names[] = { "answer", "gold", "label" };
    lm_view  context, choices[LM_EVAL_MAX_CHOICES];
    uint32_t n;
    size_t   k = 0;

    LM_TRY(text_of(doc, "context", &context, e));
    LM_TRY(list_of(json_object_get(doc, "choices"), "choices", choices, &n, e));
    while (k < 2 && !json_object_get(doc, names[k]))
        k++;
    LM_TRY(index_of(doc, json_object_get(doc, names[k]) ? names[k] : names[0], n, &q->answer, e));
    for (uint32_t i = 0; i < n; i++) {
        bool given = ends_blank(context) || !context.size || stripped(choices[i]).data != choices[i].data;
        LM_TRY(add_choice(q, context, given ? "" : " ", choices[i], choices[i], e));
    }
    return LM_OK;
}

static lm_status read_hellaswag(const json_t *doc, lm_eval_question *q, lm_error *e)
{
    lm_view   activity, a, b, endings[LM_EVAL_MAX_CHOICES];
    uint32_t  n;
    lm_text   raw = { 0 }, context = { 0 };
    lm_status status = LM_OK;

    LM_TRY(text_of(doc, "activity_label", &activity, e));
    LM_TRY(text_of(doc, "ctx_a", &a, e));
    LM_TRY(text_of(doc, "ctx_b", &b, e));
    LM_TRY(list_of(json_object_get(doc, "endings"), "endings", endings, &n, e));
    LM_TRY(index_of(doc, "label", n, &q->answer, e));
    lm_text_add_view(&raw, activity);
    lm_text_add_str(&raw, ": ");
    lm_text_add_view(&raw, a);
    lm_text_add_char(&raw, ' ');
    add_capitalized(&raw, b);
    add_cleaned(&context, lm_text_view(&raw));
    bool whole = !raw.failed && !context.failed;
    for (uint32_t i = 0; whole && status == LM_OK && i < n; i++) {
        lm_text ending = { 0 };
        add_cleaned(&ending, endings[i]);
        whole  = !ending.failed;
        status = add_choice(q, lm_text_view(&context), " ", lm_text_view(&ending), lm_text_view(&ending), e);
        lm_text_free(&ending);
    }
    lm_text_free(&raw);
    lm_text_free(&context);
    return whole ? status : lm_fail_memory(e, "a question", 0);
}

static lm_status read_winogrande(const json_t *doc, lm_eval_question *q, lm_error *e)
{
    lm_view  sentence, options[2];
    uint32_t answer;

    LM_TRY(text_of(doc, "sentence", &sentence, e));
    LM_TRY(text_of(doc, "option1", &options[0], e));
    LM_TRY(text_of(doc, "option2", &options[1], e));
    LM_TRY(index_of(doc, "answer", 3, &answer, e));
    const char *gap = memchr(sentence.data, '_', sentence.size);
    if (!answer)
        return missing("answer", "is neither 1 nor 2", e);
    if (!gap)
        return missing("sentence", "has no gap (_)", e);
    q->answer    = answer - 1;
    size_t  n    = (size_t)(gap - sentence.data);
    lm_view rest = stripped((lm_view){ gap + 1, sentence.size - n - 1 });
    for (uint32_t i = 0; i < 2; i++) {
        lm_text context = { 0 };
        lm_text_add(&context, sentence.data, n);
        lm_text_add_view(&context, options[i]);
        lm_status status = context.failed
                               ? lm_fail_memory(e, "a question", n)
                               : add_choice(q, lm_text_view(&context), " ", rest, lm_text_view(&context), e);
        lm_text_free(&context);
        LM_TRY(status);
    }
    return LM_OK;
}

static lm_status read_arc(const json_t *doc, lm_eval_question *q, lm_error *e)
{
    const json_t *choices = json_object_get(doc, "choices");
    lm_view       question, key, texts[LM_EVAL_MAX_CHOICES], labels[LM_EVAL_MAX_CHOICES];
    uint32_t      n, m;
    lm_text       context = { 0 };

    LM_TRY(text_of(doc, "question", &question, e));
    LM_TRY(text_of(doc, "answerKey", &key, e));
    LM_TRY(list_of(json_object_get(choices, "text"), "choices/text", texts, &n, e));
    LM_TRY(list_of(json_object_get(choices, "label"), "choices/label", labels, &m, e));
    if (n != m)
        return missing("choices", "has more texts than labels, or fewer", e);
    while (q->answer < n && !lm_view_equal(labels[q->answer], key))
        q->answer++;
    if (q->answer == n)
        return missing("answerKey", "is none of the labels", e);
    lm_text_add_str(&context, "Question: ");
    lm_text_add_view(&context, question);
    lm_text_add_str(&context, "\nAnswer:");
    lm_status status = context.failed ? lm_fail_memory(e, "a question", 0)
                                      : add_choices(q, lm_text_view(&context), " ", texts, n, e);
    lm_text_free(&context);
    return status;
}

static lm_status read_mmlu(const json_t *doc, lm_eval_question *q, lm_error *e)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    lm_view  question, subject, choices[LM_EVAL_MAX_CHOICES], names[LM_EVAL_MAX_CHOICES];
    uint32_t n;
    lm_text  context = { 0 }, before = { 0 };

    LM_TRY(text_of(doc, "question", &question, e));
    LM_TRY(list_of(json_object_get(doc, "choices"), "choices", choices, &n, e));
    LM_TRY(index_of(doc, "answer", n, &q->answer, e));
    if (n > sizeof letters - 1)
        return missing("choices", "are more than there are letters", e);
    lm_text_add_view(&context, stripped(question));
    for (uint32_t i = 0; i < n; i++) {
        names[i] = (lm_view){ letters + i, 1 };
        lm_text_printf(&context, "\n%c. ", letters[i]);
        lm_text_add_view(&context, choices[i]);
    }
    lm_text_add_str(&context, "\nAnswer:");
    lm_status status = context.failed ? lm_fail_memory(e, "a question", 0)
                                      : add_choices(q, lm_text_view(&context), " ", names, n, e);
    lm_text_free(&context);
    if (status != LM_OK || !json_object_get(doc, "subject"))
        return status;
    LM_TRY(text_of(doc, "subject", &subject, e));
    lm_text_add_str(&before, "The following are multiple choice questions (with answers) about ");
    add_replaced(&before, subject, "_", " ");
    lm_text_add_str(&before, ".\n\n");
    return take(&before, &q->before, e);
}

static lm_eval_form form_of(const json_t *doc)
{
    if (json_object_get(doc, "endings"))
        return LM_EVAL_FORM_HELLASWAG;
    if (json_object_get(doc, "sentence"))
        return LM_EVAL_FORM_WINOGRANDE;
    if (json_object_get(doc, "answerKey"))
        return LM_EVAL_FORM_ARC;
    return json_object_get(doc, "question") ? LM_EVAL_FORM_MMLU : LM_EVAL_FORM_PLAIN;
}

void lm_eval_question_free(lm_eval_question *q)
{
    if (!q)
        return;
    lm_free(q->before);
    for (uint32_t i = 0; i < q->n; i++) {
        lm_free(q->contexts[i]);
        lm_free(q->continuations[i]);
        lm_free(q->answers[i]);
    }
    *q = (lm_eval_question){ 0 };
}

lm_status lm_eval_question_read(const char *json, size_t size, lm_eval_form form, lm_eval_question *out,
                                lm_error *e)
{
    static lm_status (*const readers[])(const json_t *, lm_eval_question *, lm_error *) = {
        [LM_EVAL_FORM_PLAIN] = read_plain,
        [LM_EVAL_FORM_HELLASWAG] = read_hellaswag,
        [LM_EVAL_FORM_WINOGRANDE] = read_winogrande,
        [LM_EVAL_FORM_ARC] = read_arc,
        [LM_EVAL_FORM_MMLU] = read_mmlu,
    };
    LM_REQUIRE(e, (json || !size) && out);
    json_error_t why;
    json_t      *doc = json_loadb(json ? json : "", size, 0, &why);

    if ((unsigned)form >= LM_EVAL_FORM_COUNT) {
        json_decref(doc);
        return lm_fail(e, LM_USAGE, "form", LM_NO_OFFSET, "%d is not a form", (int)form);
    }
    if (!json_is_object(doc)) {
        json_decref(doc);
        return lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "is not a JSON object%s%s", doc ? "" : ": ",
                       doc ? "" : why.text);
    }
    lm_eval_question q = { .form = form == LM_EVAL_FORM_ANY ? form_of(doc) : form };
    lm_status        status = readers[q.form](doc, &q, e);
    json_decref(doc);
    if (status == LM_OK)
        *out = q;
    else
        lm_eval_question_free(&q);
    return status;
}

/* ---- tokens ---- */

static lm_status encode(const lm_tokenizer *t, lm_view before, lm_view after, unsigned flags, lm_tokens *out,
                        lm_error *e)
{
    lm_text   whole  = { 0 };
    lm_status status;

    lm_text_add_view(&whole, before);
    lm_text_add_view(&whole, after);
    status = whole.failed ? lm_fail_memory(e, "a question", before.size)
                          : lm_tokenize(t, whole.data ? whole.data : "", whole.size, flags, out, e);
    lm_text_free(&whole);
    return status;
}

static lm_status pair(const lm_tokenizer *t, lm_view context, lm_view moved, lm_view continuation,
                      unsigned flags, lm_tokens *made, size_t *n_context, lm_error *e)
{
    lm_token  first = lm_tokenizer_bos(t) >= 0 ? lm_tokenizer_bos(t) : lm_tokenizer_eos(t);
    lm_tokens whole = { 0 }, head = { 0 };
    lm_text   tail  = { 0 };

    lm_text_add_view(&tail, moved);
    lm_text_add_view(&tail, continuation);
    lm_status status = tail.failed ? lm_fail_memory(e, "a question", continuation.size) : LM_OK;
    if (status == LM_OK && context.size) {
        status = encode(t, context, lm_text_view(&tail), flags, &whole, e);
        if (status == LM_OK)
            status = encode(t, context, (lm_view){ "", 0 }, flags, &head, e);
    } else if (status == LM_OK) {        /* the continuation alone, after the token that begins texts */
        status = first < 0 ? lm_fail(e, LM_USAGE, "context", LM_NO_OFFSET,
                                     "is empty, and the model has no token that begins texts")
                           : lm_tokens_add(&head, first, e);
        if (status == LM_OK)
            status = encode(t, lm_text_view(&tail), (lm_view){ "", 0 }, flags & ~(unsigned)LM_ADD_SPECIAL,
                            &whole, e);
    }
    size_t from = context.size ? head.n : whole.n > 1 && head.n && whole.ids[0] == head.ids[0];
    if (status == LM_OK && (whole.n <= from || !head.n))
        status = lm_fail(e, LM_USAGE, "choices", LM_NO_OFFSET, "a choice has no tokens");
    if (status == LM_OK)
        status = lm_tokens_append(made, head.ids, head.n, e);
    if (status == LM_OK)
        status = lm_tokens_append(made, whole.ids + from, whole.n - from, e);
    *n_context = head.n;
    lm_text_free(&tail);
    lm_tokens_free(&whole);
    lm_tokens_free(&head);
    return status;
}

lm_status lm_eval_pair(const lm_model *m, const char *context, const char *continuation, bool special,
                       lm_tokens *out, size_t *n_context, lm_error *e)
{
    LM_REQUIRE(e, m && context && continuation && out && n_context);
    const lm_tokenizer *t    = lm_model_tokenizer(m);
    lm_view             all  = lm_view_of(context), head = stripped_end(all);
    lm_tokens           made = { 0 };
    size_t              n    = 0;

    if (!t)
        return lm_fail(e, LM_USAGE, "model", LM_NO_OFFSET, "has no tokenizer");
    lm_status status = pair(t, head, (lm_view){ head.data + head.size, all.size - head.size },
                            lm_view_of(continuation), special ? LM_ADD_SPECIAL : 0, &made, &n, e);
    if (status == LM_OK)
        status = lm_tokens_append(out, made.ids, made.n, e);
    if (status == LM_OK)
        *n_context = n;
    lm_tokens_free(&made);
    return status;
}
