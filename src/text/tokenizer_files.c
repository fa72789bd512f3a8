/* tokenizer_files.c - the model of tokenizer.json, its added tokens, and the files next to it. */
#include "text/tokenizer_files.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "text/ends.h"
#include "text/json_members.h"
#include "text/tokenizer_parts.h"
#include "text/vocab_spec.h"

/* ---- vocabulary and merges ---- */
static lm_status read_vocab(lm_tokenizer *t, const json_t *vocab, const char *where, lm_error *e)
{
    const char *key;
    json_t     *value;
    size_t      size;
    uint32_t id;

    json_object_keylen_foreach((json_t *)vocab, key, size, value)
    {
        if (!lm_whole_number(value, LM_MAX_VOCAB - 1, &id))
            return lm_fail(e, LM_BAD_MODEL, where, LM_NO_OFFSET,
                           "the id of '%s' is not an integer from 0 to %d", key, LM_MAX_VOCAB - 1);
        LM_TRY(lm_vocab_add(&t->vocab, id, (lm_view){ key, size }, LM_PIECE_NORMAL, where, e));
    }
    return LM_OK;
}

static lm_status no_such_piece(uint32_t i, lm_view piece, const char *where, lm_error *e)
{
    return lm_fail(e, LM_BAD_MODEL, where, LM_NO_OFFSET, "merge %u: '%.*s' is not in the vocabulary", i,
                   (int)(piece.size < 128 ? piece.size : 128), piece.data);
}

static lm_status add_merge(lm_tokenizer *t, uint32_t i, lm_view left, lm_view right, lm_text *both,
                           const char *where, lm_error *e)
{
    lm_token a = lm_vocab_find(&t->vocab, left), b = lm_vocab_find(&t->vocab, right);

    if (a < 0 || b < 0)
        return no_such_piece(i, a < 0 ? left : right, where, e);
    lm_text_clear(both);
    lm_text_add_view(both, left);
    lm_text_add_view(both, right);
    if (both->failed)
        return lm_fail_memory(e, "a merge", left.size + right.size);
    lm_token c = lm_vocab_find(&t->vocab, lm_text_view(both));
    if (c < 0)
        return no_such_piece(i, lm_text_view(both), where, e);
    lm_bpe_add(&t->bpe, (uint32_t)a, (uint32_t)b, i, (uint32_t)c);
    return LM_OK;
}

/* Split "left right", which contains exactly one space. */
static bool cut_merge(lm_view merge, lm_view *left, lm_view *right)
{
    const char *space = merge.size ? memchr(merge.data, ' ', merge.size) : NULL;

    if (!space)
        return false;
    *left  = (lm_view){ merge.data, (size_t)(space - merge.data) };
    *right = (lm_view){ space + 1, merge.size - left->size - 1 };
    return left->size && right->size && !memchr(right->data, ' ', right->size);
}

static lm_view view_of(const json_t *s)
{
    return json_is_string(s) ? (lm_view){ json_string_value(s), json_string_length(s) } : (lm_view){ 0 };
}

static lm_status read_merges(lm_tokenizer *t, const json_t *merges, const char *where, lm_error *e)
{
    lm_text    both   = { 0 };
    lm_status status = LM_OK;
    size_t    n      = json_array_size(merges);

    if (n > UINT32_MAX / 8)
        return lm_fail(e, LM_BAD_MODEL, where, LM_NO_OFFSET, "%zu merges", n);
    LM_TRY(lm_bpe_reserve(&t->bpe, (uint32_t)n, e));
    for (uint32_t i = 0; i < n && status == LM_OK; i++) {
        const json_t *m    = json_array_get(merges, i);
        lm_view       left = view_of(json_array_get(m, 0)), right = view_of(json_array_get(m, 1));
        bool          good = json_is_array(m) ? json_array_size(m) == 2 && left.size && right.size
                                              : cut_merge(view_of(m), &left, &right);

        status = good ? add_merge(t, i, left, right, &both, where, e)
                      : lm_fail(e, LM_BAD_MODEL, where, LM_NO_OFFSET, "merge %u is not two pieces", i);
    }
    lm_text_free(&both);
    return status;
}

