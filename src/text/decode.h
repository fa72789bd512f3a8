/* decode.h - decode pieces to text: the decoders of tokenizer.json, in one fixed order.
 *
 *   each piece:  replaced, stripped, metaspace to space           `steps`
 *   then either  the byte alphabet, ill-formed UTF-8 repaired     `bytelevel`
 *   or           "<0x41>" pieces joined to characters             `fallback`
 *   the whole:   characters stripped from its two ends            `start`, `stop` */
#ifndef LM_TEXT_DECODE_H
#define LM_TEXT_DECODE_H

#include "text/regex.h"
#include "text/vocab.h"

enum { LM_MAX_DECODE = 16 };

typedef enum lm_decode_kind { LM_DECODE_REPLACE, LM_DECODE_STRIP, LM_DECODE_METASPACE } lm_decode_kind;

typedef struct lm_decode_step {
    lm_decode_kind kind;
    lm_regex      *pattern;         /* REPLACE: a literal; owned */
    lm_view        text;            /* REPLACE: the replacement; STRIP, METASPACE: one character. Owned by the
                                       vocabulary's arena */
    uint32_t       start, stop;     /* STRIP: maximum number from each end */
    bool           drop_first;      /* METASPACE: marks of the first piece are dropped */
} lm_decode_step;

typedef struct lm_detokenizer_rule {
    lm_decode_step steps[LM_MAX_DECODE];
    unsigned       n;
    bool           bytelevel, fallback;
    bool           raw_added;       /* GGUF: control and user-defined tokens are plain text */
    bool           spaced;          /* no decoder at all: pieces are joined with spaces */
    lm_view        strip;           /* one character */
    uint32_t       start, stop;
} lm_detokenizer_rule;

void lm_decoder_free(lm_detokenizer_rule *d);

#endif
