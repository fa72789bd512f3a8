/* sql.c - sql.h. */
#include "server/store/sql.h"

lm_status lm_sql_fail(sqlite3 *db, lm_error *e)
{
    return lm_fail(e, LM_IO, "the store", LM_NO_OFFSET, "%s", db ? sqlite3_errmsg(db) : "out of memory");
}

sqlite3_stmt *lm_sql_prepare(sqlite3 *db, const char *sql, const char *kinds, const lm_sql_value *values)
{
    sqlite3_stmt *s = NULL;

    if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) != SQLITE_OK)
        return NULL;
    for (int i = 0; kinds[i]; i++) {
        int rc = kinds[i] == 's' ? sqlite3_bind_text(s, i + 1, values[i].s, -1, SQLITE_STATIC)
                                 : sqlite3_bind_int64(s, i + 1, values[i].i);
        if (rc != SQLITE_OK) {
            sqlite3_finalize(s);
            return NULL;
        }
    }
    return s;
}

lm_status lm_sql_execute(sqlite3 *db, const char *sql, const char *kinds, const lm_sql_value *values,
                         lm_error *e)
{
    sqlite3_stmt *s = lm_sql_prepare(db, sql, kinds, values);
    lm_status status = s && sqlite3_step(s) == SQLITE_DONE ? LM_OK : lm_sql_fail(db, e);

    sqlite3_finalize(s);
    return status;
}

lm_status lm_sql_number(sqlite3 *db, const char *sql, int64_t *out, lm_error *e)
{
    sqlite3_stmt *s = lm_sql_prepare(db, sql, "", NULL);
    lm_status status = s && sqlite3_step(s) == SQLITE_ROW ? LM_OK : lm_sql_fail(db, e);

    if (status == LM_OK)
        *out = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return status;
}