static lm_status no_affix(const json_t *model, const char *key, lm_error *e)
{
    lm_view v;

    LM_TRY(lm_member_text(model, "/model", key, &v, e));
    if (v.size)
        return lm_fail(e, LM_UNSUPPORTED, "/model", LM_NO_OFFSET, "'%s' is '%.*s': not supported", key,
                       (int)v.size, v.data);
    return LM_OK;
}

static lm_status read_model(lm_tokenizer *t, const json_t *model, lm_error *e)
{
    const json_t *vocab, *merges;
    lm_view       unknown;
    const char   *type = lm_member_type(model);

    if (!json_is_object(model))
        return lm_fail(e, LM_BAD_MODEL, "/model", LM_NO_OFFSET, "missing; not a tokenizer.json");
    if (strcmp(type, "BPE") != 0 && (*type || !json_object_get(model, "merges")))
        return lm_fail(e, LM_UNSUPPORTED, "/model", LM_NO_OFFSET, "the kind '%s' is not supported", type);
    LM_TRY(lm_member_object(model, "/model", "vocab", &vocab, e));
    LM_TRY(lm_member_array(model, "/model", "merges", &merges, e));
    if (!vocab || !merges)
        return lm_member_wrong("/model", vocab ? "merges" : "vocab", "there", e);
    LM_TRY(no_affix(model, "continuing_subword_prefix", e));
    LM_TRY(no_affix(model, "end_of_word_suffix", e));
    LM_TRY(read_vocab(t, vocab, "/model/vocab", e));
    lm_bpe_init(&t->bpe, &t->vocab);
    LM_TRY(lm_member_text(model, "/model", "unk_token", &unknown, e));
    if (unknown.data) {
        t->bpe.unknown = lm_vocab_find(&t->vocab, unknown);
        if (t->bpe.unknown < 0)
            return lm_fail(e, LM_BAD_MODEL, "/model/unk_token", LM_NO_OFFSET,
                           "'%.*s' is not in the vocabulary", (int)unknown.size, unknown.data);
    }
    LM_TRY(lm_member_bool(model, "/model", "fuse_unk", false, &t->bpe.fuse_unknown, e));
    LM_TRY(lm_member_bool(model, "/model", "byte_fallback", false, &t->bpe.byte_fallback, e));
    LM_TRY(lm_member_bool(model, "/model", "ignore_merges", false, &t->bpe.ignore_merges, e));
    return read_merges(t, merges, "/model/merges", e);
}

/* ---- added tokens ---- */
typedef struct added_list { lm_added *list; bool *normalized; uint32_t n, capacity; } added_list;

static lm_status room_for(added_list *a, size_t n, lm_error *e)
{
    if (n > LM_MAX_VOCAB)
        return lm_fail(e, LM_BAD_MODEL, "/added_tokens", LM_NO_OFFSET, "%zu added tokens", n);
    a->list       = lm_alloc_zero(n + 1, sizeof *a->list);
    a->normalized = lm_alloc_zero(n + 1, sizeof *a->normalized);
    a->capacity   = (uint32_t)n;
    return a->list && a->normalized ? LM_OK : lm_fail_memory(e, "the added tokens", n * sizeof *a->list);
}

/* Add a token of the vocabulary, or a new one. `flags` has single_word, lstrip, rstrip, normalized,
 * special. */
