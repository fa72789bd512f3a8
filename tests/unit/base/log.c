/* log.c - one callback, one line, nothing below the level asked for. */
#include "unit.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/log.h"

typedef struct seen { char text[600]; lm_log_level level; atomic_int n; } seen;

static void remember(void *arg, lm_log_level level, const char *text)
{
    seen *s = arg;

    snprintf(s->text, sizeof s->text, "%s", text);
    s->level = level;
    s->n++;
}

static void count(void *arg, lm_log_level level, const char *text)
{
    (void)level, (void)text;
    ((seen *)arg)->n++;
}

static void levels_and_lines(void **state)
{
    seen s = { 0 };
    char longest[2000];

    (void)state;
    lm_log(LM_LOG_WARNING, "to nobody");
    lm_log_set(remember, &s, LM_LOG_INFO);
    lm_log(LM_LOG_DEBUG, "details");
    assert_int_equal(s.n, 0);
    lm_log(LM_LOG_INFO, "read %d tensors", 272);
    assert_string_equal(s.text, "read 272 tensors");
    assert_int_equal(s.level, LM_LOG_INFO);
    lm_log(LM_LOG_WARNING, "two\nlines \033[1m");
    assert_string_equal(s.text, "two\\x0alines \\x1b[1m");
    assert_int_equal(s.level, LM_LOG_WARNING);
    memset(longest, 'y', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    lm_log(LM_LOG_WARNING, "%s", longest);
    assert_true(strlen(s.text) > 100 && strspn(s.text, "y") == strlen(s.text));
    lm_log_set(NULL, NULL, LM_LOG_DEBUG);
    lm_log(LM_LOG_WARNING, "to nobody");
    assert_int_equal(s.n, 3);
}

static void *talk(void *arg)
{
    for (int i = 0; i < 1000; i++)
        lm_log(LM_LOG_INFO, "%d", i);
    return arg;
}

static void any_thread(void **state)
{
    seen      s = { 0 };
    pthread_t t[3];

    (void)state;
    lm_log_set(count, &s, LM_LOG_INFO);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&t[i], NULL, talk, NULL), 0);
    for (size_t i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    assert_int_equal(s.n, 3000);
    lm_log_set(NULL, NULL, LM_LOG_DEBUG);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(levels_and_lines), cmocka_unit_test(any_thread) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
