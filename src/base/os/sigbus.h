/* sigbus.h - mappings of files that may shrink: a fault inside one of them ends the guarded work that touched
 * it (lm_filemap_guard) and not the process. Thread-safe. */
#ifndef LM_BASE_SIGBUS_H
#define LM_BASE_SIGBUS_H

#include <stdbool.h>
#include <stddef.h>

/* Call these before the mapping is used and before it is unmapped. False: out of memory. The first call
 * installs the handler; lamina.h documents what hosts should know about it. */
bool lm_guarded_add(const void *from, size_t size);
void lm_guarded_remove(const void *from);

#endif