static lm_status add_token(lm_tokenizer *t, added_list *a, uint32_t id, lm_view text, const json_t *flags,
                           bool special, lm_error *e)
{
    const char *where = "/added_tokens";
    lm_token    known = lm_vocab_find(&t->vocab, text);
    lm_added   *one   = &a->list[a->n];

    LM_TRY(lm_member_bool(flags, where, "special", special, &special, e));
    if (known < 0) {
        LM_TRY(lm_vocab_add(&t->vocab, id, text, special ? LM_PIECE_CONTROL : LM_PIECE_USER, where, e));
        known                            = (lm_token)id;
        t->vocab.pieces[known].outside = true;
    }
    lm_vocab_piece *p = &t->vocab.pieces[known];
    p->type     = special ? LM_PIECE_CONTROL : LM_PIECE_USER;
    p->special |= special;
    *one        = (lm_added){ .text = { p->text, p->size }, .id = known, .special = special };
    LM_TRY(lm_member_bool(flags, where, "single_word", false, &one->single_word, e));
    LM_TRY(lm_member_bool(flags, where, "lstrip", false, &one->lstrip, e));
    LM_TRY(lm_member_bool(flags, where, "rstrip", false, &one->rstrip, e));
    LM_TRY(lm_member_bool(flags, where, "normalized", !special, &a->normalized[a->n], e));
    a->n++;
    return LM_OK;
}

/* Read the list of tokenizer.json; `more` tokens will follow. */
static lm_status read_added(lm_tokenizer *t, const json_t *tokens, size_t more, added_list *a, lm_error *e)
{
    const json_t *item;
    lm_view       text;
    uint32_t      id;
    size_t        i;

    LM_TRY(room_for(a, json_array_size(tokens) + more, e));
    json_array_foreach(tokens, i, item)
    {
        LM_TRY(lm_member_text(item, "/added_tokens", "content", &text, e));
        if (!lm_whole_number(json_object_get(item, "id"), LM_MAX_VOCAB - 1, &id) || !text.size)
            return lm_fail(e, LM_BAD_MODEL, "/added_tokens", LM_NO_OFFSET,
                           "token %zu lacks its id or content", i);
        LM_TRY(add_token(t, a, id, text, item, false, e));
    }
    return LM_OK;
}

/* Read one entry of the configuration's added_tokens_decoder: {id: {content, …}}. */
static lm_status decoder_entry(const char *key, const json_t *value, uint32_t *id, lm_view *text, lm_error *e)
{
    char         *rest;
    unsigned long n = strtoul(key, &rest, 10);

    LM_TRY(lm_member_text(value, "/added_tokens_decoder", "content", text, e));
    *id = (uint32_t)n;
    return *rest || rest == key || n >= LM_MAX_VOCAB || !text->size
               ? lm_fail(e, LM_BAD_MODEL, "/added_tokens_decoder", LM_NO_OFFSET,
                         "'%s' is not an id with its content", key)
               : LM_OK;
}

/* Add the tokens of added_tokens_decoder that tokenizer.json lacks, as transformers does; those without a row
 * of the model, or whose id another token has, are left out. */
static lm_status add_decoder(lm_tokenizer *t, added_list *a, const json_t *decoder, uint32_t rows,
                             lm_error *e)
{
    const char *key;
    json_t     *value;
    lm_view     text;
    uint32_t    id;

    json_object_foreach((json_t *)decoder, key, value)
    {
        LM_TRY(decoder_entry(key, value, &id, &text, e));
        bool     taken = id < t->vocab.n && t->vocab.pieces[id].text;
        lm_token known = lm_vocab_find(&t->vocab, text);
        if (known >= 0 && t->vocab.pieces[known].type != LM_PIECE_NORMAL)
            continue;
        if (known < 0 && (id >= rows || taken)) {
            lm_tokenizer_warn(t, "added_tokens_decoder: '%.*s' is left out: %s %u", (int)text.size, text.data,
                              taken ? "another token has the id" : "the model has no row", id);
            continue;
        }
        LM_TRY(add_token(t, a, id, text, value, false, e));
    }
    return LM_OK;
}

static lm_status set_added(lm_tokenizer *t, added_list *a, lm_status status, lm_error *e)
{
    if (status == LM_OK)
        status = lm_tokenizer_set_added(t, a->list, a->normalized, a->n, e);
    lm_free(a->list);
    lm_free(a->normalized);
    return status;
}

