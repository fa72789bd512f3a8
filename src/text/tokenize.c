/* tokenize.c - convert text to ids. */
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "text/tokenizer.h"
#include "text/unicode/unicode_class.h"

#define MARK "\xE2\x96\x81"     /* U+2581, SentencePiece's space */

enum {
    MAX_TEXT      = 0x7FFFFFFF / 4, /* bytes of one text: symbols are counted in 32 bits */
    CACHE_BITS    = 13,
    CACHED_BYTES  = 23,
    CACHED_TOKENS = 7,
    KEEP          = 1 << 22,        /* working memory for larger texts is freed after use */
};

/* A direct-mapped table of recent words and their tokens, because words repeat. */
typedef struct cached_word {
    lm_token ids[CACHED_TOKENS];
    uint8_t  size, n;               /* size 0: empty */
    char     text[CACHED_BYTES];
} cached_word;

struct lm_scratch {
    lm_scratch          *next;
    lm_bpe_work          bpe;
    lm_regex_work        regex;
    lm_normalize_work    normalize;
    lm_pretokenizer_work pre;
    lm_text               repaired;
    cached_word         *cache;     /* NULL: out of memory */
};

typedef struct encoding {
    const lm_tokenizer *t;
    lm_scratch         *s;
    unsigned            flags;
    lm_view             text;
    lm_merge_watch     *watch;      /* NULL: merges are not watched */
    void               *watcher;
    const lm_span      *content;    /* bytes of `text` in which special tokens are plain text; ascending */
    size_t              n_content;
    lm_tokens          *out;
    lm_error           *e;
} encoding;

/* ---- memory ---- */
void lm_scratch_free(lm_scratch *s)
{
    while (s) {
        lm_scratch *next = s->next;

        lm_bpe_work_free(&s->bpe);
        lm_regex_work_free(&s->regex);
        lm_normalize_work_free(&s->normalize);
        lm_pretokenizer_work_free(&s->pre);
        lm_text_free(&s->repaired);
        lm_free(s->cache);
        lm_free(s);
        s = next;
    }
}

/* Take working memory from the pool, the only part of a tokenizer that changes. */
static lm_scratch *borrow(const lm_tokenizer *t)
{
    lm_tokenizer *pool = (lm_tokenizer *)t;

    pthread_mutex_lock(&pool->lock);
    lm_scratch *s = pool->idle;
    if (s)
        pool->idle = s->next;
    pthread_mutex_unlock(&pool->lock);
    if (!s && (s = lm_alloc_zero(1, sizeof *s)))
        s->cache = lm_alloc_zero((size_t)1 << CACHE_BITS, sizeof *s->cache);
    if (s)
        s->next = NULL;
    return s;
}

static void give_back(const lm_tokenizer *t, lm_scratch *s, size_t text)
{
    lm_tokenizer *pool = (lm_tokenizer *)t;

    if (text > KEEP) {              /* do not keep the memory of a rare large text */
        lm_bpe_work_free(&s->bpe);
        lm_normalize_work_free(&s->normalize);
        lm_pretokenizer_work_free(&s->pre);
        lm_text_free(&s->repaired);
    }
    pthread_mutex_lock(&pool->lock);
    s->next    = pool->idle;
    pool->idle = s;
    pthread_mutex_unlock(&pool->lock);
}

/* ---- words ---- */
static uint32_t slot_of(lm_view word)
{
    uint64_t h = word.size, part = 0;

    for (size_t at = 0; at < word.size; at += 8) {
        size_t n = word.size - at < 8 ? word.size - at : 8;
        part     = 0;
        memcpy(&part, word.data + at, n);
        h = (h ^ part) * UINT64_C(0x9E3779B97F4A7C15);
        h ^= h >> 29;
    }
    return (uint32_t)(h >> (64 - CACHE_BITS));
}

static lm_status encode_part(encoding *x, lm_view word)
{
    const lm_tokenizer *t    = x->t;
    cached_word *slot = x->s->cache && !x->watch && word.size <= CACHED_BYTES ? &x->s->cache[slot_of(word)]
                                                                              : NULL;
    size_t              from = x->out->n;

    if (slot && slot->size == word.size && memcmp(slot->text, word.data, word.size) == 0) {
        for (unsigned i = 0; i < slot->n; i++)
            LM_TRY(lm_tokens_add(x->out, slot->ids[i], x->e));
        return LM_OK;
    }
    LM_TRY(lm_bpe_encode(&t->bpe, &x->s->bpe, word, t->pre.bytes, x->out, x->e));
    size_t n = x->out->n - from;
    if (slot && n <= CACHED_TOKENS) {
        slot->size = (uint8_t)word.size;
        slot->n    = (uint8_t)n;
        memcpy(slot->text, word.data, word.size);
        if (n)
            memcpy(slot->ids, x->out->ids + from, n * sizeof *slot->ids);
    }
    return LM_OK;
}

