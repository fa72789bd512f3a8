/* listing_helpers.c - the functions that a listing's operations call, limited to what the model needs. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "program/op.h"
#include "study/listing/listing.h"
#include "base/alloc.h"
#include "tensor/act.h"

static const char *const select_blocks =
    "def select_blocks(q, k, heads, block, count, local):\n"
    "    \"\"\"The positions that each part of the heads sees: of blocks of keys the last ones, and those "
    "whose best key scores highest.\"\"\"\n"
    "    T, seen = len(k), []\n"
    "    scores = (q.reshape(T * heads, -1) @ k.T).reshape(T, heads, T)\n"
    "    for t in range(T):\n"
    "        starts, choices = range(0, t + 1, block), []\n"
    "        for h in range(heads):\n"
    "            best = [float(scores[t, h, s:min(s + block, t + 1)].max()) for s in starts]\n"
    "            order = sorted(range(len(best)), key=lambda b: (b < len(best) - local, -best[b], b))\n"
    "            choices.append([s for b in sorted(order[:count]) "
    "for s in range(b * block, min(b * block + block, t + 1))])\n"
    "        seen.append(choices)\n"
    "    return seen\n\n\n";

static const char select_entries[] =
    "def select_entries(q, k, w, top_k, rate):\n"
    "    \"\"\"The entries that each row sees: of those whose blocks have ended, the best top_k by the weighted sum of "
    "its heads' scores.\"\"\"\n"
    "    T, H = w.shape\n"
    "    k = k[rate - 1::rate][:T // rate]\n"
    "    scores = ($.maximum((q.reshape(T * H, -1) @ k.T).reshape(T, H, -1), 0 * w[:, :, None]) * w[:, :, None]).sum(1)\n"
    "    return [sorted(sorted(range((t + 1) // rate), key=lambda s: (-float(scores[t, s]), s))[:top_k]) "
    "for t in range(T)]\n\n\n";

/* Return the function that chooses. */
static const char *choosing(const lm_node *n)
{
    const lm_attention_spec *s = &n->attention.spec;

    return s->block ? select_blocks : s->rate ? select_entries : lm_op_of(n->code)->helper;
}

/* Append the functions that belong to single operations. */
static void put_operations(const lm_listing *l, lm_text *out)
{
    const lm_node *n;

    for (lm_op_code code = 0; code < LM_OP_COUNT; code++)
        if (lm_op_of(code)->helper && (n = lm_listing_first(l, code)))
            lm_listing_add(l, out, code == LM_OP_SELECT_KEYS ? choosing(n) : lm_op_of(code)->helper);
}

/* ---- activations ---- */

static const char *const activations[LM_ACT_COUNT][2] = {
    [LM_ACT_SILU]       = { "x / (1 + $.exp(-x))", "SiLU: x sigmoid(x)" },
    [LM_ACT_GELU]       = { NULL, "GELU: x P(X <= x) for a normal X (arXiv 1606.08415)" },
    [LM_ACT_GELU_TANH]  = { "x / 2 * (1 + $.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))", "GELU, its tanh form (arXiv "
        "1606.08415)" },
    [LM_ACT_GELU_QUICK] = { "x / (1 + $.exp(-1.702 * x))", "GELU, its sigmoid form: x sigmoid(1.702 x)" },
    [LM_ACT_RELU]       = { "x * (x > 0)", "ReLU: what is negative becomes 0" },
    [LM_ACT_RELU2]      = { "(x * (x > 0)) ** 2", "ReLU, squared" },
    [LM_ACT_SIGMOID]    = { "1 / (1 + $.exp(-x))", "between 0 and 1" },
    [LM_ACT_TANH]       = { "$.tanh(x)", "between -1 and 1" },
    [LM_ACT_SOFTPLUS]   = { "$.log(1 + $.exp(-abs(x))) + x * (x > 0)", "ln(1 + e^x)" },
};

/* Find the activations that the listing calls. */
static void find_activations(const lm_listing *l, bool seen[LM_ACT_COUNT])
{
    for (uint32_t i = l->from; i < l->to; i++) {
        const lm_node *n = &l->p->nodes[i];
        if ((n->code == LM_OP_GLU || n->code == LM_OP_ACT) && n->glu.act != LM_ACT_XIELU)
            seen[n->glu.act] = true;
        if (n->code == LM_OP_EXPERTS)
            seen[n->experts.act] = true;
        if (n->code == LM_OP_ROUTE && n->route.spec.sigmoid)
            seen[LM_ACT_SIGMOID] = true;
        if (n->code == LM_OP_ROUTE && n->route.spec.root_softplus)
            seen[LM_ACT_SOFTPLUS] = true;
    }
}

