/* chapter_memory.c - bytes: weights by precision, what the engine allocates, the devices it fits on,
 * fine-tuning. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "study/facts/figure.h"
#include "study/facts/precision.h"
#include "study/report/chapters.h"
#include "base/number.h"
#include "study/facts/devices.h"

/* ---- weights in other types (O-21) ---- */

void lm_part_precisions(lm_document *d)
{
    lm_facts     *f = d->facts;
    lm_doc_table *t = lm_doc_table_of(d, "precisions", NULL, "lrrr", _("weights as"), _("bytes"), "",
                                      _("bits each"));
    t->drawn        = 1;
    t->sized        = true;
    char          bits[32];

    for (size_t i = 0; lm_precision_at(i); i++) {
        const char *name = lm_precision_at(i)->name;
        if (!lm_precision_shown(lm_precision_at(i), f->s.program))
            continue;
        double      x    = lm_facts_number(f, "weights.as.%s.bits_per_weight", name);
        lm_print(bits, sizeof bits, "%.2f", x);
        lm_next_row(t);
        lm_cell_code(t, name);
        lm_cell_fact(t, LM_EXACT, "weights.as.%s.bytes", name);
        lm_cell_fact(t, LM_BOTH, "weights.as.%s.bytes", name);
        lm_cell_number(t, x, LM_UNIT_NONE, bits);
    }
}

static void write_stored(lm_document *d)
{
    const lm_fact *types = NULL;

    if (!lm_facts_has(d->facts, "weights.bytes") ||
        lm_facts_find(d->facts, "weights.by_type", &types, NULL) != LM_OK)
        return;
    lm_doc_table *t = lm_doc_table_of(d, "stored-types", _("As stored in the file"), "lrr", _("type"),
                                      _("bytes"), "");
    for (const lm_fact *x = lm_fact_first(types); x; x = lm_fact_next(x)) {
        lm_next_row(t);
        lm_cell_code(t, x->name);
        lm_cell_fact(t, LM_EXACT, "weights.by_type.%s", x->name);
        lm_cell_fact(t, LM_BOTH, "weights.by_type.%s", x->name);
    }
    lm_strong_row(t);
    lm_cell(t, _("total"));
    lm_cell_fact(t, LM_EXACT, "weights.bytes");
    lm_cell_fact(t, LM_BOTH, "weights.bytes");
}

/* ---- what the engine allocates ---- */

static void plan_row(lm_doc_table *t, uint32_t depth, const char *label, const char *path)
{
    lm_inner_row(t, depth);
    lm_cell(t, label);
    lm_cell_fact(t, LM_EXACT, "%s", path);
    lm_cell_fact(t, LM_BOTH, "%s", path);
}

void lm_part_plan(lm_document *d)
{
    lm_facts *f = d->facts;
    char      a[LM_FIG], pages[LM_PAGES_TEXT];

    lm_doc_textf(d, _("The engine, weights %s, cache %s, %" PRIu64 " × %s positions:"),
                 lm_facts_text(f, "weights.precision"), lm_facts_text(f, "kv.type"),
                 lm_facts_count(f, "kv.batch"), lm_fig_count(a, lm_facts_count(f, "kv.context")));
    if (!lm_facts_has(f, "memory.total")) {
        lm_doc_warning(d, lm_facts_text(f, "memory.not_planned"));
        return;
    }
    lm_doc_table *t = lm_doc_table_of(d, "plan", NULL, "lrl", "", "", "");
    t->drawn        = 1;
    t->sized        = true;
    plan_row(t, 0, _("mapped from the file"), "memory.mapped");
    plan_row(t, 0, _("weights, allocated"), "memory.weights");
    plan_row(t, 0, _("cache"), "memory.kv");
    plan_row(t, 0, _("scratch"), "memory.scratch");
    plan_row(t, 1, _("activations"), "memory.scratch_parts.activations");
    plan_row(t, 1, _("threads"), "memory.scratch_parts.workers");
    plan_row(t, 1, _("bookkeeping"), "memory.scratch_parts.bookkeeping");
    plan_row(t, 0, _("allocated"), "memory.total");
    t->last->strong = true;
    if (*lm_pages_text(pages, f))
        lm_doc_text(d, pages);
}

void lm_part_memory(lm_document *d)
{
    lm_part_precisions(d);
    lm_part_plan(d);
}

