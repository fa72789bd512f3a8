/* journal.h - results of long work, kept in a file as they come, so that the work can go on after it was stopped.
 *
 * A file has a line that says what the results are of (the key), then records. Each has a checksum: what a killed process left half
 * written is found and cut off. A record lies in the file when lm_journal_add returns, and survives the process. One process at a time has
 * a journal open (flock). */
#ifndef LM_BASE_JOURNAL_H
#define LM_BASE_JOURNAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct lm_journal lm_journal;

/* One record that was found; `data` lives during the call. An error ends the reading. */
typedef lm_status lm_journal_record(void *arg, uint64_t index, const void *data, size_t n, lm_error *e);

/* `key`: at most 200 characters without a newline. A new file, or one of the same key, whose records are told in their order. LM_USAGE: the
 * file is of another key, or no journal (it stays as it is), or another process has it; LM_IO. */
lm_status lm_journal_open(const char *path, const char *key, lm_journal_record *each, void *arg, lm_journal **out, lm_error *e);

/* Append a record of at most 2^31 bytes. A journal that is NULL takes nothing. */
lm_status lm_journal_add(lm_journal *j, uint64_t index, const void *data, size_t n, lm_error *e);

/* On disk, not only written. NULL is fine. */
lm_status lm_journal_close(lm_journal *j, lm_error *e);

#endif