/* xIELU has numbers of its own. */
static void put_xielu(const lm_listing *l, lm_text *out)
{
    for (uint32_t i = l->from; i < l->to; i++) {
        const lm_node *n = &l->p->nodes[i];
        if (n->code != LM_OP_ACT || n->glu.act != LM_ACT_XIELU)
            continue;
        lm_text_add_str(out, "def xielu(x, alpha_p, alpha_n, beta, eps):\n"
                             "    \"\"\"xIELU (arXiv 2411.13010): a parabola above 0, an integrated exponential below; "
                             "softplus(alpha) is positive.\"\"\"\n");
        lm_listing_add(l, out, "    positive = $.log(1 + $.exp(alpha_p))\n"
                               "    negative = beta + $.log(1 + $.exp(alpha_n))\n"
                               "    less = $.expm1($.minimum(x, eps + 0 * x)) - x\n"
                               "    return beta * x + $.where(x > 0, positive * x * x, negative * less)\n\n\n");
        return;
    }
}

static void put_activations(const lm_listing *l, lm_text *out)
{
    bool seen[LM_ACT_COUNT] = { false };

    find_activations(l, seen);
    for (unsigned a = 0; a < LM_ACT_COUNT; a++) {
        if (!seen[a])
            continue;
        const char *body = activations[a][0];
        if (!body)
            body = l->in == LM_LISTING_PYTORCH
                       ? "x / 2 * (1 + torch.erf(x / math.sqrt(2)))"
                       : "x / 2 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))).astype(np.float32)";
        lm_text_printf(out, "def %s(x):\n    \"\"\"%s.\"\"\"\n    return ", lm_act_id((lm_act)a),
                       activations[a][1]);
        lm_listing_add(l, out, body);
        lm_text_add_str(out, "\n\n\n");
    }
    put_xielu(l, out);
}

/* ---- positions ---- */

static void put_list(lm_text *out, const char *name, const float *x, uint32_t n)
{
    lm_text_printf(out, "    %s = [", name);
    for (uint32_t i = 0; i < n; i++)
        lm_text_printf(out, "%s%.9g", i == 0 ? "" : i % 10 == 0 ? ",\n             " : ", ", (double)x[i]);
    lm_text_add_str(out, "]\n");
}

static void put_yarn(const lm_rope_spec *s, lm_text *out)
{
    lm_text_printf(
        out,
        "    # YaRN (arXiv 2309.00071): pairs that turn more than %g times over the %u trained positions "
        "stay, those below %g\n"
        "    # turn %g times slower, between them a ramp\n"
        "    pair = lambda turns: %u * math.log(%u / (turns * 2 * math.pi)) / (2 * math.log(%.17g))\n"
        "    low, high = max(%s(pair(%g)), 0), min(%s(pair(%g)), %u)\n"
        "    ramp = [min(max((i - low) / max(high - low, 0.001), 0), 1) for i in range(%u)]\n"
        "    turn = [f / %.9g * r + f * (1 - r) for f, r in zip(turn, ramp)]\n",
        s->beta_fast, s->original_context, s->beta_slow, s->factor, s->dim, s->original_context, s->base,
        s->truncate ? "math.floor" : "", s->beta_fast, s->truncate ? "math.ceil" : "", s->beta_slow,
        s->dim - 1, s->dim / 2, s->factor);
}

static void put_llama3(const lm_rope_spec *s, lm_text *out)
{
    lm_text_printf(out,
                   "    # llama3's rule: waves shorter than %g tokens stay, those longer than %g are "
                   "stretched by %g, between "
                   "them a ramp\n"
                   "    for i, f in enumerate(turn):\n"
                   "        length = 2 * math.pi / f\n",
                   s->original_context / s->high_freq_factor, s->original_context / s->low_freq_factor,
                   s->factor);
    if (s->high_freq_factor == s->low_freq_factor)
        lm_text_printf(out, "        keep = %u / length > %g\n", s->original_context, s->low_freq_factor);
    else
        lm_text_printf(out, "        keep = min(max((%u / length - %g) / (%g - %g), 0), 1)\n",
                       s->original_context, s->low_freq_factor, s->high_freq_factor, s->low_freq_factor);
    lm_text_printf(out, "        turn[i] = (1 - keep) * f / %g + keep * f\n", s->factor);
}

static lm_status put_scaling(const lm_listing *l, const lm_rope_spec *s, lm_text *out, lm_error *e)
{
    switch (s->type) {
    case LM_ROPE_DEFAULT: return LM_OK;
    case LM_ROPE_LINEAR:
        lm_text_printf(
            out,
            "    turn = [f / %.9g for f in turn]                # positions closer together by this factor\n",
            s->factor);
        return LM_OK;
    case LM_ROPE_LLAMA3: put_llama3(s, out); return LM_OK;
    case LM_ROPE_YARN: put_yarn(s, out); return LM_OK;
    case LM_ROPE_LONGROPE:
        if (!s->short_factors || !s->long_factors)
            break;
        put_list(out, "short", s->short_factors, s->dim / 2);
        put_list(out, "long", s->long_factors, s->dim / 2);
        lm_text_printf(out,
                       "    # LongRoPE (arXiv 2402.13753): one divisor for each pair, another list beyond "
                       "the %u trained positions\n"
                       "    turn = [f / by for f, by in zip(turn, long if T > %u else short)]\n",
                       s->original_context, s->original_context);
        return LM_OK;
    case LM_ROPE_PROPORTIONAL:
        lm_text_printf(out,
                       "    # only the first %u pairs of a head rotate\n"
                       "    turn = [f / %.9g if i < %u else 0 for i, f in enumerate(turn)]\n",
                       lm_rope_pairs(s), s->factor, lm_rope_pairs(s));
        return LM_OK;
    case LM_ROPE_DYNAMIC: return LM_OK;                    /* applied to the base */
    }
    return lm_fail(e, LM_UNSUPPORTED, l->f->s.name, LM_NO_OFFSET,
                   "the factors of its rotary positions are not in the description");
}

