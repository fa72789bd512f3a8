/* families.h - the families there are, each one file. */
#ifndef LM_ARCH_FAMILIES_H
#define LM_ARCH_FAMILIES_H

#include "arch/config.h"

extern const lm_family lm_family_llama;

#endif
