/* service.c - service.h: a model is opened, read (template, style of answers, end tokens) and started; then
 * unloaded in the reverse order. Read from lm_service_open and lm_service_start upwards, then
 * lm_service_render. */
#include "server/models/service.h"

#include <sodium.h>
#include <string.h>
#include <time.h>

#include "lamina/logits.h"
#include "server/models/exact.h"
#include "server/models/loras.h"
#include "server/front/memory.h"

/* ---- loading ---- */

/* Return "org/name" of a folder in Hugging Face's cache, the n bytes models--org--name/snapshots/COMMIT.
 * NULL: it is none. */
static char *name_of_snapshot(const char *path, size_t n)
{
    static const char models[] = "models--", between[] = "--";
    const char *part[3], *end = path + n;                    /* commit, snapshots, models--org--name */

    for (size_t i = 0; i < 3; i++) {
        const char *slash = memrchr(path, '/', (size_t)(end - path));
        part[i] = slash ? slash + 1 : path;
        if (!slash && i < 2)
            return NULL;
        end = slash;
    }
    size_t size = (size_t)(part[1] - part[2]) - 1, org = sizeof models - 1;
    if (strncmp(part[1], "snapshots/", 10) || size <= org || strncmp(part[2], models, org))
        return NULL;
    char *name = lm_memory_text(part[2] + org, size - org), *at = name ? strstr(name, between) : NULL;
    if (at) {
        *at = '/';
        memmove(at + 1, at + 2, strlen(at + 2) + 1);
    }
    return name;
}

/* The file's or folder's name, without ".gguf"; the name of a snapshot in Hugging Face's cache. */
static char *name_of(const char *path)
{
    size_t n = strlen(path);

    while (n > 1 && path[n - 1] == '/')
        n--;
    char *snapshot = name_of_snapshot(path, n);
    if (snapshot)
        return snapshot;
    const char *slash = n > 1 ? memrchr(path, '/', n - 1) : NULL, *from = slash ? slash + 1 : path;
    n -= (size_t)(from - path);
    if (n > 5 && strncmp(from + n - 5, ".gguf", 5) == 0)
        n -= 5;
    return lm_memory_text(from, n);
}

lm_status lm_service_new(const lm_service_options *o, lm_service **out, lm_error *e)
{
    lm_service *s = lm_memory_zero(1, sizeof *s);
    lm_status status;

    if (!s)
        return lm_fail_memory(e, "the server", sizeof *s);
    s->o = *o;
    pthread_mutex_init(&s->lora_lock, NULL);
    lm_traced_list_init(&s->traced);
    s->began = (int64_t)time(NULL);
    s->name = o->name ? lm_memory_text(o->name, strlen(o->name)) : name_of(o->path);
    status = s->name ? lm_loras_take(s, e) : lm_fail_memory(e, "the name of the model", 0);
    if (sodium_init() < 0 && status == LM_OK)
        status = lm_fail(e, LM_FAILED, "the server", LM_NO_OFFSET, "there is no source of randomness");
    if (status == LM_OK)
        *out = s;
    else
        lm_service_free(s);
    return status;
}

static void set_token(json_t *variables, const char *name, const lm_tokenizer *t, lm_token id)
{
    size_t n = 0;
    const char *piece = id >= 0 ? lm_tokenizer_piece(t, id, &n) : NULL;

    if (piece)
        json_object_set_new(variables, name, json_stringn(piece, n));
}

static lm_status read_template(lm_service *s, lm_error *e)
{
    const char *source = s->o.template_source ? s->o.template_source
                                              : lm_model_chat_template(s->model, s->o.template_name);

    if (!source && s->o.template_name)
        return lm_fail(e, LM_USAGE, "--chat-template", LM_NO_OFFSET, "the model has no template named %s",
                       s->o.template_name);
    if (!source)
        return LM_OK;
    s->variables = json_object();
    s->template_source = lm_memory_text(source, strlen(source));
    if (!s->variables || !s->template_source)
        return lm_fail_memory(e, "the chat template", strlen(source));
    set_token(s->variables, "bos_token", s->tokenizer, lm_tokenizer_bos(s->tokenizer));
    set_token(s->variables, "eos_token", s->tokenizer, lm_tokenizer_eos(s->tokenizer));
    return lm_template_new(source, strlen(source), s->info.source, &s->template, e);
}

/* Determine the format of the output, whether a marker of it is a control token, and the texts of end
 * tokens. */
