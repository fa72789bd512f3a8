/* foldervocab.c - create tokenizer.json from the token lists of a GGUF file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/jsontext.h"
#include "base/map.h"
#include "export/vocabulary/folderends.h"
#include "export/vocabulary/folderfiles.h"
#include "export/vocabulary/ggufspec.h"
#include "export/vocabulary/probes.h"
#include "text/tokenizer_files.h"

#define MARK "\xE2\x96\x81"

static json_t *text(lm_view v)
{
    return json_stringn(v.data, v.size);
}

static int32_t type_of(const lm_vocab_spec *s, uint32_t id)
{
    return s->types ? s->types[id] : LM_PIECE_NORMAL;
}

/* Return whether a token is the padding that converters write for rows without a token. */
static bool is_padding(const lm_vocab_spec *s, uint32_t id)
{
    char pad[24];

    snprintf(pad, sizeof pad, "[PAD%u]", id);
    return type_of(s, id) == LM_PIECE_UNUSED && lm_view_is(s->tokens[id], pad);
}

static json_t *added_token(lm_view content, uint32_t id, bool special)
{
    return json_pack("{s:i, s:o, s:b, s:b, s:b, s:b, s:b}", "id", (int)id, "content", text(content),
                     "single_word", 0, "lstrip", 0, "rstrip", 0, "normalized", 0, "special", special);
}

static void sort_tokens(const lm_vocab_spec *s, bool bytes, json_t *vocabulary, json_t *added)
{
    for (uint32_t id = 0; id < s->n; id++) {
        int32_t type = type_of(s, id);
        bool apart = type == LM_PIECE_CONTROL || type == LM_PIECE_USER || (type == LM_PIECE_UNKNOWN && bytes);
        if (is_padding(s, id))
            continue;
        if (apart || type == LM_PIECE_UNKNOWN)
            json_array_append_new(added, added_token(s->tokens[id], id, type != LM_PIECE_USER));
        if (!apart || !bytes)
            json_object_setn_new(vocabulary, s->tokens[id].data, s->tokens[id].size, json_integer(id));
    }
}

/* ---- tokens around a text ---- */

static json_t *special_of(const lm_vocab_spec *s, int64_t id)
{
    return json_pack("{s:{s:o, s:i}}", "SpecialToken", "id", text(s->tokens[id]), "type_id", 0);
}

static json_t *post_processor(const lm_vocab_spec *s, bool bos, bool eos)
{
    json_t *single = json_array(), *pair = json_array(), *tokens = json_object();

    for (int second = 0; second < 2; second++) {
        json_t *list = second ? pair : single;
        for (int k = 0; k <= second; k++) {
            if (bos)
                json_array_append_new(list, special_of(s, s->bos));
            json_array_append_new(list,
                                  json_pack("{s:{s:s, s:i}}", "Sequence", "id", k ? "B" : "A", "type_id", k));
            if (eos)
                json_array_append_new(list, special_of(s, s->eos));
        }
    }
    for (int k = 0; k < 2; k++) {
        int64_t id = k ? s->eos : s->bos;
        if (k ? eos : bos)
            json_object_setn_new(tokens, s->tokens[id].data, s->tokens[id].size,
                                 json_pack("{s:o, s:[i], s:[o]}", "id", text(s->tokens[id]), "ids", (int)id,
                                           "tokens", text(s->tokens[id])));
    }
    return json_pack("{s:s, s:o, s:o, s:o}", "type", "TemplateProcessing", "single", single, "pair", pair,
                     "special_tokens", tokens);
}

/* ---- byte-level BPE ---- */

static json_t *byte_level(bool regex)
{
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1,
                     "use_regex", regex);
}