static lm_status put_rotary(const lm_listing *l, uint32_t index, lm_text *out, lm_error *e)
{
    const lm_rope_table *t = &l->p->ropes[index];
    const lm_rope_spec *s = &t->spec;
    char name[LM_LISTING_NAME];
    float magnitude, *inv = lm_alloc_zero(s->dim / 2 + 1, sizeof *inv);

    if (!inv)
        return lm_fail_memory(e, "a listing", s->dim);
    magnitude = lm_rope_frequencies(s, 1, NULL, NULL, inv);
    lm_free(inv);
    lm_listing_rotary(l, index, name);
    lm_text_printf(
        out,
        "def %s(T):\n    \"\"\"Cosines and sines [T, %u]: position t turns pair i of a head's lanes by t * "
        "turn[i].\"\"\"\n",
        name, s->dim / 2);
    lm_text_printf(out, "    base = %.17g\n", s->base);
    if (s->type == LM_ROPE_DYNAMIC)
        lm_text_printf(out,
                       "    if T > %u:                                    # NTK: a larger base beyond the "
                       "trained positions\n"
                       "        base *= (%.9g * T / %u - %.9g) ** (%u / %u)\n",
                       s->max_context, s->factor, s->max_context, s->factor - 1, s->dim, s->dim - 2);
    lm_text_printf(out, "    turn = [base ** (-2 * i / %u) for i in range(%u)]\n", s->dim, s->dim / 2);
    LM_TRY(put_scaling(l, s, out, e));
    if (s->backwards)
        lm_text_add_str(out, "    turn = [-f for f in turn]                           # the other way\n");
    lm_listing_add(l, out, "    angle = $.arange(T, dtype=$.float32)[:, None]");
    if (s->rate)                         /* an entry is at the first position of its block */
        lm_text_printf(out, " // %u * %u", s->rate, s->rate);
    lm_listing_add(l, out, " * $array(turn, dtype=$.float32)\n");
    if (magnitude == 1)
        lm_listing_add(l, out, "    return $.cos(angle), $.sin(angle)\n\n\n");
    else {
        lm_listing_add(l, out, "    return ");
        lm_text_printf(out, "%.9g * ", (double)magnitude);
        lm_listing_add(l, out, "$.cos(angle), ");
        lm_text_printf(out, "%.9g * ", (double)magnitude);
        lm_listing_add(l, out, "$.sin(angle)\n\n\n");
    }
    return LM_OK;
}

static bool turns(const lm_listing *l, uint32_t table)
{
    for (uint32_t i = l->from; i < l->to; i++)
        if (l->p->nodes[i].code == LM_OP_ROPE && l->p->nodes[i].rope.table == table)
            return true;
    return false;
}

