/* ggufvocab.c - write tokenizers in GGUF form: lists of tokens, types, scores or merges, and the name of the
 * pre-tokenizer. */
#include "export/vocabulary/ggufvocab.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "export/vocabulary/folderends.h"
#include "export/vocabulary/probes.h"
#include "export/vocabulary/sentencepiece.h"
#include "export/keys/templatekeys.h"
#include "text/json_members.h"
#include "text/pre_prints.h"
#include "text/tokenizer_files.h"
#include "text/vocab_spec.h"

#define KEYS "tokenizer.ggml."
#define MARK "\xE2\x96\x81"              /* U+2581, SentencePiece's space */

typedef struct vocabulary {
    lm_container *c;
    lm_arena      arena;
    lm_text      *notes;
    uint32_t      rows;
    lm_tokenizer_files files;
    lm_view       pieces;                /* tokenizer.model */
    json_t       *config, *map, *json, *model, *generation;    /* tokenizer_config.json,
                                                      special_tokens_map.json, tokenizer.json, config.json,
                                                      generation_config.json */
    lm_folder_ends listed;
    lm_tokenizer *t;                     /* of the folder; NULL: made from tokenizer.model alone */
    lm_view      *tokens, *merges;
    int32_t      *types;
    float        *scores;                /* NULL: byte-level BPE */
    uint32_t      n_merges;
    lm_vocab_spec spec;
} vocabulary;

/* ---- files of the folder ---- */

static lm_status text_of(vocabulary *v, const char *name, const char *other, lm_view *out, lm_error *e)
{
    LM_TRY(lm_container_text(v->c, name, out, e));
    return out->data || !other ? LM_OK : lm_container_text(v->c, other, out, e);
}

static lm_status json_of(vocabulary *v, const char *name, json_t **out, lm_error *e)
{
    lm_view text;

    *out = NULL;
    LM_TRY(lm_container_text(v->c, name, &text, e));
    return text.data ? lm_document_parse(text, name, out, e) : LM_OK;
}

static lm_status read_files(vocabulary *v, lm_error *e)
{
    lm_tokenizer_files *f = &v->files;

    f->folder = lm_container_path(v->c);
    LM_TRY(text_of(v, "tokenizer.json", NULL, &f->tokenizer, e));
    if (!f->tokenizer.data) {
        LM_TRY(text_of(v, "vocab.json", "encoder.json", &f->vocab, e));
        LM_TRY(text_of(v, "merges.txt", "vocab.bpe", &f->merges, e));
    }
    LM_TRY(text_of(v, "added_tokens.json", NULL, &f->added, e));
    LM_TRY(text_of(v, "tokenizer_config.json", NULL, &f->config, e));
    LM_TRY(text_of(v, "special_tokens_map.json", NULL, &f->special_map, e));
    LM_TRY(text_of(v, "generation_config.json", NULL, &f->generation, e));
    LM_TRY(text_of(v, "config.json", NULL, &f->model, e));
    LM_TRY(text_of(v, "tokenizer.model", NULL, &v->pieces, e));
    LM_TRY(json_of(v, "tokenizer_config.json", &v->config, e));
    LM_TRY(json_of(v, "special_tokens_map.json", &v->map, e));
    LM_TRY(json_of(v, "tokenizer.json", &v->json, e));
    LM_TRY(json_of(v, "config.json", &v->model, e));
    LM_TRY(json_of(v, "generation_config.json", &v->generation, e));
    lm_folder_ends_listed(v->generation, v->model, v->rows, &v->listed);
    return LM_OK;
}

/* ---- tokens ---- */

/* Return whether a token is special although some folders mark it as normal by mistake. */
static bool looks_special(lm_view t)
{
    static const char *const words[] = { "<pad>", "<mask>", "<2mass>", "[@BOS@]" };

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (lm_view_is(t, words[i]))
            return true;
    return (lm_view_starts(t, LM_VIEW("<|")) && lm_view_ends(t, LM_VIEW("|>"))) ||
           (lm_view_starts(t, LM_VIEW("<\xEF\xBD\x9C")) && lm_view_ends(t, LM_VIEW("\xEF\xBD\x9C>"))) ||
           (lm_view_starts(t, LM_VIEW("<unused")) && lm_view_ends(t, LM_VIEW(">")));
}

