/* template.c - the public API of chat templates (lamina/text.h). */
#include "lamina/text.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/jsontext.h"
#include "text/answer/own_messages.h"
#include "text/jinja/jinja.h"

enum { MAX_SOURCE = 1 << 20, MAX_CONTEXT = 64 << 20 };

/* ---- compiling ---- */

/* Convert newlines to \n, and drop one at the end. */
static size_t normalise(const char *in, size_t n, char *out)
{
    size_t o = 0;

    for (size_t i = 0; i < n; i++) {
        if (in[i] == '\r') {
            out[o++] = '\n';
            i += i + 1 < n && in[i + 1] == '\n';
        } else {
            out[o++] = in[i];
        }
    }
    return o && out[o - 1] == '\n' ? o - 1 : o;
}

lm_status lm_template_new(const char *source, size_t size, const char *name, lm_template **out, lm_error *e)
{
    LM_REQUIRE(e, (source || !size) && out);
    size_t good = size <= MAX_SOURCE ? lm_utf8_valid_prefix(source, size) : size;
    lm_template *t;

    if (size > MAX_SOURCE)
        return lm_fail(e, LM_LIMIT, name, LM_NO_OFFSET, "a template of more than %d bytes", MAX_SOURCE);
    if (good < size)
        return lm_fail(e, LM_BAD_MODEL, name, (int64_t)good, "the template is not valid UTF-8");
    t = lm_alloc_zero(1, sizeof *t);
    if (!t)
        return lm_fail_memory(e, "a template", sizeof *t);

    char *text = lm_arena_alloc(&t->arena, size + 1);
    t->name = lm_arena_strdup(&t->arena, name ? name : "template");
    if (!text || !t->name) {
        lm_template_free(t);
        return lm_fail_memory(e, "a template", size);
    }
    t->size = normalise(source, size, text);
    t->source = text;
    text[t->size] = 0;
    t->own = lm_own_messages_of(text);
    lm_status status = lm_jinja_parse(t, e);
    if (status != LM_OK) {
        if (e)
            lm_fail_in(e, t->name);
        lm_template_free(t);
        return status;
    }
    *out = t;
    return LM_OK;
}

void lm_template_free(lm_template *t)
{
    if (!t)
        return;
    lm_arena_free(&t->arena);
    lm_free(t);
}

/* ---- the clock ---- */

/* Read exactly n digits with a value of at most `max`. */
static bool digits(const char **s, int n, int max, int *out)
{
    *out = 0;
    for (; n > 0; n--, (*s)++) {
        if (**s < '0' || **s > '9')
            return false;
        *out = *out * 10 + (**s - '0');
    }
    return *out <= max;
}

/* Read "2024-07-26". */
static bool read_date(const char **s, struct tm *t)
{
    int year, month, day;

    if (!digits(s, 4, 9999, &year) || *(*s)++ != '-' || !digits(s, 2, 12, &month) || *(*s)++ != '-' ||
        !digits(s, 2, 31, &day))
        return false;
    t->tm_year = year - 1900;
    t->tm_mon  = month - 1;
    t->tm_mday = day;
    return month && day;
}

/* Read "12:34", "12:34:56" or "12:34:56.789". */
static bool read_time(const char **s, struct tm *t, long *microseconds)
{
    if (!digits(s, 2, 23, &t->tm_hour) || *(*s)++ != ':' || !digits(s, 2, 59, &t->tm_min))
        return false;
    if (**s == ':' && (++*s, !digits(s, 2, 59, &t->tm_sec)))
        return false;
    if (**s == '.') {
        ++*s;
        for (long unit = 100000; **s >= '0' && **s <= '9' && unit; ++*s, unit /= 10)
            *microseconds += (**s - '0') * unit;
    }
    return true;
}

/* Read "2024-07-26" or "2024-07-26T12:34:56", optionally with a fraction; a time zone is ignored. */
static lm_status read_now(const char *text, struct tm *now, long *microseconds, lm_error *e)
{
    const char *s = text;

    *now          = (struct tm){ .tm_isdst = -1 };
    *microseconds = 0;
    if (!read_date(&s, now))
        return lm_fail(e, LM_USAGE, "now", LM_NO_OFFSET, "not an ISO date: '%.40s'", text);
    if ((*s == 'T' || *s == ' ') && (s++, !read_time(&s, now, microseconds)))
        return lm_fail(e, LM_USAGE, "now", LM_NO_OFFSET, "not an ISO time: '%.40s'", text);
    struct tm same = *now;
    timegm(&same);                                   /* fills the day of the week and of the year */
    now->tm_wday = same.tm_wday;
    now->tm_yday = same.tm_yday;
    return LM_OK;
}

static lm_status set_clock(jinja *m, const json_t *context)
{
    const json_t *now = json_object_get(context, "now");
    struct timespec t;

    if (json_is_string(now))
        return read_now(json_string_value(now), &m->now, &m->now_microseconds, m->e);
    clock_gettime(CLOCK_REALTIME, &t);
    localtime_r(&t.tv_sec, &m->now);
    m->now_microseconds = t.tv_nsec / 1000;
    return LM_OK;
}