static void read_style(lm_service *s)
{
    size_t n = 0, at[16];
    const char *mark;

    lm_answer_style_of(s->template_source, &s->style);
    s->special = false;
    for (size_t i = 0; (mark = lm_answer_mark(&s->style, i)); i++) {
        lm_tokens ids = { 0 };
        if (lm_tokenize(s->tokenizer, mark, strlen(mark), 0, &ids, NULL) == LM_OK)
            for (size_t k = 0; k < ids.n; k++)
                s->special |= lm_tokenizer_is_special(s->tokenizer, ids.ids[k]);
        lm_tokens_free(&ids);
    }
    lm_text_clear(&s->end_texts);
    for (uint32_t i = 0; i < s->info.n_vocab && n < 16; i++) {
        size_t size = 0;
        const char *piece = lm_model_is_end(s->model, (lm_token)i)
                                ? lm_tokenizer_piece(s->tokenizer, (lm_token)i, &size)
                                : NULL;
        if (!piece || !size)
            continue;
        at[n++] = s->end_texts.size;
        lm_text_add(&s->end_texts, piece, size);
        lm_text_add_char(&s->end_texts, 0);
    }
    for (size_t i = 0; i <= n; i++)
        s->ends[i] = i < n && s->end_texts.data && !s->end_texts.failed ? s->end_texts.data + at[i] : NULL;
}

/* Whether a tool with a unique name appears in the prompt of a short conversation, for which the template may
 * need a system message. False also if the template rejects the conversation. */
static bool describes_tools(const lm_service *s, bool system)
{
    static const char name[] = "lamina_tool_qz9x7";
    json_t *tool = json_pack("{s:s, s:{s:s, s:s, s:{s:s, s:{}}}}", "type", "function", "function", "name",
                             name, "description", "", "parameters", "type", "object", "properties");
    json_t *list = json_pack("[o*, {s:s, s:s}]",
                             system ? json_pack("{s:s, s:s}", "role", "system", "content", "a") : NULL,
                             "role", "user", "content", "b");
    json_t *context = json_pack("{s:o, s:[o], s:b}", "messages", list, "tools", tool, "add_generation_prompt",
                                true);
    lm_text text = { 0 };
    lm_error why = { 0 };
    bool found = context && lm_service_render(s, context, NULL, NULL, NULL, &text, &why) == LM_OK &&
                 text.data && strstr(text.data, name);

    json_decref(context);
    lm_text_free(&text);
    return found;
}

/* Tools that a template describes but whose calls are not parsed are worth a warning. */
static void log_unread_calls(const lm_service *s)
{
    lm_text line = { 0 };

    if (!s->style.unread || !s->o.log.write)
        return;
    lm_text_printf(&line, "tool calls of %s are not parsed: %s", s->name, s->style.unread);
    if (line.data && !line.failed)
        s->o.log.write(s->o.log.arg, s->describes_tools ? LM_LOG_WARNING : LM_LOG_INFO, line.data);
    lm_text_free(&line);
}

static uint32_t n_others(const lm_service *s)
{
    return s->o.others ? s->o.mixture.n - 1 : 0;
}

/* Replace the digest of the first model by one of all models and their mixture. */
static lm_status mix_digest(lm_service *s, char digest[65], lm_error *e)
{
    unsigned char hash[32];
    crypto_generichash_state h;

    crypto_generichash_init(&h, NULL, 0, sizeof hash);
    crypto_generichash_update(&h, (const unsigned char *)digest, 64);
    for (uint32_t i = 0; i < n_others(s); i++) {
        LM_TRY(lm_model_fingerprint(s->other_models[i], digest, e));
        crypto_generichash_update(&h, (const unsigned char *)digest, 64);
    }
    crypto_generichash_update(&h, (const unsigned char *)&s->o.mixture, sizeof s->o.mixture);
    crypto_generichash_final(&h, hash, sizeof hash);
    sodium_bin2hex(digest, 65, hash, sizeof hash);
    return LM_OK;
}

static lm_status open_others(lm_service *s, uint64_t *bytes, char digest[65], lm_error *e)
{
    lm_memory needs;

    for (uint32_t i = 0; i < n_others(s); i++) {
        LM_TRY(lm_model_open(s->o.others[i].path, &s->o.model, &s->other_models[i], e));
        lm_status status = lm_draft_fits(s->other_models[i], s->model, e);
        if (status != LM_OK)
            return lm_fail(e, status, s->o.others[i].path, LM_NO_OFFSET, "not the vocabulary of %s",
                           s->o.path);
        LM_TRY(lm_engine_predict(s->other_models[i], &s->o.others[i].engine, &needs, e));
        *bytes += needs.total + needs.mapped;
    }
    return n_others(s) ? mix_digest(s, digest, e) : LM_OK;
}

