/* tokenizerjson.c - write tokenizer.json for byte-level BPE in the format of the tokenizers library. */
#include "export/vocabulary/tokenizerjson.h"

static json_t *text(lm_view v)
{
    return json_stringn(v.data, v.size);
}

static json_t *special(const lm_invented *v, uint32_t id)
{
    return json_pack("{s:i, s:o, s:b, s:b, s:b, s:b, s:b}", "id", (int)id, "content", text(v->tokens[id]),
                     "single_word", 0, "lstrip", 0, "rstrip", 0, "normalized", 0, "special", 1);
}

static json_t *byte_level(void)
{
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1,
                     "use_regex", 1);
}

/* Put the beginning-of-text token before each text. */
static json_t *begin(const lm_invented *v)
{
    lm_view b = v->tokens[v->bos];

    return json_pack(
        "{s:s, s:[{s:{s:o, s:i}}, {s:{s:s, s:i}}], s:[{s:{s:s, s:i}}], s:{s%:{s:o, s:[i], s:[o]}}}", "type",
        "TemplateProcessing", "single", "SpecialToken", "id", text(b), "type_id", 0, "Sequence", "id", "A",
        "type_id", 0, "pair", "Sequence", "id", "A", "type_id", 0, "special_tokens", b.data, b.size, "id",
        text(b), "ids", (int)v->bos, "tokens", text(b));
}

json_t *lm_tokenizer_json(const lm_invented *v)
{
    json_t *vocabulary = json_object(), *merges = json_array(), *added = json_array();

    for (uint32_t i = 0; i < v->n; i++)
        json_object_setn_new(vocabulary, v->tokens[i].data, v->tokens[i].size, json_integer(i));
    for (uint32_t i = 0; i < v->n_merges; i++)
        json_array_append_new(merges, text(v->merges[i]));
    for (uint32_t i = 0; i < v->n; i++)
        if (v->types[i] == LM_CONTROL_TOKEN)
            json_array_append_new(added, special(v, i));
    return json_pack(
        "{s:s, s:n, s:n, s:o, s:n, s:o, s:o, s:o, s:{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:o, s:o}}",
        "version", "1.0", "truncation", "padding", "added_tokens", added, "normalizer", "pre_tokenizer",
        byte_level(), "post_processor", begin(v), "decoder", byte_level(), "model", "type", "BPE", "dropout",
        "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0, "byte_fallback", 0,
        "vocab", vocabulary, "merges", merges);
}

json_t *lm_tokenizer_config_json(const lm_invented *v)
{
    return json_pack("{s:s, s:o, s:o, s:b}", "tokenizer_class", "PreTrainedTokenizerFast", "bos_token",
                     text(v->tokens[v->bos]), "eos_token", text(v->tokens[v->eos]),
                     "clean_up_tokenization_spaces", 0);
}
