/* cards.c - find cards by topic or alias. */
#include <string.h>

#include "study/explain/cards.h"

static const lm_card_list *const lists[] = { &lm_cards_of_models, &lm_cards_of_running,
                                             &lm_cards_of_layers, &lm_cards_of_positions,
                                             &lm_cards_of_states };

/* Aliases. If one has several topics, the model decides; `example`: a preset with the named feature, if that
 * of the topic lacks it. */
static const struct {
    const char *alias, *topics[4], *example;
} aliases[] = {
    { "parameters", { "params" }, NULL },
    { "kv-memory", { "kv" }, NULL },
    { "mha", { "attention" }, "gpt2" },
    { "mqa", { "gqa" }, "falcon-7b" },
    { "repeat-kv", { "gqa" }, NULL },
    { "latent", { "mla" }, NULL },
    { "softmax", { "attention" }, NULL },
    { "position", { "learned", "sinusoidal", "rope", "alibi" }, NULL },
    { "positions", { "learned", "sinusoidal", "rope", "alibi" }, NULL },
    { "wpe", { "learned" }, NULL },
    { "rotary", { "rope" }, NULL },
    { "rope-scaling", { "rope" }, NULL },
    { "llama3", { "rope" }, "llama-3.2-1b" },
    { "yarn", { "rope" }, "deepseek-v2-lite" },
    { "ntk", { "rope" }, "llama-3.2-1b" },
    { "longrope", { "rope" }, "phi-3.5-mini" },
    { "mlp", { "mlp", "moe", "swiglu" }, NULL },
    { "ffn", { "mlp", "moe", "swiglu" }, NULL },
    { "feed-forward", { "mlp", "moe", "swiglu" }, NULL },
    { "geglu", { "swiglu" }, "gemma-2-2b" },
    { "glu", { "swiglu" }, NULL },
    { "swish", { "silu" }, NULL },
    { "activation", { "gelu", "relu", "silu" }, NULL },
    { "experts", { "moe" }, NULL },
    { "load", { "router" }, NULL },
    { "routing", { "router" }, NULL },
    { "layernorm", { "norm" }, "gpt2" },
    { "rmsnorm", { "norm" }, NULL },
    { "window", { "swa", "chunks" }, NULL },
    { "dsa", { "sparse" }, NULL },
    { "msa", { "sparse" }, NULL },
    { "indexer", { "sparse" }, NULL },
    { "causal", { "mask" }, NULL },
    { "sinks", { "mask" }, NULL },
    { "bpe", { "tokenizer" }, NULL },
    { "merges", { "tokenizer" }, NULL },
    { "tied", { "tying" }, NULL },
    { "state", { "recurrence", "scan", "rg-lru", "convolution" }, NULL },
    { "conv", { "convolution" }, NULL },
    { "ssm", { "recurrence", "scan" }, NULL },
    { "mamba", { "scan", "recurrence" }, NULL },
    { "selective-scan", { "scan" }, NULL },
    { "griffin", { "rg-lru" }, NULL },
    { "linear-attention", { "recurrence" }, NULL },
    { "delta-rule", { "recurrence" }, NULL },
};

enum { N_ALIASES = sizeof aliases / sizeof *aliases };

const lm_card *lm_card_at(size_t i)
{
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) {
        if (i < lists[k]->n)
            return &lists[k]->cards[i];
        i -= lists[k]->n;
    }
    return NULL;
}

static const lm_card *card_of(const char *topic)
{
    for (size_t i = 0; lm_card_at(i); i++)
        if (strcmp(lm_card_at(i)->topic, topic) == 0)
            return lm_card_at(i);
    return NULL;
}

static bool has(const lm_card *c, const lm_traits *t)
{
    return !c->used || c->used(t);
}

/* Aliases take precedence: "mlp" is a topic, but for a model with gated MLPs it selects the card of gated
 * ones. */
const lm_card *lm_card_named(const char *topic, const lm_traits *t)
{
    for (size_t i = 0; i < N_ALIASES; i++) {
        if (strcmp(aliases[i].alias, topic) != 0)
            continue;
        for (size_t k = 0; t && k < 4 && aliases[i].topics[k]; k++)
            if (has(card_of(aliases[i].topics[k]), t))
                return card_of(aliases[i].topics[k]);
        return card_of(aliases[i].topics[0]);
    }
    return card_of(topic);
}

const char *lm_topic_at(size_t i, const char **summary)
{
    const lm_card *c = lm_card_at(i);

    if (c && summary)
        *summary = c->summary;
    return c ? c->topic : NULL;
}

const char *lm_topic_alias_at(size_t i, const char **topic)
{
    if (i < N_ALIASES && topic)
        *topic = aliases[i].topics[0];
    return i < N_ALIASES ? aliases[i].alias : NULL;
}

const char *lm_topic_example(const char *topic)
{
    if (!topic)
        return NULL;
    for (size_t i = 0; i < N_ALIASES; i++)
        if (strcmp(aliases[i].alias, topic) == 0 && aliases[i].example)
            return aliases[i].example;
    const lm_card *c = lm_card_named(topic, NULL);

    return c ? c->example : NULL;
}
