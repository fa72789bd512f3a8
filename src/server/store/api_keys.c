/* api_keys.c - api_keys.h: a sorted array of BLAKE2b hashes (libsodium), found by binary search. Limits per
 * minute are token buckets that refill evenly; limits per day are sums by day of UTC. Threads: any; one lock
 * protects all of it, and is not held while a file is read. */
#include "server/store/api_keys.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/os/clock.h"
#include "base/textfile.h"
#include "server/store/archive.h"
#include "server/front/memory.h"

enum { MAX_KEYS = 100000, MAX_LINE = 4096, DAY = 86400 };

/* What is left of a limit per minute; it refills evenly. Tokens are charged when they are known, so it may
 * fall below zero. */
typedef struct bucket { double left, since; bool filled; } bucket;

typedef struct entry {
    unsigned char hash[32];
    char      owner[33];
    lm_quota limits;
    int32_t   priority;
    size_t    place;                 /* in the order in which the keys were read */
    bucket    requests, tokens;
    int64_t   day;                   /* the day of `today`, in days since 1970; -1: not known */
    uint64_t  today;
} entry;

/* In the order of their hashes once all are read; no key occurs twice. */
typedef struct list { entry *items; size_t n, capacity; } list;

struct lm_keys {
    lm_keys_options o;
    pthread_mutex_t lock;            /* protects all that follows */
    list  all;
    entry nobody;                    /* used if no key is required */
    bool  required;                   /* never changes */
};

/* ---- list of keys ---- */

static void hash_of(const char *key, size_t n, unsigned char out[32])
{
    crypto_generichash(out, 32, (const unsigned char *)key, n, NULL, 0);
}

static lm_status add(list *l, const char *key, const lm_quota *limits, int32_t priority, lm_error *e)
{
    entry *x;

    if (l->n == MAX_KEYS)
        return lm_fail(e, LM_USAGE, "--api-key-file", LM_NO_OFFSET, "more than %d keys", MAX_KEYS);
    if (l->n == l->capacity) {
        size_t capacity = l->capacity ? 2 * l->capacity : 16;
        entry *items = lm_memory_grow(l->items, l->n * sizeof *items, capacity * sizeof *items);
        if (!items)
            return lm_fail_memory(e, "API keys", capacity * sizeof *items);
        l->items = items;
        l->capacity = capacity;
    }
    x = l->items + l->n;
    *x = (entry){ .limits = *limits, .priority = priority, .place = l->n, .day = -1 };
    hash_of(key, strlen(key), x->hash);
    lm_archive_owner(key, x->owner);
    l->n++;
    return LM_OK;
}

static entry *find(list *l, const unsigned char hash[32])
{
    entry *found = NULL;

    for (size_t i = 0; i < l->n; i++)                    /* all of them, so that the time reveals nothing */
        if (sodium_memcmp(hash, l->items[i].hash, 32) == 0)
            found = l->items + i;
    return found;
}

static int by_hash(const void *a, const void *b)
{
    return memcmp(((const entry *)a)->hash, ((const entry *)b)->hash, sizeof((const entry *)a)->hash);
}

static int by_hash_and_place(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    int order = by_hash(x, y);

    return order ? order : (x->place > y->place) - (x->place < y->place);
}

/* Sort the keys. Of a key that occurs several times, the last is kept: with two entries, one would be checked
 * and the other charged. */
static void sort(list *l)
{
    size_t n = 0;

    if (l->n)
        qsort(l->items, l->n, sizeof *l->items, by_hash_and_place);
    for (size_t i = 0; i < l->n; i++) {
        if (n && by_hash(l->items + n - 1, l->items + i) == 0)
            n--;
        l->items[n++] = l->items[i];
    }
    l->n = n;
}

/* Parse "priority=-1". False: it is not a priority. */
static bool read_priority(const char *word, int32_t *out)
{
    char *end;
    long n;

    if (strncmp(word, "priority=", 9))
        return false;
    errno = 0;
    n = strtol(word + 9, &end, 10);
    if (end == word + 9 || *end || errno || n < -LM_MAX_PRIORITY || n > LM_MAX_PRIORITY)
        return false;
    *out = (int32_t)n;
    return true;
}

/* Parse a limit, such as "requests=60". */
static lm_status read_limit(const char *word, const char *path, size_t line, lm_quota *out, lm_error *e)
{
    const struct { const char *name; uint64_t *value; } known[] = {
        { "requests=", &out->requests_minute },
        { "tokens=", &out->tokens_minute },
        { "tokens_day=", &out->tokens_day },
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t n = strlen(known[i].name);
        char *end;
        if (strncmp(word, known[i].name, n))
            continue;
        errno = 0;
        *known[i].value = strtoull(word + n, &end, 10);
        if (end == word + n || *end || word[n] == '-' || errno)
            break;
        return LM_OK;
    }
    return lm_fail(e, LM_USAGE, "--api-key-file", LM_NO_OFFSET,
                   "%s, line %zu: \"%.40s\" behind the key: expected requests=N, tokens=N, tokens_day=N or "
                   "priority=N",
                   path, line, word);
}

