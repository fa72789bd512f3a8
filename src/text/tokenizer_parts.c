/* tokenizer_parts.c - read normalizer, pre_tokenizer, post_processor and decoder of tokenizer.json. */
#include "text/tokenizer_parts.h"

#include <string.h>

#include "base/utf8.h"
#include "text/json_members.h"
#include "text/unicode/unicode_class.h"

enum { MAX_DEPTH = 8 };

static lm_status unsupported(const char *where, const json_t *o, lm_error *e)
{
    if (!json_is_object(o))
        return lm_fail(e, LM_BAD_MODEL, where, LM_NO_OFFSET, "is not an object");
    return lm_fail(e, LM_UNSUPPORTED, where, LM_NO_OFFSET, "the kind '%s' is not supported",
                   lm_member_type(o));
}

/* Read a part of type Sequence: call `one` for each member of `list`. */
typedef lm_status (*part_fn)(lm_tokenizer *t, const json_t *part, unsigned depth, lm_error *e);

static lm_status sequence(lm_tokenizer *t, const json_t *part, const char *where, const char *list,
                          part_fn one, unsigned depth, lm_error *e)
{
    const json_t *all, *item;
    size_t        i;

    if (depth == MAX_DEPTH)
        return lm_fail(e, LM_UNSUPPORTED, where, LM_NO_OFFSET, "nested deeper than %d", MAX_DEPTH);
    LM_TRY(lm_member_array(part, where, list, &all, e));
    if (!all)
        return lm_member_wrong(where, list, "an array", e);
    json_array_foreach(all, i, item) LM_TRY(one(t, item, depth + 1, e));
    return LM_OK;
}

/* Read {"String": "…"} or {"Regex": "…"}. */
static lm_status pattern(const json_t *o, const char *where, bool only_literal, lm_regex **out, lm_error *e)
{
    const json_t *p;
    lm_view       literal, regex;

    LM_TRY(lm_member_object(o, where, "pattern", &p, e));
    if (!p)
        return lm_member_wrong(where, "pattern", "an object", e);
    LM_TRY(lm_member_text(p, where, "String", &literal, e));
    LM_TRY(lm_member_text(p, where, "Regex", &regex, e));
    if (literal.size)
        return lm_regex_literal(literal, out, e);
    if (!regex.size)
        return lm_member_wrong(where, "pattern", "a String or Regex that is not empty", e);
    if (only_literal)
        return lm_fail(e, LM_UNSUPPORTED, where, LM_NO_OFFSET, "a Regex to replace");
    return lm_regex_new(regex, where, out, e);
}

/* Copy a string that must outlive the JSON. */
static lm_status keep(lm_tokenizer *t, lm_view *text, lm_error *e)
{
    const char *copy = lm_arena_strndup(&t->vocab.arena, text->data ? text->data : "", text->size);

    if (!copy)
        return lm_fail_memory(e, "a tokenizer", text->size);
    text->data = copy;
    return LM_OK;
}

/* Read a string of one character. */
static lm_status character(lm_tokenizer *t, const json_t *o, const char *where, const char *key,
                           const char *absent, lm_view *out, lm_error *e)
{
    size_t size = 0;

    LM_TRY(lm_member_text(o, where, key, out, e));
    if (!out->data && absent)
        *out = lm_view_of(absent);
    if (out->size)
        lm_utf8_decode(out->data, &size);
    if (!out->size || size != out->size)
        return lm_member_wrong(where, key, "one character", e);
    return keep(t, out, e);
}

