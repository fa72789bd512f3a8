/* sql.h - statements of SQLite with what is bound to them. */
#ifndef LM_SERVER_SQL_H
#define LM_SERVER_SQL_H

#include <sqlite3.h>

#include "lamina/error.h"

/* What is bound: a text or an integer. It must outlive the statement. */
typedef union lm_sql_value { const char *s; int64_t i; } lm_sql_value;

/* `kinds` has a letter for each value: s a text, i an integer. NULL: lm_sql_fail says why. Ended by sqlite3_finalize. */
sqlite3_stmt *lm_sql_prepare(sqlite3 *db, const char *sql, const char *kinds, const lm_sql_value *values);

/* One that returns no rows. */
lm_status lm_sql_execute(sqlite3 *db, const char *sql, const char *kinds, const lm_sql_value *values, lm_error *e);

/* The first column of the first row. */
lm_status lm_sql_number(sqlite3 *db, const char *sql, int64_t *out, lm_error *e);

/* LM_IO with what the database says of its last failure. */
lm_status lm_sql_fail(sqlite3 *db, lm_error *e);

#endif
