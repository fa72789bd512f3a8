/* version.h - which lamina this is: of the headers when a program is compiled, of the library when it
 * runs. */
#ifndef LAMINA_VERSION_H
#define LAMINA_VERSION_H

#ifdef __cplusplus
extern "C" {
#endif

#define LAMINA_VERSION_MAJOR 0
#define LAMINA_VERSION_MINOR 2
#define LAMINA_VERSION_PATCH 0
#define LAMINA_VERSION       "0.2.0"

/* LAMINA_VERSION as it was when the library was built. Constant, never NULL; thread-safe. */
const char *lm_version(void);

#ifdef __cplusplus
}
#endif
#endif