/* A user-defined token is stored as it is found in the input text: with spaces. */
static lm_view with_blanks(vocabulary *v, lm_view text)
{
    lm_text out = { 0 };

    for (size_t i = 0; i < text.size;) {
        bool mark = text.size - i >= 3 && memcmp(text.data + i, MARK, 3) == 0;
        lm_text_add(&out, mark ? " " : text.data + i, 1);
        i += mark ? 3 : 1;
    }
    char *copy = out.failed ? NULL : lm_arena_strndup(&v->arena, out.data ? out.data : "", out.size);
    lm_text_free(&out);
    return (lm_view){ copy, copy ? text.size ? strlen(copy) : 0 : 0 };
}

static bool is_byte(lm_view t)
{
    return t.size == 6 && memcmp(t.data, "<0x", 3) == 0 && t.data[5] == '>' && lm_hex_digit(t.data[3]) >= 0 &&
           lm_hex_digit(t.data[4]) >= 0;
}

static lm_status take_piece(vocabulary *v, uint32_t id, lm_error *e)
{
    const lm_vocab_piece *p    = &v->t->vocab.pieces[id];
    lm_view         text = { p->text, p->size };

    v->types[id] = p->type == LM_PIECE_CONTROL || (p->outside && looks_special(text)) ? LM_PIECE_CONTROL
                                                                                      : p->type;
    if (v->types[id] == LM_PIECE_USER)
        text = with_blanks(v, text);
    if (v->scores && v->types[id] != LM_PIECE_USER && (lm_token)id == v->t->bpe.unknown)
        v->types[id] = LM_PIECE_UNKNOWN;
    if (v->scores && v->types[id] == LM_PIECE_NORMAL && is_byte(text))
        v->types[id] = LM_PIECE_BYTE;
    v->tokens[id] = text;
    return text.data ? LM_OK : lm_fail_memory(e, "a vocabulary", p->size);
}

static lm_status take_pieces(vocabulary *v, lm_error *e)
{
    uint32_t known = v->t->vocab.n, lost = 0;

    for (uint32_t id = 0; id < known; id++)
        lost += id >= v->rows && v->t->vocab.pieces[id].text;
    if (lost)
        lm_text_printf(v->notes, "%u token%s of the tokenizer %s beyond the model's %u rows: not carried\n",
                       lost, lost == 1 ? "" : "s", lost == 1 ? "is" : "are", v->rows);
    for (uint32_t id = 0; id < v->rows; id++) {
        if (id < known && v->t->vocab.pieces[id].text) {
            LM_TRY(take_piece(v, id, e));
            continue;
        }
        char *pad = lm_arena_printf(&v->arena, "[PAD%u]", id);
        if (!pad)
            return lm_fail_memory(e, "a vocabulary", v->rows);
        v->tokens[id] = lm_view_of(pad);
        v->types[id]  = LM_PIECE_UNUSED;
        if (v->scores)
            v->scores[id] = -10000;
    }
    return LM_OK;
}

/* ---- merges ---- */

/* List the merges by rank. */
static lm_status list_merges(vocabulary *v, lm_merge ***out, uint32_t *n, lm_error *e)
{
    const lm_bpe *b    = &v->t->bpe;
    uint32_t      max = 0;

    for (uint64_t i = 0; b->merges && i <= b->mask; i++)
        if (b->merges[i].left != UINT32_MAX && b->merges[i].rank >= max)
            max = b->merges[i].rank + 1;
    *out = lm_arena_new(&v->arena, (size_t)max + 1, lm_merge *);
    if (!*out)
        return lm_fail_memory(e, "the merges", max * sizeof **out);
    memset(*out, 0, ((size_t)max + 1) * sizeof **out);
    for (uint64_t i = 0; b->merges && i <= b->mask; i++)
        if (b->merges[i].left != UINT32_MAX)
            (*out)[b->merges[i].rank] = &b->merges[i];
    *n = max;
    return LM_OK;
}

/* Spaces inside a half are written in byte-level BPE spelling, because a space separates the halves. */
static void add_half(lm_text *t, const lm_vocab_piece *p)
{
    for (uint32_t i = 0; i < p->size; i++)
        lm_text_add(t, p->text[i] == ' ' ? "\xC4\xA0" : p->text + i, p->text[i] == ' ' ? 2 : 1);
}

