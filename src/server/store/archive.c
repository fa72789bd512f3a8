#include "server/store/archive.h"

#include <pthread.h>
#include <sodium.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "server/front/workers.h"

/* "lama" in ASCII: other databases have another application id. */
enum { APPLICATION = 0x6c616d61, BUSY_MS = 2000, MOST_WRITES = 1024, MOST_TRIES = 50, PAUSE_MS = 5 };

/* Tokens of one owner, of the day that it was asked about last. */
typedef struct owner_day { char owner[33], day[16]; uint64_t tokens; } owner_day;

/* Two connections: the writer's thread has one to itself; those who read share the other one, and wait neither for the writer nor for what
 * it waits for (write-ahead log). In memory both are one. */
struct lm_archive {
    sqlite3        *db;              /* the writer's; `read_lock` where it is both */
    uint64_t        bytes, limit;    /* of responses; the writer's */
    lm_workers     *writer;
    sqlite3        *reads;
    pthread_mutex_t read_lock;       /* of `reads` */
    atomic_bool     closing;
    pthread_mutex_t lock;            /* of all that follows: never held over the disk */
    struct write_item *first, **last;        /* handed over and not written, in order */
    uint64_t        held;            /* bytes of those */
    bool            writing;         /* the first of them is being written */
    uint64_t        writes;          /* that were begun */
    lm_error        lost;            /* LM_OK: all was written since the last that was */
    owner_day      *days;            /* [n_days] */
    size_t          n_days, most_days;
};

typedef enum write_kind { WRITE_RECORD, WRITE_REMOVAL, WRITE_COUNT } write_kind;

/* Freed by the writer's thread once it is out of the list. */
typedef struct write_item {
    lm_work_item item;               /* the first */
    struct write_item *next;
    lm_archive  *archive;
    char         owner[33];
    write_kind   kind;
    lm_record    record;             /* of a removal the id alone */
    char         model[128], day[16];
    uint64_t     prompt, cached, tokens;
} write_item;

static const char schema[] =
    "PRAGMA application_id = 1818324321;"
    "CREATE TABLE IF NOT EXISTS responses (id TEXT NOT NULL, owner TEXT NOT NULL, previous TEXT NOT NULL, created INTEGER NOT NULL,"
    " size INTEGER NOT NULL, response TEXT NOT NULL, input TEXT NOT NULL, PRIMARY KEY (owner, id));"
    "CREATE INDEX IF NOT EXISTS responses_by_age ON responses (created);"
    "CREATE TABLE IF NOT EXISTS tokens (day TEXT NOT NULL, owner TEXT NOT NULL, model TEXT NOT NULL, requests INTEGER NOT NULL,"
    " prompt INTEGER NOT NULL, cached INTEGER NOT NULL, written INTEGER NOT NULL, PRIMARY KEY (owner, day, model));";

static lm_status fail(sqlite3 *db, lm_error *e)
{
    return lm_fail(e, LM_IO, "the store", LM_NO_OFFSET, "%s", db ? sqlite3_errmsg(db) : "out of memory");
}

/* ---- statements: letters say what is bound, s a text and i an integer ---- */

typedef union bound { const char *s; int64_t i; } bound;

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql, const char *kinds, const bound *values)
{
    sqlite3_stmt *s = NULL;

    if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) != SQLITE_OK)
        return NULL;
    for (int i = 0; kinds[i]; i++) {
        int rc = kinds[i] == 's' ? sqlite3_bind_text(s, i + 1, values[i].s, -1, SQLITE_STATIC) : sqlite3_bind_int64(s, i + 1, values[i].i);
        if (rc != SQLITE_OK) {
            sqlite3_finalize(s);
            return NULL;
        }
    }
    return s;
}

static lm_status execute(sqlite3 *db, const char *sql, const char *kinds, const bound *values, lm_error *e)
{
    sqlite3_stmt *s = prepare(db, sql, kinds, values);
    lm_status status = s && sqlite3_step(s) == SQLITE_DONE ? LM_OK : fail(db, e);

    sqlite3_finalize(s);
    return status;
}

