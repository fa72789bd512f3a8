/* derive_states.c - short convolutions and linear recurrences: weights, operations, and states in place of a
 * cache. */
#include <inttypes.h>

#include "study/derive/topics.h"

/* Derive the bytes of the states of all layers, and the positions of a cache that take as many. */
static void derive_all_states(lm_derivation *d)
{
    lm_let_fact(d, "floats", NULL, _("values in the states of all layers"), "states.elements");
    lm_derive(d, "bytes", _("states of a sequence, float32"), LM_UNIT_BYTES, "states.bytes", "4 * floats");
    if (!lm_facts_count(d->f, "kv.bytes_per_token"))
        return;
    lm_let_fact(d, "per_token", NULL, _("bytes that the layers with attention cache per token"),
                "kv.bytes_per_token");
    lm_derive(d, "positions", _("positions of that cache in as many bytes"), LM_UNIT_NONE, NULL,
              "bytes / per_token");
}

void lm_derive_convolution(lm_derivation *d)
{
    lm_traits t;

    lm_find_traits(d->f->ledger, &t);
    if (!t.convolution)
        return;
    bool bias = t.convolution->weights[1] != LM_NONE;
    lm_let_fact(d, "taps", "n_c", _("positions that an output reads"), "states.convolution.taps");
    lm_let_fact(d, "width", "D_c", _("dimensions of the convolution"), "states.convolution.width");
    lm_derive(d, "weights", _("weights of a layer's convolution"), LM_UNIT_PARAMETERS, NULL,
              bias ? "taps * width + width" : "taps * width");
    lm_derive(d, "operations", _("operations of one token"), LM_UNIT_FLOPS, NULL,
              bias ? "2 * taps * width + width" : "2 * taps * width");
    lm_derive(d, "state", _("state: the rows before the current one"), LM_UNIT_ELEMENTS, NULL,
              "(taps - 1) * width");
    derive_all_states(d);
}

void lm_derive_recurrence(lm_derivation *d)
{
    lm_traits t;

    lm_find_traits(d->f->ledger, &t);
    if (!t.recurrence)
        return;
    bool delta = t.recurrence->recurrence.spec.delta;
    lm_let_fact(d, "state_heads", "H_S", _("heads with a state"), "states.recurrence.heads");
    lm_let_fact(d, "key_dim", "K_S", _("rows of a head's state"), "states.recurrence.key_dim");
    lm_let_fact(d, "value_dim", "V_S", _("columns of a head's state"), "states.recurrence.value_dim");
    lm_derive(d, "state", _("state of a layer"), LM_UNIT_ELEMENTS, NULL, "state_heads * key_dim * value_dim");
    lm_derive(d, "operations",
              delta ? _("operations of one token: decay, what the state returns, update, output")
                    : _("operations of one token: decay, update, output"),
              LM_UNIT_FLOPS, NULL,
              delta ? "state_heads * (7 * key_dim * value_dim + 2 * value_dim)"
                    : "state_heads * (5 * key_dim * value_dim + value_dim)");
    derive_all_states(d);
}

void lm_derive_scan(lm_derivation *d)
{
    lm_traits t;

    lm_find_traits(d->f->ledger, &t);
    if (!t.scan)
        return;
    lm_let_fact(d, "width", "D_S", _("dimensions with a state"), "states.scan.width");
    lm_let_fact(d, "entries", "N_S", _("numbers that a dimension carries"), "states.scan.entries");
    lm_derive(d, "state", _("state of a layer"), LM_UNIT_ELEMENTS, NULL, "width * entries");
    lm_derive(d, "operations", _("operations of one token: decay, update, output"), LM_UNIT_FLOPS, NULL,
              "9 * width * entries + width");
    derive_all_states(d);
}

void lm_derive_gated(lm_derivation *d)
{
    lm_traits t;

    lm_find_traits(d->f->ledger, &t);
    if (!t.gated)
        return;
    lm_let_fact(d, "width", "D_S", _("dimensions with a state"), "states.gated.width");
    lm_derive(d, "operations", _("operations of one token: decay, update"), LM_UNIT_FLOPS, NULL, "13 * width");
    derive_all_states(d);
}
