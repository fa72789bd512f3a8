/* defaults.c - a key that config.json lacks has the default of transformers' class: every key of every
 * family, left out individually, and all of them at once. The reference is
 * tests/golden/defaults/transformers.tsv (tools/oracle/defaults.py). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "arch/config.h"
#include "base/str.h"

#define MAX_ROWS 64

/* transformers assumes the sizes of a 7B model if one of these is missing. No checkpoint omits them, so
 * lamina rejects a description that does and names the key. intermediate_size is a default where, because of
 * experts, only few layers use it. */
static const char *const sizes[] = {
    "model_type", "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "n_embd", "n_layer", "n_head",
    "d_model", "n_layers", "n_heads", "num_layers", "num_heads", "attention_heads", "ffn_dim", "dff", NULL,
};

typedef struct row {
    char name[40], key[64], how[12], value[4096];
} row;

static struct {
    row    rows[MAX_ROWS];
    size_t n;
} given;                             /* the current description */

static bool is_size(const char *key)
{
    for (const char *const *s = sizes; *s; s++)
        if (strcmp(*s, key) == 0)
            return true;
    return false;
}

static bool is_default(const row *r)
{
    return strcmp(r->how, "default") == 0 || strcmp(r->how, "whole") == 0;
}

/* Whether `object` ("rope_parameters") contains `r` ("rope_parameters/factor"). */
static bool is_member_of(const row *r, const row *object)
{
    size_t n = strlen(object->key);

    return strncmp(r->key, object->key, n) == 0 && r->key[n] == '/';
}

static bool is_object(const row *r)
{
    return strcmp(r->how, "whole") == 0 || strcmp(r->how, "object") == 0;
}

/* Write the members of `of`, or of the whole description if it is NULL, except row `left_out` (MAX_ROWS: no
 * exception) and, if `bare`, except all defaults. */
static void members(lm_text *out, const row *of, size_t left_out, bool bare)
{
    bool first = true;

    for (size_t i = 0; i < given.n; i++) {
        const row  *r    = &given.rows[i];
        const char *name = r->key + (of ? strlen(of->key) + 1 : 0);
        if ((of && !is_member_of(r, of)) || strchr(name, '/') || i == left_out ||
            (bare && is_default(r) && !is_size(r->key)))
            continue;
        lm_text_printf(out, "%s\"%s\": ", first ? "" : ", ", name);
        if (is_object(r)) {
            lm_text_add_str(out, "{");
            members(out, r, left_out, bare);
            lm_text_add_str(out, "}");
        } else {
            lm_text_add_str(out, r->value);
        }
        first = false;
    }
}

/* Write what lamina understands as text: the program, and the numbers that its printed form omits. */
static lm_status taken(size_t left_out, bool bare, lm_text *out, lm_error *e)
{
    static lm_config c;
    lm_text           json = { 0 };
    lm_meta         *meta = NULL;
    const lm_family *f;
    lm_program      *p = NULL;

    memset(e, 0, sizeof *e);
    lm_text_add_str(&json, "{");
    members(&json, NULL, left_out, bare);
    lm_text_add_str(&json, "}");
    if (lm_meta_from_json(json.data, json.size, "config.json", 16, &meta, e) != LM_OK)
        fail_msg("%s: %s", json.data, e->message);
    lm_source s      = { .kind = LM_SAFETENSORS, .meta = meta };
    lm_status status = lm_describe(&s, &f, &c, &p, NULL, e);
    lm_meta_free(meta);
    lm_text_free(&json);
    if (status != LM_OK)
        return status;
    lm_program_print(p, out);
    for (uint32_t i = 0; i < p->n_ropes; i++) {
        const lm_rope_spec *r = &p->ropes[i].spec;
        lm_text_printf(out, "rope %u lanes, base %.17g, type %d", r->dim, r->base, (int)r->type);
        if (r->type != LM_ROPE_DEFAULT)
            lm_text_printf(out,
                           ", factor %.17g, %u trained, %u, low %.17g, high %.17g, fast %.17g, slow %.17g, "
                           "whole %d, mscale %.17g, all %.17g, attention %.17g",
                           r->factor, r->original_context, r->max_context, r->low_freq_factor,
                           r->high_freq_factor, r->beta_fast, r->beta_slow, r->truncate, r->mscale,
                           r->mscale_all_dim, r->attention_factor);
        lm_text_add_str(out, "\n");
    }
    lm_text_printf(out, "context %u, eps %a, tied %d, window %u, cap %a, scale %a\n", c.context_length,
                   (double)c.norm_eps, c.tied, c.attention.window, (double)c.attention.softcap,
                   (double)c.attention.scale);
    lm_text_printf(out, "route: %u of %u, groups %u of %u, scale %a, %d %d %d; width %u, shared %u\n",
                   c.route.top_k, c.route.n_experts, c.route.top_groups, c.route.n_groups,
                   (double)c.route.scale, c.route.renormalise, c.route.sigmoid, c.route.group_sum_two,
                   c.expert_width, c.shared_width);
    lm_text_printf(out, "padding \"%s\", the family's own", c.pad_token);
    for (size_t i = 0; i < sizeof c.own; i++)
        if (c.own[i])
            lm_text_printf(out, " %zu: %02x", i, c.own[i]);
    lm_text_add_str(out, "\n");
    lm_program_free(p);
    return LM_OK;
}

