/* version.c - the version that this library was built as. */
#include "lamina/version.h"

const char *lm_version(void)
{
    return LAMINA_VERSION;
}