static lm_status write_merges(vocabulary *v, lm_merge *const *list, uint32_t n, lm_error *e)
{
    lm_text one = { 0 };

    v->merges = lm_arena_new(&v->arena, (size_t)n + 1, lm_view);
    for (uint32_t i = 0; v->merges && i < n; i++) {
        if (!list[i])
            continue;
        lm_text_clear(&one);
        add_half(&one, &v->t->vocab.pieces[list[i]->left]);
        lm_text_add_char(&one, ' ');
        add_half(&one, &v->t->vocab.pieces[list[i]->right]);
        char *copy = one.failed ? NULL : lm_arena_strndup(&v->arena, one.data, one.size);
        v->merges[v->n_merges++] = (lm_view){ copy, copy ? one.size : 0 };
        if (!copy)
            break;
    }
    bool good = v->merges && (!v->n_merges || v->merges[v->n_merges - 1].data);
    lm_text_free(&one);
    return good ? LM_OK : lm_fail_memory(e, "the merges", n);
}

/* Earlier merges have higher scores: minus the first rank at which a token is created. */
static void score_by_merges(vocabulary *v, lm_merge *const *list, uint32_t n)
{
    for (uint32_t id = 0; id < v->rows; id++)
        v->scores[id] = 0;
    for (uint32_t i = n; i-- > 0;)
        if (list[i] && list[i]->id < v->rows)
            v->scores[list[i]->id] = -(float)(i + 1);
}

/* ---- special tokens ---- */

static const char *spelled(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);

    if (json_is_object(v))
        v = json_object_get(v, "content");
    return json_string_value(v);
}

static int64_t id_in(const json_t *o, const char *key, uint32_t rows)
{
    const json_t *v = json_object_get(o, key);
    uint32_t      id;

    if (json_is_array(v))
        v = json_array_get(v, 0);
    return rows && lm_whole_number(v, rows - 1, &id) ? (int64_t)id : -1;
}

static int64_t named(const vocabulary *v, const char *text)
{
    lm_token id = -1;

    if (!text)
        return -1;
    if (v->t)
        id = lm_vocab_find(&v->t->vocab, lm_view_of(text));
    for (uint32_t i = 0; !v->t && i < v->rows && id < 0; i++)
        id = lm_view_is(v->tokens[i], text) ? (lm_token)i : -1;
    return id >= 0 && (uint32_t)id < v->rows ? id : -1;
}

/* Find a special token by its spelling in the tokenizer's files, or else by its id in the model's
 * config.json. */
static int64_t special(const vocabulary *v, const char *kind)
{
    char    token[32], number[32];
    int64_t id;

    snprintf(token, sizeof token, "%s_token", kind);
    snprintf(number, sizeof number, "%s_token_id", kind);
    if ((id = named(v, spelled(v->config, token))) < 0 && (id = named(v, spelled(v->map, token))) < 0)
        id = id_in(v->model, number, v->rows);
    return id;
}

static void name_specials(vocabulary *v)
{
    v->spec.bos     = special(v, "bos");
    v->spec.eos     = special(v, "eos");
    v->spec.unknown = v->scores && v->t && v->t->bpe.unknown >= 0 ? v->t->bpe.unknown : special(v, "unk");
    if (v->t && v->spec.bos < 0 && v->t->bos >= 0 && (uint32_t)v->t->bos < v->rows)
        v->spec.bos = v->t->bos;
    if (v->t && v->spec.eos < 0 && v->t->eos >= 0 && (uint32_t)v->t->eos < v->rows)
        v->spec.eos = v->t->eos;
}

/* ---- round-trip check ---- */

static lm_status try_spec(vocabulary *v, bool *same, lm_error *e)
{
    lm_tokenizer *made   = NULL;
    lm_status     status = lm_tokenizer_from_spec(&v->spec, NULL, &made, e);

    *same = false;
    if (status == LM_OK)
        status = lm_probe_tokenizers(v->t, made, same, e);
    lm_tokenizer_free(made);
    return status;
}

/* ---- pre-tokenizers ---- */

static lm_status collect(void *arg, lm_view word, lm_error *e)
{
    lm_text *t = arg;

    (void)e;
    lm_text_add_view(t, word);
    lm_text_add_char(t, '\0');
    return LM_OK;
}

