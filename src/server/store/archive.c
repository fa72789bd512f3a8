#include "server/store/archive.h"

#include <pthread.h>
#include <sodium.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "server/front/workers.h"

/* "lama" in ASCII: other databases have another application id. */
enum { APPLICATION = 0x6c616d61, BUSY_MS = 2000, MOST_WRITES = 1024 };

struct lm_archive {
    sqlite3        *db;
    lm_workers     *writer;
    pthread_mutex_t lock;            /* of all that follows, and of the database */
    pthread_cond_t  written;
    uint64_t        waiting;         /* writes that were handed over */
    uint64_t        bytes, limit;    /* of responses */
    lm_error        lost;            /* LM_OK: all was written since the last that was */
    char           *path;
};

typedef struct write_item {
    lm_work_item item;               /* the first */
    lm_archive  *archive;
    char         owner[33];
    bool         counts;             /* tokens; else a record */
    lm_record    record;
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

static lm_status fail(const lm_archive *a, lm_error *e)
{
    return lm_fail(e, LM_IO, a->path ? a->path : "the store", LM_NO_OFFSET, "%s",
                   a->db ? sqlite3_errmsg(a->db) : "out of memory");
}

/* ---- statements: letters say what is bound, s a text and i an integer ---- */

typedef union bound { const char *s; int64_t i; } bound;

static sqlite3_stmt *prepare(const lm_archive *a, const char *sql, const char *kinds, const bound *values)
{
    sqlite3_stmt *s = NULL;

    if (sqlite3_prepare_v2(a->db, sql, -1, &s, NULL) != SQLITE_OK)
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

static lm_status execute(const lm_archive *a, const char *sql, const char *kinds, const bound *values, lm_error *e)
{
    sqlite3_stmt *s = prepare(a, sql, kinds, values);
    lm_status status = s && sqlite3_step(s) == SQLITE_DONE ? LM_OK : fail(a, e);

    sqlite3_finalize(s);
    return status;
}

/* The first column of the first row. */
static lm_status number(const lm_archive *a, const char *sql, int64_t *out, lm_error *e)
{
    sqlite3_stmt *s = prepare(a, sql, "", NULL);
    lm_status status = s && sqlite3_step(s) == SQLITE_ROW ? LM_OK : fail(a, e);

    if (status == LM_OK)
        *out = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return status;
}

/* ---- writes ---- */

/* The oldest, until the others are within the limit. */
static lm_status give_up_most(lm_archive *a, lm_error *e)
{
    int64_t bytes = 0;

    LM_TRY(number(a, "SELECT COALESCE(SUM(size), 0) FROM responses", &bytes, e));
    while ((uint64_t)bytes > a->limit) {
        LM_TRY(execute(a, "DELETE FROM responses WHERE rowid IN (SELECT rowid FROM responses ORDER BY created, rowid LIMIT 16)", "", NULL,
                       e));
        LM_TRY(number(a, "SELECT COALESCE(SUM(size), 0) FROM responses", &bytes, e));
    }
    a->bytes = (uint64_t)bytes;
    return LM_OK;
}

static lm_status write_record(lm_archive *a, const write_item *w, lm_error *e)
{
    const lm_record *r = &w->record;
    int64_t now = (int64_t)time(NULL), size = (int64_t)(strlen(r->response) + strlen(r->input));
    const bound values[] = { { .s = r->id }, { .s = w->owner }, { .s = r->previous }, { .i = now }, { .i = size }, { .s = r->response },
                             { .s = r->input } };

    LM_TRY(execute(a, "DELETE FROM responses WHERE created < ?", "i", &(bound){ .i = now - LM_ARCHIVE_DAYS * INT64_C(86400) }, e));
    LM_TRY(execute(a, "INSERT INTO responses VALUES (?, ?, ?, ?, ?, ?, ?)", "sssiiss", values, e));
    a->bytes += (uint64_t)size;
    return a->bytes > a->limit ? give_up_most(a, e) : LM_OK;
}

static lm_status write_count(lm_archive *a, const write_item *w, lm_error *e)
{
    const bound values[] = { { .s = w->day }, { .s = w->owner }, { .s = w->model }, { .i = (int64_t)w->prompt },
                             { .i = (int64_t)w->cached }, { .i = (int64_t)w->tokens } };

    return execute(a, "INSERT INTO tokens VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6) ON CONFLICT DO UPDATE SET requests = requests + 1,"
                      " prompt = prompt + ?4, cached = cached + ?5, written = written + ?6", "sssiii", values, e);
}

static void write_one(lm_work_item *item)
{
    write_item *w = (write_item *)item;
    lm_archive *a = w->archive;
    lm_error e = { 0 };

    pthread_mutex_lock(&a->lock);
    if (w->counts)
        write_count(a, w, &e);
    else
        write_record(a, w, &e);
    a->lost = e;
    a->waiting--;
    pthread_cond_broadcast(&a->written);
    pthread_mutex_unlock(&a->lock);
    lm_record_free(&w->record);
    free(w);
}

/* Takes `w`. */
static void hand_over(lm_archive *a, write_item *w)
{
    bool room;

    w->archive = a;
    pthread_mutex_lock(&a->lock);
    a->waiting++;
    pthread_mutex_unlock(&a->lock);
    if ((room = lm_workers_add(a->writer, &w->item)))
        return;
    pthread_mutex_lock(&a->lock);
    a->waiting--;
    lm_fail(&a->lost, LM_IO, a->path ? a->path : "the store", LM_NO_OFFSET, "more than %d writes wait for the disk", MOST_WRITES);
    pthread_cond_broadcast(&a->written);
    pthread_mutex_unlock(&a->lock);
    lm_record_free(&w->record);
    free(w);
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

void lm_archive_count(lm_archive *a, const char *owner, const char *model, uint64_t prompt, uint64_t cached, uint64_t written)
{
    write_item *w = calloc(1, sizeof *w);
    time_t now = time(NULL);
    struct tm day;

    if (!w)
        return;
    gmtime_r(&now, &day);
    strftime(w->day, sizeof w->day, "%Y-%m-%d", &day);
    snprintf(w->owner, sizeof w->owner, "%s", owner);
    snprintf(w->model, sizeof w->model, "%s", model);
    w->counts = true;
    w->prompt = prompt;
    w->cached = cached;
    w->tokens = written;
    hand_over(a, w);
}

/* ---- reads ---- */

static void lock_written(lm_archive *a)
{
    pthread_mutex_lock(&a->lock);
    while (a->waiting)
        pthread_cond_wait(&a->written, &a->lock);
}

static lm_status not_found(const lm_archive *a, const char *id, lm_error *e)
{
    if (a->lost.code == LM_OK)
        return lm_fail(e, LM_NOT_FOUND, "id", LM_NO_OFFSET, "no response \"%.60s\" is stored", id);
    *e = a->lost;
    return e->code;
}

static char *column(sqlite3_stmt *s, int i)
{
    const unsigned char *text = sqlite3_column_text(s, i);

    return text ? strdup((const char *)text) : NULL;
}

lm_status lm_archive_get(lm_archive *a, const char *owner, const char *id, lm_record *out, lm_error *e)
{
    const bound values[] = { { .s = owner }, { .s = id } };
    lm_record r = { 0 };
    lm_status status = LM_OK;
    int rc;

    lock_written(a);
    sqlite3_stmt *s = prepare(a, "SELECT previous, response, input FROM responses WHERE owner = ? AND id = ?", "ss", values);
    rc = s ? sqlite3_step(s) : SQLITE_ERROR;
    if (rc == SQLITE_ROW) {
        snprintf(r.id, sizeof r.id, "%s", id);
        snprintf(r.previous, sizeof r.previous, "%s", (const char *)sqlite3_column_text(s, 0));
        r.response = column(s, 1);
        r.input = column(s, 2);
        if (!r.response || !r.input)
            status = lm_fail_memory(e, "a response", 0);
    } else {
        status = rc == SQLITE_DONE ? not_found(a, id, e) : fail(a, e);
    }
    sqlite3_finalize(s);
    pthread_mutex_unlock(&a->lock);
    if (status == LM_OK)
        *out = r;
    else
        lm_record_free(&r);
    return status;
}

lm_status lm_archive_remove(lm_archive *a, const char *owner, const char *id, lm_error *e)
{
    const bound values[] = { { .s = owner }, { .s = id } };
    lm_status status;

    lock_written(a);
    status = execute(a, "DELETE FROM responses WHERE owner = ? AND id = ?", "ss", values, e);
    if (status == LM_OK && !sqlite3_changes(a->db))
        status = not_found(a, id, e);
    pthread_mutex_unlock(&a->lock);
    return status;
}

lm_status lm_archive_usage(lm_archive *a, const char *owner, json_t **out, lm_error *e)
{
    json_t *list = json_array();
    int rc;

    lock_written(a);
    sqlite3_stmt *s = prepare(a, "SELECT day, model, requests, prompt, cached, written FROM tokens WHERE owner = ?"
                                 " ORDER BY day DESC, model", "s", &(bound){ .s = owner });
    while ((rc = s ? sqlite3_step(s) : SQLITE_ERROR) == SQLITE_ROW)
        json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:I, s:I, s:I}", "day", sqlite3_column_text(s, 0), "model",
                                              sqlite3_column_text(s, 1), "requests", (json_int_t)sqlite3_column_int64(s, 2),
                                              "input_tokens", (json_int_t)sqlite3_column_int64(s, 3), "cached_tokens",
                                              (json_int_t)sqlite3_column_int64(s, 4), "output_tokens",
                                              (json_int_t)sqlite3_column_int64(s, 5)));
    lm_status status = rc == SQLITE_DONE ? LM_OK : fail(a, e);
    sqlite3_finalize(s);
    if (status == LM_OK && a->lost.code != LM_OK) {
        *e = a->lost;
        status = e->code;
    }
    pthread_mutex_unlock(&a->lock);
    if (status == LM_OK)
        *out = list;
    else
        json_decref(list);
    return status;
}