/* Fail with the first difference of two texts. */
static void fail_at_line(const char *what, const char *x, const char *y)
{
    while (*x && *x == *y)
        x++, y++;
    fail_msg("%s: %s without \"%s\": … %.120s | %.120s", given.rows[0].name, what, what, y, x);
}

static void try_without(size_t left_out, const char *whole)
{
    const row *r   = &given.rows[left_out];
    lm_text     out = { 0 };
    lm_error   e;
    lm_status  status = taken(left_out, false, &out, &e);

    if (status == LM_OK && is_size(r->key) && strcmp(r->key, "intermediate_size") != 0)
        fail_msg("%s: a description without \"%s\" is no description", r->name, r->key);
    if (status != LM_OK && !(is_size(r->key) && strcmp(e.where, r->key) == 0))
        fail_msg("%s without \"%s\": %s: %s", r->name, r->key, e.where, e.message);
    if (status == LM_OK && strcmp(out.data, whole) != 0)
        fail_at_line(r->key, whole, out.data);
    lm_text_free(&out);
}

static void try_description(void)
{
    lm_text   whole = { 0 }, bare = { 0 };
    lm_error e;

    if (taken(MAX_ROWS, false, &whole, &e) != LM_OK)
        fail_msg("%s: %s: %s", given.rows[0].name, e.where, e.message);
    for (size_t i = 0; i < given.n; i++)
        if (is_default(&given.rows[i]))
            try_without(i, whole.data);
    if (taken(MAX_ROWS, true, &bare, &e) != LM_OK)
        fail_msg("%s, bare: %s: %s", given.rows[0].name, e.where, e.message);
    if (strcmp(bare.data, whole.data) != 0)
        fail_at_line("all defaults", whole.data, bare.data);
    lm_text_free(&whole);
    lm_text_free(&bare);
}

static bool read_row(FILE *f, row *r)
{
    static char line[8192];
    char       *rest = line, *cell[4];

    do {
        if (!fgets(line, sizeof line, f))
            return false;
    } while (*line == '#');
    line[strcspn(line, "\n")] = '\0';
    for (int i = 0; i < 4; i++) {
        cell[i] = strsep(&rest, "\t");
        assert_non_null(cell[i]);
    }
    snprintf(r->name, sizeof r->name, "%s", cell[0]);
    snprintf(r->key, sizeof r->key, "%s", cell[1]);
    snprintf(r->how, sizeof r->how, "%s", cell[2]);
    snprintf(r->value, sizeof r->value, "%s", cell[3]);
    return true;
}

static void every_key_left_out(void **state)
{
    static row next;
    char       path[512];
    size_t     descriptions = 0;

    (void)state;
    snprintf(path, sizeof path, "%s/golden/defaults/transformers.tsv", getenv("LAMINA_TESTS"));
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    bool more = read_row(f, &next);
    while (more) {
        for (given.n = 0; more && (!given.n || strcmp(next.name, given.rows[0].name) == 0);
             more = read_row(f, &next)) {
            assert_true(given.n < MAX_ROWS);
            given.rows[given.n++] = next;
        }
        try_description();
        descriptions++;
    }
    fclose(f);
    assert_true(descriptions >= 113);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_key_left_out) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
