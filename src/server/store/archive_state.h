/* archive_state.h - what the parts of the store share: its connections, and writes that wait for the disk.
 * Threads: see archive.h. */
#ifndef LM_SERVER_ARCHIVE_STATE_H
#define LM_SERVER_ARCHIVE_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "server/front/workers.h"
#include "server/store/archive.h"
#include "server/store/sql.h"

/* Wait for a lock of the file; maximum of waiting writes. */
enum { LM_STORE_BUSY_MS = 2000, LM_STORE_WRITES = 1024 };

/* The tokens of an owner on one day, the last for which they were read or counted. */
typedef struct lm_owner_day { char owner[33], day[16]; uint64_t tokens; } lm_owner_day;

/* There are two connections: the writer's thread has its own; readers share the other, and wait neither for
 * the writer nor for what it waits for (write-ahead log). In memory both are the same. */
struct lm_archive {
    sqlite3        *db;              /* the writer's; under `read_lock` if it is also `reads` */
    uint64_t        bytes, limit;    /* of responses; used by the writer only */
    int64_t         version;         /* SQLite's data_version when they were measured: it changes when
                                        another process writes */
    lm_workers     *writer;
    sqlite3        *reads;
    pthread_mutex_t read_lock;       /* protects `reads` */
    atomic_bool     closing;
    pthread_mutex_t lock;            /* protects all that follows; never held during disk access */
    struct lm_write_item *first, **last;        /* handed over and not yet written, in order */
    uint64_t        held;            /* bytes of those */
    bool            writing;         /* the first of them is being written */
    uint64_t        writes;          /* number of writes begun */
    lm_error        lost;            /* the error of the last write, or of a later one that was not
                                        accepted; LM_OK: none */
    lm_owner_day      *days;            /* [n_days] */
    size_t          n_days, max_days;
};

typedef enum lm_write_kind { WRITE_RECORD, WRITE_REMOVAL, WRITE_COUNT } lm_write_kind;

/* Freed by the writer's thread once it is out of the list. */
typedef struct lm_write_item {
    lm_work_item item;               /* must be the first member */
    struct lm_write_item *next;
    lm_archive  *archive;
    char         owner[33];
    lm_write_kind   kind;
    lm_record    record;             /* of a removal, only the id */
    char         model[128], day[16];
    uint64_t     prompt, cached, tokens;
} lm_write_item;

/* Hand a write over to the writer's thread. Takes `w`. */
void lm_archive_enqueue(lm_archive *a, lm_write_item *w);

/* Do a write and free it. Called by the writer's thread. */
void lm_archive_write(lm_work_item *item);

/* Measure the responses in the file: `bytes` and `version`. Called by the writer's thread, or before it
 * exists. */
lm_status lm_archive_measure(lm_archive *a, lm_error *e);

/* Delete the oldest responses until the others are within the limit. Called by the writer's thread, or before
 * it exists. */
lm_status lm_archive_trim(lm_archive *a, lm_error *e);

/* Check that the database is a store or empty, and not damaged. */
lm_status lm_archive_check(sqlite3 *db, lm_error *e);

/* Make an error about the store one about `path` (NULL: unchanged), for the user who starts the server:
 * clients must not see the path. */
lm_status lm_archive_name_file(lm_status status, const char *path, lm_error *e);

#endif
