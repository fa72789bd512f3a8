/* pre_prints.h - what llama.cpp's converter calls a tokenizer. */
#ifndef LM_TEXT_PRE_PRINTS_H
#define LM_TEXT_PRE_PRINTS_H

#include "base/str.h"
#include "lamina/text.h"

/* The text whose ids tell tokenizers apart. */
extern const char lm_pre_probe[];

/* The name for tokenizer.ggml.pre of the tokenizer that makes these ids of lm_pre_probe, with what it adds around a text; NULL: not
 * known there.
 * Several names split text in one way. */
const char *lm_pre_of_print(const lm_tokens *ids);

#endif