/* ---- normalizer ---- */
static lm_status normalizer(lm_tokenizer *t, const json_t *o, unsigned depth, lm_error *e)
{
    static const struct { const char *name; lm_normalizer_kind kind; } plain[] = {
        { "NFC", LM_NORMALIZE_NFC }, { "NFD", LM_NORMALIZE_NFD }, { "NFKC", LM_NORMALIZE_NFKC }, { "NFKD", LM_NORMALIZE_NFKD },
        { "Lowercase", LM_NORMALIZE_LOWERCASE },
    };
    const char   *where = "/normalizer", *type = lm_member_type(o);
    lm_normalizer n     = { 0 };

    if (strcmp(type, "Sequence") == 0)
        return sequence(t, o, where, "normalizers", normalizer, depth, e);
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strcmp(type, plain[i].name) == 0) {
            n.kind = plain[i].kind;
            return lm_normalizers_add(&t->normalizers, &n, where, e);
        }
    if (strcmp(type, "Prepend") == 0) {
        n.kind = LM_NORMALIZE_PREPEND;
        LM_TRY(lm_member_text(o, where, "prepend", &n.text, e));
        LM_TRY(keep(t, &n.text, e));
    } else if (strcmp(type, "Replace") == 0) {
        n.kind = LM_NORMALIZE_REPLACE;
        LM_TRY(lm_member_text(o, where, "content", &n.text, e));
        LM_TRY(keep(t, &n.text, e));
        LM_TRY(pattern(o, where, false, &n.pattern, e));
    } else if (strcmp(type, "Strip") == 0) {
        n.kind = LM_NORMALIZE_STRIP;
        LM_TRY(lm_member_bool(o, where, "strip_left", true, &n.left, e));
        LM_TRY(lm_member_bool(o, where, "strip_right", true, &n.right, e));
    } else
        return unsupported(where, o, e);
    return lm_normalizers_add(&t->normalizers, &n, where, e);
}

lm_status lm_read_normalizer(lm_tokenizer *t, const json_t *part, lm_error *e)
{
    return !part || json_is_null(part) ? LM_OK : normalizer(t, part, 0, e);
}

