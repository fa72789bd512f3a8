/* presets.h - the table of published configurations, made from src/arch/presets/ by scripts/presets. */
#ifndef LM_ARCH_PRESETS_H
#define LM_ARCH_PRESETS_H

#include "lamina/preset.h"

extern const lm_preset lm_preset_table[];
extern const size_t    lm_n_presets;

#endif
