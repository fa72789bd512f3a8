/* archive.h - what a server remembers: responses by their id, and tokens by key, model and day, in a SQLite database.
 *
 * Writes are handed to a thread of the archive's own: who hands over waits for nothing, and that thread frees what it was handed. Reads
 * look at what is not written yet, then at the file, through a connection of their own: they do not wait for writes. A process that is
 * killed leaves a whole file (write-ahead log). Responses are given up, oldest first, past a size and an age.
 *
 * Owners keep what they have apart: of a key only a hash is written.
 *
 * Threads: any, but for lm_archive_open and _close. */
#ifndef LM_SERVER_ARCHIVE_H
#define LM_SERVER_ARCHIVE_H

#include <jansson.h>
#include <stdint.h>

#include "lamina/error.h"

#define LM_ARCHIVE_DAYS  30                          /* that a response is kept */
#define LM_ARCHIVE_BYTES (UINT64_C(1) << 30)         /* of all responses in a file */
#define LM_ARCHIVE_MEMORY (UINT64_C(64) << 20)       /* of those in memory, and of those that wait for the disk */

typedef struct lm_archive lm_archive;

/* `path` NULL: in memory, gone at the end. LM_IO: it cannot be opened or is no database of this kind, or a damaged one. */
lm_status lm_archive_open(const char *path, lm_archive **out, lm_error *e);

/* What was handed over is written first. NULL is allowed. */
void      lm_archive_close(lm_archive *a);

/* Who a key is, "" for NULL: a hash in hexadecimal digits. */
void      lm_archive_owner(const char *key, char out[33]);

/* What a response leaves. */
typedef struct lm_record {
    char     id[64], previous[64];   /* `previous` "": none */
    char    *response, *input;       /* JSON: the object; an array of items */
} lm_record;

/* Takes the texts of `r`. What could not be written is said by the next reads. */
void      lm_archive_put(lm_archive *a, const char *owner, lm_record *r);

/* Freed by lm_record_free. LM_NOT_FOUND: the owner has none with this id. LM_IO: the archive cannot be read, or lost it as it could not be
 * written. */
lm_status lm_archive_get(lm_archive *a, const char *owner, const char *id, lm_record *out, lm_error *e);
lm_status lm_archive_remove(lm_archive *a, const char *owner, const char *id, lm_error *e);
void      lm_record_free(lm_record *r);

/* What all owners (NULL) or one have used, out of the file of an archive that need not be open: as lm_archive_usage, with "key", the
 * owner, in each. The file is only read. LM_NOT_FOUND, LM_IO. */
lm_status lm_archive_look(const char *path, const char *owner, json_t **out, lm_error *e);

/* Tokens of prompts and texts that the owner has used today (UTC), by this server and, before this server knew the owner, by others on the
 * same file; 0 where the archive cannot be read. */
uint64_t  lm_archive_today(lm_archive *a, const char *owner);

/* A request that has ended, for the day that it is (UTC). */
void      lm_archive_count(lm_archive *a, const char *owner, const char *model, uint64_t prompt, uint64_t cached, uint64_t written);

/* [{day, model, requests, input_tokens, cached_tokens, output_tokens}], the latest day first. */
lm_status lm_archive_usage(lm_archive *a, const char *owner, json_t **out, lm_error *e);

#endif
