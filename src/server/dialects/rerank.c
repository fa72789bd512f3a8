/* POST /v1/rerank, compatible with Jina's API: rank documents by how well they answer a query, with models
 * that were trained to answer "yes" or "no". The prompt is that of arXiv 2506.05176, as in the models' cards;
 * a document's score is the probability of "yes" versus "no" after it. All prompts of a request have the same
 * prefix, which is processed once. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "server/ask/read_job.h"
#include "server/dialects/routes.h"
#include "server/front/memory.h"

typedef struct rerank_values {
    const char *model, *query, *instruction;
    json_t     *documents, *lora;
    int64_t     top_n;
    int32_t     priority;
    bool        documents_too;
} rerank_values;

#define V(field) offsetof(rerank_values, field)

static const lm_field rerank_fields[] = {
    { "query", LM_FIELD_STRING, V(query), 0, 0, NULL, true, "the query" },
    { "documents", LM_FIELD_ARRAY, V(documents), 0, 0, NULL, true, "strings, or objects with text" },
    { "model", LM_FIELD_STRING, V(model), 0, 0, NULL, false,
      "a name of /v1/models; any name if the server has one model" },
    { "top_n", LM_FIELD_I64, V(top_n), 1, 1e9, NULL, false, "return the N best (all)" },
    { "return_documents", LM_FIELD_BOOL, V(documents_too), 0, 0, NULL, false,
      "return the text of each document (false)" },
    { "instruction", LM_FIELD_STRING, V(instruction), 0, 0, NULL, false,
      "description of the task (Given a web search query, retrieve relevant passages that answer the "
      "query)" },
    { "priority", LM_FIELD_I32, V(priority), -LM_MAX_PRIORITY, LM_MAX_PRIORITY, NULL, false,
      "as in /v1/chat/completions" },
    { "lora", LM_FIELD_ARRAY, V(lora), 0, 0, NULL, false, "low-rank adapters, as in /v1/chat/completions" },
    LM_REFUSED("max_tokens_per_doc", "documents are never truncated"),
    LM_REFUSED("max_chunks_per_doc", "documents are never truncated"),
    LM_REFUSED("rank_fields", "a document is its text"), LM_IGNORED("user"),
    { 0 },
};
static const lm_field_group rerank_groups[] = { { rerank_fields, 0 }, { 0 } };

static void rerank_defaults(const lm_service *s, void *values)
{
    rerank_values *v = values;

    (void)s;
    v->instruction = "Given a web search query, retrieve relevant passages that answer the query";
    v->priority = LM_PRIORITY_NONE;
}

/* ---- the model ---- */

typedef struct words { lm_token yes, no; } words;

static bool names_rerank(const char *name)
{
    return name && strcasestr(name, "rerank");
}

/* Check that the model ranks documents. Its files do not state what it was trained for, so its name or the
 * name that it is served by must contain "rerank". LM_UNSUPPORTED: the meaning of its scores is not known. */
static lm_status check_model(const lm_service *s, words *out, lm_error *e)
{
    static const char *const marks[] = { "<|im_start|>", "<|im_end|>", "<think>", "</think>" };
    bool known;

    LM_TRY(lm_service_require_single(s, "ranking documents", e));
    *out = (words){ lm_tokenizer_find(s->tokenizer, "yes"), lm_tokenizer_find(s->tokenizer, "no") };
    known = out->yes >= 0 && out->no >= 0;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        known = known && lm_tokenizer_find(s->tokenizer, marks[i]) >= 0;
    if (!known)
        return lm_fail(e, LM_UNSUPPORTED, "model", LM_NO_OFFSET,
                       "%.60s does not rank documents: its vocabulary lacks the tokens of models that do",
                       s->name);
    if (!names_rerank(s->name) && !names_rerank(s->info.name))
        return lm_fail(e, LM_UNSUPPORTED, "model", LM_NO_OFFSET,
                       "%.60s does not rank documents: neither its name nor its --alias says rerank",
                       s->name);
    return LM_OK;
}

/* ---- prompts ---- */

static const char *document_text(const json_t *document)
{
    const json_t *text = json_is_object(document) ? json_object_get(document, "text") : document;

    return json_is_string(text) && strlen(json_string_value(text)) == json_string_length(text)
               ? json_string_value(text)
               : NULL;
}

static lm_status check_documents(const rerank_values *v, lm_error *e)
{
    size_t n = json_array_size(v->documents);

    if (!n)
        return lm_fail(e, LM_USAGE, "documents", LM_NO_OFFSET,
                       "'documents' is empty; at least one document is required");
    LM_TRY(lm_limit_check(LM_LIMIT_ID_DOCUMENTS, n, e));
    for (size_t i = 0; i < n; i++)
        if (!document_text(json_array_get(v->documents, i)))
            return lm_fail(e, LM_USAGE, "documents", LM_NO_OFFSET,
                           "element %zu must be a string or an object with text", i);
    return LM_OK;
}

/* Append a prompt. Control tokens in the client's strings are treated as text. */
static lm_status add_prompt(const lm_service *s, const rerank_values *v, const char *document, lm_tokens *out,
                            lm_error *e)
{
    static const char before[] =
        "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the "
        "Instruct provided. Note that the answer can only be \"yes\" or "
        "\"no\".<|im_end|>\n<|im_start|>user\n";
    static const char behind[] = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";
    lm_text text = { 0 };
    lm_status status = lm_tokenize(s->tokenizer, before, sizeof before - 1, 0, out, e);

    lm_text_printf(&text, "<Instruct>: %s\n<Query>: %s\n<Document>: %s", v->instruction, v->query, document);
    if (status == LM_OK && text.failed)
        status = lm_fail_memory(e, "a document", text.size);
    if (status == LM_OK)
        status = lm_tokenize(s->tokenizer, text.data, text.size, LM_NO_PARSE_SPECIAL, out, e);
    lm_text_free(&text);
    return status == LM_OK ? lm_tokenize(s->tokenizer, behind, sizeof behind - 1, 0, out, e) : status;
}

