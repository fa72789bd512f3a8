/* Writes to the store: handed over by any thread, done one at a time by the writer's thread. */
#include <string.h>
#include <time.h>

#include "server/store/archive_state.h"
#include "server/front/memory.h"

void lm_record_free(lm_record *r)
{
    lm_heap_free(r->response);
    lm_heap_free(r->input);
    *r = (lm_record){ 0 };
}

/* ---- writing, by the writer's thread ---- */

/* Delete responses by a statement that returns their sizes. *n: their number. If it fails, SQLite deletes
 * none of them. */
static lm_status evict(lm_archive *a, const char *sql, const char *kinds, const lm_sql_value *values,
                       uint64_t *n, lm_error *e)
{
    sqlite3_stmt *s = lm_sql_prepare(a->db, sql, kinds, values);
    uint64_t freed = 0;
    int rc;

    *n = 0;
    while ((rc = s ? sqlite3_step(s) : SQLITE_ERROR) == SQLITE_ROW) {
        int64_t size = sqlite3_column_int64(s, 0);
        freed += size > 0 ? (uint64_t)size : 0;
        ++*n;
    }
    lm_status status = rc == SQLITE_DONE ? LM_OK : lm_sql_fail(a->db, e);
    if (status == LM_OK)
        /* Other processes may have stored some of them. */
        a->bytes -= freed < a->bytes ? freed : a->bytes;
    sqlite3_finalize(s);
    return status;
}

lm_status lm_archive_measure(lm_archive *a, lm_error *e)
{
    int64_t bytes = 0;

    LM_TRY(lm_sql_number(a->db, "PRAGMA data_version", &a->version, e));
    LM_TRY(lm_sql_number(a->db, "SELECT COALESCE(SUM(MAX(size, 0)), 0) FROM responses", &bytes, e));
    a->bytes = (uint64_t)bytes;
    return LM_OK;
}

/* Measure again if another process has written since: its writes are not counted in `bytes`. */
static lm_status measure_changes(lm_archive *a, lm_error *e)
{
    int64_t version = 0;

    LM_TRY(lm_sql_number(a->db, "PRAGMA data_version", &version, e));
    return version == a->version ? LM_OK : lm_archive_measure(a, e);
}

/* Delete the oldest, 16 at a time, until the others are within the limit. */
lm_status lm_archive_trim(lm_archive *a, lm_error *e)
{
    uint64_t n = 1;

    if (a->bytes > a->limit)
        LM_TRY(measure_changes(a, e));
    while (a->bytes > a->limit && n)
        LM_TRY(evict(a,
                     "DELETE FROM responses WHERE rowid IN"
                     " (SELECT rowid FROM responses ORDER BY created, rowid LIMIT 16) RETURNING size",
                     "", NULL, &n, e));
    return LM_OK;
}

static lm_status write_record(lm_archive *a, const lm_write_item *w, lm_error *e)
{
    const lm_record *r = &w->record;
    int64_t now = (int64_t)time(NULL), size = (int64_t)(strlen(r->response) + strlen(r->input));
    const lm_sql_value values[] = { { .s = r->id }, { .s = w->owner },    { .s = r->previous }, { .i = now },
                                    { .i = size },  { .s = r->response }, { .s = r->input } };
    const lm_sql_value oldest = { .i = now - LM_ARCHIVE_DAYS * INT64_C(86400) };
    uint64_t n;

    LM_TRY(evict(a, "DELETE FROM responses WHERE created < ? RETURNING size", "i", &oldest, &n, e));
    LM_TRY(lm_sql_execute(a->db, "INSERT INTO responses VALUES (?, ?, ?, ?, ?, ?, ?)", "sssiiss", values, e));
    a->bytes += (uint64_t)size;
    return lm_archive_trim(a, e);
}

static lm_status write_removal(lm_archive *a, const lm_write_item *w, lm_error *e)
{
    const lm_sql_value values[] = { { .s = w->owner }, { .s = w->record.id } };
    uint64_t n;

    return evict(a, "DELETE FROM responses WHERE owner = ? AND id = ? RETURNING size", "ss", values, &n, e);
}

static lm_status write_count(lm_archive *a, const lm_write_item *w, lm_error *e)
{
    const lm_sql_value values[] = { { .s = w->day },
                                    { .s = w->owner },
                                    { .s = w->model },
                                    { .i = (int64_t)w->prompt },
                                    { .i = (int64_t)w->cached },
                                    { .i = (int64_t)w->tokens } };

    return lm_sql_execute(a->db,
                          "INSERT INTO tokens VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6) ON CONFLICT DO UPDATE SET "
                          "requests = requests + 1,"
                          " prompt = prompt + ?4, cached = cached + ?5, written = written + ?6",
                          "sssiii", values, e);
}

static uint64_t size_of(const lm_write_item *w)
{
    return sizeof *w + (w->record.response ? strlen(w->record.response) + strlen(w->record.input) : 0);
}

void lm_archive_write(lm_work_item *item)
{
    lm_write_item *w = (lm_write_item *)item;
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
    lm_heap_free(w);
}

/* ---- handing over ---- */

/* Takes `w`. Under the lock, so that the list and the queue have the same order. */
static void hand_over_locked(lm_archive *a, lm_write_item *w)
{
    w->archive = a;
    if (a->held + size_of(w) <= LM_ARCHIVE_MEMORY && lm_workers_add(a->writer, &w->item)) {
        a->held += size_of(w);
        *a->last = w;
        a->last = &w->next;
        return;
    }
    lm_fail(&a->lost, LM_IO, "the store", LM_NO_OFFSET, "more than %d writes or %d MiB wait for the disk",
            LM_STORE_WRITES, (int)(LM_ARCHIVE_MEMORY >> 20));
    lm_record_free(&w->record);
    lm_heap_free(w);
}

void lm_archive_enqueue(lm_archive *a, lm_write_item *w)
{
    pthread_mutex_lock(&a->lock);
    hand_over_locked(a, w);
    pthread_mutex_unlock(&a->lock);
}
