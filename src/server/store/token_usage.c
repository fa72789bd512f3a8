/* The tokens that owners of keys have used: today, for their limits, and per day and model. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "server/store/archive_state.h"
#include "server/front/memory.h"

enum { MAX_TRIES = 50 };

/* Write the current day in UTC. */
static void today(char day[16])
{
    time_t now = time(NULL);
    struct tm t;

    gmtime_r(&now, &t);
    strftime(day, 16, "%Y-%m-%d", &t);
}

/* ---- tokens of today ---- */

static uint64_t read_today(lm_archive *a, const char *owner, const char *day)
{
    const lm_sql_value values[] = { { .s = owner }, { .s = day } };
    uint64_t n = 0;

    pthread_mutex_lock(&a->read_lock);
    sqlite3_stmt *s =
        lm_sql_prepare(a->reads,
                       "SELECT COALESCE(SUM(prompt + written), 0) FROM tokens WHERE owner = ? AND day = ?",
                       "ss", values);
    if (s && sqlite3_step(s) == SQLITE_ROW)
        n = (uint64_t)sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    pthread_mutex_unlock(&a->read_lock);
    return n;
}

static lm_owner_day *find_day(lm_archive *a, const char *owner)
{
    for (size_t i = 0; i < a->n_days; i++)
        if (strcmp(a->days[i].owner, owner) == 0)
            return a->days + i;
    return NULL;
}

/* Add a row; NULL: out of memory. */
static lm_owner_day *add_day(lm_archive *a, const char *owner)
{
    if (a->n_days == a->max_days) {
        size_t max = 2 * a->max_days + 8;
        lm_owner_day *grown = lm_memory_grow(a->days, a->n_days * sizeof *grown, max * sizeof *grown);
        if (!grown)
            return NULL;
        a->days = grown;
        a->max_days = max;
    }
    lm_owner_day *d = a->days + a->n_days++;
    *d = (lm_owner_day){ 0 };
    snprintf(d->owner, sizeof d->owner, "%s", owner);
    return d;
}

/* Add `more` to the owner's tokens of `day` and return the sum. The file is read once, before any tokens of
 * the owner are handed over. */
static uint64_t use_today(lm_archive *a, const char *owner, const char *day, uint64_t more)
{
    uint64_t n = 0;

    pthread_mutex_lock(&a->lock);
    lm_owner_day *d = find_day(a, owner);
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

void lm_archive_count(lm_archive *a, const char *owner, const char *model, uint64_t prompt, uint64_t cached,
                      uint64_t written)
{
    lm_write_item *w = lm_memory_zero(1, sizeof *w);

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
    lm_archive_enqueue(a, w);
}

/* ---- usage ---- */

static const char *text_of(const json_t *row, const char *name)
{
    return json_string_value(json_object_get(row, name));
}

/* Add the numbers of `row` to those of the same day and model in `list`, or insert it there. Takes `row`. */
static void add_row(json_t *list, json_t *row)
{
    static const char *const figures[] = { "requests", "input_tokens", "cached_tokens", "output_tokens" };
    json_t *found;
    size_t i;

    json_array_foreach(list, i, found) {
        if (strcmp(text_of(found, "day"), text_of(row, "day")) ||
            strcmp(text_of(found, "model"), text_of(row, "model")))
            continue;
        for (size_t k = 0; k < sizeof figures / sizeof *figures; k++) {
            json_int_t sum = json_integer_value(json_object_get(found, figures[k])) +
                             json_integer_value(json_object_get(row, figures[k]));
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
    static const char rows[] = "SELECT day, model, requests, prompt, cached, written FROM tokens"
                               " WHERE owner = ? ORDER BY day DESC, model";
    sqlite3_stmt *s = lm_sql_prepare(a->reads, rows, "s", &(lm_sql_value){ .s = owner });
    while ((rc = s ? sqlite3_step(s) : SQLITE_ERROR) == SQLITE_ROW)
        json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:I, s:I, s:I}", "day",
                                              sqlite3_column_text(s, 0), "model", sqlite3_column_text(s, 1),
                                              "requests", (json_int_t)sqlite3_column_int64(s, 2),
                                              "input_tokens", (json_int_t)sqlite3_column_int64(s, 3),
                                              "cached_tokens", (json_int_t)sqlite3_column_int64(s, 4),
                                              "output_tokens", (json_int_t)sqlite3_column_int64(s, 5)));
    lm_status status = rc == SQLITE_DONE ? LM_OK : lm_sql_fail(a->reads, e);
    sqlite3_finalize(s);
    pthread_mutex_unlock(&a->read_lock);
    return status;
}