/* ---- pre_tokenizer ---- */
static lm_status behavior(const json_t *o, const char *where, lm_behavior *out, lm_error *e)
{
    static const char *const names[] = { "Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                         "Contiguous" };
    lm_view                  name;

    LM_TRY(lm_member_text(o, where, "behavior", &name, e));
    *out = LM_ISOLATED;
    if (!name.data)
        return LM_OK;
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (lm_view_is(name, names[i])) {
            *out = (lm_behavior)i;
            return LM_OK;
        }
    return lm_fail(e, LM_UNSUPPORTED, where, LM_NO_OFFSET, "the behavior '%.*s' is not known", (int)name.size,
                   name.data);
}

static lm_status split(lm_tokenizer *t, const json_t *o, const char *where, lm_error *e)
{
    lm_pre_stage s = { .kind = LM_STAGE_SPLIT };

    LM_TRY(behavior(o, where, &s.behavior, e));
    LM_TRY(lm_member_bool(o, where, "invert", false, &s.invert, e));
    LM_TRY(pattern(o, where, false, &s.regex, e));
    return lm_pretokenizer_add(&t->pre, &s, where, e);
}

static lm_status byte_level(lm_tokenizer *t, const json_t *o, const char *where, lm_error *e)
{
    bool space, regex;

    LM_TRY(lm_member_bool(o, where, "add_prefix_space", true, &space, e));
    LM_TRY(lm_member_bool(o, where, "use_regex", true, &regex, e));
    if (space)
        LM_TRY(lm_pretokenizer_add(&t->pre, &(lm_pre_stage){ .kind = LM_STAGE_PREFIX }, where, e));
    if (regex)
        LM_TRY(lm_pretokenizer_add_split(&t->pre, LM_PATTERN_GPT2, LM_ISOLATED, where, e));
    return lm_pretokenizer_add(&t->pre, &(lm_pre_stage){ .kind = LM_STAGE_SPELL }, where, e);
}

/* "prepend_scheme", or in older files "add_prefix_space". */
static lm_status prepend_scheme(const json_t *o, const char *where, lm_prepend *out, lm_error *e)
{
    lm_view name;
    bool    space;

    LM_TRY(lm_member_text(o, where, "prepend_scheme", &name, e));
    LM_TRY(lm_member_bool(o, where, "add_prefix_space", true, &space, e));
    *out = space ? LM_PREPEND_ALWAYS : LM_PREPEND_NEVER;
    if (!name.data)
        return LM_OK;
    *out = lm_view_is(name, "first")   ? LM_PREPEND_FIRST
           : lm_view_is(name, "never") ? LM_PREPEND_NEVER
                                       : LM_PREPEND_ALWAYS;
    if (*out == LM_PREPEND_ALWAYS && !lm_view_is(name, "always"))
        return lm_member_wrong(where, "prepend_scheme", "first, never or always", e);
    return LM_OK;
}

static lm_status metaspace(lm_tokenizer *t, const json_t *o, const char *where, lm_error *e)
{
    lm_pre_stage s = { .kind = LM_STAGE_METASPACE },
                 cut = { .kind = LM_STAGE_SPLIT, .behavior = LM_MERGED_WITH_NEXT };
    lm_view  mark;
    bool     cuts;

    LM_TRY(character(t, o, where, "replacement", NULL, &mark, e));
    LM_TRY(prepend_scheme(o, where, &s.prepend, e));
    LM_TRY(lm_member_bool(o, where, "split", true, &cuts, e));
    memcpy(s.text, mark.data, mark.size);
    LM_TRY(lm_pretokenizer_add(&t->pre, &s, where, e));
    if (!cuts)
        return LM_OK;
    LM_TRY(lm_regex_literal(mark, &cut.regex, e));
    return lm_pretokenizer_add(&t->pre, &cut, where, e);
}

/* Runs of word characters and runs of other characters that are not spaces, as Rust's regex crate classifies
 * them. */
#define WORDS "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200C}\\x{200D}"

static lm_status whitespace(lm_tokenizer *t, const char *where, lm_error *e)
{
    lm_pre_stage s = { .kind = LM_STAGE_SPLIT, .behavior = LM_REMOVED, .invert = true };

    LM_TRY(lm_regex_new(LM_VIEW("[" WORDS "]+|[^" WORDS "\\s]+"), where, &s.regex, e));
    return lm_pretokenizer_add(&t->pre, &s, where, e);
}

static lm_status pre_tokenizer(lm_tokenizer *t, const json_t *o, unsigned depth, lm_error *e)
{
    const char *where = "/pre_tokenizer", *type = lm_member_type(o);
    lm_behavior how;
    bool        one_by_one;

    if (strcmp(type, "Sequence") == 0)
        return sequence(t, o, where, "pretokenizers", pre_tokenizer, depth, e);
    if (strcmp(type, "Split") == 0)
        return split(t, o, where, e);
    if (strcmp(type, "ByteLevel") == 0)
        return byte_level(t, o, where, e);
    if (strcmp(type, "Metaspace") == 0)
        return metaspace(t, o, where, e);
    if (strcmp(type, "Digits") == 0) {
        LM_TRY(lm_member_bool(o, where, "individual_digits", false, &one_by_one, e));
        return lm_pretokenizer_add_class(&t->pre, lm_is_numeric, one_by_one ? LM_ISOLATED : LM_CONTIGUOUS,
                                         where, e);
    }
    if (strcmp(type, "Punctuation") == 0) {
        LM_TRY(behavior(o, where, &how, e));
        return lm_pretokenizer_add_class(&t->pre, lm_is_punctuation, how, where, e);
    }
    if (strcmp(type, "Whitespace") == 0)
        return whitespace(t, where, e);
    if (strcmp(type, "WhitespaceSplit") == 0)
        return lm_pretokenizer_add_class(&t->pre, lm_is_space, LM_REMOVED, where, e);
    return unsupported(where, o, e);
}

lm_status lm_read_pre_tokenizer(lm_tokenizer *t, const json_t *part, lm_error *e)
{
    return !part || json_is_null(part) ? LM_OK : pre_tokenizer(t, part, 0, e);
}

/* ---- decoder ---- */
/* Steps must come in the order given in decode.h. */
enum { PIECES, RUNS, FUSED, STRIPPED, BYTES };

typedef struct decoding { lm_tokenizer *t; const char *where; int phase; lm_error *e; } decoding;

static lm_status out_of_order(const decoding *d, const json_t *o)
{
    return lm_fail(d->e, LM_UNSUPPORTED, d->where, LM_NO_OFFSET, "'%s' at this place is not supported",
                   lm_member_type(o));
}

static lm_status add_step(decoding *d, const json_t *o, const lm_decode_step *step)
{
    lm_detokenizer_rule *decoder = &d->t->decoder;

    if (d->phase != PIECES || decoder->n == LM_MAX_DECODE) {
        lm_regex_free(step->pattern);
        return out_of_order(d, o);
    }
    decoder->steps[decoder->n++] = *step;
    return LM_OK;
}

static lm_status decode_strip(decoding *d, const json_t *o)
{
    lm_decode_step step = { .kind = LM_DECODE_STRIP };
    lm_detokenizer_rule *all  = &d->t->decoder;

    LM_TRY(character(d->t, o, d->where, "content", NULL, &step.text, d->e));
    LM_TRY(lm_member_count(o, d->where, "start", 0, &step.start, d->e));
    LM_TRY(lm_member_count(o, d->where, "stop", 0, &step.stop, d->e));
    if (d->phase != FUSED)
        return add_step(d, o, &step);
    all->strip = step.text;
    all->start = step.start;
    all->stop  = step.stop;
    d->phase   = STRIPPED;
    return LM_OK;
}

static lm_status decode_metaspace(decoding *d, const json_t *o)
{
    lm_decode_step step = { .kind = LM_DECODE_METASPACE };
    lm_prepend     scheme;

    LM_TRY(character(d->t, o, d->where, "replacement", NULL, &step.text, d->e));
    LM_TRY(prepend_scheme(o, d->where, &scheme, d->e));
    step.drop_first = scheme != LM_PREPEND_NEVER;
    return add_step(d, o, &step);
}

static lm_status decode_replace(decoding *d, const json_t *o)
{
    lm_decode_step step = { .kind = LM_DECODE_REPLACE };

    LM_TRY(lm_member_text(o, d->where, "content", &step.text, d->e));
    LM_TRY(keep(d->t, &step.text, d->e));
    LM_TRY(pattern(o, d->where, true, &step.pattern, d->e));
    return add_step(d, o, &step);
}

static lm_status decoder(decoding *d, const json_t *o, unsigned depth)
{
    const char   *type = lm_member_type(o);
    const json_t *all, *item;
    size_t        i;

    if (strcmp(type, "Sequence") == 0) {
        LM_TRY(lm_member_array(o, d->where, "decoders", &all, d->e));
        if (!all || depth == MAX_DEPTH)
            return lm_member_wrong(d->where, "decoders", "an array, or nested too deeply", d->e);
        json_array_foreach(all, i, item) LM_TRY(decoder(d, item, depth + 1));
        return LM_OK;
    }
    if (strcmp(type, "Replace") == 0)
        return decode_replace(d, o);
    if (strcmp(type, "Strip") == 0)
        return decode_strip(d, o);
    if (strcmp(type, "Metaspace") == 0)
        return decode_metaspace(d, o);
    if (strcmp(type, "ByteFallback") == 0) {
        if (d->phase != PIECES)
            return out_of_order(d, o);
        d->t->decoder.fallback = true;
        d->phase               = RUNS;
    } else if (strcmp(type, "Fuse") == 0) {
        d->phase = d->phase < FUSED ? FUSED : d->phase;
    } else if (strcmp(type, "ByteLevel") == 0) {
        if (d->phase != PIECES)
            return out_of_order(d, o);
        d->t->decoder.bytelevel = true;
        d->phase                = BYTES;
    } else
        return unsupported(d->where, o, d->e);
    return LM_OK;
}

lm_status lm_read_decoder(lm_tokenizer *t, const json_t *part, lm_error *e)
{
    decoding d = { .t = t, .where = "/decoder", .e = e };

    if (part && !json_is_null(part))
        return decoder(&d, part, 0);
    t->decoder.spaced = true;
    return LM_OK;
}

/* ---- post_processor ---- */
static lm_status surround_with(lm_tokenizer *t, bool after, const json_t *id, const char *where, lm_error *e)
{
    uint32_t i;

    if (!lm_whole_number(id, LM_MAX_VOCAB, &i) || !lm_vocab_has(&t->vocab, (lm_token)i))
        return lm_fail(e, LM_BAD_MODEL, where, LM_NO_OFFSET, "an id that is not in the vocabulary");
    return lm_tokenizer_surround(t, after, (lm_token)i, e);
}

/* Add the ids of a special token of a template, from its entry in "special_tokens". */
static lm_status template_token(lm_tokenizer *t, bool after, const json_t *tokens, const json_t *item,
                                const char *where, lm_error *e)
{
    const json_t *ids, *id;
    lm_view       name;
    size_t        i;

    LM_TRY(lm_member_text(item, where, "id", &name, e));
    const json_t *token = name.data ? json_object_get(tokens, name.data) : NULL;
    if (!token)
        return lm_fail(e, LM_BAD_MODEL, where, LM_NO_OFFSET,
                       "the special token '%.*s' is not in special_tokens", (int)name.size,
                       name.data ? name.data : "");
    LM_TRY(lm_member_array(token, where, "ids", &ids, e));
    json_array_foreach(ids, i, id) LM_TRY(surround_with(t, after, id, where, e));
    return LM_OK;
}

static lm_status template_processing(lm_tokenizer *t, const json_t *o, const char *where, lm_error *e)
{
    const json_t *single, *tokens, *item, *part;
    bool          after = false;
    size_t        i;

    if (t->n_before || t->n_after)
        return lm_fail(e, LM_UNSUPPORTED, where, LM_NO_OFFSET, "a second template");
    LM_TRY(lm_member_array(o, where, "single", &single, e));
    LM_TRY(lm_member_object(o, where, "special_tokens", &tokens, e));
    if (!single)
        return lm_member_wrong(where, "single", "an array", e);
    json_array_foreach(single, i, item)
    {
        LM_TRY(lm_member_object(item, where, "SpecialToken", &part, e));
        if (part) {
            LM_TRY(template_token(t, after, tokens, part, where, e));
            continue;
        }
        LM_TRY(lm_member_object(item, where, "Sequence", &part, e));
        if (!part || after)
            return lm_fail(e, LM_UNSUPPORTED, where, LM_NO_OFFSET,
                           "a template with anything but one text and special tokens");
        after = true;
    }
    if (!after)
        return lm_fail(e, LM_UNSUPPORTED, where, LM_NO_OFFSET, "a template without the text");
    return LM_OK;
}

/* Read BERT's and RoBERTa's processors: ["token", id] before and after. */
static lm_status cls_and_sep(lm_tokenizer *t, const json_t *o, const char *where, lm_error *e)
{
    LM_TRY(surround_with(t, false, json_array_get(json_object_get(o, "cls"), 1), where, e));
    return surround_with(t, true, json_array_get(json_object_get(o, "sep"), 1), where, e);
}

static lm_status post_processor(lm_tokenizer *t, const json_t *o, unsigned depth, lm_error *e)
{
    const char *where = "/post_processor", *type = lm_member_type(o);

    if (strcmp(type, "Sequence") == 0)
        return sequence(t, o, where, "processors", post_processor, depth, e);
    if (strcmp(type, "ByteLevel") == 0)         /* moves offsets, which are not used here */
        return LM_OK;
    if (strcmp(type, "TemplateProcessing") == 0)
        return template_processing(t, o, where, e);
    if (strcmp(type, "RobertaProcessing") == 0 || strcmp(type, "BertProcessing") == 0)
        return cls_and_sep(t, o, where, e);
    return unsupported(where, o, e);
}

lm_status lm_read_post_processor(lm_tokenizer *t, const json_t *part, lm_error *e)
{
    return !part || json_is_null(part) ? LM_OK : post_processor(t, part, 0, e);
}
