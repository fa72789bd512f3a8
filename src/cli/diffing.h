/* diffing.h - the forms that a comparison of two models is shown in. */
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
    bool                 all;        /* every tensor in the tables */
} lm_diffing;

/* Tensors of one kind and the same types, over all layers: "attn_v", bf16 to q4_k. */
typedef struct lm_diff_kind {
    const char *name, *a, *b;
    size_t      n;
    double      snr_db, worst_db;    /* of all together, and of the worst; infinity: equal */
    const char *worst;
    uint64_t    a_bytes, b_bytes;
} lm_diff_kind;

enum { LM_DIFF_KINDS = 64 };
size_t lm_diff_kinds(const lm_diff_result *r, lm_diff_kind *out, char (*names)[96]);

/* The tensors that have lost most, worst first, at most `most`: indices of them. */
size_t lm_diff_worst(const lm_diff_result *r, uint32_t *out, size_t most);

/* "∞" where nothing differs. */
const char *lm_diff_db(char out[LM_FIGURE], double db);

/* The columns [first, last) of a tensor's histogram outside of which all are empty. */
void lm_diff_bins(const lm_diff_tensor *t, size_t *first, size_t *last);

/* "raise these 3 tensors to Q6_K: +40.1 MB, −60.2 % KL (0.0123 → 0.0049)" */
void lm_diff_advice_text(const lm_diff_advice *a, lm_text *out);

/* "the first token they differ on …"; "" without a text. */
void lm_diff_flip_text(const lm_diff_result *r, lm_text *out);

void    lm_diff_page(const lm_diffing *d, lm_text *out);
void    lm_diff_markdown(const lm_diffing *d, lm_text *out);
void    lm_diff_html(const lm_diffing *d, lm_text *out);
json_t *lm_diff_json(const lm_diffing *d);

#endif
