/* chapter_takeaways.c - the model in a sentence and four numbers, and its key takeaways: where it fits, what
 * tunes it, and what it suits. What its design gains and costs is in the reading of the design. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "study/facts/devices.h"
#include "study/facts/figure.h"
#include "study/facts/precision.h"
#include "study/facts/predict.h"
#include "study/report/chapters.h"

/* positions; GiB of cards */
enum { USUAL = 8192, CARD = 24, SMALL_CARD = 8 };
enum { SHORT = 8192 };                           /* a context that long texts do not fit in */
enum { FLUENT = 10 };                            /* tokens per second: about twice as fast as people read */

#define GIB 1073741824.0

/* Return the bytes that a model can have on a card of so many GiB. */
static double room_of_card(int gib)
{
    return (double)lm_device_usable(&(lm_device){ .kind = "gpu", .memory = (uint64_t)gib << 30 });
}

/* Return a common context length, limited to that of the model. */
static uint64_t usual_context(lm_facts *f)
{
    uint64_t max = lm_facts_count(f, "architecture.context");

    return max && max < USUAL ? max : USUAL;
}

static bool has_cache(lm_facts *f)
{
    return lm_facts_count(f, "kv.bytes_per_token") > 0;
}

/* Return the bytes of weights as Q4_K_M, of the states, and of the cache at that context. */
static double need_of(lm_facts *f)
{
    return lm_facts_number(f, "weights.as.Q4_K_M.bytes") + lm_facts_number(f, "states.bytes") +
           lm_facts_number(f, "kv.at[%" PRIu64 "].bytes", usual_context(f));
}

/* ---- the headline ---- */

static void write_sentence(lm_document *d)
{
    lm_facts   *f     = d->facts;
    const char *heads = "";
    char        n[LM_FIG], layers[LM_FIG], width[LM_FIG], context[LM_FIG];

    if (lm_facts_has(f, "attention.kv_heads") && !lm_facts_has(f, "attention.latent"))
        heads = lm_doc_printf(d, " %" PRIu64 ":%" PRIu64, lm_facts_count(f, "attention.heads"),
                              lm_facts_count(f, "attention.kv_heads"));
    lm_doc_textf(d,
                 _("A decoder-only transformer with %s parameters: %s layers of width %s, attention %s%s, "
                   "MLP %s, norm %s, %s positions."),
                 lm_fig_short(n, (double)lm_facts_count(f, "parameters.total")),
                 lm_fig_count(layers, lm_facts_count(f, "architecture.layers")),
                 lm_fig_count(width, lm_facts_count(f, "architecture.hidden")),
                 lm_facts_text(f, "architecture.attention"), heads, lm_facts_text(f, "architecture.mlp"),
                 _(lm_facts_text(f, "architecture.norm")),
                 lm_fig_count(context, lm_facts_count(f, "architecture.context")));
}

void lm_figure_row(lm_doc_table *t, const char *label, lm_manner m, const char *path)
{
    if (lm_facts_has(t->d->facts, "%s", path))
        lm_fact_row(t, label, m, path, NULL);
}

void lm_part_headline(lm_document *d)
{
    char          context[LM_FIG];
    uint64_t      at = usual_context(d->facts);

    write_sentence(d);
    lm_doc_table *t = lm_doc_table_of(d, "key-figures", NULL, "lr", "", "");
    lm_figure_row(t, _("parameters"), LM_SHORT, "parameters.total");
    if (lm_facts_count(d->facts, "parameters.active") != lm_facts_count(d->facts, "parameters.total"))
        lm_figure_row(t, _("of these, active per token"), LM_SHORT, "parameters.active");
    lm_figure_row(t, _("weights as Q4_K_M"), LM_PLAIN, "weights.as.Q4_K_M.bytes");
    lm_fig_count(context, at);
    if (has_cache(d->facts))
        lm_figure_row(t, lm_doc_printf(d, _("cache at %s tokens"), context), LM_PLAIN,
                      lm_doc_printf(d, "kv.at[%" PRIu64 "].bytes", at));
    if (lm_facts_count(d->facts, "states.layers"))
        lm_figure_row(t, _("state of a sequence"), LM_PLAIN, "states.bytes");
    lm_figure_row(t, lm_doc_printf(d, _("operations of a token at %s tokens"), context), LM_PLAIN,
                  lm_doc_printf(d, "flops.at[%" PRIu64 "].total", at));
}

/* ---- devices ---- */

/* Return the smallest device of a kind that holds the model; NULL: none. */
static const lm_device *smallest(const char *kind, double need)
{
    const lm_device *best = NULL, *x;

    for (size_t i = 0; (x = lm_device_at(i)); i++)
        if (strcmp(x->kind, kind) == 0 && (double)lm_device_usable(x) >= need &&
            (!best || x->memory < best->memory))
            best = x;
    return best;
}

static void write_devices(lm_document *d)
{
    static const char *const kinds[] = { "gpu", "apple", "phone" };
    lm_facts   *f    = d->facts;
    double      need = need_of(f);
    const char *list = NULL;
    char        context[LM_FIG], bytes[LM_FIG];

    lm_fig_count(context, usual_context(f));
    lm_fig_size(bytes, need);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const lm_device *x = smallest(kinds[i], need);
        if (x)
            list = lm_doc_printf(d, "%s%s%s (%.0f GiB)", list ? list : "", list ? ", " : "", x->title,
                                 (double)x->memory / GIB);
    }
    if (!has_cache(f) && list)
        lm_doc_itemf(d, '+',
                     _("Weights as Q4_K_M and the states of a sequence take %s; the smallest devices that "
                       "hold them: %s."),
                     bytes, list);
    else if (!has_cache(f))
        lm_doc_itemf(d, '!',
                     _("Weights as Q4_K_M and the states of a sequence take %s; no device of the catalogue "
                       "holds them alone."),
                     bytes);
    else if (list)
        lm_doc_itemf(
            d, '+',
            _("Weights as Q4_K_M and a cache of %s tokens take %s; the smallest devices that hold them: %s."),
            context, bytes, list);
    else
        lm_doc_itemf(d, '!',
                     _("Weights as Q4_K_M and a cache of %s tokens take %s; no device of the catalogue holds "
                       "them alone."),
                     context, bytes);
}