/* ---- devices ---- */

static const char *verdict(uint64_t room, double need)
{
    if (need > (double)room)
        return "–";
    return lm_is_tight(room, (uint64_t)need) ? _("tight") : _("fits");
}

/* List the devices of the catalogue that can hold weights and cache in some precision. */
static void write_devices(lm_document *d)
{
    lm_facts *f = d->facts;
    const char *const shown[] = { lm_precision_published(f->s.program), "Q8_0", "Q4_K_M" };
    double kv = lm_facts_number(f, "kv.bytes_at_context"), need[3];
    unsigned holding = 0, all = 0;
    char a[LM_FIG], b[LM_FIG];

    for (int k = 0; k < 3; k++)
        need[k] = lm_facts_number(f, "weights.as.%s.bytes", shown[k]) + kv;
    for (size_t i = 0; lm_device_at(i); i++) {
        all += strcmp(lm_device_at(i)->kind, "cpu") != 0;
        holding += strcmp(lm_device_at(i)->kind, "cpu") != 0 &&
                   need[2] <= (double)lm_device_usable(lm_device_at(i));
    }
    lm_doc_textf(d, _("Weights and the cache of %s positions (%s), without scratch."),
                 lm_fig_count(a, lm_facts_count(f, "kv.context")), lm_fig_size(b, kv));
    lm_doc_text(d, _("The memory that the operating system, the driver and the runtime need is "
                     "subtracted for each device."));
    lm_doc_textf(d, _("%u of %u devices of the catalogue hold it as Q4_K_M."), holding, all);
    if (!holding)
        return;
    lm_doc_fold(d, "devices-list", _("These devices"));
    lm_doc_table *t = lm_doc_table_of(d, "devices", NULL, "lrlll", _("device"), _("memory"), shown[0],
                                      shown[1], shown[2]);
    for (size_t i = 0; lm_device_at(i); i++) {
        const lm_device *x = lm_device_at(i);
        if (strcmp(x->kind, "cpu") == 0 || need[2] > (double)lm_device_usable(x))
            continue;
        lm_next_row(t);
        lm_cell(t, x->title);
        lm_cell_count(t, LM_PLAIN, LM_UNIT_BYTES, x->memory);
        for (int k = 0; k < 3; k++)
            lm_cell(t, verdict(lm_device_usable(x), need[k]));
    }
    lm_doc_close(d);
}

void lm_chapter_memory(lm_document *d)
{
    lm_doc_open(d, "memory", NULL, _("Memory"));
    lm_doc_open(d, "precision", "O-21", _("Weights by precision"));
    lm_part_precisions(d);
    write_stored(d);
    lm_doc_note(
        d, _("int8 and int4 count bare bits; stored types include scales, and vectors in f32. Quality is not "
             "considered."));
    lm_doc_close(d);
    lm_doc_open(d, "allocated", NULL, _("Memory that the engine allocates"));
    lm_part_plan(d);
    lm_doc_diagram(d, "memory-growth", NULL, _("Weights, cache and scratch by context"), NULL);
    if (lm_facts_has(d->facts, "memory.total"))
        lm_doc_note(d, _("These numbers are from the plan that the engine runs; planned and allocated "
                         "bytes are equal."));
    lm_doc_close(d);
    lm_doc_open(d, "fits", "O-21", _("Devices with enough memory"));
    write_devices(d);
    lm_doc_close(d);
    lm_doc_open(d, "memory-derivation", NULL, _("The memory, derived"));
    lm_doc_topic(d, "memory", LM_TOPIC_WHAT | LM_TOPIC_LETTERS | LM_TOPIC_ARITHMETIC | LM_TOPIC_JUDGEMENT,
                 NULL);
    lm_doc_close(d);
    lm_doc_close(d);
}

/* ---- fine-tuning ---- */

typedef struct tuning_row { const char *label, *name; bool total; } tuning_row;

/* Add rows with a column for each way to tune, whose facts are at BRANCH.WAY.NAME. The first row is
 * counts. */
static void write_ways(lm_doc_table *t, const char *branch, const tuning_row *rows, size_t n, unsigned ways)
{
    static const char *const way[] = { "full", "lora", "qlora" };

    for (size_t k = 0; k < n; k++) {
        lm_next_row(t)->strong = rows[k].total;
        lm_cell(t, _(rows[k].label));
        for (unsigned i = 0; i < ways; i++)
            lm_cell_fact(t, k ? LM_PLAIN : LM_EXACT, "%s.%s.%s", branch, way[i], rows[k].name);
    }
}

