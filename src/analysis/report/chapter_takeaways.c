/* chapter_takeaways.c - the model in a sentence and four numbers, and its key takeaways: where it fits and what it is suited for. */
#include <inttypes.h>
#include <string.h>

#include "analysis/facts/figure.h"
#include "analysis/report/chapters.h"
#include "analysis/facts/devices.h"

enum { USUAL = 8192, CARD = 24, SMALL_CARD = 8, STANDING_OUT = 3 };      /* positions; GiB of cards; sentences */

#define GIB 1073741824.0

/* Return a common context length, limited to that of the model. */
static uint64_t usual_context(lm_facts *f)
{
    uint64_t most = lm_facts_count(f, "architecture.context");

    return most && most < USUAL ? most : USUAL;
}

/* Return the bytes of weights as Q4_K_M and of the cache at that context. */
static double need_of(lm_facts *f)
{
    return lm_facts_number(f, "weights.as.Q4_K_M.bytes") + lm_facts_number(f, "kv.at[%" PRIu64 "].bytes", usual_context(f));
}

/* ---- the headline ---- */

static void write_sentence(lm_document *d)
{
    lm_facts   *f     = d->facts;
    const char *heads = "";
    char        n[LM_FIG], layers[LM_FIG], width[LM_FIG], context[LM_FIG];

    if (lm_facts_has(f, "attention.kv_heads") && !lm_facts_has(f, "attention.latent"))
        heads = lm_doc_keepf(d, " %" PRIu64 ":%" PRIu64, lm_facts_count(f, "attention.heads"), lm_facts_count(f, "attention.kv_heads"));
    lm_doc_textf(d, _("A decoder-only transformer with %s parameters: %s layers of width %s, attention %s%s, MLP %s, norm %s, "
                      "%s positions."),
                 lm_fig_short(n, (double)lm_facts_count(f, "parameters.total")),
                 lm_fig_count(layers, lm_facts_count(f, "architecture.layers")),
                 lm_fig_count(width, lm_facts_count(f, "architecture.hidden")), lm_facts_text(f, "architecture.attention"), heads,
                 lm_facts_text(f, "architecture.mlp"), _(lm_facts_text(f, "architecture.norm")),
                 lm_fig_count(context, lm_facts_count(f, "architecture.context")));
}

static void figure(lm_doc_table *t, const char *label, lm_manner m, const char *path)
{
    if (!lm_facts_has(t->d->facts, "%s", path))
        return;
    lm_next_row(t);
    lm_cell(t, label);
    lm_cell_fact(t, m, "%s", path);
}

void lm_part_headline(lm_document *d)
{
    char          context[LM_FIG];
    uint64_t      at = usual_context(d->facts);

    write_sentence(d);
    lm_doc_table *t = lm_doc_table_of(d, "key-figures", NULL, "lr", "", "");
    figure(t, _("parameters"), LM_SHORT, "parameters.total");
    if (lm_facts_count(d->facts, "parameters.active") != lm_facts_count(d->facts, "parameters.total"))
        figure(t, _("of these active for one token"), LM_SHORT, "parameters.active");
    figure(t, _("weights as Q4_K_M"), LM_PLAIN, "weights.as.Q4_K_M.bytes");
    figure(t, lm_doc_keepf(d, _("cache at %s tokens"), lm_fig_count(context, at)), LM_PLAIN,
           lm_doc_keepf(d, "kv.at[%" PRIu64 "].bytes", at));
    figure(t, lm_doc_keepf(d, _("operations of a token at %s tokens"), context), LM_PLAIN,
           lm_doc_keepf(d, "flops.at[%" PRIu64 "].total", at));
}

/* ---- devices ---- */

/* Return the smallest device of a kind that holds the model; NULL: none. */
static const lm_device *smallest(const char *kind, double need)
{
    const lm_device *best = NULL, *x;

    for (size_t i = 0; (x = lm_device_at(i)); i++)
        if (strcmp(x->kind, kind) == 0 && (double)lm_device_room(x) >= need && (!best || x->memory < best->memory))
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
            list = lm_doc_keepf(d, "%s%s%s (%.0f GiB)", list ? list : "", list ? ", " : "", x->title, (double)x->memory / GIB);
    }
    if (list)
        lm_doc_itemf(d, '+', _("Weights as Q4_K_M and a cache of %s tokens take %s; the smallest devices that hold them: %s."),
                     context, bytes, list);
    else
        lm_doc_itemf(d, '!', _("Weights as Q4_K_M and a cache of %s tokens take %s; no device of the catalogue holds them alone."),
                     context, bytes);
    if (need > 0 && CARD * GIB / need >= 2)
        lm_doc_itemf(d, '+', _("A card of %d GiB holds %.0f copies, each with its cache."), CARD, (double)(uint64_t)(CARD * GIB / need));
}

static void write_tuning(lm_document *d)
{
    lm_facts *f = d->facts;
    char      bytes[LM_FIG], tokens[LM_FIG];

    if (!lm_facts_has(f, "tuning.qlora.vram_checkpointed"))
        return;
    double need = lm_facts_number(f, "tuning.qlora.vram_checkpointed");
    int    card = need <= SMALL_CARD * GIB ? SMALL_CARD : CARD;
    lm_fig_size(bytes, need);
    lm_fig_count(tokens, lm_facts_count(f, "tuning.tokens"));
    lm_doc_itemf(d, need <= card * GIB ? '+' : '!',
                 need <= card * GIB ? _("QLoRA on %s tokens with checkpoints takes about %s: a card of %d GiB holds it.")
                                    : _("QLoRA on %s tokens with checkpoints takes about %s: a card of %d GiB does not hold it."),
                 tokens, bytes, card);
}

/* ---- chapters ---- */

void lm_part_takeaways(lm_document *d)
{
    const lm_comparison *c = lm_shared(d)->comparison;

    lm_doc_open(d, "takeaways", "O-41", _("Key takeaways"));
    for (uint32_t i = 0; d->n_models == 1 && c && i < c->n_readings && i < STANDING_OUT; i++)
        lm_doc_item_of(d, '-', c->readings[i].body ? c->readings[i].body : c->readings[i].text);
    write_devices(d);
    write_tuning(d);
    lm_doc_note(d, _("Sizes by the figures of this report, without scratch; what training and task ask for is not considered "
                     "(qualitative)."));
    lm_doc_close(d);
}

/* Repeat the takeaways at the end of the report: what the model is, what it costs, where it fits. */
void lm_part_summary(lm_document *d)
{
    lm_doc_open(d, "in-short", "O-41", _("Key takeaways"));
    write_sentence(d);
    write_devices(d);
    write_tuning(d);
    lm_doc_close(d);
}