/* Append the counts that are not in the file. *writes: number of writes begun; *lost: as in lm_archive.
 * False: a write is in progress, which the file may already contain. */
static bool usage_unwritten(lm_archive *a, const char *owner, json_t *list, uint64_t *writes, lm_error *lost)
{
    pthread_mutex_lock(&a->lock);
    bool still = !a->writing;
    for (const lm_write_item *w = a->first; w; w = w->next)
        if (w->kind == WRITE_COUNT && strcmp(w->owner, owner) == 0)
            json_array_append_new(list,
                                  json_pack("{s:s, s:s, s:i, s:I, s:I, s:I}", "day", w->day, "model",
                                            w->model, "requests", 1, "input_tokens", (json_int_t)w->prompt,
                                            "cached_tokens", (json_int_t)w->cached, "output_tokens",
                                            (json_int_t)w->tokens));
    *writes = a->writes;
    *lost = a->lost;
    pthread_mutex_unlock(&a->lock);
    return still;
}

/* Read the usage once. *exact: nothing was written meanwhile, so nothing is counted twice or left out. */
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
    for (unsigned tries = 0; tries < MAX_TRIES && !exact; tries++) {
        if (tries)
            nanosleep(&pause, NULL);
        json_decref(*out);
        *out = NULL;
        LM_TRY(usage_once(a, owner, out, &exact, e));
    }
    return LM_OK;
}

lm_status lm_archive_look(const char *path, const char *owner, json_t **out, lm_error *e)
{
    sqlite3 *db = NULL;
    json_t *list = json_array();
    lm_status status = LM_OK;
    struct stat st;
    int rc = SQLITE_ERROR;

    if (stat(path, &st) < 0)
        status = lm_fail_errno(e, path, "cannot be opened");
    else if (!S_ISREG(st.st_mode))
        status = lm_fail(e, LM_IO, path, LM_NO_OFFSET, "no file");
    else if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK)
        status = lm_archive_name_file(lm_sql_fail(db, e), path, e);
    if (status == LM_OK) {
        sqlite3_busy_timeout(db, LM_STORE_BUSY_MS);
        status = lm_archive_name_file(lm_archive_check(db, e), path, e);
    }
    static const char rows[] = "SELECT day, owner, model, requests, prompt, cached, written FROM tokens"
                               " WHERE ?1 IS NULL OR owner = ?1 ORDER BY day DESC, owner, model";
    sqlite3_stmt *s = status == LM_OK ? lm_sql_prepare(db, rows, "s", &(lm_sql_value){ .s = owner }) : NULL;
    while ((rc = s ? sqlite3_step(s) : SQLITE_ERROR) == SQLITE_ROW)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I}", "day",
                                              sqlite3_column_text(s, 0), "key", sqlite3_column_text(s, 1),
                                              "model", sqlite3_column_text(s, 2), "requests",
                                              (json_int_t)sqlite3_column_int64(s, 3), "input_tokens",
                                              (json_int_t)sqlite3_column_int64(s, 4), "cached_tokens",
                                              (json_int_t)sqlite3_column_int64(s, 5), "output_tokens",
                                              (json_int_t)sqlite3_column_int64(s, 6)));
    if (status == LM_OK && rc != SQLITE_DONE)
        status = lm_archive_name_file(lm_sql_fail(db, e), path, e);
    sqlite3_finalize(s);
    sqlite3_close(db);
    if (status == LM_OK)
        *out = list;
    else
        json_decref(list);
    return status;
}
