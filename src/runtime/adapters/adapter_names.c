/* adapter_names.c - how PEFT's configurations name modules. */
#include "runtime/adapters/adapter_names.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

enum { MAX = 4096 };

static lm_status compile(lm_view inner, const char *before, const char *after, const char *where,
                         lm_regex **out, lm_error *e)
{
    lm_text   b = { 0 };
    lm_status status;

    lm_text_add_str(&b, before);
    lm_text_add_view(&b, inner);
    lm_text_add_str(&b, after);
    status = b.failed ? lm_fail_memory(e, where, inner.size) : lm_regex_new(lm_text_view(&b), where, out, e);
    lm_text_free(&b);
    return status;
}

static lm_status matches(const lm_regex *r, const char *module, bool *out, lm_error *e)
{
    lm_regex_work work    = { 0 };
    lm_view       subject = lm_view_of(module);
    lm_match      match   = { 0 };
    lm_status     status  = lm_regex_begin(&work, subject.size, e);

    if (status == LM_OK)
        status = lm_regex_find(r, &work, subject, 0, &match, e);
    lm_regex_work_free(&work);
    *out = status == LM_OK && match.found;
    return status;
}

/* ---- numbers ---- */

static double number(const lm_meta_value *v)
{
    return v->kind == LM_META_UINT    ? (double)v->u
           : v->kind == LM_META_INT   ? (double)v->i
           : v->kind == LM_META_FLOAT ? v->f
                                      : 0.0 / 0.0;
}

lm_status lm_module_numbers_read(const lm_meta *m, const char *key, double min, double max,
                                 lm_module_numbers *out, lm_error *e)
{
    lm_meta_value all, v;
    lm_view       name;

    if (!lm_meta_has(m, key) || !lm_meta_get(m, key, &all))
        return LM_OK;
    if (all.kind != LM_META_OBJECT || all.a.n > MAX) {
        lm_fail(e, LM_BAD_MODEL, key, LM_NO_OFFSET,
                all.kind != LM_META_OBJECT ? "expected an object" : "more than %d patterns", MAX);
        return lm_fail_in(e, lm_meta_file(m));
    }
    out->patterns = lm_alloc_zero(all.a.n + 1, sizeof *out->patterns);
    out->numbers  = lm_alloc_zero(all.a.n + 1, sizeof *out->numbers);
    if (!out->patterns || !out->numbers)
        return lm_fail_memory(e, key, all.a.n);
    for (uint64_t i = 0; i < all.a.n && lm_meta_member(&all, i, &name, &v); i++) {
        double x = number(&v);
        if (!(x >= min && x <= max)) {
            lm_fail(e, LM_BAD_MODEL, key, LM_NO_OFFSET, "\"%.*s\" is not a number from %g to %g",
                    (int)(name.size < 64 ? name.size : 64), name.data, min, max);
            return lm_fail_in(e, lm_meta_file(m));
        }
        LM_TRY(compile(name, "^(?:.*\\.)?(?:", ")$", key, &out->patterns[out->n], e));
        out->numbers[out->n++] = x;
    }
    return LM_OK;
}

lm_status lm_module_numbers_of(const lm_module_numbers *p, const char *module, double otherwise, double *out,
                               lm_error *e)
{
    bool hit;

    *out = otherwise;
    for (size_t i = 0; i < p->n; i++) {
        LM_TRY(matches(p->patterns[i], module, &hit, e));
        if (!hit)
            continue;
        *out = p->numbers[i];
        break;
    }
    return LM_OK;
}

void lm_module_numbers_free(lm_module_numbers *p)
{
    for (size_t i = 0; i < p->n; i++)
        lm_regex_free(p->patterns[i]);
    lm_free(p->patterns);
    lm_free(p->numbers);
}

/* ---- lists ---- */

lm_status lm_module_list_read(const lm_meta *m, const char *key, lm_module_list *out, lm_error *e)
{
    lm_meta_value v, name;

    *out = (lm_module_list){ 0 };
    if (!lm_meta_has(m, key) || !lm_meta_get(m, key, &v))
        return LM_OK;
    if (v.kind == LM_META_STRING && !lm_view_is(v.s, "all-linear"))
        return compile(v.s, "^(?:", ")$", key, &out->pattern, e);
    bool fine = v.kind == LM_META_STRING || v.kind == LM_META_ARRAY;
    for (uint64_t i = 0; fine && v.kind == LM_META_ARRAY && i < v.a.n; i++)
        fine = lm_meta_at(&v, i, &name) && name.kind == LM_META_STRING;
    if (!fine) {
        lm_fail(e, LM_BAD_MODEL, key, LM_NO_OFFSET, "expected a pattern or a list of names");
        return lm_fail_in(e, lm_meta_file(m));
    }
    if (v.kind == LM_META_ARRAY)
        out->names = v;
    return LM_OK;
}

lm_status lm_module_list_has(const lm_module_list *l, const char *module, bool *out, lm_error *e)
{
    lm_meta_value name;
    lm_view       path = lm_view_of(module);

    *out = false;
    if (l->pattern)
        return matches(l->pattern, module, out, e);
    for (uint64_t i = 0; l->names.kind == LM_META_ARRAY && !*out && i < l->names.a.n; i++)
        *out = lm_meta_at(&l->names, i, &name) && lm_view_ends(path, name.s) &&
               (path.size == name.s.size || path.data[path.size - name.s.size - 1] == '.');
    return LM_OK;
}

void lm_module_list_free(lm_module_list *l)
{
    lm_regex_free(l->pattern);
}
