/* logits_file.c - read and write the files of logits that llama-perplexity writes. */
#include "runtime/measure/logits_file.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"

#define MAGIC "_logits_"

enum { HEAD = 8 + 3 * 4 };

static uint32_t word(const lm_logits_file *f, uint64_t at)
{
    uint32_t x;

    memcpy(&x, f->file.data + at, sizeof x);
    return x;
}

static lm_status refuse(const lm_logits_file *f, const char *why, lm_error *e)
{
    lm_fail(e, LM_BAD_MODEL, NULL, LM_NO_OFFSET, "%s", why);
    return lm_fail_in(e, f->file.path);
}

uint64_t lm_coded_row_bytes(uint32_t n_vocab)
{
    return 2 * (2 * (((uint64_t)n_vocab + 1) / 2) + 4);
}

static lm_status study(lm_logits_file *f, lm_error *e)
{
    uint64_t tokens, rows, bytes, end;

    if (f->file.size < HEAD || memcmp(f->file.data, MAGIC, 8) != 0)
        return refuse(f, "not a file of logits as llama-perplexity writes it", e);
    f->context = word(f, 8);
    f->n_vocab = word(f, 12);
    f->chunks  = word(f, 16);
    if (f->context < 4 || f->context > INT32_MAX || !f->n_vocab || f->n_vocab > INT32_MAX || !f->chunks ||
        f->chunks > INT32_MAX)
        return refuse(f, "a context, vocabulary or number of chunks that cannot be", e);
    f->rows      = f->context - 1 - f->context / 2;
    f->row_bytes = lm_coded_row_bytes(f->n_vocab);
    tokens       = (uint64_t)f->chunks * f->context;
    rows         = (uint64_t)f->chunks * f->rows;
    f->first_row = HEAD + 4 * tokens;
    if (!lm_mul_u64(rows, f->row_bytes, &bytes) || !lm_add_u64(bytes, f->first_row, &end) ||
        end > f->file.size) {
        lm_fail(e, LM_BAD_MODEL, NULL, (int64_t)f->file.size,
                "%u chunks of %u tokens with a vocabulary of %u are more than the file holds", f->chunks,
                f->context, f->n_vocab);
        return lm_fail_in(e, f->file.path);
    }
    for (uint64_t i = 0; i < tokens; i++)
        if (word(f, HEAD + 4 * i) >= f->n_vocab)
            return refuse(f, "a token is outside its vocabulary", e);
    return LM_OK;
}

lm_status lm_logits_file_open(const char *path, lm_logits_file *out, lm_error *e)
{
    LM_TRY(lm_filemap_open(path, true, &out->file, e));
    lm_status status = study(out, e);
    if (status != LM_OK)
        lm_filemap_close(&out->file);
    return status;
}

void lm_logits_file_close(lm_logits_file *f)
{
    lm_filemap_close(&f->file);
}

void lm_logits_file_tokens(const lm_logits_file *f, lm_token *out)
{
    memcpy(out, f->file.data + HEAD, 4 * (uint64_t)f->chunks * f->context);
}

lm_coded_row lm_logits_file_row(const lm_logits_file *f, uint32_t chunk, uint32_t row)
{
    const uint8_t *at = f->file.data + f->first_row + ((uint64_t)chunk * f->rows + row) * f->row_bytes;
    lm_coded_row   r  = { .codes = at + 8 };

    memcpy(&r.step, at, 4);
    memcpy(&r.lowest, at + 4, 4);
    return r;
}

void lm_coded_row_make(uint8_t *out, const float *logits, uint32_t n_vocab)
{
    float  max = logits[0], min = logits[0];
    double sum = 0;

    for (uint32_t i = 1; i < n_vocab; i++) {
        max  = logits[i] > max ? logits[i] : max;
        min = logits[i] < min ? logits[i] : min;
    }
    min = min > max - 16 ? min : max - 16;
    for (uint32_t i = 0; i < n_vocab; i++)
        sum += exp((double)(logits[i] - max));
    float lowest = min - max - (float)log(sum), step = (max - min) / 65535.0f,
          inverse = step > 0 ? 1 / step : 0;
    memset(out, 0, lm_coded_row_bytes(n_vocab));
    memcpy(out, &step, 4);
    memcpy(out + 4, &lowest, 4);
    for (uint32_t i = 0; i < n_vocab && step > 0; i++) {
        float    x    = inverse * (logits[i] - min);
        uint32_t code = x > 0 ? (uint32_t)lrintf(x) : 0;
        code          = code < 65535 ? code : 65535;
        out[8 + 2 * (uint64_t)i]     = (uint8_t)code;
        out[8 + 2 * (uint64_t)i + 1] = (uint8_t)(code >> 8);
    }
}

lm_status lm_logits_file_begin(lm_outfile *f, uint32_t context, uint32_t n_vocab, uint32_t chunks,
                               const lm_token *tokens, lm_error *e)
{
    uint32_t head[] = { context, n_vocab, chunks };

    LM_TRY(lm_outfile_write(f, MAGIC, 8, e));
    LM_TRY(lm_outfile_write(f, head, sizeof head, e));
    return lm_outfile_write(f, tokens, sizeof *tokens * (size_t)chunks * context, e);
}
