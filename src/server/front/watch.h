/* watch.h - a thread that looks after connections while nobody reads them: libmicrohttpd notices neither that the client of a suspended
 * connection has left, nor that a request comes in a byte at a time. */
#ifndef LM_SERVER_WATCH_H
#define LM_SERVER_WATCH_H

#include "lamina/error.h"

typedef struct lm_watch lm_watch;

/* Of a connection: an index and a generation, so that what the kernel tells late is told of nobody. 0: none. */
typedef uint64_t lm_watched;

/* `left(arg, of)`: the client has closed its end. `due(arg, of)`: the time given by lm_watch_until is over. Both are called by the
 * watch's thread,
 * and never after lm_watch_drop of that connection has returned. */
lm_status lm_watch_new(uint32_t most, void (*left)(void *of), void (*due)(void *of), lm_watch **out, lm_error *e);
void      lm_watch_free(lm_watch *w);

lm_watched lm_watch_add(lm_watch *w, int fd, void *of);
void       lm_watch_drop(lm_watch *w, lm_watched c);

/* `due` of every connection, now. */
void       lm_watch_all_due(lm_watch *w);

/* `due` in so many seconds from now, once; 0: not at all. */
void       lm_watch_until(lm_watch *w, lm_watched c, double seconds);

#endif