/* ---- tokenizer.json ---- */
static lm_status from_json(lm_tokenizer *t, const json_t *root, const json_t *decoder, uint32_t rows,
                           lm_error *e)
{
    const json_t *model, *added;
    added_list    a = { 0 };

    if (!json_is_object(root))
        return lm_fail(e, LM_BAD_MODEL, NULL, LM_NO_OFFSET, "is not a JSON object");
    LM_TRY(lm_member_object(root, "", "model", &model, e));
    LM_TRY(lm_member_array(root, "", "added_tokens", &added, e));
    LM_TRY(lm_read_normalizer(t, json_object_get(root, "normalizer"), e));
    LM_TRY(lm_read_pre_tokenizer(t, json_object_get(root, "pre_tokenizer"), e));
    LM_TRY(lm_read_decoder(t, json_object_get(root, "decoder"), e));
    LM_TRY(read_model(t, model, e));
    lm_status status = read_added(t, added, json_object_size(decoder), &a, e);
    if (status == LM_OK)
        status = add_decoder(t, &a, decoder, rows, e);
    LM_TRY(set_added(t, &a, status, e));
    LM_TRY(lm_read_post_processor(t, json_object_get(root, "post_processor"), e));
    t->kind = t->decoder.bytelevel   ? "byte-level BPE"
              : t->bpe.byte_fallback ? "BPE with byte fallback"
                                     : "BPE";
    if (t->n_before)
        t->bos = t->before[0];
    return LM_OK;
}

/* ---- vocab.json and merges.txt ---- */
static lm_status read_merge_lines(lm_tokenizer *t, lm_view text, lm_error *e)
{
    lm_text    both   = { 0 };
    lm_status status = LM_OK;
    uint32_t  n = 0, rank = 0, line = 0;

    for (size_t i = 0; i < text.size; i++)
        n += text.data[i] == '\n';
    LM_TRY(lm_bpe_reserve(&t->bpe, n + 1, e));
    for (size_t at = 0; at < text.size && status == LM_OK; line++) {
        const char *end  = memchr(text.data + at, '\n', text.size - at);
        size_t      size = end ? (size_t)(end - text.data) - at : text.size - at;
        lm_view     one  = { text.data + at, size }, left, right;

        at += size + 1;
        if (one.size && one.data[one.size - 1] == '\r')
            one.size--;
        if (one.size == 0 || lm_view_starts(one, LM_VIEW("#version")))
            continue;
        if (!cut_merge(one, &left, &right))
            status = lm_fail(e, LM_BAD_MODEL, "merges.txt", LM_NO_OFFSET, "line %u is not two pieces",
                             line + 1);
        else
            status = add_merge(t, rank++, left, right, &both, "merges.txt", e);
    }
    lm_text_free(&both);
    return status;
}

/* Find the pre-tokenizer of a transformers class that reads these two files. */
static lm_status pre_of_class(lm_view class, const char **name, lm_error *e)
{
    static const struct { const char *prefix, *pre; } classes[] = {
        { "GPT2Tokenizer", "gpt-2" }, { "CodeGenTokenizer", "gpt-2" }, { "Qwen2Tokenizer", "qwen2" },
        { "PreTrainedTokenizerFast", "gpt-2" },
    };

    *name = "gpt-2";
    if (!class.data)
        return LM_OK;
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (lm_view_starts(class, lm_view_of(classes[i].prefix))) {
            *name = classes[i].pre;
            return LM_OK;
        }
    return lm_fail(e, LM_UNSUPPORTED, "/tokenizer_class", LM_NO_OFFSET, "'%.*s' without a tokenizer.json",
                   (int)class.size, class.data);
}

/* Read tokens from added_tokens.json ({content: id}) and from the configuration's added_tokens_decoder ({id:
 * {content, …}}). */
