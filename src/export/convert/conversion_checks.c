/* conversion_checks.c - check that an output path may be written, and that the input has not changed. */
#include <sys/stat.h>

#include "export/convert/conversion.h"

lm_status lm_check_new_file(const lm_conversion *c, const lm_container *in, const char *path, lm_error *e)
{
    struct stat a, b;

    if (stat(path, &b) != 0)
        return LM_OK;
    if (S_ISDIR(b.st_mode)) {
        lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "is a folder");
        return lm_fail_in(e, path);
    }
    for (size_t i = 0; i < lm_container_n_files(in); i++)
        if (stat(lm_container_file(in, i)->path, &a) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
            return lm_fail(e, LM_USAGE, path, LM_NO_OFFSET, "input and output are the same file");
    if (c->o->overwrite || !S_ISREG(b.st_mode) || !b.st_size)
        return LM_OK;
    lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "already exists");
    lm_fail_in(e, path);
    return lm_fail_hint(e, "use `overwrite` to replace it");
}

lm_status lm_check_inputs(const lm_container *in, lm_error *e)
{
    for (size_t i = 0; i < lm_container_n_files(in); i++)
        LM_TRY(lm_filemap_check(lm_container_file(in, i), e));
    return LM_OK;
}
