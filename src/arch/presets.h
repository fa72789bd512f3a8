/* presets.h - the table of published configurations, made from src/arch/presets/ by scripts/presets. */
#ifndef LM_ARCH_PRESETS_H
#define LM_ARCH_PRESETS_H

#include "arch/config.h"
#include "lamina/preset.h"

extern const lm_preset lm_preset_table[];
extern const size_t    lm_n_presets;

/* The program of a preset; `config` is scratch, all zero. LM_UNSUPPORTED: published, but of a family that has no program here. */
lm_status lm_preset_program(const lm_preset *preset, const lm_family **family, lm_config *config, lm_program **out, lm_error *e);

#endif
