/* vocab_spec.c - make tokenizers from GGUF's two kinds of vocabulary. */
#include "text/vocab_spec.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "text/ends.h"

typedef struct maker {
    const lm_vocab_spec *s;
    lm_tokenizer        *t;
    lm_error            *e;
    char                 where[96];
} maker;

static const char *key(maker *m, const char *name)
{
    snprintf(m->where, sizeof m->where, "%s%s", m->s->where ? m->s->where : "", name);
    return m->where;
}

const char *lm_vocab_kind(bool bytes)
{
    return bytes ? "gpt2" : "llama";
}

/* ---- pieces ---- */
/* Return whether a piece spells a byte as SentencePiece does, "<0x41>". */
static bool spells_byte(lm_view v)
{
    return v.size == 6 && memcmp(v.data, "<0x", 3) == 0 && v.data[5] == '>' && v.data[3] && v.data[4] &&
           strchr("0123456789ABCDEF", v.data[3]) && strchr("0123456789ABCDEF", v.data[4]);
}

static lm_status read_pieces(maker *m)
{
    const lm_vocab_spec *s = m->s;

    LM_TRY(lm_vocab_grow(&m->t->vocab, s->n, m->e));
    for (uint32_t i = 0; i < s->n; i++) {
        int32_t type = s->types ? s->types[i] : LM_PIECE_NORMAL;

        if (type < LM_PIECE_NORMAL || type > LM_PIECE_BYTE)
            return lm_fail(m->e, LM_BAD_MODEL, key(m, "token_type"), LM_NO_OFFSET,
                           "token %u has type %d, expected 1 to 6", i, type);
        if (!lm_utf8_is_valid(s->tokens[i]))
            return lm_fail(m->e, LM_BAD_MODEL, key(m, "tokens"), LM_NO_OFFSET, "token %u is not valid UTF-8",
                           i);
        LM_TRY(lm_vocab_add(&m->t->vocab, i, s->tokens[i], (lm_piece_type)type, key(m, "tokens"), m->e));
        m->t->vocab.pieces[i].special = type == LM_PIECE_CONTROL || type == LM_PIECE_UNKNOWN;
        m->t->vocab.pieces[i].outside = m->t->vocab.pieces[i].special || type == LM_PIECE_USER;
        if (type == LM_PIECE_BYTE && !spells_byte(s->tokens[i]))
            return lm_fail(m->e, LM_BAD_MODEL, key(m, "tokens"), LM_NO_OFFSET,
                           "token %u is a byte and spelled '%.*s', not '<0x41>'", i, (int)s->tokens[i].size,
                           s->tokens[i].data);
    }
    return LM_OK;
}

/* Control and unknown tokens are found only where special tokens are parsed, user-defined tokens in any
 * text. */
static lm_status read_added(maker *m)
{
    const lm_vocab *v    = &m->t->vocab;
    lm_added       *list = lm_alloc(v->n * sizeof *list);
    uint32_t        n    = 0;

    if (!list)
        return lm_fail_memory(m->e, "the added tokens", v->n * sizeof *list);
    for (uint32_t i = 0; i < v->n; i++) {
        const lm_vocab_piece *p = &v->pieces[i];

        if (p->special || p->type == LM_PIECE_USER)
            list[n++] = (lm_added){ .text = { p->text, p->size }, .id = (lm_token)i, .special = p->special };
    }
    lm_status status = lm_tokenizer_set_added(m->t, list, NULL, n, m->e);
    lm_free(list);
    return status;
}

static lm_status id_of(maker *m, const char *name, int64_t given, int64_t otherwise, lm_token *out)
{
    if (given < 0)
        given = otherwise >= 0 && otherwise < m->s->n ? otherwise : -1;
    if (given >= m->s->n)
        return lm_fail(m->e, LM_BAD_MODEL, key(m, name), LM_NO_OFFSET, "id %lld in a vocabulary of %u",
                       (long long)given, m->s->n);
    *out = (lm_token)given;
    return LM_OK;
}

/* ---- merges ---- */
static bool has_several_characters(const lm_vocab_piece *p)
{
    size_t n = 0;

    for (uint32_t i = 0; i < p->size; i++)
        n += ((unsigned char)p->text[i] & 0xC0) != 0x80;
    return n > 1;
}