/* The first column of the first row. */
static lm_status number(sqlite3 *db, const char *sql, int64_t *out, lm_error *e)
{
    sqlite3_stmt *s = prepare(db, sql, "", NULL);
    lm_status status = s && sqlite3_step(s) == SQLITE_ROW ? LM_OK : fail(db, e);

    if (status == LM_OK)
        *out = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return status;
}

/* ---- writes, by the writer's thread ---- */

/* Remove those that a statement names, which returns their sizes. */
static lm_status give_up(lm_archive *a, const char *sql, const char *kinds, const bound *values, uint64_t *n, lm_error *e)
{
    sqlite3_stmt *s = prepare(a->db, sql, kinds, values);
    int rc;

    *n = 0;
    while ((rc = s ? sqlite3_step(s) : SQLITE_ERROR) == SQLITE_ROW) {
        a->bytes -= (uint64_t)sqlite3_column_int64(s, 0);
        ++*n;
    }
    lm_status status = rc == SQLITE_DONE ? LM_OK : fail(a->db, e);
    sqlite3_finalize(s);
    return status;
}

/* The oldest, until the others are within the limit. */
static lm_status give_up_most(lm_archive *a, lm_error *e)
{
    uint64_t n = 1;

    while (a->bytes > a->limit && n)
        LM_TRY(give_up(a, "DELETE FROM responses WHERE rowid IN"
                          " (SELECT rowid FROM responses ORDER BY created, rowid LIMIT 16) RETURNING size", "", NULL, &n, e));
    return LM_OK;
}

static lm_status write_record(lm_archive *a, const write_item *w, lm_error *e)
{
    const lm_record *r = &w->record;
    int64_t now = (int64_t)time(NULL), size = (int64_t)(strlen(r->response) + strlen(r->input));
    const bound values[] = { { .s = r->id }, { .s = w->owner }, { .s = r->previous }, { .i = now }, { .i = size }, { .s = r->response },
                             { .s = r->input } };
    const bound oldest = { .i = now - LM_ARCHIVE_DAYS * INT64_C(86400) };
    uint64_t n;

    LM_TRY(give_up(a, "DELETE FROM responses WHERE created < ? RETURNING size", "i", &oldest, &n, e));
    LM_TRY(execute(a->db, "INSERT INTO responses VALUES (?, ?, ?, ?, ?, ?, ?)", "sssiiss", values, e));
    a->bytes += (uint64_t)size;
    return give_up_most(a, e);
}

static lm_status write_removal(lm_archive *a, const write_item *w, lm_error *e)
{
    const bound values[] = { { .s = w->owner }, { .s = w->record.id } };
    uint64_t n;

    return give_up(a, "DELETE FROM responses WHERE owner = ? AND id = ? RETURNING size", "ss", values, &n, e);
}

static lm_status write_count(lm_archive *a, const write_item *w, lm_error *e)
{
    const bound values[] = { { .s = w->day }, { .s = w->owner }, { .s = w->model }, { .i = (int64_t)w->prompt },
                             { .i = (int64_t)w->cached }, { .i = (int64_t)w->tokens } };

    return execute(a->db, "INSERT INTO tokens VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6) ON CONFLICT DO UPDATE SET requests = requests + 1,"
                          " prompt = prompt + ?4, cached = cached + ?5, written = written + ?6", "sssiii", values, e);
}

/* Another process has the file: for the writer, who has nothing else to do, as long as that takes, and a little at the end. */
static int wait_for_others(void *archive, int times)
{
    const lm_archive *a = archive;
    const struct timespec pause = { .tv_nsec = PAUSE_MS * 1000000 };

    if (atomic_load(&a->closing) && times >= BUSY_MS / PAUSE_MS)
        return 0;
    nanosleep(&pause, NULL);
    return 1;
}

static uint64_t size_of(const write_item *w)
{
    return sizeof *w + (w->record.response ? strlen(w->record.response) + strlen(w->record.input) : 0);
}

