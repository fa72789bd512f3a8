/* http_body.c - http_head.h: the bytes of a body, of known length or in chunks (RFC 9112, 7.1). Extensions of
 * chunks and trailers are skipped; there may be a few KiB of them. */
#include "server/front/http_head.h"

enum { SIZE, EXTENSION, SIZE_END, DATA, DATA_CR, DATA_LF, LINE, TRAILER, TRAILER_LF, END_LF, WHOLE };
enum { MAX_DIGITS = 15, MAX_SKIPPED = 8 << 10 };

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool take_size(lm_body *b, char c)
{
    int value = digit(c);

    if (value < 0) {
        b->state = c == ';' ? EXTENSION : SIZE_END;
        return b->digits && (c == ';' || c == '\r');
    }
    b->left = 16 * b->left + (unsigned)value;
    return ++b->digits <= MAX_DIGITS;
}

/* Skip a byte of a line whose content does not matter, up to its CR. */
static bool skip(lm_body *b, char c, int then)
{
    if (c == '\r')
        b->state = then;
    return c != '\n' && c && ++b->skipped <= MAX_SKIPPED;
}

static bool expect(lm_body *b, char c, char expected, int then)
{
    b->state = then;
    return c == expected;
}

/* Take a byte that is not content. */
static bool take_byte(lm_body *b, char c)
{
    switch (b->state) {
    case SIZE:      return take_size(b, c);
    case EXTENSION: return skip(b, c, SIZE_END);
    case SIZE_END:
        b->digits = 0;
        return expect(b, c, '\n', b->left ? DATA : LINE);
    case DATA_CR:   return expect(b, c, '\r', DATA_LF);
    case DATA_LF:   return expect(b, c, '\n', SIZE);
    case LINE:
        if (c == '\r')
            return expect(b, c, '\r', END_LF);
        b->state = TRAILER;
        return skip(b, c, TRAILER_LF);
    case TRAILER:    return skip(b, c, TRAILER_LF);
    case TRAILER_LF: return expect(b, c, '\n', LINE);
    default:         return expect(b, c, '\n', WHOLE);
    }
}

size_t lm_body_take(lm_body *b, const char *data, size_t n, size_t *size, const char **why)
{
    size_t at = 0;

    *why  = NULL;
    *size = 0;
    while (b->chunked && b->state != DATA && b->state != WHOLE && at < n)
        if (!take_byte(b, data[at++])) {
            *why = "the body does not have the chunked coding";
            return at;
        }
    if ((b->chunked && b->state != DATA) || !b->left)
        return at;
    *size = n - at < b->left ? n - at : (size_t)b->left;
    b->left -= *size;
    if (b->chunked && !b->left)
        b->state = DATA_CR;
    return at + *size;
}

bool lm_body_is_whole(const lm_body *b)
{
    return b->chunked ? b->state == WHOLE : !b->left;
}
