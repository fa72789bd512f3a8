/* sentencepiece.c - read the required fields of the protocol buffer. */
#include "export/vocabulary/sentencepiece.h"

#include <string.h>

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };
enum { NORMAL = 1, UNUSED = 5, UNIGRAM = 1 };

typedef struct field { uint32_t number, kind; uint64_t value; lm_view bytes; } field;

static bool varint(lm_view *v, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; v->size && shift < 64; shift += 7) {
        uint8_t b = (uint8_t)*v->data;
        v->data++;
        v->size--;
        *out |= (uint64_t)(b & 127) << shift;
        if (!(b & 128))
            return true;
    }
    return false;
}

/* Read the next field of a message. Return false at its end, or with *bad set if the message is broken. */
static bool next(lm_view *v, field *f, bool *bad)
{
    uint64_t tag, n;

    if (!v->size)
        return false;
    *bad = true;
    if (!varint(v, &tag))
        return false;
    *f = (field){ .number = (uint32_t)(tag >> 3), .kind = tag & 7 };
    if (f->kind == VARINT) {
        if (!varint(v, &f->value))
            return false;
    } else {
        n = f->kind == FIXED64 ? 8 : f->kind == FIXED32 ? 4 : 0;
        if ((!n && f->kind != BYTES) || (!n && !varint(v, &n)) || n > v->size)
            return false;
        f->bytes = (lm_view){ v->data, (size_t)n };
        v->data += n;
        v->size -= (size_t)n;
    }
    *bad = false;
    return true;
}

typedef struct piece { lm_view text; float score; int32_t type; } piece;

static bool read_piece(lm_view message, piece *out)
{
    field f;
    bool  bad = false;

    *out = (piece){ .type = NORMAL };
    while (next(&message, &f, &bad)) {
        if (f.number == 1 && f.kind == BYTES)
            out->text = f.bytes;
        else if (f.number == 2 && f.kind == FIXED32)
            memcpy(&out->score, f.bytes.data, sizeof out->score);
        else if (f.number == 3 && f.kind == VARINT && f.value >= 1 && f.value <= 6)
            out->type = (int32_t)f.value;
    }
    return !bad;
}

static lm_status broken(lm_error *e)
{
    return lm_fail(e, LM_BAD_MODEL, "tokenizer.model", LM_NO_OFFSET, "not a SentencePiece model");
}

static void read_trainer(lm_view message, lm_sentencepiece *out, uint64_t *kind)
{
    field f;
    bool  bad = false;

    while (next(&message, &f, &bad)) {
        if (f.kind != VARINT)
            continue;
        if (f.number == 3)
            *kind = f.value;
        else if (f.number == 40)
            out->unknown = (int32_t)f.value;
        else if (f.number == 41)
            out->bos = (int32_t)f.value;
        else if (f.number == 42)
            out->eos = (int32_t)f.value;
    }
}

static void read_normalizer(lm_view message, lm_sentencepiece *out)
{
    field f;
    bool  bad = false;

    while (next(&message, &f, &bad))
        if (f.number == 3 && f.kind == VARINT)
            out->prefix = f.value != 0;
}

lm_status lm_sentencepiece_read(lm_view file, uint32_t rows, lm_arena *arena, lm_view *tokens, int32_t *types,
                                float *scores, lm_sentencepiece *out, lm_error *e)
{
    uint64_t kind = UNIGRAM;
    field    f;
    piece    p;
    bool     bad = false;

    *out = (lm_sentencepiece){ .bos = 1, .eos = 2, .unknown = 0, .prefix = true };
    while (next(&file, &f, &bad)) {
        if (f.kind == BYTES && f.number == 2)
            read_trainer(f.bytes, out, &kind);
        if (f.kind == BYTES && f.number == 3)
            read_normalizer(f.bytes, out);
        if (f.kind != BYTES || f.number != 1)
            continue;
        if (!read_piece(f.bytes, &p))
            return broken(e);
        if (out->n++ >= rows)
            continue;
        char *text          = lm_arena_strndup(arena, p.text.data, p.text.size);
        tokens[out->n - 1]  = (lm_view){ text, p.text.size };
        types[out->n - 1]   = p.type;
        scores[out->n - 1]  = p.score;
        if (!text)
            return lm_fail_memory(e, "a vocabulary", p.text.size);
    }
    if (bad || !out->n)
        return broken(e);
    if (kind == UNIGRAM)
        return lm_fail(e, LM_UNSUPPORTED, "tokenizer.model", LM_NO_OFFSET,
                       "a unigram model; only BPE is supported");
    for (uint32_t i = out->n; i < rows; i++) {
        char *pad = lm_arena_printf(arena, "[PAD%u]", i);
        if (!pad)
            return lm_fail_memory(e, "a vocabulary", rows);
        tokens[i] = lm_view_of(pad);
        types[i]  = UNUSED;
        scores[i] = -10000;
    }
    return LM_OK;
}

lm_status lm_sentencepiece_scores(lm_view file, const lm_view *tokens, int32_t *types, float *scores,
                                  uint32_t n, lm_error *e)
{
    uint32_t id  = 0;
    field    f;
    piece    p;
    bool     bad = false;

    while (next(&file, &f, &bad)) {
        if (f.kind != BYTES || f.number != 1)
            continue;
        if (!read_piece(f.bytes, &p))
            return broken(e);
        if (id < n && lm_view_equal(p.text, tokens[id])) {
            scores[id] = p.score;
            types[id]  = p.type;
        }
        id++;
    }
    return bad || !id ? broken(e) : LM_OK;
}