static json_t *pre_tokenizer(const char *pre)
{
    json_t *stages = json_array();
    int     digits = lm_pre_digits(pre);

    if (lm_pre_is_plain(pre)) {
        json_decref(stages);
        return byte_level(true);
    }
    json_t *one_by_one = json_pack("{s:s, s:b}", "type", "Digits", "individual_digits", 1);
    if (digits < 0)
        json_array_append(stages, one_by_one);
    for (size_t i = 0; lm_pre_pattern(pre, i); i++)
        json_array_append_new(stages,
                              json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex",
                                        lm_pre_pattern(pre, i), "behavior", "Isolated", "invert", 0));
    if (digits > 0)
        json_array_append(stages, one_by_one);
    json_decref(one_by_one);
    json_array_append_new(stages, byte_level(false));
    return json_pack("{s:s, s:o}", "type", "Sequence", "pretokenizers", stages);
}

static json_t *listed_merges(const lm_vocab_spec *s)
{
    json_t *merges = json_array();

    for (uint32_t i = 0; i < s->n_merges; i++)
        json_array_append_new(merges, text(s->merges[i]));
    return merges;
}

/* ---- SentencePiece ---- */

typedef struct pair { lm_view left, right; float score; uint32_t l, r; } pair;

/* The order in which transformers derives merges from scores. */
static int by_score(const void *a, const void *b)
{
    const pair *x = a, *y = b;

    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    if (x->left.size != y->left.size)
        return x->left.size > y->left.size ? -1 : 1;
    if (x->right.size != y->right.size)
        return x->right.size > y->right.size ? -1 : 1;
    return x->l != y->l ? (x->l < y->l ? -1 : 1) : x->r < y->r ? -1 : 1;
}

typedef struct pair_list { pair *at; size_t n, capacity; } pair_list;

static bool add_pair(pair_list *list, pair x)
{
    if (list->n == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 1 << 16;
        pair  *grown    = lm_realloc(list->at, capacity * sizeof *grown);
        if (!grown)
            return false;
        *list = (pair_list){ grown, list->n, capacity };
    }
    list->at[list->n++] = x;
    return true;
}

/* Two adjacent tokens merge if their joined text is a token: add every way to split a token in two. */
static bool add_splits(const lm_vocab_spec *s, uint32_t id, const lm_map *ids, pair_list *list)
{
    lm_view  t = s->tokens[id];
    uint64_t l, r;

    for (size_t at = 1; at < t.size; at++) {
        lm_view left = { t.data, at }, right = { t.data + at, t.size - at };
        bool    character = ((unsigned char)t.data[at] & 0xC0) != 0x80;
        if (character && lm_map_get(ids, left, &l) && lm_map_get(ids, right, &r) &&
            !add_pair(list, (pair){ left, right, s->scores ? s->scores[id] : 0, (uint32_t)l, (uint32_t)r }))
            return false;
    }
    return true;
}

static json_t *scored_merges(const lm_vocab_spec *s, lm_error *e)
{
    lm_map   *ids  = lm_map_new(s->n + 1);
    pair_list list = { 0 };
    bool      good = ids != NULL;

    for (uint32_t id = 0; good && id < s->n; id++)
        if (type_of(s, id) == LM_PIECE_NORMAL || type_of(s, id) == LM_PIECE_USER)
            lm_map_set(ids, s->tokens[id], id);
    for (uint32_t id = 0; good && id < s->n; id++)
        if (type_of(s, id) == LM_PIECE_NORMAL)
            good = add_splits(s, id, ids, &list);
    json_t *merges = good ? json_array() : NULL;
    if (merges)
        qsort(list.at, list.n, sizeof *list.at, by_score);
    for (size_t i = 0; merges && i < list.n; i++)
        json_array_append_new(merges, json_pack("[o, o]", text(list.at[i].left), text(list.at[i].right)));
    lm_map_free(ids);
    lm_free(list.at);
    if (!merges)
        lm_fail_memory(e, "the merges", list.n * sizeof *list.at);
    return merges;
}

static json_t *sentencepiece_normalizer(bool prefix)
{
    json_t *steps = json_array();

    if (prefix)
        json_array_append_new(steps, json_pack("{s:s, s:s}", "type", "Prepend", "prepend", MARK));
    json_array_append_new(steps, json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", "String", " ",
                                           "content", MARK));
    return json_pack("{s:s, s:o}", "type", "Sequence", "normalizers", steps);
}