/* Reject pieces of several characters if there are no merges: only merging produces them. */
static lm_status check_needed(maker *m)
{
    const lm_vocab *v = &m->t->vocab;

    for (uint32_t i = 0; m->s->n_merges == 0 && i < v->n; i++) {
        const lm_vocab_piece *p = &v->pieces[i];
        if (p->text && p->type == LM_PIECE_NORMAL && has_several_characters(p))
            return lm_fail(m->e, LM_BAD_MODEL, key(m, "merges"), LM_NO_OFFSET,
                           "there are none, but token %u, '%.*s', comes about by merging", i,
                           (int)(p->size < 64 ? p->size : 64), p->text);
    }
    return LM_OK;
}

static lm_status read_merges(maker *m)
{
    const lm_vocab *v       = &m->t->vocab;
    uint32_t        missing = 0, n = m->s->n_merges, i = 0;
    lm_text          both    = { 0 };

    LM_TRY(check_needed(m));
    LM_TRY(lm_bpe_reserve(&m->t->bpe, n, m->e));
    for (; i < n && missing <= n / 2; i++) {
        lm_view     merge = m->s->merges[i];
        const char *space = merge.size > 1 ? memchr(merge.data + 1, ' ', merge.size - 1) : NULL;

        if (!space || space + 1 == merge.data + merge.size) {
            lm_text_free(&both);
            return lm_fail(m->e, LM_BAD_MODEL, key(m, "merges"), LM_NO_OFFSET,
                           "merge %u, '%.*s', is not two pieces", i, (int)(merge.size < 64 ? merge.size : 64),
                           merge.data);
        }
        lm_view left = { merge.data, (size_t)(space - merge.data) },
                right = { space + 1, merge.size - left.size - 1 };
        lm_text_clear(&both);
        lm_text_add_view(&both, left);
        lm_text_add_view(&both, right);
        lm_token a = lm_vocab_find(v, left), b = lm_vocab_find(v, right),
                 c = both.failed ? -1 : lm_vocab_find(v, lm_text_view(&both));

        /* Converters spell added tokens as plain text, so the result of a merge may be missing; such a merge
         * never applies. */
        if (a < 0 || b < 0 || c < 0)
            missing++;
        else
            lm_bpe_add(&m->t->bpe, (uint32_t)a, (uint32_t)b, i, (uint32_t)c);
    }
    bool failed = both.failed;
    lm_text_free(&both);
    if (failed)
        return lm_fail_memory(m->e, "the merges", LM_MAX_PIECE);
    if (missing > n / 2)
        return lm_fail(m->e, LM_BAD_MODEL, key(m, "merges"), LM_NO_OFFSET,
                       "%u of %u merges name pieces that are not in the vocabulary", missing, i);
    if (m->t->bpe.n_merges + missing < n)
        lm_tokenizer_warn(m->t, "%s: %u of %u are there twice: the later place counts", key(m, "merges"),
                          n - missing - m->t->bpe.n_merges, n);
    if (missing)
        lm_tokenizer_warn(m->t, "%s: %u of %u merges name pieces that are not in the vocabulary",
                          key(m, "merges"), missing, n);
    return LM_OK;
}

/* ---- the two models ---- */
static lm_status surround(maker *m, int add_bos, int add_eos)
{
    lm_tokenizer *t = m->t;

    if (add_bos && t->bos < 0)
        return lm_fail(m->e, LM_BAD_MODEL, key(m, "add_bos_token"), LM_NO_OFFSET,
                       "true, but there is no bos_token_id");
    if (add_eos && t->eos < 0)
        return lm_fail(m->e, LM_BAD_MODEL, key(m, "add_eos_token"), LM_NO_OFFSET,
                       "true, but there is no eos_token_id");
    if (add_bos)
        LM_TRY(lm_tokenizer_surround(t, false, t->bos, m->e));
    if (add_eos)
        LM_TRY(lm_tokenizer_surround(t, true, t->eos, m->e));
    return LM_OK;
}

/* Use the requested pre-tokenizer; an unknown one is the caller's mistake. */
static lm_status split_as_requested(maker *m, const char *name, lm_pre_traits *traits)
{
    lm_status status = lm_pre_by_name(name, &m->t->pre, traits, "pre", m->e);

    if (status != LM_UNSUPPORTED)
        return status;
    if (m->e)
        m->e->code = LM_USAGE;
    return LM_USAGE;
}