static lm_status needs_of(const char *path, const lm_model_options *o, const lm_engine_options *engine,
                          uint64_t *bytes, lm_error *e)
{
    lm_model *m;
    lm_memory needs;

    LM_TRY(lm_model_open(path, o, &m, e));
    lm_status status = lm_engine_predict(m, engine, &needs, e);
    lm_model_close(m);
    if (status == LM_OK)
        *bytes += needs.total + needs.mapped;
    return status;
}

lm_status lm_service_needs(const lm_service *s, uint64_t *bytes, lm_error *e)
{
    *bytes = 0;
    LM_TRY(needs_of(s->o.path, &s->o.model, &s->o.engine, bytes, e));
    for (uint32_t i = 0; i < n_others(s); i++)
        LM_TRY(needs_of(s->o.others[i].path, &s->o.model, &s->o.others[i].engine, bytes, e));
    return LM_OK;
}

lm_status lm_service_open(lm_service *s, uint64_t *bytes, char digest[65], lm_error *e)
{
    lm_memory needs;

    LM_TRY(lm_model_open(s->o.path, &s->o.model, &s->model, e));
    lm_model_describe(s->model, &s->info);
    if (!(s->tokenizer = lm_model_tokenizer(s->model)))
        return lm_fail(e, LM_USAGE, s->o.path, LM_NO_OFFSET, "the model has no tokenizer");
    LM_TRY(read_template(s, e));
    read_style(s);
    s->describes_tools = s->template && (describes_tools(s, false) || describes_tools(s, true));
    log_unread_calls(s);
    lm_model_vocabulary(s->model, &s->vocabulary, NULL);
    LM_TRY(lm_loras_load(s, e));
    LM_TRY(lm_model_fingerprint(s->model, digest, e));
    LM_TRY(lm_engine_predict(s->model, &s->o.engine, &needs, e));
    *bytes = needs.total + needs.mapped;
    return open_others(s, bytes, digest, e);
}

lm_status lm_service_start(lm_service *s, lm_error *e)
{
    lm_schedule_others others = { .engines = s->other_engines, .mixture = s->o.mixture };
    lm_schedule_options schedule = s->o.schedule;

    LM_TRY(lm_engine_new(s->model, &s->o.engine, &s->engine, e));
    for (uint32_t i = 0; i < n_others(s); i++) {
        lm_engine_options o = s->o.others[i].engine;
        o.progress = s->o.engine.progress;
        o.progress_arg = s->o.engine.progress_arg;
        LM_TRY(lm_engine_new(s->other_models[i], &o, &s->other_engines[i], e));
    }
    if (s->o.others)
        schedule.others = &others;
    return lm_schedule_new(s->engine, &schedule, &s->schedule, e);
}

void lm_service_unload(lm_service *s)
{
    lm_traced_list_wait(&s->traced);
    if (s->schedule)
        lm_schedule_free(s->schedule);
    lm_engine_free(s->engine);
    lm_loras_unload(s);
    for (uint32_t i = 0; i < n_others(s); i++) {
        lm_engine_free(s->other_engines[i]);
        lm_model_close(s->other_models[i]);
        s->other_engines[i] = NULL;
        s->other_models[i] = NULL;
    }
    lm_text_free(&s->end_texts);
    lm_vocabulary_free(s->vocabulary);
    lm_template_free(s->template);
    lm_answer_style_free(&s->style);
    lm_model_close(s->model);
    json_decref(s->variables);
    lm_heap_free(s->template_source);
    s->schedule = NULL;
    s->engine = NULL;
    s->vocabulary = NULL;
    s->template = NULL;
    s->model = NULL;
    s->variables = NULL;
    s->template_source = NULL;
    s->tokenizer = NULL;
}

void lm_service_free(lm_service *s)
{
    if (!s)
        return;
    lm_service_unload(s);
    lm_traced_list_destroy(&s->traced);
    pthread_mutex_destroy(&s->lora_lock);
    lm_heap_free(s->lora_scales);
    lm_heap_free(s->name);
    lm_heap_free(s);
}

