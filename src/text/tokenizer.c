/* tokenizer.c - make, free and query a tokenizer. */
#include "text/tokenizer.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "text/ends.h"

#define MARK "\xE2\x96\x81"     /* U+2581, SentencePiece's space */

lm_status lm_tokenizer_new(uint32_t expected, lm_tokenizer **out, lm_error *e)
{
    lm_tokenizer *t = lm_alloc_zero(1, sizeof *t);

    if (!t)
        return lm_fail_memory(e, "a tokenizer", sizeof *t);
    t->bos = t->eos = -1;
    for (size_t i = 0; i < sizeof t->middle / sizeof *t->middle; i++)
        t->middle[i] = -1;
    if (pthread_mutex_init(&t->lock, NULL) != 0) {
        lm_free(t);
        return lm_fail_memory(e, "a tokenizer", sizeof *t);
    }
    lm_status status = lm_vocab_init(&t->vocab, expected, e);
    if (status != LM_OK) {
        lm_tokenizer_free(t);
        return status;
    }
    *out = t;
    return LM_OK;
}

void lm_tokenizer_free(lm_tokenizer *t)
{
    if (!t)
        return;
    lm_scratch_free(t->idle);
    pthread_mutex_destroy(&t->lock);
    lm_decoder_free(&t->decoder);
    lm_regex_free(t->word_character);
    lm_matcher_free(&t->matchers[0]);
    lm_matcher_free(&t->matchers[1]);
    lm_pretokenizer_free(&t->pre);
    lm_normalizers_free(&t->normalizers);
    lm_bpe_free(&t->bpe);
    lm_vocab_free(&t->vocab);
    lm_text_free(&t->warnings);
    lm_free(t);
}

/* Normalise an added token of the second pass: it is found and decoded in that spelling. */
static lm_status normalized_text(lm_tokenizer *t, lm_added *a, lm_error *e)
{
    lm_vocab_piece   *p      = &t->vocab.pieces[a->id];
    lm_normalize_work w      = { 0 };
    lm_regex_work     r      = { 0 };
    lm_view           text;
    lm_status         status = lm_regex_begin(&r, a->text.size, e);

    if (status == LM_OK)
        status = lm_normalize(&t->normalizers, &w, &r, a->text, NULL, &text, e);
    if (status == LM_OK && text.data != a->text.data) {
        const char *copy = lm_arena_strndup(&t->vocab.arena, text.data, text.size);

        if (copy) {
            a->text = (lm_view){ copy, text.size };
            p->text = copy;
            p->size = (uint32_t)text.size;
        } else
            status = lm_fail_memory(e, "an added token", text.size);
        if (copy && p->size > t->vocab.longest)
            t->vocab.longest = p->size;
    }
    lm_normalize_work_free(&w);
    lm_regex_work_free(&r);
    return status;
}

lm_status lm_tokenizer_set_added(lm_tokenizer *t, const lm_added *list, const bool *normalized, uint32_t n,
                                 lm_error *e)
{
    lm_added *pass   = lm_alloc(((size_t)n + 1) * sizeof *pass);
    lm_status status = LM_OK;
    bool      words  = false;

    if (!pass)
        return lm_fail_memory(e, "the added tokens", n * sizeof *pass);
    for (unsigned k = 0; k < 2; k++) {
        uint32_t taken = 0;

        for (uint32_t i = 0; i < n; i++) {
            if ((normalized && normalized[i]) != (k == 1))
                continue;
            pass[taken]       = list[i];
            pass[taken].order = list[i].special ? i : i + n;      /* special ones come first */
            words            |= list[i].single_word;
            if (k == 1)
                LM_TRY_GOTO(status, normalized_text(t, &pass[taken], e), done);
            taken += pass[taken].text.size > 0;
        }
        LM_TRY_GOTO(status, lm_matcher_init(&t->matchers[k], pass, taken, e), done);
    }
    if (words)
        LM_TRY_GOTO(status,
                    lm_regex_new(LM_VIEW("[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200C}\\x{200D}]"),
                                 "added_tokens", &t->word_character, e),
                    done);
done:
    lm_free(pass);
    return status;
}

/* Return whether a piece contains U+2581 after another character. */
static bool mark_inside(const lm_vocab_piece *p)
{
    size_t at = 0;

    while (p->size - at >= 3 && memcmp(p->text + at, MARK, 3) == 0)
        at += 3;
    return memmem(p->text + at, p->size - at, MARK, 3) != NULL;
}

/* Return whether merging never crosses from another character to U+2581. */
static bool marks_only_start(const lm_tokenizer *t)
{
    const lm_vocab *v = &t->vocab;

    if (t->bpe.rank_of) {
        for (uint32_t i = 0; i < v->n; i++)
            if (v->pieces[i].text && mark_inside(&v->pieces[i]))
                return false;
        return true;
    }
    for (uint32_t i = 0; t->bpe.merges && i <= t->bpe.mask; i++)
        if (t->bpe.merges[i].left != UINT32_MAX && mark_inside(&v->pieces[t->bpe.merges[i].id]))
            return false;
    return true;
}