static lm_status put_ropes(const lm_listing *l, lm_text *out, lm_error *e)
{
    bool halves = false, pairs = false, last = false;

    for (uint32_t i = 0; i < l->p->n_ropes; i++) {
        const lm_rope_table *t = &l->p->ropes[i];
        if (!turns(l, i))
            continue;
        if (t->divisors != LM_NONE || t->long_factors != LM_NONE || t->short_factors != LM_NONE)
            return lm_fail(e, LM_UNSUPPORTED, l->f->s.name, LM_NO_OFFSET,
                           "its rotary factors are tensors of the file, which checkpoints do not have: take "
                           "its folder or its config.json");
        LM_TRY(put_rotary(l, i, out, e));
        *((t->spec.pairing == LM_ROPE_PAIR) != t->spec.permuted ? &pairs : &halves) = true;
        last |= t->spec.last;
    }
    if (halves)
        lm_listing_add(
            l, out,
            "def rope(x, heads, cos, sin):\n"
            "    \"\"\"Turn lane i of every head with lane i + half of the rotated ones (RoPE, arXiv "
            "2104.09864).\"\"\"\n"
            "    T, half = cos.shape\n"
            "    x, cos, sin = x.reshape(T, heads, -1), cos[:, None], sin[:, None]\n"
            "    a, b, rest = x[..., :half], x[..., half:2 * half], x[..., 2 * half:]\n"
            "    return $cat([a * cos - b * sin, b * cos + a * sin, rest], -1).reshape(T, -1)\n\n\n");
    if (pairs && last)
        lm_listing_add(
            l, out,
            "def rope_pairs(x, heads, cos, sin, last=False):\n"
            "    \"\"\"Turn lane 2i of every head with lane 2i + 1, of its first lanes or its last (RoPE, "
            "arXiv 2104.09864).\"\"\"\n"
            "    T, half = cos.shape\n"
            "    x, cos, sin = x.reshape(T, heads, -1), cos[:, None], sin[:, None]\n"
            "    from_ = x.shape[2] - 2 * half if last else 0\n"
            "    before, x, after = x[..., :from_], x[..., from_:from_ + 2 * half], x[..., from_ + 2 * "
            "half:]\n"
            "    a, b = x[..., 0::2], x[..., 1::2]\n"
            "    turned = $.stack([a * cos - b * sin, b * cos + a * sin], -1).reshape(T, heads, 2 * half)\n"
            "    return $cat([before, turned, after], -1).reshape(T, -1)\n\n\n");
    else if (pairs)
        lm_listing_add(
            l, out,
            "def rope_pairs(x, heads, cos, sin):\n"
            "    \"\"\"Turn lane 2i of every head with lane 2i + 1 (RoPE, arXiv 2104.09864).\"\"\"\n"
            "    T, half = cos.shape\n"
            "    x, cos, sin = x.reshape(T, heads, -1), cos[:, None], sin[:, None]\n"
            "    a, b, rest = x[..., 0:2 * half:2], x[..., 1:2 * half:2], x[..., 2 * half:]\n"
            "    turned = $.stack([a * cos - b * sin, b * cos + a * sin], -1).reshape(T, heads, 2 * half)\n"
            "    return $cat([turned, rest], -1).reshape(T, -1)\n\n\n");
    return LM_OK;
}

static void put_sinusoid(const lm_listing *l, lm_text *out)
{
    const lm_node *n = lm_listing_first(l, LM_OP_SINUSOID);

    if (!n)
        return;
    lm_listing_add(
        l, out,
        "def sinusoid(T, width, offset):\n"
        "    \"\"\"Positions as sines and cosines of falling frequencies (arXiv 1706.03762).\"\"\"\n"
        "    half = width // 2\n");
    lm_text_printf(out, "    turn = [10000 ** (%s) for i in range(half)]\n",
                   n->position.layout == LM_SINUSOID_SPREAD ? "-i / (half - 1)" : "-2 * i / width");
    lm_listing_add(
        l, out,
        "    angle = ($.arange(T, dtype=$.float32) + offset)[:, None] * $array(turn, dtype=$.float32)\n");
    lm_listing_add(l, out,
                   n->position.layout == LM_SINUSOID_PAIRS
                       ? "    return $.stack([$.sin(angle), $.cos(angle)], -1).reshape(T, width)\n\n\n"
                       : "    return $cat([$.sin(angle), $.cos(angle)], -1)\n\n\n");
}

/* ---- attention ---- */

typedef struct needs {
    bool  window, chunk, softcap, alibi, half, sinks, in_keys, chosen, by_part, entries;
    float largest;
} needs;

static needs needs_of(const lm_listing *l)
{
    needs x = { 0 };

    for (uint32_t i = l->from; i < l->to; i++) {
        const lm_attention_spec *s = &l->p->nodes[i].attention.spec;
        if (l->p->nodes[i].code != LM_OP_ATTENTION)
            continue;
        x.window |= s->window > 0 && !s->chunked;
        x.chunk |= s->window > 0 && s->chunked;
        x.softcap |= s->softcap > 0;
        x.alibi |= s->alibi > 0;
        x.half |= s->alibi > 0 && s->alibi_half;
        x.sinks |= s->sinks;
        x.chosen |= s->top_k > 0;
        x.by_part |= s->n_choices > 0;
        x.entries |= s->rate > 0;
        x.in_keys |= s->v_in_k;
        x.largest = s->alibi > 0 ? s->alibi : x.largest;
    }
    return x;
}

static const char *chosen_word(const needs *x)
{
    static const char *const words[2][2] = {
        { "", ", chosen=None" }, { ", entries=None, rate=1", ", entries=None, rate=1, chosen=None" }
    };

    return words[x->entries][x->chosen];
}

static void put_chosen(const lm_listing *l, const needs *x, lm_text *out)
{
    if (x->by_part)
        lm_listing_add(l, out,
                       "    hidden = $.stack([hidden] * heads)                                   "
                       "           # keys that a part of the heads has not chosen\n"
                       "    for h in range(heads if chosen else 0):\n"
                       "        for t in range(T):\n"
                       "            of = chosen[t][h * len(chosen[t]) // heads]\n"
                       "            hidden[h, t, [s for s in range(T) if s not in of]] = True\n");
    else if (x->chosen && x->entries)
        lm_text_add_str(
            out, "    for t in range(T if chosen else 0):                                             "
                 "# entries that are not chosen\n"
                 "        hidden[t, [T + e for e in range(T // rate) if e not in chosen[t]]] = True\n");
    else if (x->chosen)
        lm_text_add_str(out,
                        "    for t in range(T if chosen else 0):                                             "
                        "# keys that are not chosen\n"
                        "        hidden[t, [s for s in range(T) if s not in chosen[t]]] = True\n");
}

