/* The choice of the language, and the messages in it. */
#include "base/language.h"

#include <pthread.h>
#include <string.h>

#include "unit.h"

/* ---- names ---- */

static void tags_and_locales_name_the_same_languages(void **state)
{
    static const struct { const char *name; lm_language is; } names[] = {
        { "en", LM_ENGLISH },                   { "en_US.UTF-8", LM_ENGLISH },          { "C", LM_ENGLISH },
        { "POSIX", LM_ENGLISH },                { "C.UTF-8", LM_ENGLISH },              { "zh-Hant", LM_TRADITIONAL_CHINESE },
        { "zh_TW.UTF-8", LM_TRADITIONAL_CHINESE }, { "zh-HK", LM_TRADITIONAL_CHINESE }, { "ZH-HANT-SG", LM_TRADITIONAL_CHINESE },
        { "zh", LM_SIMPLIFIED_CHINESE },        { "zh_CN.GB18030", LM_SIMPLIFIED_CHINESE }, { "zh_SG", LM_SIMPLIFIED_CHINESE },
        { "zh-Hans-TW", LM_SIMPLIFIED_CHINESE }, { "my", LM_BURMESE },                  { "my_MM.UTF-8@zawgyi", LM_BURMESE },
        { "mya", LM_BURMESE },
    };
    lm_error    e;
    lm_language l;

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        l = LM_LANGUAGES;
        assert_int_equal(lm_language_find(names[i].name, &l, &e), LM_OK);
        assert_int_equal(l, names[i].is);
    }
    for (int i = 0; i < LM_LANGUAGES; i++) {
        assert_int_equal(lm_language_find(lm_language_tag((lm_language)i), &l, &e), LM_OK);
        assert_int_equal(l, i);
    }
}

static void unknown_languages_are_rejected(void **state)
{
    static const char *const names[] = { "",     "de",           "zhh",     "z",           "..",
                                         "mymy", "\xE4\xB8\xAD", "english", "/etc/passwd", "%s%n" };
    char     longest[4096];
    lm_error e;

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        lm_language l = LM_BURMESE;
        assert_int_equal(lm_language_find(names[i], &l, &e), LM_USAGE);
        assert_int_equal(l, LM_BURMESE);
    }
    memset(longest, 'z', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    lm_language l;
    assert_int_equal(lm_language_find(longest, &l, &e), LM_USAGE);
    assert_non_null(strstr(e.message, "zh-Hant"));
}

static void the_environment_is_read_as_setlocale_does(void **state)
{
    (void)state;
    assert_int_equal(lm_language_negotiate(NULL, NULL, NULL, NULL), LM_ENGLISH);
    assert_int_equal(lm_language_negotiate(NULL, NULL, NULL, "zh_TW.UTF-8"), LM_TRADITIONAL_CHINESE);
    assert_int_equal(lm_language_negotiate(NULL, NULL, "my_MM", "zh_TW"), LM_BURMESE);
    assert_int_equal(lm_language_negotiate(NULL, "C", "my_MM", "zh_TW"), LM_ENGLISH);
    assert_int_equal(lm_language_negotiate("", "", "", "zh_CN"), LM_SIMPLIFIED_CHINESE);
    assert_int_equal(lm_language_negotiate("my", "zh_TW", NULL, "en_US"), LM_BURMESE);
    assert_int_equal(lm_language_negotiate("klingon", NULL, NULL, "my"), LM_BURMESE);
    assert_int_equal(lm_language_negotiate(NULL, "de_DE.UTF-8", NULL, "my"), LM_ENGLISH);
    assert_int_equal(lm_language_negotiate("\xFF\xFE", "../../zh", "=", "\x1B[31m"), LM_ENGLISH);
    assert_string_equal(lm_language_tag((lm_language)77), "");
}

/* ---- messages ---- */

static void texts_are_looked_up_and_fall_back_to_english(void **state)
{
    (void)state;
    assert_string_equal(_("parameters"), "parameters");
    lm_language before = lm_language_set(LM_TRADITIONAL_CHINESE);
    assert_int_equal(before, LM_ENGLISH);
    assert_string_equal(_("parameters"), "參數");
    assert_string_equal(_("a text that stands nowhere"), "a text that stands nowhere");
    assert_string_equal(_(""), "");
    assert_int_equal(lm_language_set(LM_BURMESE), LM_TRADITIONAL_CHINESE);
    assert_string_equal(_("parameters"), "parameter");
    lm_language_set((lm_language)99);       /* no such language: English */
    assert_string_equal(_("parameters"), "parameters");
    lm_language_set(before);
    assert_string_equal(lm_language_text(LM_SIMPLIFIED_CHINESE, "parameters"), "参数");
    assert_string_equal(lm_language_text((lm_language)-1, "parameters"), "parameters");
}

static void contexts_and_numbers_select_the_translation(void **state)
{
    (void)state;
    assert_string_equal(C_("unit", "tokens"), "tokens");
    assert_string_equal(P_(1, "%zu entry, %s", "%zu entries, %s"), "%zu entry, %s");
    assert_string_equal(P_(2, "%zu entry, %s", "%zu entries, %s"), "%zu entries, %s");
    lm_language_set(LM_TRADITIONAL_CHINESE);
    assert_string_equal(C_("unit", "tokens"), "個詞元");
    assert_string_equal(_("tokens"), "詞元");
    assert_string_equal(P_(1, "%zu entry, %s", "%zu entries, %s"), P_(2, "%zu entry, %s", "%zu entries, %s"));
    assert_string_not_equal(P_(2, "%zu entry, %s", "%zu entries, %s"), "%zu entries, %s");
    lm_language_set(LM_ENGLISH);
}

/* Binary search requires entries that are sorted by strcmp and unique. */
static void the_table_is_in_order_and_whole(void **state)
{
    (void)state;
    assert_true(lm_n_messages > 500);
    for (size_t i = 0; i < lm_n_messages; i++) {
        if (i)
            assert_true(strcmp(lm_messages[i - 1].key, lm_messages[i].key) < 0);
        for (int k = 0; k < LM_LANGUAGES - 1; k++)
            assert_true(!lm_messages[i].text[k] || *lm_messages[i].text[k]);
    }
}

static void *speak_burmese(void *arg)
{
    lm_language_set(LM_BURMESE);
    *(const char **)arg = _("parameters");
    return NULL;
}

static void a_language_belongs_to_its_thread(void **state)
{
    const char *translated = NULL;
    pthread_t   t;

    (void)state;
    lm_language_set(LM_SIMPLIFIED_CHINESE);
    assert_int_equal(pthread_create(&t, NULL, speak_burmese, &translated), 0);
    pthread_join(t, NULL);
    assert_string_equal(translated, "parameter");
    assert_string_equal(_("parameters"), "参数");
    lm_language_set(LM_ENGLISH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tags_and_locales_name_the_same_languages),
        cmocka_unit_test(unknown_languages_are_rejected),
        cmocka_unit_test(the_environment_is_read_as_setlocale_does),
        cmocka_unit_test(texts_are_looked_up_and_fall_back_to_english),
        cmocka_unit_test(contexts_and_numbers_select_the_translation),
        cmocka_unit_test(the_table_is_in_order_and_whole),
        cmocka_unit_test(a_language_belongs_to_its_thread),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