static lm_status encode_word(void *arg, lm_view word, lm_error *e)
{
    encoding *x    = arg;
    size_t    from = 0, at = 0;

    (void)e;
    if (!x->t->cut_at_marks)
        return encode_part(x, word);
    while (at < word.size) {
        while (word.size - at >= 3 && memcmp(word.data + at, MARK, 3) == 0)
            at += 3;
        const char *mark = memmem(word.data + at, word.size - at, MARK, 3);
        at               = mark ? (size_t)(mark - word.data) : word.size;
        LM_TRY(encode_part(x, (lm_view){ word.data + from, at - from }));
        from = at;
    }
    return LM_OK;
}

/* ---- added tokens ---- */
/* `origin`: the position of the searched text in x->text, or SIZE_MAX if it has been rewritten. */
static bool touches_content(const encoding *x, size_t origin, size_t from, size_t to)
{
    size_t low = 0, high = x->n_content;

    if (origin == SIZE_MAX || high == 0)
        return false;
    while (low < high) {            /* the first span that ends after `from` */
        size_t middle = low + (high - low) / 2;
        if (x->content[middle].to <= origin + from)
            low = middle + 1;
        else
            high = middle;
    }
    return low < x->n_content && x->content[low].from < origin + to;
}

static lm_status is_word(encoding *x, const char *s, size_t size, bool *yes)
{
    char     shown[4];
    lm_text   shadow = { 0 };
    lm_view  c      = { s, size };
    lm_match m;

    memcpy(shown, lm_pattern_text(c, &shadow), size);
    lm_text_free(&shadow);
    LM_TRY(lm_regex_find(x->t->word_character, &x->s->regex, (lm_view){ shown, size }, 0, &m, x->e));
    *yes = m.found;
    return LM_OK;
}

/* Set *yes to whether a match of a `single_word` token is a separate word. */
static lm_status stands_alone(encoding *x, lm_view text, size_t from, size_t to, bool *yes)
{
    bool   left = false, right = false;
    size_t size;

    if (from > 0) {
        lm_utf8_last(text.data, from, &size);
        LM_TRY(is_word(x, text.data + from - size, size, &left));
    }
    if (to < text.size) {
        lm_utf8_decode(text.data + to, &size);
        LM_TRY(is_word(x, text.data + to, size, &right));
    }
    *yes = !left && !right;
    return LM_OK;
}

static size_t space_before(lm_view text, size_t at)
{
    size_t size;

    while (at > 0 && lm_is_space(lm_utf8_last(text.data, at, &size)))
        at -= size;
    return at;
}

static size_t space_after(lm_view text, size_t at)
{
    size_t size;

    while (at < text.size && lm_is_space(lm_utf8_decode(text.data + at, &size)))
        at += size;
    return at;
}

/* `head`: the number of bytes at the start of `text` that come from the first character of x->text. */
typedef lm_status (*segment_fn)(encoding *x, lm_view text, size_t origin, size_t head);

/* Pass what lies between added tokens, [from, to) of `text`, to `segment`. */
static lm_status between(encoding *x, lm_view text, size_t from, size_t to, size_t origin, size_t head,
                         segment_fn segment)
{
    if (from >= to)
        return LM_OK;
    return segment(x, (lm_view){ text.data + from, to - from }, origin == SIZE_MAX ? origin : origin + from,
                   lm_head_within(head, from, to));
}

/* Emit the added tokens of one pass, and pass the text between them to `segment`. */
static lm_status find_added(encoding *x, unsigned pass, lm_view text, size_t origin, size_t head,
                            segment_fn segment)
{
    size_t          start = 0, at = 0, from;
    const lm_added *hit;

    while ((hit = lm_matcher_find(&x->t->matchers[pass], text, at, &from))) {
        size_t to    = from + hit->text.size;
        bool   alone = true;

        at = to;
        if (hit->special && (x->flags & LM_NO_PARSE_SPECIAL))
            continue;
        if (hit->special && touches_content(x, origin, from, to)) {
            at = from + 1;
            continue;
        }
        if (hit->single_word)
            LM_TRY(stands_alone(x, text, from, to, &alone));
        if (!alone)
            continue;
        if (hit->lstrip) {
            from = space_before(text, from);
            from = from > start ? from : start;
        }
        if (hit->rstrip)
            to = space_after(text, to);
        LM_TRY(between(x, text, start, from, origin, head, segment));
        LM_TRY(lm_tokens_add(x->out, hit->id, x->e));
        start = to;
    }
    return between(x, text, start, text.size, origin, head, segment);
}

static lm_status words_of(encoding *x, lm_view text, size_t origin, size_t head)
{
    (void)origin;
    return lm_pretokenize(&x->t->pre, &x->s->pre, &x->s->regex, text, head, encode_word, x, x->e);
}

static lm_status second_pass(encoding *x, lm_view text, size_t origin, size_t head)
{
    const bool first = head > 0;
    lm_view    normal;

    LM_TRY(lm_normalize(&x->t->normalizers, &x->s->normalize, &x->s->regex, text, &head, &normal, x->e));
    if (normal.data != text.data || normal.size != text.size)
        origin = SIZE_MAX;
    return find_added(x, 1, normal, origin, first ? head : 0, words_of);
}