static void put_slopes(const lm_listing *l, const needs *x, lm_text *out)
{
    lm_text_printf(out,
                   "def slopes(heads):\n"
                   "    \"\"\"How fast each head forgets: powers of two; heads past a power of two get what "
                   "lies between "
                   "(arXiv 2108.12409).\"\"\"\n"
                   "    whole = 1 << (heads.bit_length() - 1)\n"
                   "    each = [2 ** (-%g * (n + 1) / whole) for n in range(whole)]\n"
                   "    each += [2 ** (-%g * (2 * n + 1) / (2 * whole)) for n in range(heads - whole)]\n",
                   (double)x->largest, (double)x->largest);
    lm_listing_add(l, out, "    return $array(each, dtype=$.float32)[:, None, None]\n\n\n");
}

static void put_bfloat16(const lm_listing *l, lm_text *out)
{
    lm_text_add_str(
        out,
        "def bfloat16(x):\n    \"\"\"Rounded to the 8 bits of a bfloat16, as the model was trained.\"\"\"\n");
    lm_text_add_str(out, l->in == LM_LISTING_PYTORCH
                             ? "    return x.bfloat16().float()\n\n\n"
                             : "    bits = x.astype(np.float32).view(np.uint32)\n"
                               "    return ((bits + 0x7fff + (bits >> 16 & 1)) & "
                               "0xffff0000).astype(np.uint32).view(np.float32)\n\n\n");
}

/* Append the entries behind the keys, and which of them are not visible: those of blocks that have not
 * ended. */
static void put_entries(const lm_listing *l, const needs *x, bool keys, lm_text *out)
{
    if (x->entries && keys)
        lm_listing_add(
            l, out,
            "    if entries is not None:                                                         # one "
            "for each whole block\n"
            "        k = $cat([k, entries[rate - 1::rate][:T // rate][None]], 1)\n");
    else if (x->entries)
        lm_listing_add(l, out,
                       "    if entries is not None:\n"
                       "        early = ($.arange(T)[:, None] + 1) // rate <= $.arange(T // rate)\n"
                       "        hidden = $cat([hidden, early], 1)\n");
}

/* Append which keys are not visible. */
static void put_hidden(const lm_listing *l, const needs *x, lm_text *out)
{
    lm_listing_add(
        l, out,
        x->window
            ? "    hidden = (behind < 0) | (behind >= (window or T))                               # the "
              "future, and the past of the window\n"
            : "    hidden = behind < 0                                                             # the "
              "future\n");
    if (x->chunk)
        lm_listing_add(
            l, out,
            "    of = $.arange(T) // (chunk or T)                                                # a "
            "query sees its own chunk\n"
            "    hidden = hidden | (of[:, None] != of)\n");
}

static void put_sinks(const lm_listing *l, lm_text *out)
{
    bool torch = l->in == LM_LISTING_PYTORCH;

    lm_listing_add(
        l, out,
        torch ? "    if sinks is not None:                                                           # a "
                "score "
                "without a value\n"
                "        scores = torch.cat([scores, sinks[:, None, None].expand(heads, T, 1)], -1)\n"
              : "    if sinks is not None:                                                           # a "
                "score without a value\n"
                "        scores = np.concatenate([scores, np.broadcast_to(sinks[:, None, None], (heads, "
                "T, 1))], -1)\n");
}