/* Each prompt repeats the query: their tokens are counted, as the bytes of the body do not bound them. */
static lm_status add_prompts(const lm_service *s, const rerank_values *v, lm_prompts *out, lm_error *e)
{
    size_t n = json_array_size(v->documents);
    uint64_t tokens = 0;

    if (!(out->items = lm_memory_zero(n, sizeof *out->items)))
        return lm_fail_memory(e, "documents", n * sizeof *out->items);
    for (out->n = 0; out->n < n;) {
        size_t i = out->n++;
        LM_TRY(add_prompt(s, v, document_text(json_array_get(v->documents, i)), out->items + i, e));
        LM_TRY(lm_schedule_check(s->schedule, out->items[i].n, e));
        LM_TRY(lm_limit_check(LM_LIMIT_ID_RANKED, tokens += out->items[i].n, e));
    }
    return LM_OK;
}

/* ---- scores ---- */

/* text: NULL if not returned. */
typedef struct document_score { words words; double score; char *text; } document_score;

static lm_status keep_score(void *of, const float *logits, lm_error *e)
{
    document_score *j = of;

    (void)e;
    j->score = 1 / (1 + exp((double)logits[j->words.no] - (double)logits[j->words.yes]));
    return LM_OK;
}

static void free_score(void *of)
{
    document_score *j = of;

    if (j)
        lm_heap_free(j->text);
    lm_heap_free(j);
}

/* Allocate a score per document. On failure those already made are in *out. */
static lm_status new_scores(const rerank_values *v, words w, void ***out, lm_error *e)
{
    size_t n = json_array_size(v->documents);

    if (!(*out = lm_memory_zero(n, sizeof **out)))
        return lm_fail_memory(e, "scores", n * sizeof **out);
    for (size_t i = 0; i < n; i++) {
        const char *text = document_text(json_array_get(v->documents, i));
        document_score *j = lm_memory_zero(1, sizeof *j);
        if (!j)
            return lm_fail_memory(e, "scores", sizeof *j);
        j->words = w;
        (*out)[i] = j;
        if (v->documents_too && !(j->text = lm_memory_text(text, strlen(text))))
            return lm_fail_memory(e, "documents", 0);
    }
    return LM_OK;
}

/* ---- the response ---- */

typedef struct rerank_own { size_t top_n; } rerank_own;

typedef struct place { size_t index; const document_score *of; } place;

/* Order by descending score, then by ascending index. */
static int by_score(const void *a, const void *b)
{
    const place *x = a, *y = b;

    if (x->of->score < y->of->score || x->of->score > y->of->score)
        return x->of->score < y->of->score ? 1 : -1;
    return x->index < y->index ? -1 : 1;
}

static json_t *result_json(const place *p)
{
    json_t *o = json_pack("{s:I, s:f}", "index", (json_int_t)p->index, "relevance_score", p->of->score);

    if (p->of->text)
        json_object_set_new(o, "document", json_pack("{s:s}", "text", p->of->text));
    return o;
}

static json_t *rerank_document(const lm_read_job *r)
{
    const rerank_own *own = lm_read_job_own(r);
    json_int_t tokens = (json_int_t)lm_read_job_all_tokens(r);
    size_t n = lm_read_job_count(r);
    place *places = lm_memory_zero(n, sizeof *places);
    json_t *results = json_array();

    if (!places) {
        json_decref(results);
        return NULL;
    }
    for (size_t i = 0; i < n; i++)
        places[i] = (place){ i, lm_read_job_of(r, i) };
    qsort(places, n, sizeof *places, by_score);
    for (size_t i = 0; i < n && i < own->top_n; i++)
        json_array_append_new(results, result_json(places + i));
    lm_heap_free(places);
    return json_pack("{s:s, s:s, s:o, s:{s:I, s:I, s:{s:I}}}", "object", "list", "model",
                     lm_read_job_service(r)->name, "results", results, "usage", "prompt_tokens", tokens,
                     "total_tokens", tokens, "prompt_tokens_details", "cached_tokens",
                     (json_int_t)lm_read_job_cached_tokens(r));
}

static lm_status read_documents(lm_call *c, lm_read_job_options *o, lm_error *e)
{
    const rerank_values *v = c->values;
    rerank_own *own = o->own = lm_heap_alloc(sizeof *own);
    words w;

    if (!own)
        return lm_fail_memory(e, "the answer", sizeof *own);
    own->top_n = v->top_n ? (size_t)v->top_n : json_array_size(v->documents);
    LM_TRY(check_documents(v, e));
    LM_TRY(check_model(c->service, &w, e));
    LM_TRY(add_prompts(c->service, v, &o->prompts, e));
    return new_scores(v, w, &o->of, e);
}

static lm_status answer_rerank(lm_call *c, lm_error *e)
{
    const rerank_values *v = c->values;
    lm_read_job_options o = { .priority = v->priority,
                              .lora = v->lora,
                              .hook = { .last = keep_score, .free = free_score },
                              .document = rerank_document };
    lm_status status = read_documents(c, &o, e);

    return lm_read_job_start(c, &o, status, e);
}

const lm_route lm_route_rerank = {
    .method = "POST", .path = "/v1/rerank", .also = "/rerank /v2/rerank /reranking /v1/reranking",
    .dialect = LM_DIALECT_OPENAI,
    .summary = "sort documents by how well they answer a query",
    .groups = rerank_groups, .values_size = sizeof(rerank_values), .defaults = rerank_defaults,
    .handle = answer_rerank,
};