static json_t *sentencepiece_decoder(bool prefix)
{
    json_t *steps = json_pack("[{s:s, s:{s:s}, s:s}, {s:s}, {s:s}]", "type", "Replace", "pattern", "String",
                              MARK, "content", " ", "type", "ByteFallback", "type", "Fuse");

    if (prefix)
        json_array_append_new(steps, json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip", "content", " ",
                                               "start", 1, "stop", 0));
    return json_pack("{s:s, s:o}", "type", "Sequence", "decoders", steps);
}

/* ---- tokenizer.json and tokenizer_config.json ---- */

static lm_status make(const lm_vocab_spec *s, const lm_tokenizer *t, json_t **out, lm_error *e)
{
    bool          bytes  = strcmp(s->model, lm_vocab_kind(true)) == 0,
                  scored = strcmp(s->model, lm_vocab_kind(false)) == 0,
                  prefix = scored && s->add_space_prefix != 0;
    lm_pre_traits traits = { 0 };
    json_t       *merges = scored ? scored_merges(s, e) : listed_merges(s);

    if (!merges)
        return LM_NO_MEMORY;
    if (bytes) {
        lm_pretokenizer *p = lm_alloc_zero(1, sizeof *p);
        if (p) {
            lm_pre_by_name(s->pre ? s->pre : "default", p, &traits, "pre", NULL);
            lm_pretokenizer_free(p);
        }
        lm_free(p);
    }
    json_t *vocabulary = json_object(), *added = json_array();
    sort_tokens(s, bytes, vocabulary, added);
    lm_token unknown = bytes ? -1 : t->bpe.unknown;
    bool     bos = t->n_before > 0, eos = t->n_after > 0;
    lm_vocab_spec around = *s;
    around.bos           = t->bos;
    around.eos           = t->eos;
    json_t *model = json_pack("{s:s, s:n, s:o, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout",
                              "unk_token", unknown >= 0 ? text(s->tokens[unknown]) : json_null(),
                              "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", !bytes,
                              "byte_fallback", !bytes, "ignore_merges", traits.ignore_merges, "vocab",
                              vocabulary, "merges", merges);
    *out = json_pack("{s:s, s:n, s:n, s:o, s:o, s:o, s:o, s:o, s:o}", "version", "1.0", "truncation",
                     "padding", "added_tokens", added, "normalizer",
                     bytes ? (traits.nfc ? json_pack("{s:s}", "type", "NFC") : json_null())
                           : sentencepiece_normalizer(prefix),
                     "pre_tokenizer", bytes ? pre_tokenizer(s->pre ? s->pre : "default") : json_null(),
                     "post_processor", bos || eos ? post_processor(&around, bos, eos) : json_null(),
                     "decoder", bytes ? byte_level(true) : sentencepiece_decoder(prefix), "model", model);
    return *out ? LM_OK : lm_fail_memory(e, "tokenizer.json", s->n);
}

static void name(json_t *config, const lm_vocab_spec *s, const char *key, int64_t id)
{
    if (id >= 0 && id < s->n)
        json_object_set_new(config, key, text(s->tokens[id]));
}

/* A single template is stored as a string, several as a list. */
static void add_templates(const lm_meta *m, json_t *config)
{
    json_t       *list = json_array();
    lm_meta_value v;
    lm_view       key;

    for (size_t i = 0; lm_meta_entry(m, i, &key, &v); i++) {
        if (v.kind != LM_META_STRING || !lm_view_starts(key, LM_VIEW("tokenizer.chat_template")))
            continue;
        bool own = lm_view_is(key, "tokenizer.chat_template");
        if (own || (key.size > 24 && key.data[23] == '.'))
            json_array_append_new(list, json_pack("{s:o, s:o}", "name", own ? json_string("default")
                                                  : json_stringn(key.data + 24, key.size - 24),
                                                  "template", text(v.s)));
    }
    const json_t *first = json_array_get(list, 0);
    if (json_array_size(list) == 1 &&
        strcmp(json_string_value(json_object_get(first, "name")), "default") == 0)
        json_object_set(config, "chat_template", json_object_get(first, "template"));
    else if (first)
        json_object_set(config, "chat_template", list);
    json_decref(list);
}

