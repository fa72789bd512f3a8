/* journal.h - results of long work, stored in a file as they arrive, so that the work can continue after it
 * was stopped.
 *
 * A file has a line that identifies the results (the key), then records. Each has a checksum: what a killed
 * process left half written is detected and cut off. A record is in the file when lm_journal_add returns, and
 * survives the process. Only one process at a time can have a journal open (flock). */
#ifndef LM_BASE_JOURNAL_H
#define LM_BASE_JOURNAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct lm_journal lm_journal;

/* Called for each record that is read; `data` is valid during the call. An error ends the reading. */
typedef lm_status lm_journal_record(void *arg, uint64_t index, const void *data, size_t n, lm_error *e);

/* Open a new file, or one with the same key, whose records are passed to `each` in order.
 * `key`: at most 200 characters without a newline.
 * LM_USAGE: the file has another key or is not a journal (it is not changed), or another process has it open;
 * LM_IO. */
lm_status lm_journal_open(const char *path, const char *key, lm_journal_record *each, void *arg,
                          lm_journal **out, lm_error *e);

/* Append a record of at most 2^30 bytes. A NULL journal ignores it. */
lm_status lm_journal_add(lm_journal *j, uint64_t index, const void *data, size_t n, lm_error *e);

/* Close the journal once its records are on disk. NULL is fine. */
lm_status lm_journal_close(lm_journal *j, lm_error *e);

#endif
