/* conversation.c - lm_chat: two turns equal the rendered conversation that lm_generate continues, without
 * reading anything twice; messages taken back; a full context; rejected calls; a failed allocation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "lamina/lamina.h"
#include "models.h"

enum { REPLY = 12 };

static const char *const questions[] = { "What is the capital of France?", "Say \"hello\"." };

static lm_model *m;

static int open_all(void **state)
{
    (void)state;
    m = open_demo_model();
    return m ? 0 : -1;
}

static int close_all(void **state)
{
    (void)state;
    lm_model_close(m);
    return 0;
}

static lm_engine *start(uint32_t context)
{
    lm_engine_options o = { .context = context, .sequences = 2, .threads = 2 };
    lm_engine        *g = NULL;

    assert_int_equal(lm_engine_new(m, &o, &g, NULL), LM_OK);
    return g;
}

static lm_chat *greedy_chat(lm_engine *g)
{
    lm_chat_options o = { .sampler = { .greedy = true }, .sequence = 1 };
    lm_chat        *c = NULL;

    assert_int_equal(lm_chat_new(g, &o, &c, NULL), LM_OK);
    return c;
}

static bool collect(void *arg, const char *piece, size_t size)
{
    lm_text_add(arg, piece, size);
    return true;
}

/* What lm_generate writes after a rendered conversation, without lm_chat. Appends to `out` the reply. */
static void generated(const char *variables, lm_text *out)
{
    const char         *source  = lm_model_chat_template(m, NULL);
    lm_generate_options o       = { .sequence = { .max_tokens = REPLY }, .text = collect, .arg = out };
    lm_rendering        r       = { 0 };
    lm_tokens           ids     = { 0 };
    lm_generation       made    = { 0 };
    lm_engine          *g       = start(256);
    lm_template        *form    = NULL;
    lm_sampler         *sampler = NULL;
    lm_model_info       info;

    lm_model_describe(m, &info);
    assert_int_equal(lm_template_new(source, strlen(source), "model", &form, NULL), LM_OK);
    assert_int_equal(lm_template_render(form, variables, strlen(variables), &r, NULL), LM_OK);
    assert_int_equal(lm_tokenize_rendering(lm_model_tokenizer(m), &r, false, &ids, NULL), LM_OK);
    assert_int_equal(lm_sampler_new(&(lm_sampler_options){ .greedy = true }, info.n_vocab, NULL, &sampler,
                                    NULL),
                     LM_OK);
    assert_int_equal(lm_generate(g, sampler, ids.ids, ids.n, 0, &o, &made, NULL), LM_OK);
    lm_generation_free(&made);
    lm_sampler_free(sampler);
    lm_template_free(form);
    lm_tokens_free(&ids);
    lm_rendering_free(&r);
    lm_engine_free(g);
}

