/* pieces.h - split a prompt into the texts of its tokens or words, for diagrams. */
#ifndef LM_CLI_PIECES_H
#define LM_CLI_PIECES_H

#include "cli/base/command.h"

/* Find the text of each token. A token that is only a part of a character is shown as spelled in the
 * vocabulary. Valid as long as the command runs. LM_USAGE: the model has no tokenizer, or the prompt no
 * tokens. */
lm_status lm_prompt_pieces(lm_cli *cli, const lm_model *m, const char *prompt, const char *const **out,
                           size_t *n_out, lm_error *e);

/* Split a prompt into words at blanks, for a model without a tokenizer; diagrams note that they are words.
 * LM_USAGE: no words. */
lm_status lm_prompt_words(lm_cli *cli, const char *prompt, const char *const **out, size_t *n_out,
                          lm_error *e);

#endif
