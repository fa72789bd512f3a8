/* version.c - the version of this build of the library. */
#include "lamina/version.h"

const char *lm_version(void)
{
    return LAMINA_VERSION;
}