/* Add what `lamina train` allocates: numbers of the plan that it runs. */
static void write_training(lm_document *d)
{
    static const tuning_row rows[] = {
        { N_("parameters trained"), "parameters", false },
        { N_("mapped from the file"), "mapped", false },
        { N_("weights, allocated"), "weights", false },
        { N_("trained, with gradients and moments"), "trained", false },
        { N_("activations"), "activations", false },
        { N_("activations with checkpoints"), "activations_checkpointed", false },
        { N_("scratch"), "scratch", false },
        { N_("together"), "total", true },
        { N_("together with checkpoints"), "total_checkpointed", true },
    };
    char a[LM_FIG];

    if (!lm_facts_has(d->facts, "memory.training.lora.parameters"))
        return;
    lm_doc_textf(d,
                 _("Memory that training allocates, from the training plan; a step of %s tokens, an adapter of rank "
                   "%" PRIu64 " on every linear layer except the head:"),
                 lm_fig_count(a, lm_facts_count(d->facts, "memory.training.tokens")),
                 lm_facts_count(d->facts, "memory.training.rank"));
    lm_doc_table *t = lm_doc_table_of(d, "training", NULL, "lrr", "", _("all weights"), "LoRA");
    write_ways(t, "memory.training", rows, sizeof rows / sizeof *rows, 2);
}

/* Return the name of the matrices that an adapter is added to. */
static const char *target_title(const char *name)
{
    static const struct { const char *name, *title; } titles[] = {
        { "query", N_("queries") }, { "key", N_("keys") }, { "value", N_("values") }, { "output", N_("output of the attention") },
        { "gate", N_("gate of the MLP") }, { "up", N_("up matrix of the MLP") }, { "down", N_("down matrix of the MLP") },
    };

    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
        if (strcmp(titles[i].name, name) == 0)
            return _(titles[i].title);
    return name;
}

void lm_chapter_tuning(lm_document *d)
{
    static const tuning_row rows[] = {
        { N_("parameters trained"), "trainable", false },
        { N_("weights"), "weights", false },
        { N_("gradients"), "gradients", false },
        { N_("optimiser"), "optimizer", false },
        { N_("activations"), "activations", false },
        { N_("activations with checkpoints"), "activations_checkpointed", false },
        { N_("together"), "vram", true },
        { N_("together with checkpoints"), "vram_checkpointed", true },
    };
    lm_facts *f = d->facts;
    const lm_fact *targets = NULL;
    char a[LM_FIG];

    lm_doc_open(d, "fine-tuning", NULL, _("Fine-tuning, estimated"));
    write_training(d);
    lm_doc_textf(d, _("A batch of %s tokens, adapters of rank %" PRIu64 " on every matrix of the layers:"),
                 lm_fig_count(a, lm_facts_count(f, "tuning.tokens")), lm_facts_count(f, "tuning.rank"));
    lm_doc_table *t = lm_doc_table_of(d, "tuning", NULL, "lrrr", "", _("all weights"), "LoRA", "QLoRA");
    write_ways(t, "tuning", rows, sizeof rows / sizeof *rows, 3);
    if (lm_facts_find(f, "tuning.lora.targets", &targets, NULL) == LM_OK) {
        t = lm_doc_table_of(d, "adapters", _("Adapter parameters by target"), "lr", _("matrices"),
                            _("parameters"));
        t->drawn = 1;
        for (const lm_fact *x = lm_fact_first(targets); x; x = lm_fact_next(x)) {
            if (!x->count)
                continue;
            lm_next_row(t);
            lm_cell(t, target_title(x->name));
            lm_cell_fact(t, LM_EXACT, "tuning.lora.targets.%s", x->name);
        }
    }
    lm_doc_note(
        d,
        _("Mixed precision with AdamW: 2-byte weights and gradients, a float32 copy and two moments of the "
          "trained parameters; QLoRA keeps the matrices in NF4. An estimate: frameworks add buffers of their "
          "own."));
    lm_doc_source(d, "Hu et al., LoRA, arXiv 2106.09685");
    lm_doc_source(d, "Dettmers et al., QLoRA, arXiv 2305.14314");
    lm_doc_close(d);
}