static void two_turns_are_one_conversation(void **state)
{
    lm_engine    *g = start(256);
    lm_chat      *c = greedy_chat(g);
    lm_text       streamed = { 0 }, expected = { 0 }, variables = { 0 };
    lm_generation first, second;
    lm_role       role;
    size_t        size;

    (void)state;
    lm_generate_options how = { .sequence = { .max_tokens = REPLY }, .text = collect, .arg = &streamed };
    assert_int_equal(lm_chat_add(c, LM_ROLE_USER, questions[0], NULL), LM_OK);
    assert_int_equal(lm_chat_reply(c, &how, &first, NULL), LM_OK);
    assert_int_equal(lm_chat_length(c), 2);
    assert_string_equal(lm_chat_message(c, 1, &role, &size), first.text.data);
    assert_true(role == LM_ROLE_ASSISTANT && size == first.text.size && !lm_chat_message(c, 2, NULL, NULL));
    assert_true(streamed.size == first.text.size && strstr(first.text.data, "Paris"));

    assert_int_equal(lm_chat_add(c, LM_ROLE_USER, questions[1], NULL), LM_OK);
    assert_int_equal(lm_chat_reply(c, &how, &second, NULL), LM_OK);
    assert_int_equal(first.n_reused, 0);
    assert_true(second.n_reused > first.n_prompt && second.n_prompt - second.n_reused < first.n_prompt);

    lm_text_add_str(&variables, "{\"add_generation_prompt\":true,\"messages\":[{\"role\":\"user\","
                                "\"content\":\"What is the capital of "
                                "France?\"},{\"role\":\"assistant\",\"content\":");
    lm_text_add_json(&variables, first.text.data, first.text.size);
    lm_text_add_str(&variables, "},{\"role\":\"user\",\"content\":\"Say \\\"hello\\\".\"}]}");
    generated(variables.data, &expected);
    assert_string_equal(second.text.data, expected.data);

    lm_chat_truncate(c, 3);                              /* the same reply again */
    lm_text_clear(&streamed);
    assert_int_equal(lm_chat_reply(c, &how, NULL, NULL), LM_OK);
    assert_string_equal(streamed.data, expected.data);

    lm_text_free(&variables);
    lm_text_free(&streamed);
    lm_text_free(&expected);
    lm_generation_free(&first);
    lm_generation_free(&second);
    lm_chat_free(c);
    lm_engine_free(g);
}

/* A reply that fills the context is kept; the conversation then no longer fits, until messages are
 * removed. */
static void a_full_context_is_an_error(void **state)
{
    lm_engine    *g = start(48);
    lm_chat      *c = greedy_chat(g);
    lm_generation made;
    lm_error      e;

    (void)state;
    lm_generate_options how = { .sequence = { .ignore_eos = true } };
    assert_int_equal(lm_chat_add(c, LM_ROLE_USER, questions[0], &e), LM_OK);
    assert_int_equal(lm_chat_reply(c, &how, &made, &e), LM_OK);
    assert_int_equal(made.stop, LM_STOP_CONTEXT);
    lm_generation_free(&made);
    assert_int_equal(lm_chat_add(c, LM_ROLE_USER, questions[1], &e), LM_OK);
    assert_int_equal(lm_chat_reply(c, &how, &made, &e), LM_LIMIT);
    assert_int_equal(lm_chat_length(c), 3);
    lm_chat_truncate(c, 0);
    assert_int_equal(lm_chat_add(c, LM_ROLE_USER, questions[1], &e), LM_OK);
    assert_int_equal(lm_chat_reply(c, &how, &made, &e), LM_OK);
    assert_int_equal(lm_chat_length(c), 2);
    lm_generation_free(&made);
    lm_chat_free(c);
    lm_engine_free(g);
}

static void release(void *arg) { ++*(int *)arg; }

static lm_status look(void *arg, float *logits, uint32_t n_vocab, const lm_token *ids, size_t n, lm_error *e)
{
    (void)arg, (void)logits, (void)n_vocab, (void)ids, (void)n, (void)e;
    return LM_OK;
}

