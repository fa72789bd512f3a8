/* endkeys.h - the GGUF keys that list the tokens which end a generation. */
#ifndef LM_FORMATS_ENDKEYS_H
#define LM_FORMATS_ENDKEYS_H

#include "formats/meta.h"

/* All end tokens, where eos, eot and eom_token_id do not hold them. Only lamina reads this key. */
#define LM_ENDS_KEY "tokenizer.lamina.eos_token_ids"
#define LM_MAX_ENDS 256

typedef struct lm_end_keys {
    int64_t  ids[LM_MAX_ENDS + 8];   /* of eot, eom, the keys for gaps, and LM_ENDS_KEY; without eos */
    uint32_t n;
    bool     turn, call;             /* the tokens that end a turn, or a call of a tool, are all listed */
} lm_end_keys;

/* Read the keys. LM_BAD_MODEL: an id outside a vocabulary of `tokens`. An id of 2^32 - 1 means none. */
lm_status lm_end_keys_read(const lm_meta *m, uint32_t tokens, lm_end_keys *out, lm_error *e);

#endif