/* Use the pre-tokenizer that the file names; the requested one if the file names none or an unknown one;
 * otherwise a general one. */
static lm_status split_text(maker *m, const char *requested, const char **name, lm_pre_traits *traits)
{
    const char *own = m->s->pre && *m->s->pre ? m->s->pre : NULL;

    *name = own ? own : requested ? requested : "default";
    if (!own && requested)
        return split_as_requested(m, requested, traits);
    if (!own)
        lm_tokenizer_warn(m->t,
                          "%s is missing: text is split in a general way, which may not be this model's",
                          key(m, "pre"));
    lm_status status = lm_pre_by_name(*name, &m->t->pre, traits, key(m, "pre"), m->e);
    if (status != LM_UNSUPPORTED || !requested)
        return status;
    lm_pretokenizer_free(&m->t->pre);
    *name = requested;
    return split_as_requested(m, requested, traits);
}

/* Characters without a piece are dropped, as the models' own tokenizers do; unknown tokens are not used. */
static lm_status make_gpt2(maker *m, const lm_tokenizer_options *o)
{
    lm_tokenizer *t    = m->t;
    const char   *name;
    lm_pre_traits traits;

    LM_TRY(split_text(m, o ? o->pre : NULL, &name, &traits));
    if (traits.nfc)
        LM_TRY(
            lm_normalizers_add(&t->normalizers, &(lm_normalizer){ .kind = LM_NORMALIZE_NFC }, "pre", m->e));
    LM_TRY(id_of(m, "bos_token_id", m->s->bos, -1, &t->bos));
    LM_TRY(id_of(m, "eos_token_id", m->s->eos, -1, &t->eos));
    LM_TRY(
        surround(m, m->s->add_bos >= 0 ? m->s->add_bos : traits.add_bos && t->bos >= 0, m->s->add_eos > 0));
    lm_bpe_init(&t->bpe, &t->vocab);
    t->bpe.ignore_merges   = traits.ignore_merges;
    t->decoder.bytelevel   = true;
    t->decoder.raw_added   = true;
    t->kind                = "byte-level BPE";
    t->pre_name            = lm_arena_strdup(&t->vocab.arena, name);
    return t->pre_name ? read_merges(m) : lm_fail_memory(m->e, "a tokenizer", 16);
}

static lm_status replaces(lm_tokenizer *t, lm_view what, lm_view by, lm_error *e)
{
    lm_normalizer n = { .kind = LM_NORMALIZE_REPLACE, .text = by };

    LM_TRY(lm_regex_literal(what, &n.pattern, e));
    return lm_normalizers_add(&t->normalizers, &n, "pre", e);
}

/* Pieces spell spaces as marks, and bytes that no piece has as "<0x41>". */
static lm_status decode_marks(lm_tokenizer *t, lm_error *e)
{
    lm_decode_step step = { .kind = LM_DECODE_REPLACE, .text = LM_VIEW(" ") };

    LM_TRY(lm_regex_literal(LM_VIEW("\xE2\x96\x81"), &step.pattern, e));
    t->decoder.steps[t->decoder.n++] = step;
    t->decoder.fallback              = true;
    return LM_OK;
}

/* Spaces become marks, and the whole text is one word. */
static lm_status make_gemma4(maker *m)
{
    lm_tokenizer *t = m->t;

    LM_TRY(replaces(t, LM_VIEW(" "), LM_VIEW("\xE2\x96\x81"), m->e));
    LM_TRY(id_of(m, "bos_token_id", m->s->bos, -1, &t->bos));
    LM_TRY(id_of(m, "eos_token_id", m->s->eos, -1, &t->eos));
    LM_TRY(surround(m, t->bos >= 0, m->s->add_eos > 0));     /* llama.cpp adds it, whatever the file says */
    lm_bpe_init(&t->bpe, &t->vocab);
    LM_TRY(id_of(m, "unknown_token_id", m->s->unknown, -1, &t->bpe.unknown));
    t->bpe.byte_fallback = true;
    LM_TRY(decode_marks(t, m->e));
    t->kind = "SentencePiece BPE by merges";
    return read_merges(m);
}