static lm_status words(const lm_pretokenizer *p, lm_text *out, lm_error *e)
{
    lm_pretokenizer_work w = { 0 };
    lm_regex_work        r = { 0 };
    lm_status            status = LM_OK;

    lm_text_clear(out);
    for (unsigned i = 0; i < LM_PROBES && status == LM_OK; i++) {
        status = lm_regex_begin(&r, strlen(lm_probes[i]), e);
        if (status == LM_OK)
            status = lm_pretokenize(p, &w, &r, lm_view_of(lm_probes[i]), 0, collect, out, e);
    }
    lm_pretokenizer_work_free(&w);
    lm_regex_work_free(&r);
    return status;
}

static bool has_nfc(const lm_tokenizer *t)
{
    for (unsigned i = 0; i < t->normalizers.n; i++)
        if (t->normalizers.list[i].kind == LM_NORMALIZE_NFC)
            return true;
    return false;
}

/* Return whether the named pre-tokenizer splits the probes like the one of the folder. */
static bool splits_alike(const vocabulary *v, const char *name, const lm_text *own)
{
    lm_pretokenizer *p = lm_alloc_zero(1, sizeof *p);
    lm_pre_traits    traits;
    lm_text          theirs = { 0 };
    bool             same = p && lm_pre_by_name(name, p, &traits, "pre", NULL) == LM_OK;

    if (same) {
        lm_pretokenizer_finish(p);
        same = traits.nfc == has_nfc(v->t) && traits.ignore_merges == v->t->bpe.ignore_merges &&
               words(p, &theirs, NULL) == LM_OK && lm_view_equal(lm_text_view(&theirs), lm_text_view(own));
    }
    if (p)
        lm_pretokenizer_free(p);
    lm_free(p);
    lm_text_free(&theirs);
    return same;
}

static lm_status try_name(vocabulary *v, const char *name, const lm_text *own, bool *same, lm_error *e)
{
    *same = false;
    if (!splits_alike(v, name, own))
        return LM_OK;
    v->spec.pre = name;
    return try_spec(v, same, e);
}

/* Choose the name of the pre-tokenizer by its behaviour. If several names are equivalent, prefer llama.cpp's
 * for these ids, if any. */
static lm_status name_pre(vocabulary *v, lm_error *e)
{
    lm_tokens ids = { 0 };
    lm_text   own = { 0 };
    bool      same = false;

    lm_status status = lm_tokenize(v->t, lm_pre_probe, strlen(lm_pre_probe), LM_ADD_SPECIAL, &ids, e);
    const char *print = status == LM_OK ? lm_pre_of_print(&ids) : NULL;
    lm_tokens_free(&ids);
    if (status == LM_OK)
        status = words(&v->t->pre, &own, e);
    if (status == LM_OK && print)
        status = try_name(v, print, &own, &same, e);
    if (status == LM_OK && !same && v->t->pre_name)
        status = try_name(v, v->t->pre_name, &own, &same, e);
    /* skip the first one, "default", which no model uses */
    for (size_t i = 1; status == LM_OK && !same && lm_pre_name(i); i++)
        status = try_name(v, lm_pre_name(i), &own, &same, e);
    lm_text_free(&own);
    LM_TRY(status);
    if (same)
        return LM_OK;
    lm_fail(e, LM_UNSUPPORTED, "pre_tokenizer", LM_NO_OFFSET,
            "no pre-tokenizer that GGUF has a name for gives this tokenizer's ids%s%s",
            print ? "; llama.cpp calls it " : "", print ? print : "");
    return lm_fail_in(e, lm_container_path(v->c));
}

/* Find by trial whether a space is added before the text. */
static lm_status choose_prefix(vocabulary *v, lm_error *e)
{
    bool same = false;

    for (int prefix = 1; prefix >= 0 && !same; prefix--) {
        v->spec.add_space_prefix = prefix;
        LM_TRY(try_spec(v, &same, e));
    }
    if (same)
        return LM_OK;
    lm_fail(e, LM_UNSUPPORTED, "model", LM_NO_OFFSET,
            "read back from GGUF, this tokenizer would give other ids");
    return lm_fail_in(e, lm_container_path(v->c));
}

/* ---- keys ---- */