/* ---- variables ---- */

/* Return whether a variable comes from outside: all do except special tokens, which are the model's own. */
static bool is_content(const char *name)
{
    size_t n = strlen(name);
    return !(n > 6 && strcmp(name + n - 6, "_token") == 0) &&
           !(n > 7 && strcmp(name + n - 7, "_tokens") == 0);
}

/* Return the default of a variable: what apply_chat_template always passes, or a global function. */
static jval fallback(const jstr *name)
{
    if (lm_jstr_is(name, "tools") || lm_jstr_is(name, "documents"))
        return lm_jv_none();
    if (lm_jstr_is(name, "add_generation_prompt"))
        return lm_jv_bool(false);
    const jbuiltin *fn = lm_jinja_find_function(name->data, name->n);
    return fn ? (jval){ .type = J_FUNCTION, .fn = fn } : (jval){ .type = J_MISSING };
}

static bool set_globals(jinja *m, const json_t *context)
{
    m->globals = lm_jinja_new(m, m->t->n_names, jval);
    m->root = lm_jscope_new(m, NULL);
    if (!m->globals || !m->root)
        return false;
    for (size_t i = 0; i < m->t->n_names; i++) {
        const jstr *name = m->t->names[i];
        char text[128];
        m->globals[i] = fallback(name);
        if (name->n >= sizeof text)
            continue;
        memcpy(text, name->data, name->n);
        text[name->n] = 0;
        const json_t *value = json_object_get(context, text);
        if (value && strcmp(text, "now") != 0 &&
            !lm_jinja_from_json(m, value, is_content(text), 0, &m->globals[i]))
            return false;
    }
    return true;
}

bool lm_template_uses(const lm_template *t, const char *name)
{
    for (size_t i = 0; t && name && i < t->n_names; i++)
        if (lm_jstr_is(t->names[i], name))
            return true;
    return false;
}

/* ---- rendering ---- */

/* Copy the text and the marks out of the machine's arena. */
static lm_status take_output(jinja *m, const jbuild *b, lm_rendering *out)
{
    lm_rendering r = { 0 };

    r.text.data = lm_alloc(b->n + 1);
    if (!r.text.data)
        return lm_fail_memory(m->e, "a rendering", b->n + 1);
    if (b->n)
        memcpy(r.text.data, b->data, b->n);
    r.text.data[b->n] = 0;
    r.text.size = b->n;
    r.text.capacity = b->n + 1;
    if (b->n_marks) {
        r.content = lm_alloc(b->n_marks * sizeof *r.content);
        if (!r.content) {
            lm_free(r.text.data);
            return lm_fail_memory(m->e, "a rendering", b->n_marks * sizeof *r.content);
        }
        memcpy(r.content, b->marks, b->n_marks * sizeof *r.content);
        r.n_content = b->n_marks;
    }
    *out = r;
    return LM_OK;
}

static lm_status run(jinja *m, const json_t *context, lm_rendering *out)
{
    jbuild text = { 0 };

    LM_TRY(set_clock(m, context));
    m->out = &text;
    if (set_globals(m, context) && lm_jscope_hide(m, m->root, &m->t->body))
        lm_jinja_exec(m, m->root, &m->t->body);
    if (m->status != LM_OK)
        return m->status;
    return take_output(m, &text, out);
}

lm_status lm_template_render(const lm_template *t, const char *context_json, size_t size, lm_rendering *out,
                             lm_error *e)
{
    LM_REQUIRE(e, t && (context_json || !size) && out);
    lm_error ignored;
    json_error_t je;
    json_t *context;
    jinja m = { .t = t, .e = e ? e : &ignored, .fuel = J_FUEL };

    if (size > MAX_CONTEXT)
        return lm_fail(e, LM_LIMIT, "context", LM_NO_OFFSET, "variables of more than %d bytes", MAX_CONTEXT);
    context = lm_json_read(context_json, size, JSON_ALLOW_NUL, &je);
    if (!context)
        return lm_fail(e, LM_USAGE, "context", je.position, "not JSON: %s", je.text);
    lm_status status = lm_wide_read(context_json, size, &m.wide, e);
    if (status == LM_OK && t->own)
        status = lm_own_messages_set(t->own, context_json, size, context, e);
    if (status == LM_OK)
        status = json_is_object(context) ? run(&m, context, out)
                                         : lm_fail(e, LM_USAGE, "context", LM_NO_OFFSET,
                                                   "the variables of a template must be a JSON object");
    json_decref(context);
    lm_wide_free(&m.wide);
    lm_arena_free(&m.arena);
    return status;
}

void lm_rendering_free(lm_rendering *r)
{
    if (!r)
        return;
    lm_free(r->text.data);
    lm_free(r->content);
    *r = (lm_rendering){ 0 };
}
