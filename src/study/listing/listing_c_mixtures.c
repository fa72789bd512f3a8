/* listing_c_mixtures.c - attention, mixtures of experts and latents for listings in C. */
#include "study/listing/listing_c.h"

/* ---- attention ---- */

void lm_listing_c_attention(const lm_listing *l, lm_text *out)
{
    float largest = 0;
    bool  half = false, alibi = false;

    for (uint32_t i = l->from; i < l->to; i++) {
        const lm_attention_spec *s = &l->p->nodes[i].attention.spec;
        if (l->p->nodes[i].code != LM_OP_ATTENTION || s->alibi <= 0)
            continue;
        alibi   = true;
        half    = s->alibi_half;
        largest = s->alibi;
    }
    if (alibi)
        lm_text_printf(out,
                       "/* How fast a head forgets: powers of two; heads past a power of two get what lies between (ALiBi, "
                       "arXiv 2108.12409). */\n"
                       "static float slope(int head, int heads)\n"
                       "{\n"
                       "    int whole = 1;\n\n"
                       "    while (2 * whole <= heads)\n"
                       "        whole *= 2;\n"
                       "    double k = head < whole ? (head + 1.0) / whole : (2 * (head - whole) + 1) / (2.0 * whole);\n"
                       "    return (float)exp2(-%.9g * k);\n"
                       "}\n\n",
                       (double)largest);
    if (half)
        lm_text_add_str(out, "/* Rounded to the 8 bits of a bfloat16, as the model was trained. */\n"
                             "static float bfloat16(float x)\n"
                             "{\n"
                             "    uint32_t bits;\n\n"
                             "    memcpy(&bits, &x, sizeof bits);\n"
                             "    return from_bits((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000);\n"
                             "}\n\n");
    lm_text_add_str(
        out,
        "/* softmax(q k' scale) v for each head; query heads share key/value heads in equal groups (arXiv 1706.03762, "
        "2305.13245).\n"
        " * window 0: every earlier key is seen; softcap 0: none; sinks NULL: none; v NULL: the first lanes of the keys. */\n"
        "static float *attention(const float *q, const float *k, const float *v, int heads, int kv_heads, int k_dim, int "
        "v_dim, float "
        "scale,\n                        int window, float softcap, const float *sinks)\n"
        "{\n"
        "    float *y = make((size_t)heads * v_dim), *p = make(1);\n\n"
        "    for (int t = 0; t < T; t++)\n"
        "        for (int h = 0; h < heads; h++) {\n"
        "            int    group = h / (heads / kv_heads), first = window && t >= window ? t - window + 1 : 0;\n"
        "            float  most = sinks ? sinks[h] : -INFINITY, sum = 0;\n"
        "            const float *mine = q + ((size_t)t * heads + h) * k_dim;\n"
        "            for (int j = first; j <= t; j++) {              /* none of the future */\n"
        "                const float *key = k + ((size_t)j * kv_heads + group) * k_dim;\n"
        "                float score = 0;\n"
        "                for (int i = 0; i < k_dim; i++)\n"
        "                    score += mine[i] * key[i];\n");
    lm_text_add_str(
        out, half ? "                score = (score + bfloat16(bfloat16(slope(h, heads)) * bfloat16((float)j))) * scale;\n"
                  : "                score *= scale;\n");
    lm_text_add_str(out, "                if (softcap > 0)\n"
                         "                    score = softcap * tanhf(score / softcap);\n");
    if (alibi && !half)
        lm_text_add_str(out, "                score -= slope(h, heads) * (float)(t - j);        /* the farther, the less */\n");
    lm_text_add_str(out, "                p[j] = score;\n"
                         "                most = fmaxf(most, score);\n"
                         "            }\n"
                         "            for (int j = first; j <= t; j++)\n"
                         "                sum += p[j] = expf(p[j] - most);\n"
                         "            if (sinks)\n"
                         "                sum += expf(sinks[h] - most);               /* a score without a value */\n"
                         "            for (int j = first; j <= t; j++) {\n"
                         "                const float *value = v ? v + ((size_t)j * kv_heads + group) * v_dim : k + ((size_t)j "
                         "* kv_heads + group) * "
                         "k_dim;\n"
                         "                for (int i = 0; i < v_dim; i++)\n"
                         "                    y[((size_t)t * heads + h) * v_dim + i] += p[j] / sum * value[i];\n"
                         "            }\n"
                         "        }\n"
                         "    return y;\n"
                         "}\n\n");
}