static void add_id(lm_gguf_writer *w, const char *name, int64_t id)
{
    char key[64];

    snprintf(key, sizeof key, KEYS "%s_token_id", name);
    if (id >= 0)
        lm_gguf_add_u32(w, key, (uint32_t)id);
}

static void write_keys(vocabulary *v, lm_gguf_writer *w)
{
    lm_gguf_add_string(w, KEYS "model", lm_view_of(v->spec.model));
    lm_gguf_add_string(w, KEYS "pre", lm_view_of(v->spec.pre));
    lm_gguf_add_strings(w, KEYS "tokens", v->tokens, v->rows);
    if (v->scores)
        lm_gguf_add_f32s(w, KEYS "scores", v->scores, v->rows);
    lm_gguf_add_i32s(w, KEYS "token_type", v->types, v->rows);
    if (v->n_merges && !v->scores)
        lm_gguf_add_strings(w, KEYS "merges", v->merges, v->n_merges);
    add_id(w, "bos", v->spec.bos);
    add_id(w, "eos", v->spec.eos);
    add_id(w, "unknown", v->spec.unknown);
    add_id(w, "seperator", special(v, "sep"));           /* the format spells it this way */
    add_id(w, "padding", special(v, "pad"));
    add_id(w, "mask", special(v, "mask"));
    lm_gguf_add_bool(w, KEYS "add_bos_token", v->spec.add_bos > 0);
    lm_gguf_add_bool(w, KEYS "add_eos_token", v->spec.add_eos > 0);
    if (v->scores)
        lm_gguf_add_bool(w, KEYS "add_space_prefix", v->spec.add_space_prefix > 0);
}

/* Take over the tokens around a text: GGUF can represent one before it and one after it. */
static lm_status take_surroundings(vocabulary *v, lm_error *e)
{
    const lm_tokenizer *t = v->t;

    v->spec.add_bos = t->n_before > 0;
    v->spec.add_eos = t->n_after > 0;
    if (t->n_before)
        v->spec.bos = t->before[0];
    bool fits = t->n_before <= 1 && t->n_after <= 1 && (!t->n_after || t->after[0] == v->spec.eos);
    if (fits)
        return LM_OK;
    lm_fail(e, LM_UNSUPPORTED, "post_processor", LM_NO_OFFSET,
            "GGUF has no form for what this tokenizer puts around a text");
    return lm_fail_in(e, lm_container_path(v->c));
}

static lm_status from_tokenizer(vocabulary *v, lm_error *e)
{
    bool       bytes = v->t->decoder.bytelevel;
    lm_merge **list;
    uint32_t   n = 0;

    if (!bytes && !v->t->bpe.byte_fallback) {
        lm_text_add_str(v->notes, "the tokenizer is neither byte-level BPE nor BPE with byte fallback, which "
                                  "is what GGUF has: not carried\n");
        return LM_UNSUPPORTED;
    }
    v->scores = bytes ? NULL : lm_arena_new(&v->arena, (size_t)v->rows + 1, float);
    if (!bytes && !v->scores)
        return lm_fail_memory(e, "a vocabulary", v->rows);
    LM_TRY(list_merges(v, &list, &n, e));
    if (v->scores)
        score_by_merges(v, list, n);
    else
        LM_TRY(write_merges(v, list, n, e));
    LM_TRY(take_pieces(v, e));
    if (v->scores && v->pieces.data)
        LM_TRY(lm_sentencepiece_scores(v->pieces, v->tokens, v->types, v->scores, v->rows, e));
    name_specials(v);
    LM_TRY(take_surroundings(v, e));
    v->spec.model = lm_vocab_kind(bytes);
    v->spec.pre = bytes ? NULL : "default";
    v->spec.n = v->rows;
    v->spec.tokens = v->tokens;
    v->spec.types = v->types;
    v->spec.scores = v->scores;
    v->spec.merges = v->merges;
    v->spec.n_merges = v->n_merges;
    v->spec.where = KEYS;
    return bytes ? name_pre(v, e) : choose_prefix(v, e);
}

