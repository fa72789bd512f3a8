/* archive.h - what a server stores: responses by their id, and tokens by key, model and day, in a SQLite
 * database.
 *
 * Writes are handed over to the archive's own thread, without waiting, and freed by it. Reads look at writes
 * that are not done yet, then at the file, through a separate connection: they do not wait for writes. If the
 * process is killed, the file stays intact (write-ahead log). Responses are deleted, oldest first, beyond a
 * total size and an age.
 *
 * The data of each owner is separate. Of a key only a hash is stored.
 *
 * Threads: any, except lm_archive_open and _close. */
#ifndef LM_SERVER_ARCHIVE_H
#define LM_SERVER_ARCHIVE_H

#include <jansson.h>
#include <stdint.h>

#include "lamina/error.h"

#define LM_ARCHIVE_DAYS  30                          /* that a response is stored */
#define LM_ARCHIVE_BYTES (UINT64_C(1) << 30)         /* of all responses in a file */
/* Of those in memory, and of writes that wait for the disk. */
#define LM_ARCHIVE_MEMORY (UINT64_C(64) << 20)

typedef struct lm_archive lm_archive;

/* Open an archive. `path` NULL: in memory, lost at the end. LM_IO: it cannot be opened, is not a database of
 * this kind, or is damaged. */
lm_status lm_archive_open(const char *path, lm_archive **out, lm_error *e);

/* Write what was handed over, then close the archive. NULL is allowed. */
void      lm_archive_close(lm_archive *a);

/* Write the owner of a key: a hash in hexadecimal digits, "" for NULL. */
void      lm_archive_owner(const char *key, char out[33]);

/* A stored response. */
typedef struct lm_record {
    char     id[64], previous[64];   /* `previous` "": none */
    char    *response, *input;       /* JSON: the object; an array of items */
} lm_record;

/* Store a response. Takes the strings of `r`. A failed write is reported by the next reads: lm_archive_get,
 * if it finds nothing, and lm_archive_usage. */
void      lm_archive_put(lm_archive *a, const char *owner, lm_record *r);

/* Read or remove a response; *out is freed by lm_record_free. LM_NOT_FOUND: the owner has none with this id.
 * LM_IO: the archive cannot be read, or may have lost the response because the last write failed. */
lm_status lm_archive_get(lm_archive *a, const char *owner, const char *id, lm_record *out, lm_error *e);
lm_status lm_archive_remove(lm_archive *a, const char *owner, const char *id, lm_error *e);
void      lm_record_free(lm_record *r);

/* Return what all owners (NULL) or one have used, from the file of an archive, which need not be open: as
 * lm_archive_usage, with the owner as "key" in each row. The file is only read. LM_NOT_FOUND, LM_IO. */
lm_status lm_archive_look(const char *path, const char *owner, json_t **out, lm_error *e);

/* Return the tokens of prompts and outputs that the owner has used today (UTC): through this server and,
 * before it knew the owner, through others with the same file; 0 if the archive cannot be read. */
uint64_t  lm_archive_today(lm_archive *a, const char *owner);

/* Count a request that has ended, for the current day (UTC). */
void      lm_archive_count(lm_archive *a, const char *owner, const char *model, uint64_t prompt,
                           uint64_t cached, uint64_t written);

/* Return [{day, model, requests, input_tokens, cached_tokens, output_tokens}], the latest day first. */
lm_status lm_archive_usage(lm_archive *a, const char *owner, json_t **out, lm_error *e);

#endif
