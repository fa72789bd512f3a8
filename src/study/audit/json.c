/* json.c - read the keys and values of a JSON document that describes models: config.json, a table of models.
 *
 * An object is read if the keys that lead to it are those of a configuration ("text_config") or names of
 * models. What is nested otherwise ("vision_config", "rope_scaling") describes something else. Jansson parses
 * the text, and keeps the order of its keys: each key is found in the text behind the previous one, so that
 * statements know their place. */
#include <ctype.h>
#include <jansson.h>
#include <string.h>

#include "study/audit/audit_document.h"

/* The model that an object is about. named: the document names it there. */
typedef struct owner { int model; bool named; } owner;

typedef struct json_reader {
    lm_audit_document *d;
    lm_extent          rest;         /* the text behind the last key */
    bool               config;       /* the document is a model's configuration */
    bool               assumed;      /* as d->assumed, for objects that name no model */
} json_reader;

static void move_to(json_reader *r, const char *p)
{
    r->rest = (lm_extent){ p, (size_t)(r->rest.s + r->rest.n - p) };
}

/* Find the key in the text and move behind its colon. False: it is written with escapes. */
static bool find_key(json_reader *r, const char *name, lm_extent *key)
{
    size_t n = strlen(name);

    for (const char *p; (p = memmem(r->rest.s, r->rest.n, name, n)); move_to(r, p + 1)) {
        const char *colon = p + n + 1 + strspn(p + n + 1, " \t\r\n");
        if (p > r->d->text && p[-1] == '"' && p[n] == '"' && *colon == ':') {
            *key = (lm_extent){ p, n };
            move_to(r, colon + 1);
            return true;
        }
    }
    return false;
}

/* Return the string, number or literal at the text's rest, without quotes. */
static lm_extent next_scalar(const json_reader *r)
{
    lm_extent s = lm_trim(r->rest);

    if (s.n && *s.s == '"')
        return (lm_extent){ s.s + 1, strcspn(s.s + 1, "\"\n") };
    return (lm_extent){ s.s, strcspn(s.s, ",}] \t\r\n") };
}

/* Return what an object below a key is about: the same, below "text_config"; the model that the key names;
 * else nothing that is known. */
static owner owner_below(const json_reader *r, const char *key, owner above)
{
    static const char *const same[] = { "text_config", "llm_config", "language_config", "config", "model",
                                        "models", "model_config",
                                        "architecture", "parameters" };
    lm_label l = lm_label_of(r->d, (lm_extent){ key, strlen(key) });

    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (strcmp(key, same[i]) == 0)
            return above;
    return (owner){ l.model >= 0 && !l.unclear ? l.model : LM_OTHER_MODEL, true };
}

/* Read a member whose value is no object. A model that it names ("model": "gpt2") is that of the whole
 * object. */
static void read_member(json_reader *r, lm_extent key, owner *of)
{
    lm_extent value = next_scalar(r);
    lm_label  l     = lm_label_of(r->d, key);
    int       named = lm_label_of(r->d, value).model;

    if (!lm_label_is(&l, "@model")) {
        r->d->assumed = r->assumed && !of->named;
        if (of->model >= 0)
            lm_read_setting(r->d, of->named ? of->model : LM_NO_MODEL, key, value, r->config);
    } else if (named != LM_NO_MODEL || *key.s != '_') {
        *of = (owner){ named != LM_NO_MODEL ? named : LM_OTHER_MODEL, true };
    }
}

static void read_any(json_reader *r, json_t *value, owner of)
{
    json_t     *x;
    const char *name;
    lm_extent   key;
    size_t      i;

    json_array_foreach(value, i, x)
        read_any(r, x, of);
    json_object_foreach(value, name, x) {
        if (!find_key(r, name, &key))
            continue;
        if (json_is_object(x) || json_is_array(x))
            read_any(r, x, owner_below(r, name, of));
        else
            read_member(r, key, &of);
    }
}

bool lm_read_json(lm_audit_document *d, lm_extent text)
{
    json_reader r    = { .d = d, .rest = text, .assumed = d->assumed };
    json_t     *root = json_loadb(text.s, text.n, JSON_REJECT_DUPLICATES, NULL);

    if (!root)
        return false;
    r.config = json_object_get(root, "model_type") || json_object_get(root, "architectures");
    read_any(&r, root, (owner){ d->scope, false });
    d->assumed = r.assumed;
    json_decref(root);
    return true;
}

/* Return whether the text is an identifier: "rope_theta", "rope_scaling.factor". */
static bool is_identifier(lm_extent s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!isalnum((unsigned char)s.s[i]) && s.s[i] != '_' && s.s[i] != '.')
            return false;
    return s.n > 0 && s.n < 48;
}

bool lm_read_setting(lm_audit_document *d, int model, lm_extent key, lm_extent value, bool config)
{
    lm_label l      = lm_label_of(d, key);
    size_t   before = d->n_statements;

    l.model = l.model == LM_NO_MODEL ? model : l.model;
    l.key   = is_identifier(key) ? key : (lm_extent){ NULL, 0 };
    lm_assume_model(d, &l);
    if (l.model < 0 || !value.n)
        return false;
    bool path  = l.key.n && memchr(key.s, '.', key.n);               /* "params.total" */
    bool known = !l.unclear && (l.quantity || l.part) && lm_read_value(d, value, &l) &&
                 d->n_statements > before;
    if (known || !l.key.n || !(config || path || memchr(key.s, '_', key.n)))
        return known;
    lm_add_value(d, value, l.model, lm_arena_strndup(&d->arena, key.s, key.n), l.assumed ||
                 !(config || path));
    if (d->n_statements > before)
        d->statements[before].key = true;
    return true;
}
