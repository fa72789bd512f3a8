/* masks.c - measure the cost of constraints for a list of schemas: compilation, and each mask during
 * generation. Prints a Markdown table.
 *
 *   bench_masks TOKENIZER
 *
 * TOKENIZER: a tokenizer.json or a .gguf; the target of 50 microseconds refers to the 128 thousand tokens of
 * Llama 3. Outputs are random walks through the masks, with a fresh grammar per schema; the percentiles
 * include every mask of every output, also the first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lamina/grammar.h"

enum { TEXTS = 20, MAX_TOKENS = 200, MAX_MASKS = 1 << 20 };

static const struct { const char *name, *schema; } schemas[] = {
    { "a tool's arguments",
      "{\"type\":\"object\",\"properties\":{\"location\":{\"type\":\"string\",\"description\":\"city\"},\"unit"
      "\":{\"enum\":[\"celsius\","
      "\"fahrenheit\"]},"
      "\"days\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":14}},\"required\":[\"location\",\"unit\"],\"ad"
      "ditionalProperties\":false}" },
    { "a record with lists",
      "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"tags\":{\"type\":\"array\",\"item"
      "s\":{\"type\":\"string\"},\"maxItems\":5},"
      "\"scores\":{\"type\":\"array\",\"items\":{\"type\":\"number\"}},\"active\":{\"type\":\"boolean\"},"
      "\"address\":{\"type\":\"object\",\"properties\":{\"street\":{\"type\":\"string\"},\"zip\":{\"type\":\"s"
      "tring\",\"pattern\":\"^[0-9]{5}$\"}},"
      "\"required\":[\"street\",\"zip\"]}},\"required\":[\"name\"]}" },
    { "any JSON", "{}" },
    { "lengths and formats",
      "{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"string\",\"format\":\"uuid\"},\"at\":{\"type\":"
      "\"string\",\"format\":\"date-time\"},\"title\":"
      "{\"type\":\"string\",\"minLength\":5,\"maxLength\":80}},\"required\":[\"id\",\"at\",\"title\"]}" },
    { "a tree",
      "{\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"value\":{\"type\":\"string\"},\"children\":{\""
      "type\":\"array\",\"items\":{\"$ref\":\"#/$defs/n\"}}},"
      "\"required\":[\"value\",\"children\"]}},\"$ref\":\"#/$defs/n\"}" },
    { "other members by pattern",
      "{\"type\":\"object\",\"properties\":{\"kind\":{\"const\":\"map\"}},\"patternProperties\":{\"^x_\":{\"type\":\"integer\"}},"
      "\"additionalProperties\":{\"type\":\"string\"},\"required\":[\"kind\"]}" },
};

static double times[MAX_MASKS];

/* Return the processor time of this thread in seconds; other work on the machine does not count. */
static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int rising(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static uint32_t next_random(uint32_t *seed) { return *seed = *seed * 1664525u + 1013904223u; }

/* Return a random token of the mask. An end token is drawn again, up to three times, so that outputs do not
 * stop early. */
static lm_token choose(const lm_tokenizer *t, const uint64_t *mask, uint32_t size, uint32_t *seed)
{
    lm_token found = -1;

    for (unsigned tries = 0; tries < 4; tries++) {
        uint32_t from = (next_random(seed) >> 3) % size, i = 0;
        while (i < size && !(mask[(from + i) % size / 64] >> ((from + i) % size % 64) & 1))
            i++;
        lm_token id = (lm_token)((from + i) % size);
        if (found < 0 || lm_tokenizer_is_end(t, found))
            found = id;
    }
    return found;
}

static size_t measure(const lm_tokenizer *t, lm_vocabulary *v, size_t k, size_t n, double *compiling)
{
    uint32_t       size = lm_vocabulary_size(v), seed = 1;
    uint64_t      *mask = calloc((size + 63) / 64, sizeof *mask);
    double         started = now();
    lm_grammar    *g;
    lm_constraint *c;
    lm_error       e;

    if (lm_grammar_json_schema(schemas[k].schema, strlen(schemas[k].schema), NULL, &g, &e) != LM_OK ||
        lm_constraint_new(g, v, &c, &e) != LM_OK) {
        fprintf(stderr, "%s: %s\n", e.where, e.message);
        exit(1);
    }
    *compiling = now() - started;
    for (unsigned text = 0; text < TEXTS; text++) {
        lm_constraint_reset(c);
        for (unsigned i = 0; i < MAX_TOKENS && !lm_constraint_ended(c) && n < MAX_MASKS; i++) {
            double before = now();
            if (lm_constraint_mask(c, mask, &e) != LM_OK)
                break;
            times[n++] = now() - before;
            lm_constraint_accept(c, choose(t, mask, size, &seed), &e);
        }
    }
    lm_constraint_free(c);
    lm_grammar_free(g);
    free(mask);
    return n;
}

static void row(const char *name, double compiling, double *x, size_t n)
{
    double sum = 0;

    qsort(x, n, sizeof *x, rising);
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    printf("| %s | %.2f | %zu | %.1f | %.1f | %.1f | %.1f | %.0f |\n", name, 1e3 * compiling, n,
           1e6 * sum / (double)n, 1e6 * x[n / 2], 1e6 * x[n * 95 / 100], 1e6 * x[n * 99 / 100],
           1e6 * x[n - 1]);
}

int main(int argc, char **argv)
{
    lm_tokenizer  *t;
    lm_vocabulary *v;
    lm_error       e;
    double         all = 0, compiling;
    size_t         n = 0;

    if (argc != 2 || lm_tokenizer_open(argv[1], NULL, &t, &e) != LM_OK) {
        fprintf(stderr, "bench_masks TOKENIZER%s%s\n", argc == 2 ? ": " : "", argc == 2 ? e.message : "");
        return 2;
    }
    double started = now();
    if (lm_vocabulary_new(t, 0, NULL, 0, &v, &e) != LM_OK) {
        fprintf(stderr, "%s\n", e.message);
        return 1;
    }
    printf("%u tokens; vocabulary made in %.0f ms\n\n", lm_vocabulary_size(v), 1e3 * (now() - started));
    printf("| schema | compiled in ms | masks | µs mean | p50 | p95 | p99 | most "
           "|\n|---|---|---|---|---|---|---|---|\n");
    static double own[MAX_MASKS];
    for (size_t k = 0; k < sizeof schemas / sizeof *schemas; k++) {
        size_t before = n;
        n = measure(t, v, k, n, &compiling);
        memcpy(own, times + before, (n - before) * sizeof *own);
        row(schemas[k].name, compiling, own, n - before);
        all += compiling;
    }
    row("all", all, times, n);
    lm_vocabulary_free(v);
    lm_tokenizer_free(t);
    return 0;
}