static void write_one(lm_work_item *item)
{
    write_item *w = (write_item *)item;
    lm_archive *a = w->archive;
    bool shared = a->reads == a->db;
    lm_error e = { 0 };

    pthread_mutex_lock(&a->lock);
    a->writing = true;
    a->writes++;
    pthread_mutex_unlock(&a->lock);
    if (shared)
        pthread_mutex_lock(&a->read_lock);
    if (w->kind == WRITE_COUNT)
        write_count(a, w, &e);
    else if (w->kind == WRITE_REMOVAL)
        write_removal(a, w, &e);
    else
        write_record(a, w, &e);
    if (shared)
        pthread_mutex_unlock(&a->read_lock);
    pthread_mutex_lock(&a->lock);
    a->lost = e;
    a->writing = false;
    a->held -= size_of(w);
    a->first = w->next;                                  /* in order: it was the first */
    if (!a->first)
        a->last = &a->first;
    pthread_mutex_unlock(&a->lock);
    lm_record_free(&w->record);
    free(w);
}

/* ---- handing over ---- */

static void today(char day[16])
{
    time_t now = time(NULL);
    struct tm t;

    gmtime_r(&now, &t);
    strftime(day, 16, "%Y-%m-%d", &t);
}

/* Takes `w`. Under the lock, so that the list and the queue have one order. */
static void hand_over_locked(lm_archive *a, write_item *w)
{
    w->archive = a;
    if (a->held + size_of(w) <= LM_ARCHIVE_MEMORY && lm_workers_add(a->writer, &w->item)) {
        a->held += size_of(w);
        *a->last = w;
        a->last = &w->next;
        return;
    }
    lm_fail(&a->lost, LM_IO, "the store", LM_NO_OFFSET, "more than %d writes or %d MiB wait for the disk", MOST_WRITES,
            (int)(LM_ARCHIVE_MEMORY >> 20));
    lm_record_free(&w->record);
    free(w);
}

static void hand_over(lm_archive *a, write_item *w)
{
    pthread_mutex_lock(&a->lock);
    hand_over_locked(a, w);
    pthread_mutex_unlock(&a->lock);
}

void lm_archive_put(lm_archive *a, const char *owner, lm_record *r)
{
    write_item *w = calloc(1, sizeof *w);

    if (!w || !r->response || !r->input) {
        free(w);
        lm_record_free(r);
        pthread_mutex_lock(&a->lock);
        lm_fail_memory(&a->lost, "a response", sizeof *w);
        pthread_mutex_unlock(&a->lock);
        return;
    }
    snprintf(w->owner, sizeof w->owner, "%s", owner);
    w->record = *r;
    *r = (lm_record){ 0 };
    hand_over(a, w);
}

/* ---- what owners have used today ---- */

static uint64_t read_today(lm_archive *a, const char *owner, const char *day)
{
    const bound values[] = { { .s = owner }, { .s = day } };
    uint64_t n = 0;

    pthread_mutex_lock(&a->read_lock);
    sqlite3_stmt *s = prepare(a->reads, "SELECT COALESCE(SUM(prompt + written), 0) FROM tokens WHERE owner = ? AND day = ?", "ss", values);
    if (s && sqlite3_step(s) == SQLITE_ROW)
        n = (uint64_t)sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    pthread_mutex_unlock(&a->read_lock);
    return n;
}

static owner_day *find_day(lm_archive *a, const char *owner)
{
    for (size_t i = 0; i < a->n_days; i++)
        if (strcmp(a->days[i].owner, owner) == 0)
            return a->days + i;
    return NULL;
}

/* A new row; NULL: out of memory. */
static owner_day *add_day(lm_archive *a, const char *owner)
{
    if (a->n_days == a->most_days) {
        size_t most = 2 * a->most_days + 8;
        owner_day *grown = realloc(a->days, most * sizeof *grown);
        if (!grown)
            return NULL;
        a->days = grown;
        a->most_days = most;
    }
    owner_day *d = a->days + a->n_days++;
    *d = (owner_day){ 0 };
    snprintf(d->owner, sizeof d->owner, "%s", owner);
    return d;
}

