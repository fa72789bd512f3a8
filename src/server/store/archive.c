/* archive.c - archive.h: opening the database, and reads: writes that wait, then the file. The writer's
 * thread is in archive_writes.c, usage in token_usage.c, what they share in archive_state.h. */
#include "server/store/archive.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "server/store/archive_state.h"
#include "server/front/memory.h"

/* "lama" in ASCII: other databases have another application id. */
enum { APPLICATION = 0x6c616d61, PAUSE_MS = 5 };

static const char schema[] =
    "PRAGMA application_id = 1818324321;"
    "CREATE TABLE IF NOT EXISTS responses (id TEXT NOT NULL, owner TEXT NOT NULL, previous TEXT NOT NULL, "
    "created INTEGER NOT NULL,"
    " size INTEGER NOT NULL, response TEXT NOT NULL, input TEXT NOT NULL, PRIMARY KEY (owner, id));"
    "CREATE INDEX IF NOT EXISTS responses_by_age ON responses (created);"
    "CREATE TABLE IF NOT EXISTS tokens (day TEXT NOT NULL, owner TEXT NOT NULL, model TEXT NOT NULL, "
    "requests INTEGER NOT NULL,"
    " prompt INTEGER NOT NULL, cached INTEGER NOT NULL, written INTEGER NOT NULL,"
    " PRIMARY KEY (owner, day, model));";

/* ---- responses ---- */

void lm_archive_put(lm_archive *a, const char *owner, lm_record *r)
{
    lm_write_item *w = lm_memory_zero(1, sizeof *w);

    if (!w || !r->response || !r->input) {
        lm_heap_free(w);
        lm_record_free(r);
        pthread_mutex_lock(&a->lock);
        lm_fail_memory(&a->lost, "a response", sizeof *w);
        pthread_mutex_unlock(&a->lock);
        return;
    }
    snprintf(w->owner, sizeof w->owner, "%s", owner);
    w->record = *r;
    *r = (lm_record){ 0 };
    lm_archive_enqueue(a, w);
}

/* ---- reads: writes not yet done, then the file ---- */

static lm_status not_found(lm_archive *a, const char *id, lm_error *e)
{
    pthread_mutex_lock(&a->lock);
    lm_error lost = a->lost;
    pthread_mutex_unlock(&a->lock);
    if (lost.code == LM_OK)
        return lm_fail(e, LM_NOT_FOUND, "id", LM_NO_OFFSET, "the response \"%.60s\" is not stored", id);
    *e = lost;
    return e->code;
}

/* Find the last write handed over for a response; NULL: none. Under the lock. */
static const lm_write_item *find_unwritten(const lm_archive *a, const char *owner, const char *id)
{
    const lm_write_item *found = NULL;

    for (const lm_write_item *w = a->first; w; w = w->next)
        if (w->kind != WRITE_COUNT && strcmp(w->owner, owner) == 0 && strcmp(w->record.id, id) == 0)
            found = w;
    return found;
}

/* Read a response from writes not yet done. True: *out is the response, or it is *removed. */
static bool get_unwritten(lm_archive *a, const char *owner, const char *id, lm_record *out, bool *removed)
{
    pthread_mutex_lock(&a->lock);
    const lm_write_item *w = find_unwritten(a, owner, id);
    bool found = w != NULL;
    *removed = w && w->kind == WRITE_REMOVAL;
    if (w && !*removed) {
        *out = w->record;
        out->response = lm_memory_text(w->record.response, strlen(w->record.response));
        out->input = lm_memory_text(w->record.input, strlen(w->record.input));
    }
    pthread_mutex_unlock(&a->lock);
    return found;
}

static char *column(sqlite3_stmt *s, int i)
{
    const char *text = (const char *)sqlite3_column_text(s, i);

    return text ? lm_memory_text(text, strlen(text)) : NULL;
}

