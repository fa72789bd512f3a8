/* diffing.h - output formats of a comparison of two models. */
#ifndef LM_CLI_DIFFING_H
#define LM_CLI_DIFFING_H

#include <jansson.h>

#include "cli/output.h"
#include "lamina/diff.h"

typedef struct lm_diffing {
    lm_cli              *cli;
    const lm_diff_result *r;
    lm_model_info        a, b;
    const char          *text;       /* name of the file that was read; NULL: none */
    bool                 all;        /* list every tensor in the tables */
} lm_diffing;

/* Tensors of one kind and the same types, over all layers: "attn_v", bf16 to q4_k. */
typedef struct lm_diff_kind {
    const char *name, *a, *b;
    size_t      n;
    double      snr_db, worst_db;    /* of all tensors together, and of the worst one; infinity: equal */
    const char *worst;
    uint64_t    a_bytes, b_bytes;
} lm_diff_kind;

enum { LM_DIFF_KINDS = 64 };
size_t lm_diff_kinds(const lm_diff_result *r, lm_diff_kind *out, char (*names)[96]);

/* Find the indices of the tensors with the largest relative errors, worst first, at most `most`. Return their number. */
size_t lm_diff_worst(const lm_diff_result *r, uint32_t *out, size_t most);

/* Format an SNR; "∞": the tensors are equal. */
const char *lm_diff_db(char out[LM_FIGURE], double db);

/* Find the range [first, last) of columns of a tensor's histogram outside of which all are empty. */
void lm_diff_bins(const lm_diff_tensor *t, size_t *first, size_t *last);

/* "raise these 3 tensors to Q6_K: +40.1 MB, −60.2 % KL (0.0123 → 0.0049)" */
void lm_diff_advice_text(const lm_diff_advice *a, lm_text *out);

/* "first other token after token 5 of chunk 1: …"; "" without a text. */
void lm_diff_flip_text(const lm_diff_result *r, lm_text *out);

void    lm_diff_page(const lm_diffing *d, lm_text *out);
void    lm_diff_markdown(const lm_diffing *d, lm_text *out);
void    lm_diff_html(const lm_diffing *d, lm_text *out);
json_t *lm_diff_json(const lm_diffing *d);

#endif
