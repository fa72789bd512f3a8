/* json_mutator.c - JSON stays nearly valid: a number becomes an edge case, a string another string, a member
 * appears twice. */
#include "json_mutator.h"

#include "fuzz.h"

enum { MAX_TOKENS = 8192 };

typedef struct token {
    size_t from, to;
    char   kind;                         /* 's'tring, 'n'umber or word, or the bracket, comma or colon
                                            itself */
} token;

typedef struct tokens {
    token  list[MAX_TOKENS];
    size_t n;
} tokens;

static void scan(tokens *t, const uint8_t *p, size_t size)
{
    t->n = 0;
    for (size_t i = 0; i < size && t->n < MAX_TOKENS;) {
        size_t from = i;
        if (memchr(" \t\r\n", p[i], 4)) {
            i++;
            continue;
        }
        if (p[i] == '"') {
            for (i++; i < size && p[i] != '"'; i++)
                i += p[i] == '\\' && i + 1 < size;
            i += i < size;
            t->list[t->n++] = (token){ from, i, 's' };
        } else if (memchr("{}[]:,", p[i], 6)) {
            i++;
            t->list[t->n++] = (token){ from, i, (char)p[from] };
        } else {
            while (i < size && !memchr(" \t\r\n{}[]:,\"", p[i], 11))
                i++;
            t->list[t->n++] = (token){ from, i, 'n' };
        }
    }
}

/* Return the index after the value that begins at token i. */
static size_t value_end(const tokens *t, size_t i)
{
    int depth = 0;

    for (; i < t->n; i++) {
        char k = t->list[i].kind;
        depth += k == '{' || k == '[';
        depth -= k == '}' || k == ']';
        if (depth <= 0)
            return i + 1;
    }
    return t->n;
}

static size_t replace(uint8_t *p, size_t size, size_t max, size_t from, size_t to, const void *with, size_t n)
{
    if (size - (to - from) + n > max)
        return size;
    memmove(p + from + n, p + to, size - to);
    memcpy(p + from, with, n);
    return size - (to - from) + n;
}

static size_t new_number(char text[64], unsigned *seed)
{
    static const char *const odd[] = { "-0",
                                       "-1",
                                       "0.5",
                                       "1e300",
                                       "1e999",
                                       "3.0",
                                       "00",
                                       "1e0",
                                       "-9223372036854775809",
                                       "NaN",
                                       "18446744073709551616",
                                       "9007199254740993",
                                       "null",
                                       "true",
                                       "\"7\"",
                                       "{}",
                                       "[]" };

    if (below(seed, 3))
        return (size_t)snprintf(text, 64, "%llu", (unsigned long long)edge(seed, draw(seed) % 64, 64));
    return (size_t)snprintf(text, 64, "%s", odd[below(seed, sizeof odd / sizeof *odd)]);
}

static size_t new_string(const tokens *t, const uint8_t *p, uint8_t text[600], unsigned *seed)
{
    static const char *const odd[] = { "\"\"",
                                       "\"\\u0000\"",
                                       "\"\\ud800\"",
                                       "\"\\u0061\"",
                                       "\"\xff\"",
                                       "\"../x\"",
                                       "\"__metadata__\"",
                                       "\"dtype\"",
                                       "\"shape\"",
                                       "\"data_offsets\"",
                                       "\"F32\"",
                                       "\"BF16\"",
                                       "\"BOOL\"",
                                       "\"weight_map\"",
                                       "\"a.safetensors\"",
                                       "\"b.safetensors\"",
                                       "\"a\"",
                                       "\"b\"" };

    if (below(seed, 2)) {
        const char *s = odd[below(seed, sizeof odd / sizeof *odd)];
        memcpy(text, s, strlen(s));
        return strlen(s);
    }
    token  other = t->list[below(seed, t->n)];
    size_t n = other.to - other.from < 256 ? other.to - other.from : 256;
    memcpy(text, p + other.from, n);
    return below(seed, 2) ? n : LLVMFuzzerMutate(text, n, 600);
}

/* Copy a value (with its name) elsewhere, or drop it. */
static size_t move_value(const tokens *t, uint8_t *p, size_t size, size_t max, unsigned *seed)
{
    size_t  first = below(seed, t->n), last = value_end(t, first), n;
    uint8_t copy[1024];

    if (last < t->n && t->list[last].kind == ':')
        last = value_end(t, last + 1);
    if (last == first)
        return size;
    size_t from = t->list[first].from, to = t->list[last - 1].to;
    if (last < t->n && t->list[last].kind == ',')
        to = t->list[last].to;
    n = to - from;
    if (below(seed, 2))
        return replace(p, size, max, from, to, "", 0);
    if (n + 1 > sizeof copy)
        return size;
    memcpy(copy, p + from, n);
    if (copy[n - 1] != ',')
        copy[n++] = ',';
    size_t at = t->list[below(seed, t->n)].from;
    return replace(p, size, max, at, at, copy, n);
}

static size_t change_one(uint8_t *p, size_t size, size_t max, unsigned *seed)
{
    static tokens t;
    uint8_t       text[600];
    size_t        n;

    scan(&t, p, size);
    if (!t.n || below(seed, 8) == 0)
        return LLVMFuzzerMutate(p, size, max);
    if (below(seed, 4) == 0)
        return move_value(&t, p, size, max, seed);
    token k = t.list[below(seed, t.n)];
    for (int tries = 0; tries < 4 && k.kind != 'n' && k.kind != 's'; tries++)
        k = t.list[below(seed, t.n)];
    n = k.kind == 's' ? new_string(&t, p, text, seed) : new_number((char *)text, seed);
    return replace(p, size, max, k.from, k.to, text, n);
}

size_t json_mutate(uint8_t *text, size_t size, size_t max_size, unsigned seed)
{
    for (size_t n = 1 + below(&seed, 3); n; n--)
        size = change_one(text, size, max_size, &seed);
    return size;
}