static lm_status read_line(const lm_keys *k, lm_text *text, size_t line, list *out, lm_error *e)
{
    lm_quota limits = k->o.limits;
    int32_t priority = 0;
    char *rest, *key = text->size ? strtok_r(text->data, " \t\r\n", &rest) : NULL;

    if (text->size > MAX_LINE)
        return lm_fail(e, LM_USAGE, "--api-key-file", LM_NO_OFFSET, "%s, line %zu: more than %d bytes",
                       k->o.file, line, MAX_LINE);
    if (!key || *key == '#')
        return LM_OK;
    for (char *word; (word = strtok_r(NULL, " \t\r\n", &rest)) && *word != '#';)
        if (!read_priority(word, &priority))
            LM_TRY(read_limit(word, k->o.file, line, &limits, e));
    return add(out, key, &limits, priority, e);
}

static lm_status read_lines(const lm_keys *k, FILE *f, lm_text *text, list *out, lm_error *e)
{
    lm_text_lines lines = { .file = f, .name = k->o.file };
    bool end = false;
    lm_error why;

    for (;;) {
        if (lm_next_line(&lines, text, &end, &why) != LM_OK) {
            lm_fail(e, why.code, "--api-key-file", why.offset, "%s, line %zu: %.200s", k->o.file,
                    (size_t)lines.number, why.message);
            if (*why.hint)
                lm_fail_hint(e, "%s", why.hint);
            return why.code;
        }
        if (end)
            return LM_OK;
        if (text->size && memchr(text->data, 0, text->size))
            return lm_fail(e, LM_USAGE, "--api-key-file", LM_NO_OFFSET, "%s, line %zu: a NUL character",
                           k->o.file, (size_t)lines.number);
        LM_TRY(read_line(k, text, (size_t)lines.number, out, e));
    }
}

static lm_status read_file(const lm_keys *k, list *out, lm_error *e)
{
    lm_text text = { 0 };
    size_t before = out->n;
    FILE *f = fopen(k->o.file, "re");

    if (!f)
        return lm_fail_errno(e, k->o.file, "cannot be opened");
    lm_status status = read_lines(k, f, &text, out, e);
    fclose(f);
    if (text.data)
        sodium_memzero(text.data, text.capacity);
    lm_text_free(&text);
    if (status == LM_OK && out->n == before)
        return lm_fail(e, LM_USAGE, "--api-key-file", LM_NO_OFFSET, "%s holds no key", k->o.file);
    return status;
}

static lm_status read_all(const lm_keys *k, list *out, lm_error *e)
{
    for (size_t i = 0; k->o.keys && k->o.keys[i]; i++)
        LM_TRY(add(out, k->o.keys[i], &k->o.limits, 0, e));
    if (k->o.file)
        LM_TRY(read_file(k, out, e));
    sort(out);
    return LM_OK;
}

lm_status lm_keys_new(const lm_keys_options *o, lm_keys **out, lm_error *e)
{
    lm_keys *k = lm_memory_zero(1, sizeof *k);
    lm_status status;

    if (!k)
        return lm_fail_memory(e, "API keys", sizeof *k);
    if (sodium_init() < 0) {
        lm_heap_free(k);
        return lm_fail(e, LM_FAILED, "API keys", LM_NO_OFFSET, "there is no source of randomness");
    }
    k->o = *o;
    k->nobody = (entry){ .limits = o->limits, .day = -1 };
    pthread_mutex_init(&k->lock, NULL);
    status = read_all(k, &k->all, e);
    k->required = k->all.n > 0;
    if (status == LM_OK)
        *out = k;
    else
        lm_keys_free(k);
    return status;
}

void lm_keys_free(lm_keys *k)
{
    if (!k)
        return;
    pthread_mutex_destroy(&k->lock);
    lm_heap_free(k->all.items);
    lm_heap_free(k);
}