/* The owner's row of `day`, `more` added. What the file says of the day is read once, before any tokens of the owner are handed over. */
static uint64_t use_today(lm_archive *a, const char *owner, const char *day, uint64_t more)
{
    uint64_t n = 0;

    pthread_mutex_lock(&a->lock);
    owner_day *d = find_day(a, owner);
    if (!d) {
        pthread_mutex_unlock(&a->lock);
        n = read_today(a, owner, day);
        pthread_mutex_lock(&a->lock);
        if (!(d = find_day(a, owner)) && (d = add_day(a, owner))) {
            snprintf(d->day, sizeof d->day, "%s", day);
            d->tokens = n;
        }
    }
    if (d && strcmp(d->day, day)) {
        snprintf(d->day, sizeof d->day, "%s", day);
        d->tokens = 0;
    }
    if (d)
        n = d->tokens += more;
    pthread_mutex_unlock(&a->lock);
    return n;
}

uint64_t lm_archive_today(lm_archive *a, const char *owner)
{
    char day[16];

    today(day);
    return use_today(a, owner, day, 0);
}

void lm_archive_count(lm_archive *a, const char *owner, const char *model, uint64_t prompt, uint64_t cached, uint64_t written)
{
    write_item *w = calloc(1, sizeof *w);

    if (!w)
        return;
    today(w->day);
    use_today(a, owner, w->day, prompt + written);
    snprintf(w->owner, sizeof w->owner, "%s", owner);
    snprintf(w->model, sizeof w->model, "%s", model);
    w->kind = WRITE_COUNT;
    w->prompt = prompt;
    w->cached = cached;
    w->tokens = written;
    hand_over(a, w);
}

/* ---- reads: what is not written yet, then the file ---- */

static lm_status not_found(lm_archive *a, const char *id, lm_error *e)
{
    pthread_mutex_lock(&a->lock);
    lm_error lost = a->lost;
    pthread_mutex_unlock(&a->lock);
    if (lost.code == LM_OK)
        return lm_fail(e, LM_NOT_FOUND, "id", LM_NO_OFFSET, "no response \"%.60s\" is stored", id);
    *e = lost;
    return e->code;
}

/* The last that was handed over of a response; NULL: nothing. Under the lock. */
static const write_item *find_unwritten(const lm_archive *a, const char *owner, const char *id)
{
    const write_item *found = NULL;

    for (const write_item *w = a->first; w; w = w->next)
        if (w->kind != WRITE_COUNT && strcmp(w->owner, owner) == 0 && strcmp(w->record.id, id) == 0)
            found = w;
    return found;
}

/* True: *out is it, or `*removed`. */
static bool get_unwritten(lm_archive *a, const char *owner, const char *id, lm_record *out, bool *removed)
{
    pthread_mutex_lock(&a->lock);
    const write_item *w = find_unwritten(a, owner, id);
    bool found = w != NULL;
    *removed = w && w->kind == WRITE_REMOVAL;
    if (w && !*removed) {
        *out = w->record;
        out->response = strdup(w->record.response);
        out->input = strdup(w->record.input);
    }
    pthread_mutex_unlock(&a->lock);
    return found;
}

static char *column(sqlite3_stmt *s, int i)
{
    const unsigned char *text = sqlite3_column_text(s, i);

    return text ? strdup((const char *)text) : NULL;
}

static lm_status get_written(lm_archive *a, const char *owner, const char *id, lm_record *out, lm_error *e)
{
    const bound values[] = { { .s = owner }, { .s = id } };
    lm_status status = LM_OK;

    pthread_mutex_lock(&a->read_lock);
    sqlite3_stmt *s = prepare(a->reads, "SELECT previous, response, input FROM responses WHERE owner = ? AND id = ?", "ss", values);
    int rc = s ? sqlite3_step(s) : SQLITE_ERROR;
    if (rc == SQLITE_ROW) {
        snprintf(out->id, sizeof out->id, "%s", id);
        snprintf(out->previous, sizeof out->previous, "%s", (const char *)sqlite3_column_text(s, 0));
        out->response = column(s, 1);
        out->input = column(s, 2);
    } else if (rc != SQLITE_DONE) {
        status = fail(a->reads, e);
    }
    sqlite3_finalize(s);
    pthread_mutex_unlock(&a->read_lock);
    return rc == SQLITE_DONE ? not_found(a, id, e) : status;
}

