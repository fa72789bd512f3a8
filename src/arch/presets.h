/* presets.h - the table of published configurations, generated from src/arch/presets/ by scripts/presets. */
#ifndef LM_ARCH_PRESETS_H
#define LM_ARCH_PRESETS_H

#include "arch/config.h"
#include "lamina/preset.h"

extern const lm_preset lm_preset_table[];
extern const size_t    lm_n_presets;

/* Build the program of a preset; `config` must be zeroed. LM_UNSUPPORTED: the family of the preset is not
 * supported. */
lm_status lm_preset_program(const lm_preset *preset, const lm_family **family, lm_config *config,
                            lm_program **out, lm_error *e);

#endif
