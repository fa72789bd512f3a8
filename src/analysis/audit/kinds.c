/* kinds.c - "Self-Attention (GQA)", "RMSNorm, eps=1e-05", "FFN(x) = W_2 ReLU(W_1 x)": words for what a part is. */
#include <ctype.h>
#include <string.h>

#include "analysis/audit/reading.h"

/* ---- "Self-Attention (GQA)", "input_layernorm (RMSNorm, eps=1e-05)", ": LayerNorm (Post)" ---- */

/* A part of the model and the words of its kinds that stand beside it in diagrams and lists of a few words. */
static const struct { const char *part, *kinds[8], *path; } kinds[] = {
    { "attention", { "GQA", "MHA", "MQA", "MLA" }, "attention.type" },
    { "layernorm", { "RMSNorm", "LayerNorm" }, "architecture.norm" },
    { "final", { "RMSNorm", "LayerNorm" }, "architecture.norm" },
    { "mlp", { "SwiGLU", "GEGLU", "GELU", "ReLU" }, "architecture.mlp|mlp.activation" },
    { "norm", { "(Pre)", "(Post)", "Pre-Norm", "Post-Norm" }, "architecture.norm_position" },
};

bool lm_read_kinds(lm_reading *d, lm_extent line, int scope)
{
    bool found = false;

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (size_t k = 0; kinds[i].kinds[k] && lm_span_has(line, kinds[i].part); k++)
            for (size_t at = 0, n = strlen(kinds[i].kinds[k]); at + n <= line.n; at++) {
                const char *p = line.s + at;
                bool        alone = (!at || !isalnum((unsigned char)p[-1]) || strncmp(p, "RMSNorm", 7) == 0) &&
                    (at + n == line.n || !isalnum((unsigned char)p[n]));
                bool named  = i > 0 || (at && p[-1] == '(' && at + n < line.n && p[n] == ')');
                if (memcmp(p, kinds[i].kinds[k], n) != 0 || !alone || !named)
                    continue;
                lm_extent word = *p == '(' ? (lm_extent){ p + 1, n - 2 } : (lm_extent){ p, n };
                lm_say(d, word, scope, kinds[i].path, lm_arena_strndup(&d->arena, word.s, word.n));
                found = true;
                break;
            }
    return found;
}

/* "FFN(x) = W_2 · ReLU(W_1 x)", "MLP(x) = down(SiLU(gate(x)) × up(x))": the activation of a formula. */
bool lm_read_activation(lm_reading *d, lm_extent line, int scope)
{
    static const char *const words[] = { "ReLU", "GELU", "SiLU" };

    if (scope < 0 || !memchr(line.s, '=', line.n) || !(lm_span_has(line, "FFN}(x)") || lm_span_has(line, "FFN(x)") ||
                                                       lm_span_has(line, "MLP(x)") || lm_span_has(line, "MLP}(x)")))
        return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (size_t at = 1; at + 6 < line.n; at++) {
            const char *p = line.s + at;
            if (memcmp(p, words[i], 4) == 0 && !isalnum((unsigned char)p[-1]) && (p[4] == '(' || (p[4] == '}' && p[5] == '('))) {
                lm_say(d, (lm_extent){ p, 4 }, scope, "mlp.activation", words[i]);
                return true;
            }
        }
    return false;
}