static lm_status describe(lm_tokenizer *t, lm_error *e)
{
    uint32_t tokens = t->vocab.n;
    char     merges[48] = "";

    if (t->bpe.n_merges)
        snprintf(merges, sizeof merges, ", %u merges", t->bpe.n_merges);
    t->summary = lm_arena_printf(&t->vocab.arena, "%s, %u tokens%s%s%s", t->kind, tokens, merges,
                                 t->pre_name ? ", pre " : "", t->pre_name ? t->pre_name : "");
    return t->summary ? LM_OK : lm_fail_memory(e, "a tokenizer", 64);
}

lm_status lm_tokenizer_finish(lm_tokenizer *t, const lm_tokenizer_options *o, lm_error *e)
{
    if (o && o->pre && !(t->pre_name && strcmp(t->pre_name, o->pre) == 0))
        lm_tokenizer_warn(t, "the pre-tokenizer '%s' is ignored: the model defines how text is split",
                          o->pre);
    lm_pretokenizer_finish(&t->pre);
    t->cut_at_marks = !t->pre.bytes && !t->bpe.ignore_merges &&
                      lm_vocab_find(&t->vocab, LM_VIEW(MARK)) >= 0 && marks_only_start(t);
    lm_tokenizer_mark_end(t, t->eos);
    lm_ends_by_name(t);
    return describe(t, e);
}

void lm_tokenizer_warn(lm_tokenizer *t, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    lm_text_vprintf(&t->warnings, format, args);
    va_end(args);
    lm_text_add_char(&t->warnings, '\0');
}

const char *lm_tokenizer_warning(const lm_tokenizer *t, size_t i)
{
    return t ? lm_text_string(&t->warnings, i) : NULL;
}

lm_status lm_tokenizer_pad(lm_tokenizer *t, uint32_t n, lm_error *e)
{
    return n > t->vocab.n ? lm_vocab_grow(&t->vocab, n, e) : LM_OK;
}

lm_status lm_tokenizer_surround(lm_tokenizer *t, bool after, lm_token id, lm_error *e)
{
    lm_token **list = after ? &t->after : &t->before;
    size_t    *n    = after ? &t->n_after : &t->n_before;
    lm_token  *more = lm_arena_new(&t->vocab.arena, *n + 1, lm_token);

    if (!more)
        return lm_fail_memory(e, "a tokenizer", *n * sizeof *more);
    if (*n)
        memcpy(more, *list, *n * sizeof *more);
    more[(*n)++] = id;
    *list        = more;
    return LM_OK;
}

/* ---- queries ---- */
uint32_t lm_tokenizer_size(const lm_tokenizer *t) { return t ? t->vocab.n : 0; }
lm_token lm_tokenizer_bos(const lm_tokenizer *t) { return t ? t->bos : -1; }
lm_token lm_tokenizer_eos(const lm_tokenizer *t) { return t ? t->eos : -1; }

/* Return the id from the metadata, otherwise the first of the families' spellings that the vocabulary
 * contains. */
lm_token lm_tokenizer_middle(const lm_tokenizer *t, lm_middle_token which)
{
    static const char *const spellings[][8] = {
        [LM_MIDDLE_PREFIX] = { "<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>",
                               "<|code_prefix|>", "▁<PRE>", "<PRE>", "[PREFIX]" },
        [LM_MIDDLE_SUFFIX] = { "<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>",
                               "<|code_suffix|>", "▁<SUF>", "<SUF>", "[SUFFIX]" },
        [LM_MIDDLE_MIDDLE] = { "<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>",
                               "<|code_middle|>", "▁<MID>", "<MID>", "[MIDDLE]" },
        [LM_MIDDLE_REPOSITORY] = { "<|repo_name|>", "<|fim_repo|>", "<fim-repo>", "<repo_name>",
                                   "<reponame>" },
        [LM_MIDDLE_FILE] = { "<|file_sep|>", "<file_sep>" },
    };
    lm_token id;

    if (!t || (size_t)which >= sizeof spellings / sizeof *spellings)
        return -1;
    id = t->middle[which];
    for (size_t i = 0; id < 0 && i < sizeof *spellings / sizeof **spellings && spellings[which][i]; i++)
        id = lm_tokenizer_find(t, spellings[which][i]);
    return id;
}

const char *lm_tokenizer_summary(const lm_tokenizer *t)
{
    return t ? t->summary : NULL;
}

static const lm_vocab_piece *piece_at(const lm_tokenizer *t, lm_token id)
{
    return id >= 0 && (uint32_t)id < t->vocab.n ? &t->vocab.pieces[id] : NULL;
}

const char *lm_tokenizer_piece(const lm_tokenizer *t, lm_token id, size_t *size)
{
    if (!t)
        return NULL;
    const lm_vocab_piece *p = piece_at(t, id);

    if (size)
        *size = p ? p->size : 0;
    return !p ? NULL : p->text ? p->text : "";
}

lm_token lm_tokenizer_find(const lm_tokenizer *t, const char *piece)
{
    if (!t || !piece)
        return -1;
    return lm_vocab_find(&t->vocab, lm_view_of(piece));
}

bool lm_tokenizer_is_special(const lm_tokenizer *t, lm_token id)
{
    if (!t)
        return false;
    const lm_vocab_piece *p = piece_at(t, id);

    return p && p->special;
}

bool lm_tokenizer_is_end(const lm_tokenizer *t, lm_token id)
{
    if (!t)
        return false;
    const lm_vocab_piece *p = piece_at(t, id);

    return p && p->end;
}