static void put_attention(const lm_listing *l, lm_text *out)
{
    needs x = needs_of(l);
    bool torch = l->in == LM_LISTING_PYTORCH;

    if (!lm_listing_first(l, LM_OP_ATTENTION))
        return;
    if (x.alibi)
        put_slopes(l, &x, out);
    if (x.half)
        put_bfloat16(l, out);
    lm_text_printf(out, "def attention(q, k, v, heads, kv_heads, scale%s%s%s%s%s%s):\n",
                   x.in_keys ? ", v_dim=None" : "", x.window ? ", window=None" : "",
                   x.chunk ? ", chunk=None" : "", x.softcap ? ", softcap=None" : "",
                   x.sinks ? ", sinks=None" : "", chosen_word(&x));
    lm_listing_add(
        l, out,
        "    \"\"\"softmax(q k' scale) v for each head; query heads share key/value heads in equal groups "
        "(arXiv 1706.03762, "
        "2305.13245).\"\"\"\n"
        "    T, group = len(q), heads // kv_heads\n"
        "    q = q.reshape(T, heads, -1).swapaxes(0, 1)                                      # [H, T, K]\n"
        "    k = k.reshape(T, kv_heads, -1).swapaxes(0, 1)                                   # [G, T, K]\n");
    put_entries(l, &x, true, out);
    if (x.in_keys)
        lm_listing_add(l, out,
                       "    v = k[..., :v_dim] if v is None else v.reshape(T, kv_heads, -1).swapaxes(0, 1)  "
                       "# the latent is key and value\n");
    else
        lm_listing_add(l, out, "    v = v.reshape(T, kv_heads, -1).swapaxes(0, 1)\n");
    lm_listing_add(l, out,
                   torch ? "    k, v = k.repeat_interleave(group, 0), v.repeat_interleave(group, 0)          "
                           "   # each for its "
                           "group: [H, T, K]\n"
                         : "    k, v = k.repeat(group, 0), v.repeat(group, 0)                                "
                           "   # each for its group: [H, T, K]\n");
    lm_listing_add(l, out,
                   "    behind = $.arange(T)[:, None] - $.arange(T)                             # how far "
                   "key j is behind query t\n");
    if (x.half)
        lm_listing_add(l, out,
                       "    bias = bfloat16(bfloat16(slopes(heads)) * bfloat16($.arange(T, "
                       "dtype=$.float32)))  # ALiBi, by the "
                       "key's position\n"
                       "    scores = (q @ k.swapaxes(1, 2) + bias) * scale                                  "
                       "# [H, T, T]\n");
    else
        lm_listing_add(l, out,
                       "    scores = q @ k.swapaxes(1, 2) * scale                                           "
                       "# [H, T, T]\n");
    if (x.softcap)
        lm_listing_add(l, out, "    if softcap:\n        scores = softcap * $.tanh(scores / softcap)\n");
    if (x.alibi && !x.half)
        lm_listing_add(l, out,
                       "    scores = scores - slopes(heads) * behind                                        "
                       "# ALiBi: the farther, the less\n");
    put_hidden(l, &x, out);
    put_entries(l, &x, false, out);
    put_chosen(l, &x, out);
    lm_listing_add(l, out,
                   torch ? "    scores = scores.masked_fill(hidden, -math.inf)\n"
                         : "    scores = np.where(hidden, -np.inf, "
                           "scores)\n");
    if (x.sinks)
        put_sinks(l, out);
    lm_listing_add(l, out,
                   !x.sinks    ? "    p = softmax(scores)\n"
                   : x.entries ? "    p = softmax(scores)[..., :k.shape[1]]\n"
                               : "    p = softmax(scores)[..., :T]\n");
    lm_listing_add(l, out,
                   "    return (p @ v).swapaxes(0, 1).reshape(T, -1)                                    # "
                   "[T, H V]\n\n\n");
}

/* ---- mixtures, latents ---- */

static void put_one_by_one(const lm_listing *l, const lm_route_spec *r, lm_text *out)
{
    bool torch = l->in == LM_LISTING_PYTORCH;

    lm_text_add_str(out, "def choose(scores, top_k):\n"
                         "    \"\"\"The experts that each token visits, chosen one after the other, and how much "
                         "each counts (SparseMixer).\"\"\"\n"
                         "    weights, chosen = [], []\n"
                         "    left = scores\n"
                         "    for _ in range(top_k):\n");
    lm_text_printf(out, torch ? "        best = left.amax(-1, keepdim=True)\n"
                                "        far = (best - scores) / torch.maximum(scores.abs(), best) > 2 * %.9g\n"
                                "        near = softmax(left.masked_fill(far, -math.inf))\n"
                                "        one = left.argmax(-1, keepdim=True)\n"
                              : "        best = left.max(-1, keepdims=True)\n"
                                "        far = (best - scores) / np.maximum(np.abs(scores), best) > 2 * %.9g\n"
                                "        near = softmax(np.where(far, -np.inf, left))\n"
                                "        one = left.argmax(-1)[:, None]\n",
                   (double)r->near);
    if (r->scale != 1)
        lm_text_printf(out, "        near = near * %.9g\n", (double)r->scale);
    lm_text_add_str(out, torch ? "        weights.append(near.gather(1, one))\n"
                                 "        chosen.append(one)\n"
                                 "        left = left.scatter(1, one, -math.inf)\n"
                                 "    return torch.cat(weights, 1), torch.cat(chosen, 1)\n\n\n"
                               : "        weights.append(np.take_along_axis(near, one, 1))\n"
                                 "        chosen.append(one)\n"
                                 "        left = np.where(np.arange(left.shape[1]) == one, -np.inf, left)\n"
                                 "    return np.concatenate(weights, 1), np.concatenate(chosen, 1)\n\n\n");
}

bool lm_listing_lists_experts(const lm_listing *l)
{
    for (uint32_t i = l->from; i < l->to; i++)
        if (l->p->nodes[i].code == LM_OP_ROUTE && l->p->nodes[i].weights[2] != LM_NONE)
            return true;
    return false;
}