/* The engine would choose one token more, which need not be processed. */
lm_status lm_service_fit(const lm_service *s, size_t n_prompt, lm_sequence_options *o, lm_error *e)
{
    uint32_t context = lm_engine_context(s->engine);

    if (o->prompt_only || n_prompt > context)            /* the schedule rejects the latter */
        return LM_OK;
    if (n_prompt == context)
        return lm_fail(e, LM_LIMIT, "prompt", LM_NO_OFFSET,
                       "%zu tokens; the context size is %u, including the answer", n_prompt, context);
    if (o->max_tokens <= 0 || (uint64_t)o->max_tokens > context - n_prompt)
        o->max_tokens = (int64_t)(context - n_prompt);
    return LM_OK;
}

/* ---- ensembles ---- */

lm_status lm_service_require_single(const lm_service *s, const char *what, lm_error *e)
{
    if (!s->o.others)
        return LM_OK;
    return lm_fail(e, LM_UNSUPPORTED, what, LM_NO_OFFSET,
                   "this requires a single model, and \"%s\" is an ensemble", s->name);
}

json_t *lm_service_ensemble(const lm_service *s)
{
    json_t *models = json_array();

    if (!s->o.others) {
        json_decref(models);
        return NULL;
    }
    for (uint32_t i = 0; i < s->o.mixture.n; i++) {
        char *name = name_of(i ? s->o.others[i - 1].path : s->o.path);
        json_array_append_new(models, json_pack("{s:s, s:f}", "model", name ? name : "", "weight",
                                                s->o.mixture.weights[i]));
        lm_heap_free(name);
    }
    return json_pack("{s:s, s:s, s:o}", "name", s->name, "rule", lm_mixture_word(s->o.mixture.rule), "models",
                     models);
}

/* ---- conversations ---- */

/* Tokenize a rendering and the prefill that follows it. */
static lm_status tokens_of(const lm_service *s, const lm_rendering *r, const lm_prefill *p, lm_tokens *ids,
                           lm_text *rendered, lm_error *e)
{
    lm_rendering all = { .n_content = r->n_content,
                         .content = lm_memory_zero(r->n_content + 2, sizeof *all.content) };
    bool thinks = lm_answer_in_reasoning(&s->style, r->text.data ? r->text.data : "", r->text.size);
    lm_status status = LM_OK;

    if (!all.content)
        return lm_fail_memory(e, "the conversation", r->n_content * sizeof *all.content);
    if (r->n_content)
        memcpy(all.content, r->content, r->n_content * sizeof *all.content);
    lm_text_add(&all.text, r->text.data, r->text.size);
    for (int i = 0; p && i < 2; i++) {
        const char *text = i ? p->content : p->reasoning;
        if (text && *text && (i || thinks)) {
            all.content[all.n_content].from = all.text.size;
            lm_text_add_str(&all.text, text);
            all.content[all.n_content++].to = all.text.size;
        }
        if (!i && thinks && p->content)
            lm_text_add_str(&all.text, s->style.reasoning_end);
    }
    if (all.text.failed)
        status = lm_fail_memory(e, "the conversation", r->text.size);
    if (status == LM_OK && ids)
        status = lm_tokenize_rendering(s->tokenizer, &all, false, ids, e);
    if (status == LM_OK && rendered)
        lm_text_add(rendered, all.text.data, all.text.size);
    lm_text_free(&all.text);
    lm_heap_free(all.content);
    return status;
}

lm_status lm_service_render(const lm_service *s, json_t *context, const lm_text *wide,
                            const lm_prefill *prefill, lm_tokens *ids, lm_text *rendered, lm_error *e)
{
    lm_rendering r = { 0 };
    lm_status status;
    lm_text text = { 0 };
    json_t *all;

    if (!s->template)
        return lm_fail(e, LM_USAGE, "messages", LM_NO_OFFSET,
                       "the model has no chat template: use /v1/completions");
    all = json_copy(s->variables);
    status = all && json_object_update(all, context) == 0 ? lm_json_exact(all, wide, &text, e)
                                                          : lm_fail_memory(e, "the conversation", 0);
    json_decref(all);
    if (status == LM_OK)
        status = lm_template_render(s->template, text.data, text.size, &r, e);
    lm_text_free(&text);
    if (status == LM_FAILED || status == LM_LIMIT || status == LM_UNSUPPORTED) {
        lm_error why = *e;
        status = lm_fail(e, LM_USAGE, "messages", LM_NO_OFFSET,
                         "the chat template refuses the conversation: %.300s", why.message);
    }
    if (status == LM_OK)
        status = tokens_of(s, &r, prefill, ids, rendered, e);
    lm_rendering_free(&r);
    return status;
}
