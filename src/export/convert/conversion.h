/* conversion.h - the state of one call of lm_convert: internal to export/. */
#ifndef LM_EXPORT_CONVERSION_H
#define LM_EXPORT_CONVERSION_H

#include "export/files/gguf_view.h"
#include "export/files/ggufparts.h"
#include "export/tensors/overflow.h"
#include "lamina/convert.h"

typedef struct lm_conversion {
    const lm_convert_options *o;
    const char   *in, *out;
    lm_arena      arena;
    lm_container *container;         /* the input, until a carrier takes it over */
    lm_gguf_view   *carrier;         /* a folder presented as a GGUF file */
    const lm_dtype *type;            /* requested type; NULL: unchanged */
    lm_dtype      requested;
    lm_moved     *tensors;
    size_t        n;
    lm_moving     moving;
    lm_text       notes;             /* lines */
    const char   *family, *path;
    uint32_t      files;
} lm_conversion;

lm_status lm_convert_to_gguf(lm_conversion *c, lm_error *e);         /* from a folder */
lm_status lm_convert_gguf_again(lm_conversion *c, lm_error *e);      /* from a GGUF file */
lm_status lm_convert_to_folder(lm_conversion *c, lm_error *e);       /* from a GGUF file */

/* Check that nothing exists at `path` unless it may be replaced, and that it is not one of the input
 * files. */
lm_status lm_check_new_file(const lm_conversion *c, const lm_container *in, const char *path, lm_error *e);

/* Return LM_IO if an input file has changed since it was opened. */
lm_status lm_check_inputs(const lm_container *in, lm_error *e);

#endif