static lm_status make_llama(maker *m)
{
    lm_tokenizer *t      = m->t;
    bool          prefix = m->s->add_space_prefix != 0;
    lm_view       mark   = LM_VIEW("\xE2\x96\x81"), space = LM_VIEW(" ");
    float        *zeros  = NULL;

    if (m->s->scores)
        for (uint32_t i = 0; i < m->s->n; i++)
            if (!isfinite(m->s->scores[i]))
                return lm_fail(m->e, LM_BAD_MODEL, key(m, "scores"), LM_NO_OFFSET,
                               "the score of token %u is not finite", i);
    if (prefix)
        LM_TRY(lm_normalizers_add(&t->normalizers,
                                  &(lm_normalizer){ .kind = LM_NORMALIZE_PREPEND, .text = mark }, "pre",
                                  m->e));
    LM_TRY(replaces(t, space, mark, m->e));
    LM_TRY(id_of(m, "bos_token_id", m->s->bos, 1, &t->bos));
    LM_TRY(id_of(m, "eos_token_id", m->s->eos, 2, &t->eos));
    LM_TRY(surround(m, m->s->add_bos != 0 && t->bos >= 0, m->s->add_eos > 0));
    lm_bpe_init(&t->bpe, &t->vocab);
    LM_TRY(id_of(m, "unknown_token_id", m->s->unknown, 0, &t->bpe.unknown));
    if (!m->s->scores && !(zeros = lm_alloc_zero(m->s->n, sizeof *zeros)))
        return lm_fail_memory(m->e, "the scores", m->s->n * sizeof *zeros);
    lm_status status = lm_bpe_scores(&t->bpe, zeros ? zeros : m->s->scores, m->e);
    lm_free(zeros);
    LM_TRY(status);

    LM_TRY(decode_marks(t, m->e));
    t->decoder.strip                 = space;
    t->decoder.start                 = prefix;
    t->kind                          = "SentencePiece BPE";
    return LM_OK;
}

void lm_vocab_spec_ends(lm_vocab_spec *s, const int64_t *ends, uint32_t n, bool turn, bool call)
{
    s->ends        = ends;
    s->n_ends      = n;
    s->ends_listed = (turn ? LM_ENDS_TURN : 0) | (call ? LM_ENDS_CALL : 0);
}

lm_status lm_tokenizer_from_spec(const lm_vocab_spec *spec, const lm_tokenizer_options *o, lm_tokenizer **out,
                                 lm_error *e)
{
    maker     m      = { .s = spec, .e = e };
    lm_status status = LM_OK;
    lm_status (*make)(maker *) = NULL;
    const char *model = spec->model ? spec->model : "";
    bool        gpt2  = strcmp(model, "gpt2") == 0;

    make = strcmp(model, "llama") == 0 ? make_llama : strcmp(model, "gemma4") == 0 ? make_gemma4 : NULL;
    if (!gpt2 && !make)
        return lm_fail(e, LM_UNSUPPORTED, key(&m, "model"), LM_NO_OFFSET,
                       "tokenizers of the kind '%s' are not supported", model);
    if (spec->n == 0 || spec->n > LM_MAX_VOCAB)
        return lm_fail(e, LM_BAD_MODEL, key(&m, "tokens"), LM_NO_OFFSET, "%u tokens, expected 1 to %d",
                       spec->n, LM_MAX_VOCAB);
    LM_TRY(lm_tokenizer_new(spec->n, &m.t, e));
    LM_TRY_GOTO(status, read_pieces(&m), done);
    LM_TRY_GOTO(status, gpt2 ? make_gpt2(&m, o) : make(&m), done);
    LM_TRY_GOTO(status, read_added(&m), done);
    for (uint32_t i = 0; i < spec->n_ends; i++) {
        if (spec->ends[i] >= spec->n)
            status = lm_fail(e, LM_BAD_MODEL, key(&m, "eot_token_id"), LM_NO_OFFSET,
                             "id %lld in a vocabulary of %u", (long long)spec->ends[i], spec->n);
        if (status != LM_OK)
            goto done;
        lm_tokenizer_mark_end(m.t, spec->ends[i]);
    }
    m.t->ends_listed = spec->ends_listed;
    LM_TRY_GOTO(status, lm_tokenizer_finish(m.t, o, e), done);
    *out = m.t;
    m.t  = NULL;
done:
    lm_tokenizer_free(m.t);
    return status;
}
