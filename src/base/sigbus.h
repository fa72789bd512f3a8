/* sigbus.h - mappings of files that may shrink underneath: a fault inside one of them ends the guarded work that touched
 * it (lm_filemap_guard) and not the process. Thread-safe. */
#ifndef LM_BASE_SIGBUS_H
#define LM_BASE_SIGBUS_H

#include <stdbool.h>
#include <stddef.h>

/* Before the mapping is used / before it is unmapped. False: out of memory. The first one installs the handler; lamina.h says what hosts
 * should know of it. */
bool lm_guarded_add(const void *from, size_t size);
void lm_guarded_remove(const void *from);

#endif
