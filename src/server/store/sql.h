/* sql.h - SQLite statements with bound values. A connection is used by one thread at a time
 * (archive_state.h). */
#ifndef LM_SERVER_SQL_H
#define LM_SERVER_SQL_H

#include <sqlite3.h>

#include "lamina/error.h"

/* A bound value: a string or an integer. A string must outlive the statement. */
typedef union lm_sql_value { const char *s; int64_t i; } lm_sql_value;

/* Prepare a statement. `kinds` has a letter per value: s a string, i an integer. NULL: see lm_sql_fail. Freed
 * by sqlite3_finalize. */
sqlite3_stmt *lm_sql_prepare(sqlite3 *db, const char *sql, const char *kinds, const lm_sql_value *values);

/* Execute a statement that returns no rows. */
lm_status lm_sql_execute(sqlite3 *db, const char *sql, const char *kinds, const lm_sql_value *values,
                         lm_error *e);

/* Execute a statement and return the first column of the first row. */
lm_status lm_sql_number(sqlite3 *db, const char *sql, int64_t *out, lm_error *e);

/* Return LM_IO, with the database's message for its last failure. */
lm_status lm_sql_fail(sqlite3 *db, lm_error *e);

#endif