static lm_status read_listed(lm_tokenizer *t, added_list *a, const json_t *added, const json_t *config,
                             lm_error *e)
{
    const json_t *decoder = json_object_get(config, "added_tokens_decoder");
    const char   *key;
    json_t       *value;
    lm_view       text, end = LM_VIEW("<|endoftext|>");
    uint32_t      id;

    LM_TRY(room_for(a, json_object_size(added) + json_object_size(decoder) + 1, e));
    json_object_foreach((json_t *)decoder, key, value)
    {
        LM_TRY(decoder_entry(key, value, &id, &text, e));
        LM_TRY(add_token(t, a, id, text, value, false, e));
    }
    json_object_foreach((json_t *)added, key, value)
    {
        if (!lm_whole_number(value, LM_MAX_VOCAB - 1, &id) || !*key)
            return lm_fail(e, LM_BAD_MODEL, "added_tokens.json", LM_NO_OFFSET,
                           "the id of '%s' is not an integer", key);
        LM_TRY(add_token(t, a, id, lm_view_of(key), NULL, false, e));
    }
    /* GPT-2's own folder does not list its one special token. */
    lm_token known = lm_vocab_find(&t->vocab, end);
    if (a->n == 0 && known >= 0) {
        LM_TRY(add_token(t, a, (uint32_t)known, end, NULL, true, e));
        t->bos = t->eos = known;
    }
    return LM_OK;
}

static lm_status from_vocab_and_merges(lm_tokenizer *t, const json_t *vocab, lm_view merges,
                                       const json_t *added, const json_t *config, lm_error *e)
{
    const char   *name;
    lm_pre_traits traits;
    lm_view       class;
    added_list    a = { 0 };

    if (!json_is_object(vocab))
        return lm_fail(e, LM_BAD_MODEL, "vocab.json", LM_NO_OFFSET, "is not a JSON object");
    LM_TRY(lm_member_text(config, "", "tokenizer_class", &class, e));
    LM_TRY(pre_of_class(class, &name, e));
    LM_TRY(lm_pre_by_name(name, &t->pre, &traits, "pre", e));
    if (traits.nfc)
        LM_TRY(lm_normalizers_add(&t->normalizers, &(lm_normalizer){ .kind = LM_NORMALIZE_NFC }, "normalizer",
                                  e));
    LM_TRY(read_vocab(t, vocab, "vocab.json", e));
    lm_bpe_init(&t->bpe, &t->vocab);
    LM_TRY(read_merge_lines(t, merges, e));
    LM_TRY(set_added(t, &a, read_listed(t, &a, added, config, e), e));
    t->decoder.bytelevel = true;
    t->kind              = "byte-level BPE";
    t->pre_name          = lm_arena_strdup(&t->vocab.arena, name);
    return t->pre_name ? LM_OK : lm_fail_memory(e, "a tokenizer", 16);
}

/* ---- other files ---- */
/* Return a named token, which is a string or an object with its "content". -1: none. */
static lm_token named_token(const lm_tokenizer *t, const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);

    if (json_is_object(v))
        v = json_object_get(v, "content");
    return lm_vocab_find(&t->vocab, view_of(v));
}

static void name_tokens(lm_tokenizer *t, const json_t *o)
{
    lm_token bos = named_token(t, o, "bos_token"), eos = named_token(t, o, "eos_token");

    if (bos >= 0)
        t->bos = bos;
    if (eos >= 0) {
        t->eos         = eos;
        t->ends_listed = LM_ENDS_ALL;
    }
}

/* Apply add_bos_token and add_eos_token: what the model's class adds beyond the post-processor. The classes
 * of Llama and Gemma rebuild the post-processor from them, so for these a false add_bos_token counts too. */
