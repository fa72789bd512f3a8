/* descriptions.h - describe a model from the text of a config.json: what tests of families begin with.
 * Include after cmocka.h. */
#ifndef TEST_DESCRIPTIONS_H
#define TEST_DESCRIPTIONS_H

#include <string.h>

#include "arch/config.h"

static lm_config        described;       /* by the last call of describe() */
static const lm_family *described_family;

/* Describe a folder's model by config.json. *p is the caller's to free; warnings may be NULL. */
static inline lm_status describe_as(lm_source s, const char *json, lm_program **p, lm_text *warnings,
                                    lm_error *e)
{
    lm_meta *meta = NULL;

    memset(e, 0, sizeof *e);
    assert_int_equal(lm_meta_from_json(json, strlen(json), "config.json", 16, &meta, e), LM_OK);
    s.kind           = LM_SAFETENSORS;
    s.meta           = meta;
    lm_status status = lm_describe(&s, &described_family, &described, p, warnings, e);
    lm_meta_free(meta);
    return status;
}

static inline lm_status describe(const char *json, lm_program **p, lm_text *warnings, lm_error *e)
{
    return describe_as((lm_source){ 0 }, json, p, warnings, e);
}

/* Return the program of a model that must be accepted. */
static inline lm_program *program_as(lm_source s, const char *json)
{
    lm_program *p = NULL;
    lm_error    e;

    if (describe_as(s, json, &p, NULL, &e) != LM_OK)
        fail_msg("%s: %s: %s", json, e.where, e.message);
    return p;
}

static inline lm_program *program(const char *json)
{
    return program_as((lm_source){ 0 }, json);
}

typedef struct rejected {
    const char *json, *where;            /* the key that the error names */
} rejected;

/* Each is rejected as a bad model or one that is not supported, with an error that names the key. */
static inline void are_rejected(const rejected *bad, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        lm_program *p = NULL;
        lm_error    e;
        lm_status   s = describe(bad[i].json, &p, NULL, &e);
        if ((s != LM_BAD_MODEL && s != LM_UNSUPPORTED) || strcmp(e.where, bad[i].where) != 0)
            fail_msg("%s: %s, \"%s: %s\"", bad[i].json, lm_status_word(s), e.where, e.message);
    }
}

#endif
