/* spelling.c - find a tensor under the names that checkpoints give it. */
#include <stdio.h>
#include <string.h>

#include "arch/config.h"

enum { MAX_NUMBERS = 2 };                /* in a name: the layer, the expert */

/* Write the other name of a tensor whose name matches row->module; each '*' of both is a number. */
static bool spell(const lm_name *row, const char *name, char *out, size_t size)
{
    lm_view  numbers[MAX_NUMBERS];
    unsigned n = 0, used = 0;
    size_t   at = 0;

    for (const char *p = row->module; *p; p++) {
        size_t digits = *p == '*' ? strspn(name, "0123456789") : 0;
        if (*p == '*' ? !digits || n == MAX_NUMBERS : *p != *name)
            return false;
        if (digits)
            numbers[n++] = (lm_view){ name, digits };
        name += digits ? digits : 1;
    }
    if (*name)
        return false;
    for (const char *p = row->gguf; *p && at + 1 < size; p++) {
        lm_view x = *p == '*' && used < n ? numbers[used++] : (lm_view){ p, 1 };
        at += (size_t)snprintf(out + at, size - at, "%.*s", (int)x.size, x.data);
    }
    return at < size;
}

const char *lm_published_name(const lm_family *f, const char *name, char *out, size_t size)
{
    for (const lm_name *row = f->spellings; row && row->module; row++)
        if (spell(row, name, out, size))
            return out;
    snprintf(out, size, "%s", name);
    return out;
}

/* Checkpoints of the bare decoder leave the first word of every path out ("layers.0…" for "model.layers.0…",
 * "h.0…" for "transformer.h.0…"); some put "model." before it (Mamba Codestral). */
static const lm_tensor_info *find_plain(const lm_container *c, const char *name)
{
    const lm_tensor_info *t   = lm_container_find(c, name);
    const char           *dot = strchr(name, '.');
    char                  longer[256];

    if (!t && dot)
        t = lm_container_find(c, dot + 1);
    if (!t) {
        snprintf(longer, sizeof longer, "model.%s", name);
        t = lm_container_find(c, longer);
    }
    return t;
}

const lm_tensor_info *lm_find_tensor(const lm_family *f, const lm_container *c, const char *name)
{
    char other[256];

    if (lm_container_kind_of(c) == LM_GGUF)
        return lm_container_find(c, name);
    const lm_tensor_info *t = find_plain(c, name);
    for (const lm_name *row = f ? f->spellings : NULL; !t && row && row->module; row++)
        if (spell(row, name, other, sizeof other))
            t = find_plain(c, other);
    return t;
}