static lm_status read_config(lm_tokenizer *t, const json_t *config, lm_error *e)
{
    lm_view class;
    bool    bos, eos, rebuilds;

    LM_TRY(lm_member_text(config, "", "tokenizer_class", &class, e));
    rebuilds = class.data &&
               (lm_view_starts(class, LM_VIEW("Llama")) || lm_view_starts(class, LM_VIEW("CodeLlama")) ||
                lm_view_starts(class, LM_VIEW("Gemma")));
    LM_TRY(lm_member_bool(config, "", "add_bos_token", t->n_before > 0, &bos, e));
    LM_TRY(lm_member_bool(config, "", "add_eos_token", t->n_after > 0, &eos, e));
    if (!bos && rebuilds && t->n_before == 1 && t->before[0] == t->bos)
        t->n_before = 0;
    if (bos && t->bos >= 0 && t->n_before == 0)
        LM_TRY(lm_tokenizer_surround(t, false, t->bos, e));
    if (eos && t->eos >= 0 && t->n_after == 0)
        LM_TRY(lm_tokenizer_surround(t, true, t->eos, e));
    return LM_OK;
}

/* Return the rows of the model's embedding, or 0 if config.json does not have the number. */
static uint32_t rows_of(const json_t *model)
{
    const json_t *rows = json_object_get(model, "vocab_size");
    uint32_t      n;

    if (!rows)
        rows = json_object_get(json_object_get(model, "text_config"), "vocab_size");
    return lm_whole_number(rows, LM_MAX_VOCAB, &n) ? n : 0;
}

/* ---- all files ---- */
enum { TOKENIZER, CONFIG, SPECIAL_MAP, GENERATION, MODEL, VOCAB, ADDED, DOCUMENTS };

static const char *const document_names[] = {
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "generation_config.json", "config.json", "vocab.json",
    "added_tokens.json",
};

static lm_status make(lm_tokenizer *t, json_t *const doc[DOCUMENTS], lm_view merges,
                      const lm_tokenizer_options *o, lm_error *e)
{
    uint32_t rows = rows_of(doc[MODEL]);

    if (doc[TOKENIZER])
        LM_TRY(from_json(t, doc[TOKENIZER], json_object_get(doc[CONFIG], "added_tokens_decoder"),
                         rows ? rows : LM_MAX_VOCAB, e));
    else
        LM_TRY(from_vocab_and_merges(t, doc[VOCAB], merges, doc[ADDED], doc[CONFIG], e));
    name_tokens(t, doc[SPECIAL_MAP]);
    name_tokens(t, doc[CONFIG]);
    LM_TRY(read_config(t, doc[CONFIG], e));
    LM_TRY(lm_tokenizer_pad(t, rows, e));
    lm_tokenizer_list_ends(t, doc[GENERATION]);
    lm_tokenizer_list_ends(t, doc[MODEL]);
    return lm_tokenizer_finish(t, o, e);
}

lm_status lm_tokenizer_from_files(const lm_tokenizer_files *f, const lm_tokenizer_options *o,
                                  lm_tokenizer **out, lm_error *e)
{
    const lm_view views[DOCUMENTS] = { f->tokenizer, f->config, f->special_map, f->generation, f->model,
                                       f->tokenizer.data ? (lm_view){ 0 } : f->vocab, f->added };
    json_t       *doc[DOCUMENTS]   = { 0 };
    lm_tokenizer *t                = NULL;
    lm_status     status           = LM_OK;

    *out = NULL;
    if (!f->tokenizer.data && (!f->vocab.data || !f->merges.data))
        return LM_OK;
    for (unsigned i = 0; i < DOCUMENTS; i++)
        if (views[i].data)
            LM_TRY_GOTO(status, lm_document_parse(views[i], document_names[i], &doc[i], e), done);
    LM_TRY_GOTO(status, lm_tokenizer_new(1 << 17, &t, e), done);
    LM_TRY_GOTO(status, make(t, doc, f->merges, o, e), done);
    *out = t;
    t    = NULL;
done:
    lm_tokenizer_free(t);
    for (unsigned i = 0; i < DOCUMENTS; i++)
        json_decref(doc[i]);
    if (status != LM_OK && e && !e->file[0])
        lm_fail_in(e, f->folder);
    return status;
}
