/* pre_prints.h - find the name that llama.cpp's converter gives a tokenizer. */
#ifndef LM_TEXT_PRE_PRINTS_H
#define LM_TEXT_PRE_PRINTS_H

#include "base/str.h"
#include "lamina/text.h"

/* The text whose ids identify a tokenizer. */
extern const char lm_pre_probe[];

/* Return the name for tokenizer.ggml.pre of the tokenizer that encodes lm_pre_probe as these ids, including
 * the tokens it adds around a text; NULL: not known to the converter. Several names split text in the same
 * way. */
const char *lm_pre_of_print(const lm_tokens *ids);

#endif
