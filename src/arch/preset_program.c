/* preset_program.c - build the program of a published model. */
#include <string.h>

#include "arch/presets.h"
#include "base/str.h"

lm_status lm_preset_program(const lm_preset *preset, const lm_family **family, lm_config *config,
                            lm_program **out, lm_error *e)
{
    lm_source s = { .kind = LM_SAFETENSORS };
    lm_meta  *meta;
    lm_text    warnings = { 0 };              /* discarded: the configuration is as published */

    LM_TRY(lm_meta_from_json(preset->config, strlen(preset->config), preset->name, 32, &meta, e));
    s.meta           = meta;
    lm_status status = lm_describe(&s, family, config, out, &warnings, e);
    lm_text_free(&warnings);
    lm_meta_free(meta);
    return status;
}