uint64_t lm_archive_today(lm_archive *a, const char *owner)
{
    time_t now = time(NULL);
    uint64_t n = 0;
    struct tm day;
    char text[16];

    gmtime_r(&now, &day);
    strftime(text, sizeof text, "%Y-%m-%d", &day);
    const bound values[] = { { .s = owner }, { .s = text } };
    lock_written(a);
    sqlite3_stmt *s = prepare(a, "SELECT COALESCE(SUM(prompt + written), 0) FROM tokens WHERE owner = ? AND day = ?", "ss", values);
    if (s && sqlite3_step(s) == SQLITE_ROW)
        n = (uint64_t)sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    pthread_mutex_unlock(&a->lock);
    return n;
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
static lm_status check(const lm_archive *a, lm_error *e)
{
    int64_t application = 0, tables = 0;
    lm_status status = LM_OK;

    LM_TRY(number(a, "PRAGMA application_id", &application, e));
    LM_TRY(number(a, "SELECT COUNT(*) FROM sqlite_master", &tables, e));
    if (tables && application != APPLICATION)
        return lm_fail(e, LM_IO, a->path, LM_NO_OFFSET, "a database of another program");
    sqlite3_stmt *s = prepare(a, "PRAGMA quick_check(1)", "", NULL);
    if (!s || sqlite3_step(s) != SQLITE_ROW)
        status = fail(a, e);
    else if (strcmp((const char *)sqlite3_column_text(s, 0), "ok"))
        status = lm_fail(e, LM_IO, a->path, LM_NO_OFFSET, "damaged: %.200s", (const char *)sqlite3_column_text(s, 0));
    sqlite3_finalize(s);
    return status;
}

static lm_status open_file(lm_archive *a, const char *path, lm_error *e)
{
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX;

    if (path && !(a->path = strdup(path)))
        return lm_fail_memory(e, "the store", strlen(path));
    if (sqlite3_open_v2(path ? path : ":memory:", &a->db, flags, NULL) != SQLITE_OK)
        return fail(a, e);
    sqlite3_busy_timeout(a->db, BUSY_MS);
    LM_TRY(check(a, e));
    if (sqlite3_exec(a->db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;", NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_exec(a->db, schema, NULL, NULL, NULL) != SQLITE_OK)
        return fail(a, e);
    a->limit = path ? LM_ARCHIVE_BYTES : LM_ARCHIVE_MEMORY;
    return give_up_most(a, e);
}

lm_status lm_archive_open(const char *path, lm_archive **out, lm_error *e)
{
    lm_archive *a = calloc(1, sizeof *a);
    lm_status status;

    if (!a)
        return lm_fail_memory(e, "the store", sizeof *a);
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->written, NULL);
    status = open_file(a, path, e);
    if (status == LM_OK)
        status = lm_workers_new(1, MOST_WRITES, write_one, &a->writer, e);
    free(a->path);                                   /* clients are not told where it lies */
    a->path = NULL;
    if (status == LM_OK)
        *out = a;
    else
        lm_archive_close(a);
    return status;
}

lm_status lm_archive_look(const char *path, const char *owner, json_t **out, lm_error *e)
{
    lm_archive a = { .path = (char *)(uintptr_t)path };
    json_t *list = json_array();
    lm_status status = LM_OK;
    struct stat st;
    int rc = SQLITE_ERROR;

    if (stat(path, &st) < 0)
        status = lm_fail_errno(e, path, "cannot open");
    else if (!S_ISREG(st.st_mode))
        status = lm_fail(e, LM_IO, path, LM_NO_OFFSET, "no file");
    else if (sqlite3_open_v2(path, &a.db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK)
        status = fail(&a, e);
    if (status == LM_OK) {
        sqlite3_busy_timeout(a.db, BUSY_MS);
        status = check(&a, e);
    }
    sqlite3_stmt *s = status == LM_OK ? prepare(&a, "SELECT day, owner, model, requests, prompt, cached, written FROM tokens"
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
        status = fail(&a, e);
    sqlite3_finalize(s);
    sqlite3_close(a.db);
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
    if (a->writer)
        lm_workers_free(a->writer);
    sqlite3_close(a->db);
    pthread_cond_destroy(&a->written);
    pthread_mutex_destroy(&a->lock);
    free(a->path);
    free(a);
}
