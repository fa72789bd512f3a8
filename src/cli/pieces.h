/* pieces.h - a prompt as its tokens read, for diagrams. */
#ifndef LM_CLI_PIECES_H
#define LM_CLI_PIECES_H

#include "cli/command.h"

/* How each token reads; several that are one character together are shown as they are spelled. Lives as long as the command. LM_USAGE
 * for a model without a tokenizer, or a prompt without a token. */
lm_status lm_prompt_pieces(lm_cli *cli, const lm_model *m, const char *prompt, const char *const **out, size_t *n_out, lm_error *e);

/* The words between blanks, for a model without a tokenizer: pictures say that they are words. */
lm_status lm_prompt_words(lm_cli *cli, const char *prompt, const char *const **out, size_t *n_out, lm_error *e);

#endif
