/* complete.c - candidates for the word at the cursor.
 *
 * Two tables say what follows: `places` for arguments, `values` for flags. Each names a function that offers
 * its words to `offer`, which keeps those that begin like the word. Read `complete` first: it finds out which
 * of the two applies. */
#include "cli/complete.h"

#include <string.h>

#include "cli/base/flags.h"
#include "cli/base/output.h"
#include "lamina/study.h"

typedef struct completion {
    const lm_command *const *commands;
    const lm_command *command;
    const char       *begun;             /* the beginning of the word that is completed */
    lm_text           out;
} completion;

static void offer(completion *c, const char *word)
{
    if (strncmp(word, c->begun, strlen(c->begun)) == 0 && !strpbrk(word, "\n\r"))
        lm_text_printf(&c->out, "%s\n", word);
}

static void offer_all(completion *c, const char *const *words)
{
    for (; *words; words++)
        offer(c, *words);
}

/* ---- lists ---- */

static void commands(completion *c)
{
    for (size_t i = 0; c->commands[i]; i++)
        offer(c, c->commands[i]->name);
}

static bool on_model(void *arg, const lm_cached_model *m)
{
    offer(arg, m->name);
    return true;
}

static void cached(completion *c) { lm_model_cached(on_model, c, NULL); }

static void presets(completion *c)
{
    for (size_t i = 0; lm_preset_at(i); i++)
        offer(c, lm_preset_at(i)->name);
}

static void models(completion *c)
{
    cached(c);
    presets(c);
}

static void levels(completion *c)
{
    lm_machine m;

    if (lm_machine_describe(&m, NULL) == LM_OK)
        offer_all(c, m.levels);
}

/* Offer the types of files, with the names that llama-quantize uses. */
static void types(completion *c)
{
    for (uint32_t i = 0; lm_synth_type(i); i++)
        offer(c, lm_synth_type(i));
}

static void precisions(completion *c)
{
    static const char *const words[] = { "f32",    "f16",    "bf16", "Q8_0",   "Q6_K",
                                         "Q5_K_M", "Q4_K_M", "Q4_0", "IQ4_XS", NULL };

    offer_all(c, words);
}

static void scalings(completion *c)
{
    static const char *const words[] = { "none", "linear", "yarn", NULL };

    offer_all(c, words);
}

static void measures(completion *c)
{
    static const char *const words[] = { "perplexity", "kl", "choices", "needle", "speed", NULL };

    offer_all(c, words);
}

static void pulls(completion *c)
{
    static const char *const words[] = { "list", "rm", "verify-cache", NULL };

    offer_all(c, words);
    cached(c);
}

static void forms(completion *c)
{
    static const char *const words[] = { "absorbed", "naive", NULL };

    offer_all(c, words);
}

static void actions(completion *c)
{
    static const char *const words[] = { "plan", "run", NULL };

    offer_all(c, words);
}

#ifndef LM_WITHOUT_STUDY
static void offer_numbered(completion *c, const char *(*at)(size_t i, const char **summary))
{
    const char *name;

    for (size_t i = 0; (name = at(i, NULL)); i++)
        offer(c, name);
}

static void views(completion *c)
{
    offer_numbered(c, strcmp(c->command->name, "compare") == 0 ? lm_compare_view : lm_view_at);
    offer(c, "all");
}

static void diagrams(completion *c) { offer_numbered(c, lm_diagram_at); }

static void topics(completion *c)
{
    offer_numbered(c, lm_topic_at);
    offer(c, "forward");
}

static void devices(completion *c)
{
    for (size_t i = 0; lm_device_at(i); i++)
        offer(c, lm_device_at(i)->name);
    if (strcmp(c->command->name, "fit") == 0)
        offer(c, "all");
}

static void links(completion *c)
{
    for (size_t i = 0; lm_link_at(i); i++)
        offer(c, lm_link_at(i)->name);
    offer(c, "measure");
}
#endif

typedef void lister(completion *c);

