/* formula.c - read formulas of what a part computes, such as "MLP(x) = down_proj(SiLU(gate_proj(x)) * up_proj(x))". */
#include <string.h>

#include "study/audit/reading.h"

/* Return the facts that a formula with this name may be, or NULL: "MLP(x)", "Attention(Q, K, V)". */
static const char *paths_of(lm_extent name)
{
    static const struct { const char *name, *paths; } names[] = {
        { "attention(", "formulas.attention" }, { "scaleddotproductattention(", "formulas.attention" }, { "mlp(", "formulas.mlp" },
        { "ffn(", "formulas.mlp" },             { "feedforward(", "formulas.mlp" },      { "swiglu(", "formulas.mlp|formulas.mlp_inner" },
        { "rmsnorm(", "formulas.norm" },        { "layernorm(", "formulas.norm" },       { "norm(", "formulas.norm" },
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (lm_word_begins(name, names[i].name))
            return names[i].paths;
    return NULL;
}

bool lm_audit_formula(lm_audit_document *d, lm_extent line, int model)
{
    const char *equals = memchr(line.s, '=', line.n), *end = line.s + line.n, *open = memchr(line.s, '(', line.n);
    lm_extent   name   = lm_trim((lm_extent){ line.s, equals ? (size_t)(equals - line.s) : 0 });

    while (name.n && strchr("`$*", *name.s))
        name.s++, name.n--;
    const char *paths = model >= 0 && open && open < equals && name.n && name.s[name.n - 1] == ')' ? paths_of(name) : NULL;
    lm_extent   right = lm_trim((lm_extent){ equals ? equals + 1 : end, equals ? (size_t)(end - equals - 1) : 0 });
    if (!paths || !right.n || right.n > LM_LONGEST_FORMULA)
        return false;
    lm_add_value(d, right, model, paths, true);
    return true;
}
