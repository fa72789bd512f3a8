/* detect.c - which format a chat template has: a family of the table that reads what the template renders for
 * a call, otherwise marks that are learned from the rendering. */
#include <string.h>

#include "base/alloc.h"
#include "base/language.h"
#include "lamina/text.h"
#include "text/answer/shown.h"

static const lm_answer_mark_pair reasonings[] = {
    { "<ifm|think>", "</ifm|think>" }, { "[THINK]", "[/THINK]" }, { "<|START_THINKING|>", "<|END_THINKING|>" }, { "<seed:think>", "</seed:think>" },
    { "Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]" },
    { "<|channel>thought", "<channel|>" }, { "<|inner_prefix|>", "<|inner_suffix|>" }, { "<think>", "</think>" },
};

static bool belongs(const lm_answer_family *f, const char *text)
{
    for (size_t i = 0; i < LM_FAMILY_HAS && f->has[i]; i++)
        if (!strstr(text, f->has[i]))
            return false;
    return !f->lacks || !strstr(text, f->lacks);
}

/* Kimi's templates write the id of a call where others write its name. */
static const char *probe_id(const lm_answer_family *f)
{
    return f->ids == LM_IDS_KIMI ? "functions." LM_PROBE_NAME ":0" : LM_PROBE_ID;
}

/* Whether the instructions of a prompt show a call: the opening mark, and an object with a name. */
static bool describes(const lm_answer_family *f, const lm_text *prompt)
{
    for (const char *at = prompt->data; at && f->call.open && (at = strstr(at, f->call.open));) {
        at += strlen(f->call.open);
        const char *object = at + strspn(at, " \t\r\n");
        if (strncmp(object, "{\"name\"", 7) == 0)
            return true;
    }
    return false;
}

/* Whether a family that writes the calls of a section as a list is shown to do so. */
static bool lists(const lm_answer_family *f, const lm_text *shown)
{
    bool listed = (f->form == LM_FORM_OBJECT || f->form == LM_FORM_KEYED) && f->section.open && !f->bare;
    const char *at = listed ? strstr(shown->data, f->section.open) : NULL;

    if (!at || f->section.open[strlen(f->section.open) - 1] == '[')
        return true;
    at += strlen(f->section.open);
    return at[strspn(at, " \t\r\n")] == '[';
}

/* Whether the template writes calls as the family does. If it renders none, its marks decide, unless others
 * have them too. Some templates print arguments otherwise than the model does, but not their absence. */
static bool confirms(const lm_answer_family *f, const lm_shown *s)
{
    if (f->sure)
        return true;
    if (!s->one.size)
        return !f->shared || describes(f, &s->prompt);
    return lists(f, &s->one) &&
           (lm_shown_is_read(f, &s->one, 1, false) || lm_shown_is_read(f, &s->bare, 1, true));
}

static void reasoning_of(const char *chat_template, lm_answer_style *out)
{
    for (size_t i = 0; i < sizeof reasonings / sizeof *reasonings && !out->reasoning; i++) {
        const lm_answer_mark_pair *r = reasonings + i;
        if (!strstr(chat_template, r->open) && !strstr(chat_template, r->close))
            continue;
        out->reasoning     = r->open;
        out->reasoning_end = r->close;
    }
}

static void find_family(const char *chat_template, const lm_template *t, lm_answer_style *out)
{
    lm_shown shown = { 0 };
    const char *id = NULL;

    for (const lm_answer_family *f = lm_answer_families; f->name && !out->family; f++) {
        if (!belongs(f, chat_template))
            continue;
        if (t && (!id || strcmp(id, probe_id(f)))) {
            lm_shown_free(&shown);
            id = probe_id(f);
            lm_shown_render(t, id, f->reasoning.close ? f->reasoning.close : out->reasoning_end, &shown);
        }
        if (confirms(f, &shown))
            out->family = f;
    }
    if (t && !out->family) {
        lm_shown_free(&shown);
        lm_shown_render(t, LM_PROBE_ID, out->reasoning_end, &shown);
        out->family = out->learned = lm_shown_learn(&shown);
        out->unread = out->family      ? NULL
                      : shown.one.size ? N_("its chat template writes them in a form that is not known")
                                       : N_("its chat template does not write any");
    }
    lm_shown_free(&shown);
}

void lm_answer_style_of(const char *chat_template, lm_answer_style *out)
{
    lm_template *t = NULL;

    if (!out)
        return;
    *out = (lm_answer_style){ .unread = N_("it has no chat template") };
    if (!chat_template)
        return;
    out->unread = N_("its chat template cannot be rendered");
    reasoning_of(chat_template, out);
    if (lm_template_new(chat_template, strlen(chat_template), NULL, &t, NULL) != LM_OK)
        t = NULL;
    find_family(chat_template, t, out);
    lm_template_free(t);
    const lm_answer_family *f = out->family;
    if (f)
        out->unread = NULL;
    if (f && f->reasoning.open) {
        out->reasoning     = f->reasoning.open;
        out->reasoning_end = f->reasoning.close;
    }
}

void lm_answer_style_free(lm_answer_style *s)
{
    if (!s)
        return;
    lm_free(s->learned);
    *s = (lm_answer_style){ 0 };
}

static bool is_harmony(const lm_answer_style *s)
{
    const lm_answer_family *f = s->family;

    return f && f->form == LM_FORM_HARMONY;
}

const char *lm_answer_style_name(const lm_answer_style *s)
{
    return s && s->family ? ((const lm_answer_family *)s->family)->name : NULL;
}

const char *lm_answer_mark(const lm_answer_style *s, size_t i)
{
    static const char *const harmony[] = { "<|channel|>", "<|message|>", "<|start|>",    "<|end|>",
                                           "<|call|>",    "<|return|>",  "<|constrain|>" };
    static const lm_answer_family none;
    static const lm_answer_style empty;
    if (!s)
        s = &empty;
    const lm_answer_family *f = s->family ? s->family : &none;
    const char *const all[] = {
        s->reasoning, s->reasoning_end, f->section.open,
        f->section.close, f->call.open, f->call.close,
        f->name_end, f->id_mark, f->argument.open,
        f->argument.close, f->key_end, f->drops[0],
        f->drops[1],       f->drops[2],      f->form == LM_FORM_BRACED && !f->quote ? "<|\"|>" : f->quote,
        f->also[0].open, f->also[0].close, f->also[1].open, f->also[1].close, f->head_end,
        f->id_first
    };
    size_t n = sizeof harmony / sizeof *harmony;

    if (is_harmony(s)) {
        if (i < n)
            return harmony[i];
        i -= n;
    }
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        if (all[k] && i-- == 0)
            return all[k];
    return NULL;
}

/* Return the position after the last occurrence of a mark; 0: not found. */
static size_t last_of(const char *text, size_t size, const char *mark)
{
    size_t n = strlen(mark);

    for (size_t i = size; i >= n; i--)
        if (memcmp(text + i - n, mark, n) == 0)
            return i;
    return 0;
}

bool lm_answer_in_reasoning(const lm_answer_style *s, const char *prompt, size_t size)
{
    size_t open, after;

    if (!s || !prompt || !s->reasoning || is_harmony(s))
        return false;
    open = last_of(prompt, size, s->reasoning);
    if (!open || last_of(prompt, size, s->reasoning_end) > open)
        return false;
    /* reasoning was opened by the end of the prompt, not by a message that mentions the mark */
    for (after = open; after < size && (prompt[after] == '\n' || prompt[after] == ' '); after++)
        ;
    return after == size;
}