/* The candidates for the arguments `first` to `last` of a command, counted from 0. */
static const struct { const char *command; size_t first, last; lister *list; } places[] = {
    { "help", 0, 0, commands },       { "presets", 0, 99, presets },    { "quantize", 0, 0, cached },
    { "quantize", 2, 2, types },      { "synth", 0, 0, presets },       { "run", 0, 0, cached },
    { "chat", 0, 0, cached },         { "serve", 0, 99, cached },       { "bench", 0, 0, cached },
    { "score", 0, 0, cached },        { "embed", 0, 0, cached },        { "tokenize", 0, 0, cached },
    { "detokenize", 0, 0, cached },   { "template", 0, 0, cached },     { "verify", 0, 1, cached },
    { "inspect", 0, 0, models },      { "eval", 0, 0, cached },         { "eval", 1, 1, measures },
    { "diff", 0, 1, cached },         { "trace", 0, 0, cached },        { "train", 0, 0, cached },
    { "imatrix", 0, 0, cached },      { "merge", 0, 0, cached },        { "convert", 0, 0, cached },
    { "pull", 0, 0, pulls },          { "pull", 1, 1, cached },
#ifndef LM_WITHOUT_STUDY
    { "explain", 0, 0, topics },      { "explain", 1, 1, models },      { "estimate", 0, 0, models },
    { "compare", 0, 99, models },     { "report", 0, 99, models },      { "fit", 0, 99, models },
    { "devices", 0, 99, devices },    { "cluster", 1, 1, models },
#endif
    { "cluster", 0, 0, actions },
    { NULL, 0, 0, NULL },
};

/* Offer the models of --model: presets too, for the commands that need no weights. */
static void given(completion *c)
{
    bool shapes = strcmp(c->command->name, "audit") == 0;

    for (size_t i = 0; places[i].command; i++)
        shapes |= places[i].list == models && strcmp(places[i].command, c->command->name) == 0;
    (shapes ? models : cached)(c);
}

static const struct { const char *flag; lister *list; } values[] = {
    { "--model", given },         { "--model-draft", cached }, { "--cpu", levels },    { "--type", types },
    { "--precision", precisions }, { "--rope-scaling", scalings }, { "--mla", forms },
#ifndef LM_WITHOUT_STUDY
    { "--view", views },          { "--diagram", diagrams },   { "--device", devices }, { "--link", links },
#endif
    { NULL, NULL },
};

/* ---- command line ---- */

/* Return the flag with a spelling of `n` bytes, or NULL. */
static const lm_flag *flag_of(const lm_command *c, const char *word, size_t n)
{
    char name[64];

    if (n >= sizeof name)
        return NULL;
    memcpy(name, word, n);
    name[n] = 0;
    const lm_flag *f = lm_flag_find(lm_general_flags, name);
    for (const lm_flag_group *g = c->groups; !f && g && g->title; g++)
        f = lm_flag_find(g->flags, name);
    return f;
}

static void complete_value(completion *c, const lm_flag *f)
{
    if (f->words)
        offer_all(c, f->words);
    for (size_t i = 0; values[i].flag; i++)
        if (strcmp(values[i].flag, f->name) == 0)
            values[i].list(c);
}

static void complete_place(completion *c, size_t place)
{
    for (size_t i = 0; places[i].command; i++)
        if (strcmp(places[i].command, c->command->name) == 0 && place >= places[i].first &&
            place <= places[i].last)
            places[i].list(c);
}

static void complete(completion *c, char **words, size_t n)
{
    const lm_flag *open = NULL;          /* a flag whose value is the next word */
    size_t         place = 0;
    const char    *last = words[n - 1], *is = last[0] == '-' ? strchr(last, '=') : NULL;

    for (size_t i = 1; i + 1 < n; i++) {
        if (open) {
            open = NULL;
            continue;
        }
        const lm_flag *f = words[i][0] == '-' ? flag_of(c->command, words[i], strlen(words[i])) : NULL;
        open = f && f->kind != LM_FLAG_SWITCH ? f : NULL;
        /* A diagram takes the place of a topic. */
        place += words[i][0] != '-' || (f && strcmp(f->name, "--diagram") == 0);
    }
    if (!open && is) {
        open     = flag_of(c->command, last, (size_t)(is - last));
        c->begun = is + 1;
        if (!open)
            return;
    }
    if (open)
        complete_value(c, open);
    else
        complete_place(c, place);
}

lm_status lm_complete(const lm_command *const *all, char **words, size_t n, lm_error *e)
{
    completion c = { .commands = all, .begun = n ? words[n - 1] : "" };

    if (n <= 1)
        commands(&c);
    else if ((c.command = lm_command_find(all, words[0])))
        complete(&c, words, n);
    lm_status status = lm_out_buf(&c.out, e);
    lm_text_free(&c.out);
    return status;
}