static void wrong_calls_are_rejected(void **state)
{
    lm_engine *g = start(256);
    lm_chat   *c = NULL, *none = NULL;
    lm_tokens  ids = { 0 };
    lm_error   e;
    int        released = 0;

    (void)state;
    lm_generate_options how = {
        .sequence = { .max_tokens = 1, .logits = look, .logits_arg = &released, .logits_release = release }
    };
    assert_int_equal(lm_chat_new(g, &(lm_chat_options){ .sequence = 2 }, &c, &e), LM_USAGE);
    assert_int_equal(lm_chat_new(g, &(lm_chat_options){ .chat_template = "{% if %}" }, &c, &e), LM_BAD_MODEL);
    assert_int_equal(lm_chat_new(g, &(lm_chat_options){ .sampler = { .top_p = 2 } }, &c, &e), LM_USAGE);
    assert_int_equal(lm_chat_new(g, &(lm_chat_options){ .reserved = { 1 } }, &c, &e), LM_USAGE);
    assert_int_equal(lm_chat_open("/nowhere.gguf", NULL, &c, &e), LM_NOT_FOUND);
    assert_null(c);
    c = greedy_chat(g);
    assert_int_equal(lm_chat_add(c, (lm_role)7, "x", &e), LM_USAGE);
    assert_int_equal(lm_chat_add(c, LM_ROLE_USER, NULL, &e), LM_USAGE);
    assert_int_equal(lm_chat_tokens(c, &ids, &e), LM_USAGE);
    assert_int_equal(lm_chat_reply(c, &how, NULL, &e), LM_USAGE);        /* no messages */
    assert_int_equal(lm_chat_reply(none, &how, NULL, &e), LM_USAGE);
    assert_int_equal(lm_chat_add(c, LM_ROLE_USER, "x", &e), LM_OK);
    assert_int_equal(lm_chat_reply(c, &how, NULL, &e), LM_OK);
    assert_int_equal(released, 3);
    assert_int_equal(lm_chat_reply(c, &(lm_generate_options){ .sequence = { .no_text = true } }, NULL, &e),
                     LM_USAGE);
    assert_int_equal(lm_chat_reply(c, &(lm_generate_options){ .sequence = { .prompt_only = true } }, NULL,
                                   &e),
                     LM_USAGE);
    assert_int_equal(lm_chat_length(c), 2);
    assert_true(lm_chat_engine(c) == g && !lm_chat_engine(NULL) && !lm_chat_length(NULL) &&
                !lm_chat_message(NULL, 0, NULL, NULL));
    lm_chat_truncate(NULL, 0);
    lm_chat_free(NULL);
    lm_chat_free(c);
    lm_engine_free(g);
}

/* A template that leaves out system messages is an error, as is one that raises an exception. */
static void templates_must_show_every_message(void **state)
{
    static const char *const sources[] = {
        "{% for m in messages %}{% if m.role != 'system' %}{{ m.content }}{% endif %}{% endfor %}",
        "{{ raise_exception('no') }}"
    };
    const lm_status expected[] = { LM_USAGE, LM_FAILED };
    lm_engine      *g = start(64);

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        lm_chat  *c = NULL;
        lm_tokens ids = { 0 };
        lm_error  e;
        assert_int_equal(lm_chat_new(g, &(lm_chat_options){ .chat_template = sources[i] }, &c, &e), LM_OK);
        assert_int_equal(lm_chat_add(c, LM_ROLE_SYSTEM, "Answer briefly and politely.", &e), LM_OK);
        assert_int_equal(lm_chat_add(c, LM_ROLE_USER, "Hi", &e), LM_OK);
        assert_int_equal(lm_chat_tokens(c, &ids, &e), expected[i]);
        lm_tokens_free(&ids);
        lm_chat_free(c);
    }
    lm_engine_free(g);
}

/* Every allocation of a reply fails once: an error, and the conversation is as it was. */
static void failed_allocations_leave_the_conversation(void **state)
{
    lm_engine *g = start(128);
    lm_chat   *c = greedy_chat(g);
    uint64_t   n = 1, step = 7;

    (void)state;
    lm_generate_options how = { .sequence = { .max_tokens = 3 } };
    assert_int_equal(lm_chat_add(c, LM_ROLE_USER, questions[1], NULL), LM_OK);
    for (lm_status status = LM_FAILED; status != LM_OK; n += step) {
        lm_alloc_fail_at(n);
        status = lm_chat_reply(c, &how, NULL, NULL);
        lm_alloc_fail_at(0);
        assert_true(status == LM_OK || status == LM_NO_MEMORY);
        assert_int_equal(lm_chat_length(c), status == LM_OK ? 2 : 1);
    }
    assert_true(n > step);
    lm_chat_free(c);
    lm_engine_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_turns_are_one_conversation),
        cmocka_unit_test(a_full_context_is_an_error),
        cmocka_unit_test(wrong_calls_are_rejected),
        cmocka_unit_test(templates_must_show_every_message),
        cmocka_unit_test(failed_allocations_leave_the_conversation),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}