static void write_tuning(lm_document *d)
{
    lm_facts *f = d->facts;
    char bytes[LM_FIG], tokens[LM_FIG];

    if (!lm_facts_has(f, "tuning.qlora.vram_checkpointed"))
        return;
    double need = lm_facts_number(f, "tuning.qlora.vram_checkpointed");
    int card = need <= room_of_card(SMALL_CARD) ? SMALL_CARD : CARD;
    lm_fig_size(bytes, need);
    lm_fig_count(tokens, lm_facts_count(f, "tuning.tokens"));
    lm_doc_itemf(
        d, need <= room_of_card(card) ? '+' : '!',
        need <= room_of_card(card)
            ? _("QLoRA on %s tokens with checkpoints takes about %s: a card of %d GiB holds it.")
            : _("QLoRA on %s tokens with checkpoints takes about %s: a card of %d GiB does not hold it."),
        tokens, bytes, card);
}

/* ---- uses, each with the number that decides ---- */

/* Return the tokens per second that a device generates at most with weights as Q4_K_M and this context; 0:
 * unknown. */
static double rate_on(lm_facts *f, const lm_device *x, uint64_t context)
{
    const lm_plan *p = NULL;
    const lm_dtype *types = NULL;
    lm_prediction one;

    for (size_t i = 0; lm_precision_at(i); i++)
        if (lm_precision_at(i) == lm_precision_named("Q4_K_M"))
            types = lm_types_as(f, i);
    if (!types || f->s.plan(f->s.arg, types, f->s.context, 1, &p, NULL) != LM_OK)
        return 0;
    lm_peaks peaks = lm_peaks_published(x);
    lm_predict_token(p, &peaks, context, 1, &one);
    return one.known ? one.tokens_per_second : 0;
}

/* Return the largest device of a kind. */
static const lm_device *largest(const char *kind)
{
    const lm_device *best = NULL, *x;

    for (size_t i = 0; (x = lm_device_at(i)); i++)
        if (strcmp(x->kind, kind) == 0 && (!best || x->memory > best->memory))
            best = x;
    return best;
}

static void write_phones(lm_document *d)
{
    const lm_device *x = smallest("phone", need_of(d->facts)), *max = largest("phone");
    double rate = x ? rate_on(d->facts, x, usual_context(d->facts)) : 0;
    char a[LM_FIG], b[LM_FIG];

    if (x && rate >= FLUENT)
        lm_doc_itemf(d, '+', _("Suits phones: %s generates up to %s tokens per second."), x->title,
                     lm_fig_rate(a, rate));
    else if (x && rate > 0)
        lm_doc_itemf(d, '!', _("Does not suit phones: %s generates %s tokens per second at most."), x->title,
                     lm_fig_rate(a, rate));
    else if (!x && max)
        lm_doc_itemf(d, '!', _("Does not suit phones: it takes %s, and %s has %s for it."),
                     lm_fig_size(a, need_of(d->facts)), max->title, lm_fig_bytes(b, lm_device_usable(max)));
}

static void write_long_texts(lm_document *d)
{
    uint64_t context = lm_facts_count(d->facts, "architecture.context");
    char a[LM_FIG];

    if (context && context < SHORT)
        lm_doc_itemf(d, '!', _("Does not suit long texts: its context has %s positions."),
                     lm_fig_count(a, context));
}

/* Say how many sequences a card of 24 GiB holds beside the weights or, if it is too small, the smallest GPU
 * that holds one. */
static void write_sequences(lm_document *d)
{
    lm_facts *f = d->facts;
    double weights = lm_facts_number(f, "weights.as.Q4_K_M.bytes"), need = need_of(f),
           room = room_of_card(CARD);
    const lm_device *x = need > room ? smallest("gpu", need) : NULL;
    char tokens[LM_FIG], many[LM_FIG];

    if (x)
        room = (double)lm_device_usable(x);
    double n = need > weights && room >= need ? floor((room - weights) / (need - weights)) : 0;
    if (n < 1)
        return;
    lm_doc_itemf(d, '-', _("%s holds the weights as Q4_K_M and %s sequences of %s tokens."),
                 x ? x->title : lm_doc_printf(d, _("A card of %d GiB"), CARD),
                 lm_fig_count(many, (uint64_t)n), lm_fig_count(tokens, usual_context(f)));
}

static void write_uses(lm_document *d)
{
    write_devices(d);
    write_tuning(d);
    write_phones(d);
    write_long_texts(d);
    write_sequences(d);
}

/* ---- chapters ---- */

void lm_part_takeaways(lm_document *d)
{
    lm_doc_open(d, "takeaways", "O-41", _("Key takeaways"));
    write_uses(d);
    lm_doc_note(d, _("Sizes are those of this report, without scratch memory; training data and tasks are "
                     "not considered (qualitative)."));
    lm_doc_close(d);
}