lm_status lm_archive_get(lm_archive *a, const char *owner, const char *id, lm_record *out, lm_error *e)
{
    lm_record r = { 0 };
    bool removed;

    if (!get_unwritten(a, owner, id, &r, &removed))
        LM_TRY(get_written(a, owner, id, &r, e));
    else if (removed)
        return not_found(a, id, e);
    if (!r.response || !r.input) {
        lm_record_free(&r);
        return lm_fail_memory(e, "a response", 0);
    }
    *out = r;
    return LM_OK;
}

lm_status lm_archive_remove(lm_archive *a, const char *owner, const char *id, lm_error *e)
{
    write_item *w;
    lm_record r = { 0 };

    LM_TRY(lm_archive_get(a, owner, id, &r, e));
    lm_record_free(&r);
    if (!(w = calloc(1, sizeof *w)))
        return lm_fail_memory(e, "a response", sizeof *w);
    w->kind = WRITE_REMOVAL;
    snprintf(w->owner, sizeof w->owner, "%s", owner);
    snprintf(w->record.id, sizeof w->record.id, "%s", id);
    hand_over(a, w);
    return LM_OK;
}

/* ---- usage ---- */

static const char *text_of(const json_t *row, const char *name)
{
    return json_string_value(json_object_get(row, name));
}

/* `row` among `list`, its figures added to those of the same day and model. Takes `row`. */
static void add_row(json_t *list, json_t *row)
{
    static const char *const figures[] = { "requests", "input_tokens", "cached_tokens", "output_tokens" };
    json_t *found;
    size_t i;

    json_array_foreach(list, i, found) {
        if (strcmp(text_of(found, "day"), text_of(row, "day")) || strcmp(text_of(found, "model"), text_of(row, "model")))
            continue;
        for (size_t k = 0; k < sizeof figures / sizeof *figures; k++) {
            json_int_t sum = json_integer_value(json_object_get(found, figures[k])) + json_integer_value(json_object_get(row, figures[k]));
            json_object_set_new(found, figures[k], json_integer(sum));
        }
        json_decref(row);
        return;
    }
    json_array_insert_new(list, 0, row);
}

static lm_status usage_written(lm_archive *a, const char *owner, json_t *list, lm_error *e)
{
    int rc;

    pthread_mutex_lock(&a->read_lock);
    sqlite3_stmt *s = prepare(a->reads, "SELECT day, model, requests, prompt, cached, written FROM tokens WHERE owner = ?"
                                        " ORDER BY day DESC, model", "s", &(bound){ .s = owner });
    while ((rc = s ? sqlite3_step(s) : SQLITE_ERROR) == SQLITE_ROW)
        json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:I, s:I, s:I}", "day", sqlite3_column_text(s, 0), "model",
                                              sqlite3_column_text(s, 1), "requests", (json_int_t)sqlite3_column_int64(s, 2),
                                              "input_tokens", (json_int_t)sqlite3_column_int64(s, 3), "cached_tokens",
                                              (json_int_t)sqlite3_column_int64(s, 4), "output_tokens",
                                              (json_int_t)sqlite3_column_int64(s, 5)));
    lm_status status = rc == SQLITE_DONE ? LM_OK : fail(a->reads, e);
    sqlite3_finalize(s);
    pthread_mutex_unlock(&a->read_lock);
    return status;
}