/* ---- mixtures, latents ---- */

static void put_route(const lm_route_spec *r, lm_text *out)
{
    lm_text_add_str(out, "typedef struct route { float *weight; int *expert, k; } route;\n\n"
                         "/* The experts that each token visits, and how much each counts. */\n"
                         "static route choose(const float *scores, int experts, int k, const float *correction)\n"
                         "{\n"
                         "    route  out = { make(k), (int *)make(k), k };\n"
                         "    float *s = make(experts), *by = make(experts);\n\n"
                         "    memcpy(s, scores, (size_t)T * experts * sizeof *s);\n"
                         "    for (int t = 0; t < T; t++) {\n"
                         "        float *p = s + (size_t)t * experts, *b = by + (size_t)t * experts;\n");
    lm_text_add_str(out, r->sigmoid ? "        for (int e = 0; e < experts; e++)\n            p[e] = sigmoid(p[e]);\n"
                                    : "        softmax(p, experts);\n");
    lm_text_add_str(out, "        for (int e = 0; e < experts; e++)\n"
                         "            b[e] = p[e] + (correction ? correction[e] : 0);\n");
    if (r->n_groups > 1) {
        bool two = r->group_sum_two && r->n_experts / r->n_groups > 1;
        lm_text_printf(out,
                       "        float worth[%u];                       /* only the best %u of %u groups are open */\n"
                       "        int   of = experts / %u;\n"
                       "        for (int g = 0; g < %u; g++) {\n"
                       "            float best = -INFINITY, next = -INFINITY;\n"
                       "            for (int e = g * of; e < (g + 1) * of; e++) {\n"
                       "                next = b[e] > best ? best : fmaxf(next, b[e]);\n"
                       "                best = fmaxf(best, b[e]);\n"
                       "            }\n"
                       "            worth[g] = %s;\n"
                       "        }\n"
                       "        for (int g = 0; g < %u; g++) {\n"
                       "            int better = 0;\n"
                       "            for (int o = 0; o < %u; o++)\n"
                       "                better += worth[o] > worth[g] || (worth[o] == worth[g] && o < g);\n"
                       "            for (int e = g * of; better >= %u && e < (g + 1) * of; e++)\n"
                       "                b[e] = -INFINITY;\n"
                       "        }\n",
                       r->n_groups, r->top_groups, r->n_groups, r->n_groups, r->n_groups, two ? "best + next" : "best",
                       r->n_groups, r->n_groups, r->top_groups);
    }
    lm_text_add_str(out, "        float sum = 0;\n"
                         "        for (int c = 0; c < k; c++) {\n"
                         "            int best = 0;\n"
                         "            for (int e = 1; e < experts; e++)\n"
                         "                best = b[e] > b[best] ? e : best;\n"
                         "            out.expert[t * k + c] = best;\n"
                         "            out.weight[t * k + c] = p[best];\n"
                         "            sum += p[best];\n"
                         "            b[best] = -INFINITY;\n"
                         "        }\n");
    if (r->renormalise || r->scale != 1) {
        lm_text_add_str(out, "        for (int c = 0; c < k; c++)\n            out.weight[t * k + c] *= ");
        lm_text_printf(out, "%.9g%s;\n", (double)r->scale, r->renormalise ? " / sum" : "");
    } else {
        lm_text_add_str(out, "        (void)sum;\n");
    }
    lm_text_add_str(out, "    }\n    return out;\n}\n\n");
}

