/* watch.h - a thread that monitors connections that are not being read: libmicrohttpd notices neither that
 * the client of a suspended connection has left, nor that a request arrives a byte at a time. */
#ifndef LM_SERVER_WATCH_H
#define LM_SERVER_WATCH_H

#include "lamina/error.h"

typedef struct lm_watch lm_watch;

/* A watched connection: an index and a generation, so that a late event of the kernel is not taken for one of
 * a newer connection. 0: none. */
typedef uint64_t lm_watched;

/* Watch at most `max` connections. `left(of)`: the client has closed its end. `due(of)`: the time set by
 * lm_watch_until is over. Both are called under the watch's lock, by its thread or lm_watch_all_due, and
 * never after lm_watch_drop of that connection has returned. */
lm_status lm_watch_new(uint32_t max, void (*left)(void *of), void (*due)(void *of), lm_watch **out,
                       lm_error *e);
void      lm_watch_free(lm_watch *w);

lm_watched lm_watch_add(lm_watch *w, int fd, void *of);
void       lm_watch_drop(lm_watch *w, lm_watched c);

/* Call `due` for every connection now. */
void       lm_watch_all_due(lm_watch *w);

/* Let `due` be called once, `seconds` from now; 0: not at all. */
void       lm_watch_until(lm_watch *w, lm_watched c, double seconds);

#endif