static lm_status get_written(lm_archive *a, const char *owner, const char *id, lm_record *out, lm_error *e)
{
    const lm_sql_value values[] = { { .s = owner }, { .s = id } };
    lm_status status = LM_OK;

    pthread_mutex_lock(&a->read_lock);
    sqlite3_stmt *s =
        lm_sql_prepare(a->reads, "SELECT previous, response, input FROM responses WHERE owner = ? AND id = ?",
                       "ss", values);
    int rc = s ? sqlite3_step(s) : SQLITE_ERROR;
    if (rc == SQLITE_ROW) {
        snprintf(out->id, sizeof out->id, "%s", id);
        snprintf(out->previous, sizeof out->previous, "%s", (const char *)sqlite3_column_text(s, 0));
        out->response = column(s, 1);
        out->input = column(s, 2);
    } else if (rc != SQLITE_DONE) {
        status = lm_sql_fail(a->reads, e);
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
    lm_write_item *w;
    lm_record r = { 0 };

    LM_TRY(lm_archive_get(a, owner, id, &r, e));
    lm_record_free(&r);
    if (!(w = lm_memory_zero(1, sizeof *w)))
        return lm_fail_memory(e, "a response", sizeof *w);
    w->kind = WRITE_REMOVAL;
    snprintf(w->owner, sizeof w->owner, "%s", owner);
    snprintf(w->record.id, sizeof w->record.id, "%s", id);
    lm_archive_enqueue(a, w);
    return LM_OK;
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

lm_status lm_archive_check(sqlite3 *db, lm_error *e)
{
    int64_t application = 0, tables = 0;
    lm_status status = LM_OK;

    LM_TRY(lm_sql_number(db, "PRAGMA application_id", &application, e));
    LM_TRY(lm_sql_number(db, "SELECT COUNT(*) FROM sqlite_master", &tables, e));
    if (tables && application != APPLICATION)
        return lm_fail(e, LM_IO, "the store", LM_NO_OFFSET, "a database of another program");
    sqlite3_stmt *s = lm_sql_prepare(db, "PRAGMA quick_check(1)", "", NULL);
    if (!s || sqlite3_step(s) != SQLITE_ROW)
        status = lm_sql_fail(db, e);
    else if (strcmp((const char *)sqlite3_column_text(s, 0), "ok"))
        status = lm_fail(e, LM_IO, "the store", LM_NO_OFFSET, "damaged: %.200s",
                         (const char *)sqlite3_column_text(s, 0));
    sqlite3_finalize(s);
    return status;
}

/* Called while another process has locked the file: the writer, which has nothing else to do, waits as long
 * as that takes; once the archive closes, at most LM_STORE_BUSY_MS. */
static int wait_for_others(void *archive, int times)
{
    const lm_archive *a = archive;
    const struct timespec pause = { .tv_nsec = PAUSE_MS * 1000000 };

    if (atomic_load(&a->closing) && times >= LM_STORE_BUSY_MS / PAUSE_MS)
        return 0;
    nanosleep(&pause, NULL);
    return 1;
}

static lm_status open_file(lm_archive *a, const char *path, lm_error *e)
{
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX;

    if (sqlite3_open_v2(path ? path : ":memory:", &a->db, flags, NULL) != SQLITE_OK)
        return lm_sql_fail(a->db, e);
    sqlite3_busy_timeout(a->db, LM_STORE_BUSY_MS);
    LM_TRY(lm_archive_check(a->db, e));
    if (sqlite3_exec(a->db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;", NULL, NULL, NULL) !=
            SQLITE_OK ||
        sqlite3_exec(a->db, schema, NULL, NULL, NULL) != SQLITE_OK)
        return lm_sql_fail(a->db, e);
    LM_TRY(lm_archive_measure(a, e));
    a->limit = path ? LM_ARCHIVE_BYTES : LM_ARCHIVE_MEMORY;
    LM_TRY(lm_archive_trim(a, e));
    sqlite3_busy_handler(a->db, wait_for_others, a);
    a->reads = a->db;
    if (!path)
        return LM_OK;
    if (sqlite3_open_v2(path, &a->reads, SQLITE_OPEN_READONLY | SQLITE_OPEN_FULLMUTEX, NULL) != SQLITE_OK)
        return lm_sql_fail(a->reads, e);
    sqlite3_busy_timeout(a->reads, LM_STORE_BUSY_MS);
    return LM_OK;
}

lm_status lm_archive_name_file(lm_status status, const char *path, lm_error *e)
{
    lm_error why = *e;

    if (status != LM_IO || !path)
        return status;
    return lm_fail(e, LM_IO, path, LM_NO_OFFSET, "%s", why.message);
}

lm_status lm_archive_open(const char *path, lm_archive **out, lm_error *e)
{
    lm_archive *a = lm_memory_zero(1, sizeof *a);
    lm_status status;

    if (!a)
        return lm_fail_memory(e, "the store", sizeof *a);
    pthread_mutex_init(&a->lock, NULL);
    pthread_mutex_init(&a->read_lock, NULL);
    a->last = &a->first;
    status = lm_archive_name_file(open_file(a, path, e), path, e);
    if (status == LM_OK)
        status = lm_workers_new(1, LM_STORE_WRITES, lm_archive_write, &a->writer, e);
    if (status == LM_OK)
        *out = a;
    else
        lm_archive_close(a);
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
    lm_heap_free(a->days);
    lm_heap_free(a);
}