/* Counts that are not in the file, and how many writes have been done. False: one is being done, which the file may have already. */
static bool usage_unwritten(lm_archive *a, const char *owner, json_t *list, uint64_t *writes, lm_error *lost)
{
    pthread_mutex_lock(&a->lock);
    bool still = !a->writing;
    for (const write_item *w = a->first; w; w = w->next)
        if (w->kind == WRITE_COUNT && strcmp(w->owner, owner) == 0)
            json_array_append_new(list, json_pack("{s:s, s:s, s:i, s:I, s:I, s:I}", "day", w->day, "model", w->model, "requests", 1,
                                                  "input_tokens", (json_int_t)w->prompt, "cached_tokens", (json_int_t)w->cached,
                                                  "output_tokens", (json_int_t)w->tokens));
    *writes = a->writes;
    *lost = a->lost;
    pthread_mutex_unlock(&a->lock);
    return still;
}

/* Once; *exact: nothing was written meanwhile, so that nothing is counted twice or left out. */
static lm_status usage_once(lm_archive *a, const char *owner, json_t **out, bool *exact, lm_error *e)
{
    json_t *list = json_array(), *more = json_array(), *row;
    uint64_t before, after;
    lm_error lost;
    size_t i;

    *exact = usage_unwritten(a, owner, more, &before, &lost);
    lm_status status = usage_written(a, owner, list, e);
    json_array_foreach(more, i, row)
        add_row(list, json_incref(row));
    json_array_clear(more);
    usage_unwritten(a, owner, more, &after, &lost);
    *exact &= before == after;
    json_decref(more);
    if (status == LM_OK && lost.code != LM_OK) {
        *e = lost;
        status = e->code;
    }
    if (status == LM_OK)
        *out = list;
    else
        json_decref(list);
    return status;
}

lm_status lm_archive_usage(lm_archive *a, const char *owner, json_t **out, lm_error *e)
{
    const struct timespec pause = { .tv_nsec = 1000000 };
    bool exact = false;

    *out = NULL;
    for (unsigned tries = 0; tries < MOST_TRIES && !exact; tries++) {
        if (tries)
            nanosleep(&pause, NULL);
        json_decref(*out);
        *out = NULL;
        LM_TRY(usage_once(a, owner, out, &exact, e));
    }
    return LM_OK;
}

void lm_record_free(lm_record *r)
{
    free(r->response);
    free(r->input);
    *r = (lm_record){ 0 };
}

void lm_archive_owner(const char *key, char out[33])
{
    unsigned char hash[crypto_generichash_BYTES_MIN];

    *out = 0;
    if (!key)
        return;
    crypto_generichash(hash, sizeof hash, (const unsigned char *)key, strlen(key), NULL, 0);
    sodium_bin2hex(out, 33, hash, sizeof hash);
}

/* ---- the file ---- */

/* That it is ours, or new; and that it is whole. */
static lm_status check(sqlite3 *db, lm_error *e)
{
    int64_t application = 0, tables = 0;
    lm_status status = LM_OK;

    LM_TRY(number(db, "PRAGMA application_id", &application, e));
    LM_TRY(number(db, "SELECT COUNT(*) FROM sqlite_master", &tables, e));
    if (tables && application != APPLICATION)
        return lm_fail(e, LM_IO, "the store", LM_NO_OFFSET, "a database of another program");
    sqlite3_stmt *s = prepare(db, "PRAGMA quick_check(1)", "", NULL);
    if (!s || sqlite3_step(s) != SQLITE_ROW)
        status = fail(db, e);
    else if (strcmp((const char *)sqlite3_column_text(s, 0), "ok"))
        status = lm_fail(e, LM_IO, "the store", LM_NO_OFFSET, "damaged: %.200s", (const char *)sqlite3_column_text(s, 0));
    sqlite3_finalize(s);
    return status;
}