static const char *root_of_scores(const lm_route_spec *r, bool torch)
{
    if (!r->root_softplus)
        return "";
    return torch ? "    scores = torch.sqrt(scores)\n" : "    scores = np.sqrt(scores)\n";
}

static void put_route(const lm_listing *l, const lm_node *n, lm_text *out)
{
    const lm_route_spec *r = &n->route.spec;
    bool torch = l->in == LM_LISTING_PYTORCH, factors = n->weights[1] != LM_NONE,
         listed = lm_listing_lists_experts(l);

    if (r->one_by_one) {
        put_one_by_one(l, r, out);
        return;
    }

    lm_text_printf(out,
                   "def choose(scores, top_k, correction=None%s%s):\n"
                   "    \"\"\"The experts that each token visits, and how much each counts.\"\"\"\n"
                   "    scores = %s(scores)\n"
                   "%s    by = scores if correction is None else scores + correction\n",
                   factors ? ", factors=None" : "", listed ? ", listed=None" : "",
                   r->root_softplus ? "softplus" : lm_route_function(r), root_of_scores(r, torch));
    if (r->n_groups > 1) {
        lm_text_printf(out,
                       "    T, E = by.shape\n"
                       "    groups = by.reshape(T, %u, -1)                                                  "
                       "# only the best %u of %u groups are open\n",
                       r->n_groups, r->top_groups, r->n_groups);
        bool two = r->group_sum_two && r->n_experts / r->n_groups > 1;
        if (torch)
            lm_text_add_str(out, two ? "    worth = groups.topk(2, -1).values.sum(-1)\n"
                                     : "    worth = groups.amax(-1)\n");
        else
            lm_text_add_str(out, two ? "    worth = np.sort(groups, -1)[..., -2:].sum(-1)\n"
                                     : "    worth = groups.max(-1)\n");
        if (torch)
            lm_text_printf(
                out,
                "    open = torch.zeros_like(worth).scatter(1, worth.topk(%u, -1).indices, 1).bool()\n"
                "    by = groups.masked_fill(~open[..., None], -math.inf).reshape(T, E)\n",
                r->top_groups);
        else
            lm_text_printf(out,
                           "    closed = (-worth).argsort(-1, kind=\"stable\").argsort(-1) >= %u\n"
                           "    by = np.where(closed[..., None], -np.inf, groups).reshape(T, E)\n",
                           r->top_groups);
    }
    lm_text_add_str(
        out,
        torch
            ? "    chosen = by.topk(top_k, -1).indices                                             # [T, k]\n"
            : "    chosen = (-by).argsort(-1, kind=\"stable\")[:, :top_k]                            # [T, "
              "k]\n");
    if (listed)
        lm_text_add_str(out, torch ? "    chosen = chosen if listed is None else listed.long()\n"
                                   : "    chosen = chosen if listed is None else listed.astype(np.int64)\n");
    lm_text_add_str(out, torch ? "    weights = scores.gather(1, chosen)\n"
                               : "    weights = np.take_along_axis(scores, chosen, 1)\n");
    if (r->renormalise && r->sum_eps > 0)
        lm_text_printf(out, "    weights = weights / (weights.sum(-1, keepdims=True) + %.9g)\n",
                       (double)r->sum_eps);
    else if (r->renormalise)
        lm_text_add_str(out, "    weights = weights / weights.sum(-1, keepdims=True)\n");
    if (r->scale != 1)
        lm_text_printf(out, "    weights = weights * %.9g\n", (double)r->scale);
    if (factors)
        lm_text_add_str(out, "    weights = weights * factors[chosen]\n");
    lm_text_add_str(out, "    return weights, chosen\n\n\n");
}

static void put_experts(const lm_listing *l, const lm_node *n, lm_text *out)
{
    bool biased = n->weights[3] != LM_NONE;

    lm_text_printf(out,
                   "def experts(x, weights, chosen, gate, up, down%s):\n"
                   "    \"\"\"The weighted sum of the chosen experts' gated MLPs; each is computed for the "
                   "tokens that chose it.\"\"\"\n",
                   biased ? ", gate_bias, up_bias, down_bias" : "");
    lm_listing_add(l, out, "    y = $.zeros_like(x)\n");
    lm_text_printf(out, "    for e in range(%u):\n", n->experts.n_experts);
    lm_listing_add(l, out,
                   "        t, place = $.where(chosen == e)\n"
                   "        if len(t) == 0:\n"
                   "            continue\n");
    const char *input = n->experts.scaled_input ? "(weights[t, place][:, None] * x[t])" : "x[t]";
    lm_text_printf(out, "        g = %s @ gate(e).T%s\n        u = %s @ up(e).T%s\n", input,
                   biased ? " + gate_bias(e)" : "", input, biased ? " + up_bias(e)" : "");
    if (n->experts.limit > 0)
        lm_text_printf(out, "        g, u = g.clip(max=%g), u.clip(-%g, %g)%s\n", (double)n->experts.limit,
                       (double)n->experts.limit, (double)n->experts.limit, n->experts.plus > 0 ? " + 1" : "");
    if (n->experts.scaled_input)
        lm_text_printf(out, "        y[t] += %s(g) * u @ down(e).T\n    return y\n\n\n",
                       lm_act_id(n->experts.act));
    else
        lm_text_printf(out,
                       "        y[t] += weights[t, place][:, None] * (%s(g) * u @ down(e).T%s)\n    return "
                       "y\n\n\n",
                       lm_act_id(n->experts.act), biased ? " + down_bias(e)" : "");
}