static void put_view(lm_text *out)
{
    lm_text_add_str(out, "/* A matrix inside of a larger one: its element [r][c] is x[r * row + c * column]. */\n"
                         "typedef struct view { const float *x; size_t row, column; } view;\n\n");
}

static void put_experts(const lm_node *n, lm_text *out)
{
    bool biased = n->weights[3] != LM_NONE;

    lm_text_printf(out,
                   "/* y += expert e's gated MLP of x, for the tokens that chose it and as much as it counts. */\n"
                   "static void add_expert(float *y, const float *x, route chosen, int e, int width, int inner, view gate, view up, view "
                   "down%s)\n"
                   "{\n"
                   "    float *m = make(inner);\n\n"
                   "    for (int c = 0; c < T * chosen.k; c++) {\n"
                   "        const float *a = x + (size_t)(c / chosen.k) * width;\n"
                   "        if (chosen.expert[c] != e)\n"
                   "            continue;\n"
                   "        for (int i = 0; i < inner; i++) {\n"
                   "            float g = %s, u = %s;\n"
                   "            for (int j = 0; j < width; j++) {\n"
                   "                g += a[j] * gate.x[i * gate.row + j * gate.column];\n"
                   "                u += a[j] * up.x[i * up.row + j * up.column];\n"
                   "            }\n",
                   biased ? ",\n                       view gate_bias, view up_bias, view down_bias" : "",
                   biased ? "gate_bias.x[i * gate_bias.row]" : "0",
                   biased ? "up_bias.x[i * up_bias.row]" : "0");
    if (n->experts.limit > 0)
        lm_text_printf(out, "            g = fminf(g, %.9g);\n            u = fmaxf(-%.9g, fminf(u, %.9g)) + 1;\n",
                       (double)n->experts.limit,
                       (double)n->experts.limit,
                       (double)n->experts.limit);
    lm_text_printf(out,
                   "            m[i] = %s(g) * u;\n"
                   "        }\n"
                   "        for (int j = 0; j < width; j++) {\n"
                   "            float sum = %s;\n"
                   "            for (int i = 0; i < inner; i++)\n"
                   "                sum += m[i] * down.x[j * down.row + i * down.column];\n"
                   "            y[(size_t)(c / chosen.k) * width + j] += chosen.weight[c] * sum;\n"
                   "        }\n"
                   "    }\n"
                   "}\n\n",
                   lm_listing_c_act(n->experts.act), biased ? "down_bias.x[j * down_bias.row]" : "0");
}

void lm_listing_c_mixtures(const lm_listing *l, lm_text *out)
{
    const lm_node *route = lm_listing_first(l, LM_OP_ROUTE), *experts = lm_listing_first(l, LM_OP_EXPERTS);
    bool latent = lm_listing_first(l, LM_OP_HEAD_LINEAR) != NULL;

    if (route)
        put_route(&route->route.spec, out);
    if (experts || latent)
        put_view(out);
    if (experts)
        put_experts(experts, out);
    if (latent)
        lm_text_add_str(
            out,
            "/* Each head's lanes (or all of x) times a matrix of its own; `next`: from head to head. */\n"
            "static float *per_head(const float *x, int shared, int heads, int in, int out, view m, size_t next)\n"
            "{\n"
            "    float *y = make((size_t)heads * out);\n\n"
            "    for (size_t r = 0; r < (size_t)T * heads; r++)\n"
            "        for (int o = 0; o < out; o++)\n"
            "            for (int i = 0; i < in; i++)\n"
            "                y[r * out + o] += x[(shared ? r / heads : r) * in + i] * m.x[r % heads * next + o * m.row + i * "
            "m.column];\n"
            "    return y;\n"
            "}\n\n");
}