/* Rewriting loses track of which bytes are content. Where that could let a special token through, message
 * data and template text are processed separately. */
static lm_status normalized_segment(encoding *x, lm_view text, size_t origin, size_t head)
{
    const unsigned flags = x->flags;
    size_t         at    = 0;

    if (x->n_content == 0 || x->t->normalizers.n == 0 || !x->t->matchers[1].has_special)
        return second_pass(x, text, origin, head);
    for (size_t i = 0; at < text.size && i <= x->n_content; i++) {
        size_t from = i < x->n_content && x->content[i].from > origin ? x->content[i].from - origin
                      : i < x->n_content                              ? 0
                                                                      : text.size;
        size_t to = i < x->n_content && x->content[i].to > origin ? x->content[i].to - origin
                    : i < x->n_content                            ? 0
                                                                  : text.size;

        from = from < at ? at : from < text.size ? from : text.size;
        to   = to < from ? from : to < text.size ? to : text.size;
        if (from > at)
            LM_TRY(second_pass(x, (lm_view){ text.data + at, from - at }, SIZE_MAX,
                               lm_head_within(head, at, from)));
        x->flags |= LM_NO_PARSE_SPECIAL;
        lm_status status = LM_OK;
        if (to > from)
            status = second_pass(x, (lm_view){ text.data + from, to - from }, SIZE_MAX,
                                 lm_head_within(head, from, to));
        x->flags = flags;
        LM_TRY(status);
        at = to;
    }
    return LM_OK;
}

static lm_status add_all(lm_tokens *out, const lm_token *ids, size_t n, lm_error *e)
{
    for (size_t i = 0; i < n; i++)
        LM_TRY(lm_tokens_add(out, ids[i], e));
    return LM_OK;
}

static lm_status encode(encoding *x)
{
    const lm_tokenizer *t    = x->t;
    size_t              head = 0;

    if (x->text.size)
        lm_utf8_decode(x->text.data, &head);
    LM_TRY(lm_regex_begin(&x->s->regex, x->text.size, x->e));
    if (x->flags & LM_ADD_SPECIAL)
        LM_TRY(add_all(x->out, t->before, t->n_before, x->e));
    LM_TRY(find_added(x, 0, x->text, 0, head, normalized_segment));
    if (x->flags & LM_ADD_SPECIAL)
        LM_TRY(add_all(x->out, t->after, t->n_after, x->e));
    return LM_OK;
}

/* ---- the public functions ---- */
static lm_status run(encoding *x)
{
    const size_t before = x->out->n;
    bool         whole  = true;

    if (x->text.size > MAX_TEXT)
        return lm_fail(x->e, LM_LIMIT, NULL, LM_NO_OFFSET,
                       "a text of %zu bytes, at most %d are tokenized at once", x->text.size, MAX_TEXT);
    x->s = borrow(x->t);
    if (!x->s)
        return lm_fail_memory(x->e, "tokenizing", sizeof *x->s);
    x->s->bpe.watch   = x->watch;
    x->s->bpe.watcher = x->watcher;
    if (!lm_utf8_is_valid(x->text)) {
        lm_text_clear(&x->s->repaired);
        lm_text_add_utf8(&x->s->repaired, x->text.data, x->text.size);
        x->text = lm_text_view(&x->s->repaired);
        whole   = !x->s->repaired.failed;
    }
    lm_status status = !whole ? lm_fail_memory(x->e, "a text", x->text.size) : encode(x);
    give_back(x->t, x->s, x->text.size);
    if (status != LM_OK)
        x->out->n = before;
    return status;
}

lm_status lm_tokenize(const lm_tokenizer *t, const char *text, size_t size, unsigned flags, lm_tokens *out,
                      lm_error *e)
{
    LM_REQUIRE(e, t && (text || !size) && out);
    encoding x = { .t = t, .flags = flags, .text = { size ? text : "", size }, .out = out, .e = e };

    return run(&x);
}

lm_status lm_tokenize_watched(const lm_tokenizer *t, lm_view text, lm_merge_watch *watch, void *arg,
                              lm_tokens *out, lm_error *e)
{
    encoding x = {
        .t = t, .flags = LM_NO_PARSE_SPECIAL, .watch = watch, .watcher = arg, .text = text, .out = out, .e = e
    };

    return run(&x);
}

lm_status lm_tokenize_rendering(const lm_tokenizer *t, const lm_rendering *r, bool parse_content,
                                lm_tokens *out, lm_error *e)
{
    LM_REQUIRE(e, t && r && out);
    encoding x = { .t = t, .text = { r->text.size ? r->text.data : "", r->text.size }, .out = out, .e = e };

    if (!parse_content) {
        x.content   = r->content;
        x.n_content = r->n_content;
    }
    /* Repairing the text would move the spans; a rendering of valid UTF-8 is valid. */
    if (!lm_utf8_is_valid(x.text))
        return lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "the rendering is not valid UTF-8");
    return run(&x);
}
