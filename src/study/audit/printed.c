/* printed.c - read models as PyTorch and torchinfo print them: one module per line, and the totals below. */
#include <ctype.h>
#include <string.h>

#include "study/audit/reading.h"

/* "(0-27): 28 x DecoderLayer(": add the number of layers and the last one. False: another line. */
static bool add_layers(lm_audit_document *d, int model, lm_extent name, lm_extent kind, bool unsure)
{
    const char *dash = memchr(name.s, '-', name.n), *times = memmem(kind.s, kind.n, " x ", 3);

    if (!dash || !times || *name.s != '0' || dash != name.s + 1 || !isdigit((unsigned char)*kind.s) ||
        !(lm_text_ends(kind, "Layer") || lm_text_ends(kind, "Block")))
        return false;
    lm_extent last = { dash + 1, (size_t)(name.s + name.n - dash - 1) }, count = { kind.s, (size_t)(times - kind.s) };
    lm_add_value(d, last, model, "architecture.last_layer", unsure);
    lm_add_value(d, count, model, "architecture.layers", unsure);
    return true;
}

/* Return the text between the parenthesis at s and the last one of the line; n is 0: nothing. */
static lm_extent arguments(lm_extent line, const char *s)
{
    const char *close = memrchr(s, ')', (size_t)(line.s + line.n - s));

    return close ? (lm_extent){ s + 1, (size_t)(close - s - 1) } : (lm_extent){ s, 0 };
}

/* Return the value of "name=" among the arguments; n is 0: none. */
static lm_extent argument(lm_extent args, const char *name)
{
    const char *at = memmem(args.s, args.n, name, strlen(name)), *end = args.s + args.n, *p;

    if (!at || (at > args.s && (isalnum((unsigned char)at[-1]) || at[-1] == '_')))
        return (lm_extent){ args.s, 0 };
    for (p = at += strlen(name); p < end && (isalnum((unsigned char)*p) || strchr(".-+", *p));)
        p++;
    return (lm_extent){ at, (size_t)(p - at) };
}

static bool add_linear(lm_audit_document *d, int model, lm_extent name, lm_extent args, bool unsure)
{
    lm_extent in = argument(args, "in_features="), out = argument(args, "out_features="), bias = argument(args, "bias=");

    unsure |= lm_text_is(name, "lm_head");          /* has more rows if tokens were added */
    if (!in.n || !out.n || !(lm_text_ends(name, "_proj") || lm_text_is(name, "lm_head")))
        return false;
    lm_add_statement(d, out, model, lm_arena_printf(&d->arena, "%.*s.shape", (int)name.n, name.s),
                     lm_arena_printf(&d->arena, "%.*s->%.*s", (int)in.n, in.s, (int)out.n, out.s), unsure);
    if (bias.n)
        lm_add_value(d, bias, model, lm_arena_printf(&d->arena, "%.*s.bias", (int)name.n, name.s), unsure);
    return true;
}

/* "(act_fn): SiLU()": add the activation; "(norm): LlamaRMSNorm((2048,), eps=1e-06)": the kind of norm, its width and its epsilon. */
static bool add_function(lm_audit_document *d, int model, lm_extent name, lm_extent kind, lm_extent args, bool unsure)
{
    static const char word[] = "Activation", rms[] = "RMSNorm", plain[] = "LayerNorm";
    bool      norm = lm_text_ends(kind, rms), layer = lm_text_ends(kind, plain);
    lm_extent eps = argument(args, "eps=");

    if (lm_text_is(name, "act_fn") || lm_text_is(name, "act")) {
        kind.n -= lm_text_ends(kind, word) ? strlen(word) : 0;
        lm_add_value(d, kind, model, "mlp.activation", unsure);
        return true;
    }
    if (!norm && !layer)
        return false;
    size_t    n     = strlen(norm ? rms : plain);
    lm_extent named = { kind.s + kind.n - n, n };
    bool      whole = lm_text_is(name, "norm") || lm_text_ends(name, "_layernorm");
    lm_add_value(d, named, model, "architecture.norm", true);
    if (args.n > 2 && *args.s == '(' && isdigit((unsigned char)args.s[1]) && whole)
        lm_add_value(d, (lm_extent){ args.s + 1, strspn(args.s + 1, "0123456789") }, model, "architecture.hidden", true);
    if (eps.n)
        lm_add_value(d, eps, model, "architecture.norm_eps", unsure);
    return true;
}

/* "(k_proj): Linear(in_features=2048, out_features=512, bias=False)". */
bool lm_audit_module(lm_audit_document *d, lm_extent line, int model, bool unsure)
{
    const char *close = line.n > 4 && *line.s == '(' ? memchr(line.s, ')', line.n) : NULL;
    const char *open = close ? memchr(close, '(', (size_t)(line.s + line.n - close)) : NULL;

    if (!open || close[1] != ':' || close[2] != ' ' || model < 0)
        return false;
    lm_extent name = { line.s + 1, (size_t)(close - line.s - 1) }, kind = lm_trim((lm_extent){ close + 2, (size_t)(open - close - 2) });
    lm_extent args = arguments(line, open);
    if (add_layers(d, model, name, kind, unsure))
        return true;
    if (lm_text_is(kind, "Linear"))
        return add_linear(d, model, name, args, unsure);
    if (lm_text_is(kind, "Embedding") && lm_text_is(name, "embed_tokens") && args.n) {
        lm_add_value(d, args, model, "model.embed_tokens.shape", true);
        return true;
    }
    return add_function(d, model, name, kind, args, unsure);
}

/* Return the number after "label: " if the line contains nothing else; n is 0: another line. */
static lm_extent count_behind(lm_extent line, const char *label)
{
    size_t n = strlen(label);

    if (!lm_text_begins(line, label))
        return (lm_extent){ line.s, 0 };
    lm_extent value = lm_trim((lm_extent){ line.s + n, line.n - n });
    for (size_t i = 0; i < value.n; i++)
        if (!isdigit((unsigned char)value.s[i]) && value.s[i] != ',')
            return (lm_extent){ line.s, 0 };
    return value;
}

/* "Total params: 124,439,808" above "Trainable params: 124,439,808": equal, so nothing was added to the model. */
bool lm_audit_summary(lm_audit_document *d, lm_extent line, lm_extent next, int model, bool unsure)
{
    lm_extent total = count_behind(line, "Total params:"), trainable = count_behind(next, "Trainable params:");

    if (model < 0 || total.n < 7 || !lm_same_text(total, trainable))
        return false;
    lm_add_value(d, total, model, "parameters.total", unsure);
    lm_add_value(d, trainable, model, "parameters.trainable", unsure);
    return true;
}
