/* ggufvocab.h - write a folder's tokenizer and chat templates as GGUF keys. */
#ifndef LM_EXPORT_GGUFVOCAB_H
#define LM_EXPORT_GGUFVOCAB_H

#include "formats/gguf.h"

/* Add tokenizer.ggml.* and tokenizer.chat_template* from the files of the folder `c`, for a model with `rows`
 * rows. The keys are read back as a tokenizer and must give the same ids as the folder's tokenizer for texts
 * that tell tokenizers apart. A folder without a tokenizer, or with one that GGUF cannot represent, gets
 * model "no_vocab". `notes` gets a line per item that is not carried over. LM_BAD_MODEL: broken files.
 * LM_UNSUPPORTED: a tokenizer that would give other ids. */
lm_status lm_add_folder_vocabulary(lm_gguf_writer *w, lm_container *c, uint32_t rows, lm_text *notes,
                                   lm_error *e);

#endif