static json_t *config_of(const lm_meta *m, const lm_vocab_spec *s, const lm_tokenizer *t)
{
    json_t *config = json_pack("{s:s, s:b}", "tokenizer_class", "PreTrainedTokenizerFast",
                               "clean_up_tokenization_spaces", 0);
    lm_meta_value v;

    name(config, s, "bos_token", t->bos);
    name(config, s, "eos_token", t->eos);
    name(config, s, "unk_token", s->unknown);
    if (lm_meta_get(m, "tokenizer.ggml.padding_token_id", &v) && v.kind == LM_META_UINT)
        name(config, s, "pad_token", (int64_t)v.u);
    add_templates(m, config);
    return config;
}

/* Check that the two documents, read as those of a folder, give the ids of the file. */
static lm_status check(const lm_tokenizer *t, const json_t *tokenizer, const json_t *config, lm_error *e)
{
    lm_text            texts[2] = { { 0 }, { 0 } };
    lm_tokenizer_files f        = { .folder = "tokenizer.json" };
    lm_tokenizer      *made     = NULL;
    bool               same     = false, printed = lm_json_print(tokenizer, JSON_COMPACT, &texts[0]) &&
        lm_json_print(config, JSON_COMPACT, &texts[1]);

    f.tokenizer      = lm_text_view(&texts[0]);
    f.config         = lm_text_view(&texts[1]);
    lm_status status = printed ? lm_tokenizer_from_files(&f, NULL, &made, e)
                               : lm_fail_memory(e, "tokenizer.json", 0);
    if (status == LM_OK)
        status = lm_probe_tokenizers(t, made, &same, e);
    if (status == LM_OK && !same)
        status = lm_fail(e, LM_UNSUPPORTED, "tokenizer", LM_NO_OFFSET,
                         "as tokenizer.json it would give other ids");
    lm_tokenizer_free(made);
    lm_text_free(&texts[0]);
    lm_text_free(&texts[1]);
    return status;
}

lm_status lm_folder_tokenizer(const lm_meta *m, lm_text *notes, json_t **tokenizer, json_t **config,
                              json_t **ends, lm_error *e)
{
    lm_arena      arena = { 0 };
    lm_vocab_spec s;
    lm_tokenizer *t      = NULL;
    lm_error      why    = { 0 };
    lm_status     status = lm_gguf_vocabulary(m, &arena, &s, e);

    *tokenizer = *config = *ends = NULL;
    if (status == LM_OK && !s.model) {
        lm_text_add_str(notes, "the file has no vocabulary: the folder has no tokenizer\n");
    } else if (status == LM_OK && (status = lm_tokenizer_from_spec(&s, NULL, &t, &why)) == LM_UNSUPPORTED) {
        lm_text_printf(notes, "the tokenizer is not carried: %s: %s\n", why.where, why.message);
        status = LM_OK;
    } else if (status == LM_OK) {
        status = make(&s, t, tokenizer, e);
        if (status == LM_OK) {
            *config = config_of(m, &s, t);
            status  = check(t, *tokenizer, *config, e);
        }
    } else if (e && why.code != LM_OK) {
        *e = why;
    }
    if (status == LM_OK)
        *ends = lm_ends_of_file(m, t);
    lm_tokenizer_free(t);
    lm_arena_free(&arena);
    if (status != LM_OK) {
        json_decref(*tokenizer);
        json_decref(*config);
        *tokenizer = *config = NULL;
        lm_fail_in(e, lm_meta_file(m));
    }
    return status;
}