lm_status lm_keys_reload(lm_keys *k, size_t *n, lm_error *e)
{
    list fresh = { 0 }, old;
    lm_status status = read_all(k, &fresh, e);

    if (status != LM_OK) {
        lm_heap_free(fresh.items);
        return status;
    }
    pthread_mutex_lock(&k->lock);
    for (size_t i = 0; i < fresh.n; i++) {
        const entry *before = k->all.n ? bsearch(fresh.items + i, k->all.items, k->all.n,
                                                 sizeof *k->all.items, by_hash)
                                       : NULL;
        entry from_file = fresh.items[i];
        if (before) {
            fresh.items[i] = *before;
            fresh.items[i].limits = from_file.limits;
            fresh.items[i].priority = from_file.priority;
        }
    }
    old = k->all;
    k->all = fresh;
    *n = fresh.n;
    pthread_mutex_unlock(&k->lock);
    lm_heap_free(old.items);
    return LM_OK;
}

/* ---- access ---- */

bool lm_keys_required(const lm_keys *k)
{
    return k->required;
}

/* Find a key. Under the lock. NULL: no such key. */
static entry *entry_of(lm_keys *k, const char *key)
{
    unsigned char hash[32];

    if (!k->required)
        return &k->nobody;
    hash_of(key ? key : "", key ? strlen(key) : 0, hash);
    return find(&k->all, hash);
}

bool lm_keys_admit(lm_keys *k, const char *key)
{
    bool good;

    pthread_mutex_lock(&k->lock);
    good = entry_of(k, key) != NULL;
    pthread_mutex_unlock(&k->lock);
    return good;
}

void lm_keys_owner(const lm_keys *k, const char *key, char out[33])
{
    lm_archive_owner(k->required ? key : NULL, out);
}

int32_t lm_keys_priority(lm_keys *k, const char *key, int32_t wanted)
{
    const entry *x;
    int32_t own;

    pthread_mutex_lock(&k->lock);
    x = entry_of(k, key);
    own = x ? x->priority : 0;
    pthread_mutex_unlock(&k->lock);
    return wanted == LM_PRIORITY_NONE || (k->required && wanted < own) ? own : wanted;
}

/* ---- limits ---- */

static void refill(bucket *b, uint64_t limit, double at)
{
    double max = (double)limit;

    if (!b->filled || b->left > max)
        *b = (bucket){ max, at, true };
    b->left = fmin(max, b->left + (at - b->since) * max / 60);
    b->since = at;
}

/* Return the seconds until there is enough; 0: there is. */
static double wait_for(bucket *b, uint64_t limit, double needed, double at)
{
    if (!limit)
        return 0;
    refill(b, limit, at);
    return b->left >= needed ? 0 : (needed - b->left) * 60 / (double)limit;
}

bool lm_keys_take(lm_keys *k, const char *key, uint64_t (*used)(void *arg, const char *owner), void *arg,
                  double *seconds, const char **why)
{
    int64_t clock = (int64_t)time(NULL), day = clock / DAY;
    double at = lm_clock_seconds();
    uint64_t before = 0;
    char owner[33] = "";
    bool asks;
    entry *x;

    pthread_mutex_lock(&k->lock);
    x = entry_of(k, key);
    asks = x && x->limits.tokens_day && x->day != day;
    if (x)
        memcpy(owner, x->owner, sizeof owner);
    pthread_mutex_unlock(&k->lock);
    if (asks)                                            /* not under the lock: it may wait for the disk */
        before = used(arg, owner);
    pthread_mutex_lock(&k->lock);
    *why = NULL;
    *seconds = 0;
    if ((x = entry_of(k, key))) {
        if (x->day != day) {
            x->day = day;
            x->today = before;
        }
        if ((*seconds = wait_for(&x->requests, x->limits.requests_minute, 1, at)) > 0)
            *why = "requests a minute";
        else if ((*seconds = wait_for(&x->tokens, x->limits.tokens_minute, 1, at)) > 0)
            *why = "tokens a minute";
        else if (x->limits.tokens_day && x->today >= x->limits.tokens_day) {
            *seconds = (double)((day + 1) * DAY - clock);
            *why = "tokens a day";
        } else if (x->limits.requests_minute)
            x->requests.left -= 1;
    }
    pthread_mutex_unlock(&k->lock);
    return !*why;
}

void lm_keys_charge(lm_keys *k, const char *owner, uint64_t tokens)
{
    int64_t day = (int64_t)time(NULL) / DAY;
    double at = lm_clock_seconds();

    pthread_mutex_lock(&k->lock);
    for (size_t i = 0; i <= k->all.n; i++) {
        entry *x = i < k->all.n ? k->all.items + i : &k->nobody;
        if (strcmp(x->owner, owner) || (x == &k->nobody && k->required))
            continue;
        if (x->limits.tokens_minute)
            refill(&x->tokens, x->limits.tokens_minute, at);
        x->tokens.left -= (double)tokens;
        if (x->day == day)
            x->today += tokens;
        else if (x->day >= 0) {
            x->day = day;
            x->today = tokens;
        }
        break;
    }
    pthread_mutex_unlock(&k->lock);
}
