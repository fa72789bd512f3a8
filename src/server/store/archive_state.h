/* archive_state.h - what the parts of the store share: its connections, and writes that wait for the disk. Who may call what: archive.h. */
#ifndef LM_SERVER_ARCHIVE_STATE_H
#define LM_SERVER_ARCHIVE_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "server/front/workers.h"
#include "server/store/archive.h"
#include "server/store/sql.h"

enum { LM_STORE_BUSY_MS = 2000, LM_STORE_WRITES = 1024 };        /* that a lock of the file is waited for; writes that may wait */

/* Tokens of one owner, of the day that it was asked about last. */
typedef struct lm_owner_day { char owner[33], day[16]; uint64_t tokens; } lm_owner_day;

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
    struct lm_write_item *first, **last;        /* handed over and not written, in order */
    uint64_t        held;            /* bytes of those */
    bool            writing;         /* the first of them is being written */
    uint64_t        writes;          /* that were begun */
    lm_error        lost;            /* LM_OK: all was written since the last that was */
    lm_owner_day      *days;            /* [n_days] */
    size_t          n_days, most_days;
};

typedef enum lm_write_kind { WRITE_RECORD, WRITE_REMOVAL, WRITE_COUNT } lm_write_kind;

/* Freed by the writer's thread once it is out of the list. */
typedef struct lm_write_item {
    lm_work_item item;               /* the first */
    struct lm_write_item *next;
    lm_archive  *archive;
    char         owner[33];
    lm_write_kind   kind;
    lm_record    record;             /* of a removal the id alone */
    char         model[128], day[16];
    uint64_t     prompt, cached, tokens;
} lm_write_item;

/* Hand a write over to the writer's thread. Takes `w`. */
void lm_archive_hand_over(lm_archive *a, lm_write_item *w);

/* By the writer's thread: do it, and free it. */
void lm_archive_write(lm_work_item *item);

/* The oldest responses go, until the others are within the limit. By the writer's thread, or before there is one. */
lm_status lm_archive_trim(lm_archive *a, lm_error *e);

/* That it is a store, or new; and that it is whole. */
lm_status lm_archive_check(sqlite3 *db, lm_error *e);

/* Where the file lies is told who starts the server, not its clients: an error about the store is one about `path` (NULL: as it is). */
lm_status lm_archive_name_file(lm_status status, const char *path, lm_error *e);

#endif
