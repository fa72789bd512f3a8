/* modelcard.c - parse the subset of YAML used in model cards: KEY: VALUE, KEY: [A, B], and lists of lines
 * that begin with "- ". */
#include "export/keys/modelcard.h"

#include <string.h>

static lm_view trim(lm_view v)
{
    while (v.size && strchr(" \t\r", v.data[0]))
        v.data++, v.size--;
    while (v.size && strchr(" \t\r", v.data[v.size - 1]))
        v.size--;
    return v;
}

/* Strip the quotes, and a comment after a space. */
static json_t *scalar(lm_view v)
{
    v = trim(v);
    if (v.size >= 2 && (v.data[0] == '"' || v.data[0] == '\'') && v.data[v.size - 1] == v.data[0])
        return json_stringn(v.data + 1, v.size - 2);
    for (size_t i = 1; i < v.size; i++)
        if (v.data[i] == '#' && v.data[i - 1] == ' ')
            v = trim((lm_view){ v.data, i });
    return v.size ? json_stringn(v.data, v.size) : NULL;
}

static json_t *flow(lm_view v)
{
    json_t *list = json_array();

    v = (lm_view){ v.data + 1, v.size - 2 };
    while (v.size) {
        const char *comma = memchr(v.data, ',', v.size);
        size_t      n     = comma ? (size_t)(comma - v.data) : v.size;
        json_t     *one   = scalar((lm_view){ v.data, n });
        if (one)
            json_array_append_new(list, one);
        v = n < v.size ? (lm_view){ v.data + n + 1, v.size - n - 1 } : (lm_view){ 0 };
    }
    return list;
}

static bool next_line(lm_view *rest, lm_view *line)
{
    const char *end = rest->size ? memchr(rest->data, '\n', rest->size) : NULL;

    if (!rest->size)
        return false;
    line->data = rest->data;
    line->size = end ? (size_t)(end - rest->data) : rest->size;
    size_t used = line->size + (end != NULL);
    rest->data += used;
    rest->size -= used;
    if (line->size && line->data[line->size - 1] == '\r')
        line->size--;
    return true;
}

/* Read a top-level line: a key for the following items, with its value if there is one. */
static void take_key(json_t *card, lm_view line, char key[128])
{
    const char *colon = memchr(line.data, ':', line.size);
    size_t      n     = colon ? (size_t)(colon - line.data) : 0;

    key[0] = '\0';
    if (!n || n >= 128 || (n + 1 < line.size && line.data[n + 1] != ' '))
        return;
    memcpy(key, line.data, n);
    key[n]        = '\0';
    lm_view value = trim((lm_view){ line.data + n + 1, line.size - n - 1 });
    if (!value.size)
        return;
    json_t *v = value.data[0] == '[' && value.data[value.size - 1] == ']' ? flow(value)
                : strchr("|>{", value.data[0])                            ? NULL
                                                                          : scalar(value);
    if (v)
        json_object_set_new(card, key, v);
    key[0] = '\0';                       /* the key has a value: no list follows */
}

static void take_item(json_t *card, lm_view line, const char *key)
{
    json_t *list = json_object_get(card, key), *one = scalar((lm_view){ line.data + 1, line.size - 1 });

    if (!list && one)
        json_object_set_new(card, key, list = json_array());
    if (one && json_is_array(list))
        json_array_append_new(list, one);
    else
        json_decref(one);
}

json_t *lm_model_card(lm_view readme)
{
    json_t *card = json_object();
    lm_view line;
    char    key[128] = "";

    if (!card || !next_line(&readme, &line) || !lm_view_is(line, "---"))
        return card;
    while (next_line(&readme, &line) && !lm_view_is(line, "---")) {
        lm_view in = trim(line);
        if (!in.size || in.data[0] == '#')
            continue;
        bool item = in.data[0] == '-' && (in.size == 1 || in.data[1] == ' ');
        if (item && *key)
            take_item(card, in, key);
        else if (!item && in.data == line.data)
            take_key(card, line, key);
    }
    return card;
}