static void put_join(const lm_listing *l, lm_text *out)
{
    if (lm_listing_first(l, LM_OP_JOIN))
        lm_listing_add(
            l, out,
            l->in == LM_LISTING_PYTORCH
                ? "def join(x, y):\n"
                  "    \"\"\"The lanes of x [T, groups, a] and of y [T, groups or 1, b] side by side; what "
                  "is one "
                  "is shared.\"\"\"\n"
                  "    return torch.cat([x, y.expand(*x.shape[:2], -1)], -1).reshape(len(x), -1)\n\n\n"
                : "def join(x, y):\n"
                  "    \"\"\"The lanes of x [T, groups, a] and of y [T, groups or 1, b] side by side; what "
                  "is one is shared.\"\"\"\n"
                  "    return np.concatenate([x, np.broadcast_to(y, x.shape[:2] + y.shape[2:])], "
                  "-1).reshape(len(x), -1)\n\n\n");
}

static bool other_scores(const lm_route_spec *a, const lm_route_spec *b)
{
    return a->sigmoid != b->sigmoid || a->root_softplus != b->root_softplus;
}

/* Check that all operations of a kind are alike, since their function is written from the first one:
 * LM_UNSUPPORTED otherwise. */
static lm_status check_alike(const lm_listing *l, lm_error *e)
{
    const lm_node *route = lm_listing_first(l, LM_OP_ROUTE), *experts = lm_listing_first(l, LM_OP_EXPERTS),
                  *sines = lm_listing_first(l, LM_OP_SINUSOID);

    for (uint32_t i = l->from; i < l->to; i++) {
        const lm_node *n = &l->p->nodes[i];
        bool other = (n->code == LM_OP_ROUTE && (other_scores(&n->route.spec, &route->route.spec) ||
                                                 n->route.spec.n_groups != route->route.spec.n_groups ||
                                                 n->route.spec.top_groups != route->route.spec.top_groups ||
                                                 n->route.spec.renormalise != route->route.spec.renormalise ||
                                                 n->route.spec.scale != route->route.spec.scale)) ||
                     (n->code == LM_OP_EXPERTS &&
                      (n->experts.n_experts != experts->experts.n_experts ||
                       n->experts.act != experts->experts.act || n->experts.limit != experts->experts.limit ||
                       n->experts.plus != experts->experts.plus ||
                       n->experts.scaled_input != experts->experts.scaled_input ||
                       (n->weights[3] == LM_NONE) != (experts->weights[3] == LM_NONE))) ||
                     (n->code == LM_OP_SINUSOID && n->position.layout != sines->position.layout);
        if (other)
            return lm_fail(e, LM_UNSUPPORTED, n->path, LM_NO_OFFSET,
                           "differs from the first %s: there is no listing with two kinds",
                           lm_op_of(n->code)->name);
    }
    return LM_OK;
}

/* Append softmax, which turns the scores of each token into shares that sum to 1. */
static void put_softmax(const lm_listing *l, lm_text *out)
{
    lm_text_add_str(out, "def softmax(x):\n    \"\"\"exp(x), as shares of 1.\"\"\"\n");
    lm_text_add_str(out, l->in == LM_LISTING_PYTORCH ? "    return torch.softmax(x, -1)\n\n\n"
                                                     : "    x = np.exp(x - x.max(-1, keepdims=True))\n"
                                                       "    return x / x.sum(-1, keepdims=True)\n\n\n");
}

lm_status lm_listing_helpers(const lm_listing *l, lm_text *out, lm_error *e)
{
    LM_TRY(check_alike(l, e));
    put_operations(l, out);
    if (l->to - l->from == l->p->n_nodes || lm_listing_first(l, LM_OP_ATTENTION) ||
        lm_listing_first(l, LM_OP_ROUTE))
        put_softmax(l, out);
    put_activations(l, out);
    LM_TRY(put_ropes(l, out, e));
    put_sinusoid(l, out);
    put_join(l, out);
    put_attention(l, out);
    if (lm_listing_first(l, LM_OP_ROUTE))
        put_route(l, lm_listing_first(l, LM_OP_ROUTE), out);
    if (lm_listing_first(l, LM_OP_EXPERTS))
        put_experts(l, lm_listing_first(l, LM_OP_EXPERTS), out);
    return LM_OK;
}