static lm_status open_file(lm_archive *a, const char *path, lm_error *e)
{
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX;
    int64_t bytes = 0;

    if (sqlite3_open_v2(path ? path : ":memory:", &a->db, flags, NULL) != SQLITE_OK)
        return fail(a->db, e);
    sqlite3_busy_timeout(a->db, BUSY_MS);
    LM_TRY(check(a->db, e));
    if (sqlite3_exec(a->db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;", NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_exec(a->db, schema, NULL, NULL, NULL) != SQLITE_OK)
        return fail(a->db, e);
    LM_TRY(number(a->db, "SELECT COALESCE(SUM(size), 0) FROM responses", &bytes, e));
    a->bytes = (uint64_t)bytes;
    a->limit = path ? LM_ARCHIVE_BYTES : LM_ARCHIVE_MEMORY;
    LM_TRY(give_up_most(a, e));
    sqlite3_busy_handler(a->db, wait_for_others, a);
    a->reads = a->db;
    if (!path)
        return LM_OK;
    if (sqlite3_open_v2(path, &a->reads, SQLITE_OPEN_READONLY | SQLITE_OPEN_FULLMUTEX, NULL) != SQLITE_OK)
        return fail(a->reads, e);
    sqlite3_busy_timeout(a->reads, BUSY_MS);
    return LM_OK;
}

/* Where the file lies is told who starts the server, not its clients. */
static lm_status say_path(lm_status status, const char *path, lm_error *e)
{
    lm_error why = *e;

    if (status != LM_IO || !path)
        return status;
    return lm_fail(e, LM_IO, path, LM_NO_OFFSET, "%s", why.message);
}

lm_status lm_archive_open(const char *path, lm_archive **out, lm_error *e)
{
    lm_archive *a = calloc(1, sizeof *a);
    lm_status status;

    if (!a)
        return lm_fail_memory(e, "the store", sizeof *a);
    pthread_mutex_init(&a->lock, NULL);
    pthread_mutex_init(&a->read_lock, NULL);
    a->last = &a->first;
    status = say_path(open_file(a, path, e), path, e);
    if (status == LM_OK)
        status = lm_workers_new(1, MOST_WRITES, write_one, &a->writer, e);
    if (status == LM_OK)
        *out = a;
    else
        lm_archive_close(a);
    return status;
}

lm_status lm_archive_look(const char *path, const char *owner, json_t **out, lm_error *e)
{
    sqlite3 *db = NULL;
    json_t *list = json_array();
    lm_status status = LM_OK;
    struct stat st;
    int rc = SQLITE_ERROR;

    if (stat(path, &st) < 0)
        status = lm_fail_errno(e, path, "cannot open");
    else if (!S_ISREG(st.st_mode))
        status = lm_fail(e, LM_IO, path, LM_NO_OFFSET, "no file");
    else if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK)
        status = say_path(fail(db, e), path, e);
    if (status == LM_OK) {
        sqlite3_busy_timeout(db, BUSY_MS);
        status = say_path(check(db, e), path, e);
    }
    sqlite3_stmt *s = status == LM_OK ? prepare(db, "SELECT day, owner, model, requests, prompt, cached, written FROM tokens"
                                                    " WHERE ?1 IS NULL OR owner = ?1 ORDER BY day DESC, owner, model", "s",
                                                &(bound){ .s = owner }) : NULL;
    while ((rc = s ? sqlite3_step(s) : SQLITE_ERROR) == SQLITE_ROW)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I}", "day", sqlite3_column_text(s, 0), "key",
                                              sqlite3_column_text(s, 1), "model", sqlite3_column_text(s, 2), "requests",
                                              (json_int_t)sqlite3_column_int64(s, 3), "input_tokens",
                                              (json_int_t)sqlite3_column_int64(s, 4), "cached_tokens",
                                              (json_int_t)sqlite3_column_int64(s, 5), "output_tokens",
                                              (json_int_t)sqlite3_column_int64(s, 6)));
    if (status == LM_OK && rc != SQLITE_DONE)
        status = say_path(fail(db, e), path, e);
    sqlite3_finalize(s);
    sqlite3_close(db);
    if (status == LM_OK)
        *out = list;
    else
        json_decref(list);
    return status;
}

void lm_archive_close(lm_archive *a)
{
    if (!a)
        return;
    atomic_store(&a->closing, true);
    if (a->writer)
        lm_workers_free(a->writer);
    if (a->reads != a->db)
        sqlite3_close(a->reads);
    sqlite3_close(a->db);
    pthread_mutex_destroy(&a->read_lock);
    pthread_mutex_destroy(&a->lock);
    free(a->days);
    free(a);
}