/* With tokenizer.model alone, store its contents in GGUF form. */
static lm_status from_pieces(vocabulary *v, lm_error *e)
{
    lm_sentencepiece model;

    v->scores = lm_arena_new(&v->arena, (size_t)v->rows + 1, float);
    if (!v->scores)
        return lm_fail_memory(e, "a vocabulary", v->rows);
    LM_TRY(lm_sentencepiece_read(v->pieces, v->rows, &v->arena, v->tokens, v->types, v->scores, &model, e));
    json_t *added = v->files.added.data ? json_loadb(v->files.added.data, v->files.added.size, 0, NULL)
                                        : NULL;
    const char *text;
    json_t *id;
    json_object_foreach(added, text, id)
        if (json_is_integer(id) && json_integer_value(id) >= 0 && json_integer_value(id) < v->rows) {
            uint32_t at = (uint32_t)json_integer_value(id);
            v->tokens[at] = lm_view_of(lm_arena_strdup(&v->arena, text));
            v->types[at] = looks_special(v->tokens[at]) ? LM_PIECE_CONTROL : LM_PIECE_USER;
            v->scores[at] = -1000;
        }
    json_decref(added);
    const json_t *bos = json_object_get(v->config, "add_bos_token"),
                 *eos = json_object_get(v->config, "add_eos_token");
    v->spec = (lm_vocab_spec){ .model = lm_vocab_kind(false),
                               .pre = "default",
                               .n = v->rows,
                               .tokens = v->tokens,
                               .types = v->types,
                               .scores = v->scores,
                               .bos = model.bos,
                               .eos = model.eos,
                               .unknown = model.unknown,
                               .add_bos = bos ? json_is_true(bos) : model.bos >= 0,
                               .add_eos = eos ? json_is_true(eos) : 0,
                               .add_space_prefix = model.prefix,
                               .where = KEYS };
    lm_vocab_spec_ends(&v->spec, v->listed.ids, v->listed.n, v->listed.n, v->listed.n);
    return lm_tokenizer_from_spec(&v->spec, NULL, &v->t, e);
}

static lm_status make(vocabulary *v, lm_gguf_writer *w, lm_error *e)
{
    lm_status status = LM_UNSUPPORTED;
    lm_error why = { 0 };

    v->tokens = lm_arena_new(&v->arena, (size_t)v->rows + 1, lm_view);
    v->types = lm_arena_new(&v->arena, (size_t)v->rows + 1, int32_t);
    if (!v->tokens || !v->types)
        return lm_fail_memory(e, "a vocabulary", v->rows);
    status = lm_tokenizer_from_files(&v->files, NULL, &v->t, &why);
    if (status == LM_UNSUPPORTED && !v->pieces.data) {
        lm_text_printf(v->notes, "the tokenizer is not carried: %s: %s\n", why.where, why.message);
    } else if (status != LM_OK && status != LM_UNSUPPORTED) {
        if (e)
            *e = why;
        return status;
    } else if (v->t) {
        status = from_tokenizer(v, e);
    } else if (v->pieces.data) {
        status = from_pieces(v, e);
    } else {
        lm_text_add_str(v->notes, "the folder has no tokenizer: the file has none either\n");
        status = LM_UNSUPPORTED;
    }
    if (status == LM_UNSUPPORTED && (!e || e->code == LM_OK)) {
        int64_t eos = -1;
        lm_gguf_add_string(w, KEYS "model", LM_VIEW("no_vocab"));
        LM_TRY(lm_add_end_keys(w, NULL, &v->listed, v->rows, &eos, v->notes, e));
        add_id(w, "eos", eos);
        return LM_OK;
    }
    LM_TRY(status);
    LM_TRY(lm_add_end_keys(w, v->t, NULL, v->rows, &v->spec.eos, v->notes, e));
    write_keys(v, w);
    return LM_OK;
}

lm_status lm_add_folder_vocabulary(lm_gguf_writer *w, lm_container *c, uint32_t rows, lm_text *notes,
                                   lm_error *e)
{
    vocabulary v = { .c = c, .rows = rows, .notes = notes };
    lm_error mine = { 0 };

    lm_status status = read_files(&v, &mine);
    if (status == LM_OK)
        status = make(&v, w, &mine);
    if (status == LM_OK)
        status = lm_add_template_keys(w, c, v.config, notes, &mine);
    if (status != LM_OK && e)
        *e = mine;
    lm_tokenizer_free(v.t);
    json_decref(v.config);
    json_decref(v.map);
    json_decref(v.json);
    json_decref(v.model);
    json_decref(v.generation);
    lm_arena_free(&v.arena);
    return status;
}
