/* listing.c - the whole listing: its helpers, one function per kind of layer, and the path from tokens to
 * logits. */
#include "study/listing/listing.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "arch/config.h"
#include "base/alloc.h"

/* The decoder layers: the operations of layer k are [start[k], start[k + 1]). */
typedef struct stack {
    uint32_t *start;             /* [n_layers + 1] */
    uint32_t *kind;              /* [n_layers]: kinds are numbered in order of appearance */
    lm_text  *texts;             /* [n_layers]: texts[k] is the body of kind k */
    uint32_t  kinds;
} stack;

static lm_status find_layers(const lm_program *p, stack *s, lm_error *e)
{
    uint32_t i = 0;

    while (i < p->n_nodes && p->nodes[i].layer < 0)
        i++;
    for (uint32_t k = 0; k < p->n_layers; k++) {
        s->start[k] = i;
        while (i < p->n_nodes && p->nodes[i].layer == (int32_t)k)
            i++;
    }
    s->start[p->n_layers] = i;
    for (; i < p->n_nodes; i++)
        if (p->nodes[i].layer >= 0)
            return lm_fail(e, LM_UNSUPPORTED, p->nodes[i].path, LM_NO_OFFSET,
                           "its layers do not follow one another: there is no listing of it");
    return LM_OK;
}

lm_status lm_listing_ends(const lm_listing *l, uint32_t from, uint32_t to, lm_value *in, lm_value *out,
                          lm_error *e)
{
    lm_value given = LM_NONE, made = LM_NONE;

    for (uint32_t i = from; i < to; i++) {
        const lm_node *n = &l->p->nodes[i];
        for (uint32_t k = 0; k < n->n_in; k++) {
            lm_value v = n->in[k];
            if (l->p->values[v].producer >= from || v == given || l->kept[v])
                continue;
            if (given != LM_NONE)
                return lm_fail(e, LM_UNSUPPORTED, n->path, LM_NO_OFFSET,
                               "reads a second value from outside its layer: there is no listing of it");
            given = v;
        }
        if (l->last[n->out] >= to && !l->kept[n->out]) {
            if (made != LM_NONE)
                return lm_fail(e, LM_UNSUPPORTED, n->path, LM_NO_OFFSET,
                               "is read outside its layer: there is no listing of it");
            made = n->out;
        }
    }
    if ((given == LM_NONE && from) || made == LM_NONE)
        return lm_fail(e, LM_UNSUPPORTED, l->p->nodes[from].path, LM_NO_OFFSET,
                       "its layer hands nothing on: there is no listing of it");
    *in  = given;
    *out = made;
    return LM_OK;
}

/* Return whether the scale of layer k is that of the first layer divided by k + 1, an option of GPT-2. */
static bool divides_by_layer(const lm_program *p)
{
    double first = 0;
    bool   any   = false;

    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const lm_node *n = &p->nodes[i];
        if (n->code != LM_OP_ATTENTION)
            continue;
        if (first == 0)
            first = (double)n->attention.spec.scale;
        if (fabs((double)n->attention.spec.scale * (n->layer + 1) / first - 1) > 1e-5)
            return false;
        any |= n->layer > 0;
    }
    return any;
}

/* ---- layers ---- */

static void put_module(const lm_listing *l, uint32_t node, uint32_t *block, lm_text *out)
{
    uint32_t         now = l->f->ledger->block[node];
    const lm_module *m   = now == LM_NONE ? NULL : &l->p->modules[now];

    if (now == *block)
        return;
    if (lm_has_several(l->p, now))
        lm_text_printf(out, "\n    # %s: %s\n", m->name, m->class_name);
    else if (lm_has_several(l->p, *block))
        lm_text_add_char(out, '\n');
    *block = now;
}

lm_status lm_listing_body(lm_listing *l, int32_t layer, uint32_t from, uint32_t to, lm_text *out, lm_error *e)
{
    lm_value made  = LM_NONE;
    uint32_t block = LM_NONE;

    l->first = from;
    l->layer = layer;
    LM_TRY(lm_listing_ends(l, from, to, &l->given, &made, e));
    if (l->given != LM_NONE)
        snprintf(l->names[l->given], LM_LISTING_NAME, "x");
    lm_text_printf(out, "    T = len(%s)\n", l->given != LM_NONE ? "x" : "ids");
    for (uint32_t i = from; i < to; i++) {
        put_module(l, i, &block, out);
        lm_listing_line(l, i, out);
    }
    lm_text_printf(out, "    return %s\n", l->names[made]);
    snprintf(l->names[made], LM_LISTING_NAME, "x");      /* the name of the result in the caller */
    return out->failed ? lm_fail_memory(e, "a listing", 0) : LM_OK;
}

/* Write the body of every layer and group equal ones into kinds. */
static lm_status sort_layers(lm_listing *l, stack *s, lm_error *e)
{
    for (uint32_t k = 0; k < l->p->n_layers; k++) {
        lm_text   text = { 0 };
        uint32_t  kind = 0;
        lm_status status = lm_listing_body(l, (int32_t)k, s->start[k], s->start[k + 1], &text, e);

        while (status == LM_OK && kind < s->kinds && strcmp(s->texts[kind].data, text.data) != 0)
            kind++;
        s->kind[k] = kind;
        if (status == LM_OK && kind == s->kinds) {
            s->texts[s->kinds++] = text;
            continue;
        }
        lm_text_free(&text);
        LM_TRY(status);
    }
    return LM_OK;
}

static void layer_name(const stack *s, uint32_t kind, char out[16])
{
    snprintf(out, 16, s->kinds == 1 ? "layer" : "layer_%u", kind + 1);
}

/* Append the layers of a kind: "0-3, 5". */
static void put_which(const stack *s, uint32_t n, uint32_t kind, lm_text *out)
{
    bool any = false;

    for (uint32_t k = 0; k < n; k++) {
        if (s->kind[k] != kind || (k && s->kind[k - 1] == kind))
            continue;
        uint32_t end = k;
        while (end + 1 < n && s->kind[end + 1] == kind)
            end++;
        lm_text_printf(out, end > k ? "%s%u-%u" : "%s%u", any ? ", " : "", k, end);
        any = true;
    }
}

void lm_listing_layer_prefix(const lm_listing *l, int *n, const char **prefix)
{
    const char *path = l->p->modules[l->f->ledger->layer[0]].path, *dot = strrchr(path, '.');

    *n      = dot ? (int)(dot + 1 - path) : 0;
    *prefix = path;
}

static void put_layers(const lm_listing *l, const stack *s, lm_text *out)
{
    const char *prefix;
    char        name[16];
    int         n;

    for (uint32_t kind = 0; kind < s->kinds; kind++) {
        layer_name(s, kind, name);
        lm_text_printf(out, "def %s(x, i):\n    \"\"\"Layers ", name);
        put_which(s, l->p->n_layers, kind, out);
        lm_listing_layer_prefix(l, &n, &prefix);
        lm_text_printf(out, ": x [T, D] -> [T, D].\"\"\"\n    w = weights_of(f\"%.*s{i}.\")\n", n, prefix);
        lm_text_add(out, s->texts[kind].data, s->texts[kind].size);
        lm_text_add_str(out, "\n\n");
    }
}

/* ---- from tokens to logits ---- */

static void put_calls(const stack *s, uint32_t from, uint32_t end, lm_text *out)
{
    char name[16];

    layer_name(s, s->kind[from], name);
    if (from)
        lm_text_printf(out, "    for i in range(%u, %u):\n        x = %s(x, i)\n", from, end, name);
    else
        lm_text_printf(out, "    for i in range(%u):\n        x = %s(x, i)\n", end, name);
}

static void put_loop(const lm_listing *l, const stack *s, lm_text *out)
{
    char     name[16];
    uint32_t runs = 1, period = 1, n = l->p->n_layers;

    for (uint32_t k = 1; k < n; k++)
        runs += s->kind[k] != s->kind[k - 1];
    for (; period < n; period++) {
        bool fits = true;
        for (uint32_t k = period; fits && k < n; k++)
            fits = s->kind[k] == s->kind[k % period];
        if (fits)
            break;
    }
    if (runs <= 3) {
        for (uint32_t k = 0, end; k < n; k = end) {
            for (end = k + 1; end < n && s->kind[end] == s->kind[k];)
                end++;
            put_calls(s, k, end, out);
        }
        return;
    }
    uint32_t shown = period < n ? period : n;
    lm_text_add_str(out, "    kinds = [");
    for (uint32_t k = 0; k < shown; k++) {
        layer_name(s, s->kind[k], name);
        lm_text_printf(out, "%s%s", k == 0 ? "" : k % 12 == 0 ? ",\n             " : ", ", name);
    }
    lm_text_printf(out, "]\n    for i in range(%u):\n        x = kinds[i", n);
    if (shown < n)
        lm_text_printf(out, " %% %u", shown);
    lm_text_add_str(out, "](x, i)\n");
}

static void put_forward(lm_listing *l, const stack *s, lm_text *out)
{
    const lm_program *p = l->p;

    l->layer = -1;
    l->given = LM_NONE;
    l->first = 0;
    lm_text_add_str(
        out, "def forward(ids):\n    \"\"\"Token numbers -> the logits of every next token [T, V].\"\"\"\n"
             "    T = len(ids)\n");
    if (lm_listing_lists_experts(l))
        lm_text_add_str(out, "    kept[\"ids\"] = ids\n");
    for (uint32_t i = 0; i < s->start[0]; i++)
        lm_listing_line(l, i, out);
    put_loop(l, s, out);
    l->first = s->start[p->n_layers];
    if (l->first)
        l->given = p->nodes[l->first - 1].out;
    for (uint32_t i = l->first; i < p->n_nodes; i++)
        lm_listing_line(l, i, out);
    lm_text_printf(out, "    return %s\n\n\n", l->names[p->logits]);
}

/* ---- imports, head, loading ---- */

static bool has_codes(const lm_program *p)
{
    for (uint32_t i = 0; i < p->n_weights; i++)
        if (p->weights[i].interleaved.codes)
            return true;
    return false;
}

void lm_listing_imports(const lm_listing *l, const char *more, lm_text *out)
{
    if (l->in == LM_LISTING_PYTORCH)
        lm_text_printf(out,
                       "import glob\nimport math\n%simport sys\n\nimport torch\nfrom safetensors.torch "
                       "import load_file\n\n",
                       more);
    else
        lm_text_printf(out, "import glob\nimport json\nimport math\n%simport sys\n\nimport numpy as np\n\n",
                       more);
}

/* Return the other names that checkpoints of the family have; NULL: none. */
static const lm_name *spellings_of(const lm_program *p)
{
    const lm_family *f;

    for (size_t i = 0; (f = lm_family_at(i)) != NULL && strcmp(f->name, p->family) != 0; i++)
        ;
    return f ? f->spellings : NULL;
}

static void put_head(const lm_listing *l, lm_text *out)
{
    const lm_program *p = l->p;

    lm_text_printf(out, "\"\"\"%s: %s of %u layers, %" PRIu64 " parameters, one operation a "
        "line.\n\n", l->f->s.name, p->class_name, p->n_layers,
                   lm_program_parameters(p));
    lm_text_add_str(
        out,
        "Made by lamina from the program that it runs. Shapes are in the comments: T tokens, D the width of "
        "the residual stream x,\n"
        "H query heads, G key/value heads of K lanes, V the vocabulary. The whole text at once, without a "
        "cache.\n\n"
        "    python THIS.py FOLDER 1,2,3        the five likeliest tokens after tokens 1, 2, 3; FOLDER holds "
        "*.safetensors\n\"\"\"\n");
    lm_listing_imports(l, spellings_of(p) ? "import re\n" : "", out);
    lm_text_add_str(
        out, "W = {}                                  # every weight by its name in the checkpoint\n");
    for (lm_value v = 0; v < p->n_values; v++)
        if (l->kept[v] || lm_listing_lists_experts(l)) {
            lm_text_add_str(out, "kept = {}                               # what several layers read\n");
            break;
        }
    lm_text_add_str(out, "\n\n");
}

static void put_four_bits(const lm_listing *l, lm_text *out)
{
    lm_listing_add(l, out,
                   "def from_four_bits(codes, exponents):\n"
                   "    \"\"\"MXFP4: blocks of 32 four-bit floats (two a byte, the low half first) that "
                   "share a power of two. [E, in, out]\"\"\"\n");
    lm_listing_add(l, out,
                   "    values = $array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], "
                   "dtype=$.float32)\n");
    lm_listing_add(l, out,
                   l->in == LM_LISTING_PYTORCH
                       ? "    x = torch.stack([values[(codes & 15).long()], values[(codes >> "
                         "4).long()]], -1).reshape(*codes.shape[:3], 32)\n"
                         "    x = x * 2.0 ** (exponents.float() - 127)[..., None]\n"
                       : "    x = np.stack([values[codes & 15], values[codes >> 4]], "
                         "-1).reshape(*codes.shape[:3], 32)\n"
                         "    x = x * np.exp2(exponents.astype(np.float32) - 127)[..., None]\n");
    lm_text_add_str(out, "    return x.reshape(*codes.shape[:2], -1).swapaxes(1, 2)\n\n\n");
}

/* Return the factor of a matrix of -1, 0 and 1; NULL: there is none. */
static const lm_weight *factor_of(const lm_program *p)
{
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->nodes[i].code == LM_OP_LINEAR && p->nodes[i].weights[2] != LM_NONE)
            return &p->weights[p->nodes[i].weights[2]];
    return NULL;
}

/* Append the lines that make matrices of -1, 0 and 1 of packed ones; and those that make them of floats. */
static void put_packed(const lm_listing *l, lm_text *out)
{
    lm_listing_add(l, out,
                   "    for name in [n for n in W if n + \"_scale\" in W]:\n"
                   "        if W[name].dtype == $.uint8:                       # four rows in a row of bytes\n"
                   "            W[name] = $cat([(W[name] >> k & 3) - 1.0 for k in (0, 2, 4, 6)])\n");
}

static void put_ternary(const lm_listing *l, lm_text *out)
{
    lm_listing_add(l, out,
                   "    for name in [n for n in W if n + \"_scale\" not in W and W[n].ndim == 2]:\n"
                   "        if not name.endswith((\"embed_tokens.weight\", \"lm_head.weight\")):\n"
                   "            mean = $.abs(W[name]).mean()                   # the nearest matrix of -1, 0 and 1\n"
                   "            W[name], W[name + \"_scale\"] = $.clip($.round(W[name] / mean), -1, 1), mean\n");
}

static void put_reader(lm_text *out)
{
    lm_text_add_str(
        out,
        "def load_file(path):\n"
        "    \"\"\"A safetensors file: the length of a JSON directory, the directory, the numbers.\"\"\"\n"
        "    data = open(path, \"rb\").read()\n"
        "    start = 8 + int.from_bytes(data[:8], \"little\")\n"
        "    tensors = {}\n"
        "    for name, t in json.loads(data[8:start]).items():\n"
        "        if name == \"__metadata__\":\n"
        "            continue\n"
        "        raw = data[start + t[\"data_offsets\"][0]:start + t[\"data_offsets\"][1]]\n"
        "        if t[\"dtype\"] == \"BF16\":                # the upper half of a float32\n"
        "            x = (np.frombuffer(raw, np.uint16).astype(np.uint32) << 16).view(np.float32)\n"
        "        else:\n"
        "            x = np.frombuffer(raw, {\"F32\": np.float32, \"F16\": np.float16, \"U8\": np.uint8, "
        "\"I64\": np.int64, \"BOOL\": bool}[t[\"dtype\"]])\n"
        "        tensors[name] = x.reshape(t[\"shape\"])\n"
        "    return tensors\n\n\n");
}

/* Append the names of tensors in published files as a regular expression, or in the program. */
static void put_spelling(const char *name, bool pattern, lm_text *out)
{
    unsigned n = 0;

    for (const char *c = name; *c; c++)
        if (*c == '*')
            lm_text_printf(out, pattern ? "(\\d+)" : "\\%u", ++n);
        else
            lm_text_printf(out, pattern && *c == '.' ? "\\%c" : "%c", *c);
}

/* Append code that also gives tensors the names that the listing has for them. */
static void put_spellings(const lm_name *rows, lm_text *out)
{
    lm_text_add_str(out, "    for name, x in list(W.items()):                    # the names in published files\n"
                         "        for theirs, ours in [\n");
    for (; rows->module; rows++) {
        lm_text_add_str(out, "                (r\"(model\\.)?");
        put_spelling(rows->gguf, true, out);
        lm_text_add_str(out, "\",\n                 r\"");
        put_spelling(rows->module, false, out);
        lm_text_add_str(out, "\"),\n");
    }
    lm_text_add_str(out, "        ]:\n"
                         "            if found := re.fullmatch(theirs, name):\n"
                         "                W.setdefault(re.sub(r\"\\\\(\\d)\", lambda n: found[int(n[1]) + 1], ours), x)\n");
}

/* Append the code that loads the model and returns the weights of one layer. */
void lm_listing_load(const lm_listing *l, lm_text *out)
{
    const lm_program *p = l->p;
    bool torch = l->in == LM_LISTING_PYTORCH, codes = has_codes(p);
    const char *path = p->weights[0].path, *dot = strchr(path, '.');

    if (!torch)
        put_reader(out);
    if (codes)
        put_four_bits(l, out);
    lm_text_add_str(out, "def load(folder):\n    \"\"\"The weights of a checkpoint, as float32.\"\"\"\n"
                         "    for file in sorted(glob.glob(f\"{folder}/model*.safetensors\")):\n"
                         "        W.update(load_file(file))\n");
    if (codes)
        lm_text_add_str(out, "    for name in [n for n in W if n.endswith(\"_blocks\")]:\n"
                             "        W[name[:-7]] = from_four_bits(W[name], W[name[:-7] + \"_scales\"])\n");
    if (factor_of(p))
        put_packed(l, out);
    if (spellings_of(p))
        put_spellings(spellings_of(p), out);
    if (dot)
        lm_text_printf(out,
                       "    for name in list(W):\n"
                       "        W.setdefault(\"%.*s\" + name, W[name])             # checkpoints of the bare "
                       "decoder leave this word out\n",
                       (int)(dot + 1 - path), path);
    lm_text_add_str(out, torch ? "    for name in W:\n        W[name] = W[name].float()\n"
                               : "    for name in W:\n        W[name] = W[name].astype(np.float32)\n");
    if (factor_of(p) && factor_of(p)->of_matrix)
        put_ternary(l, out);
    lm_text_add_str(out, "\n\n");
    lm_text_add_str(
        out,
        "def weights_of(prefix):\n    \"\"\"Those whose names begin so, by the rest of their names.\"\"\"\n");
    lm_text_add_str(
        out,
        l->to - l->from == p->n_nodes
            ? "    return {name[len(prefix):]: x for name, x in W.items() if name.startswith(prefix)}\n\n\n"
            : "    w = Weights({name[len(prefix):]: x for name, x in W.items() if name.startswith(prefix)})\n"
              "    w.prefix = prefix\n"
              "    return w\n\n\n");
}

static void put_end(const lm_listing *l, lm_text *out)
{
    lm_text_add_str(out, "if __name__ == \"__main__\":\n"
                         "    load(sys.argv[1])\n"
                         "    p = softmax(forward([int(i) for i in sys.argv[2].split(\",\")])[-1])\n"
                         "    for i in ");
    lm_text_add_str(out, l->in == LM_LISTING_PYTORCH ? "p.argsort(descending=True)[:5].tolist():\n"
                                                     : "(-p).argsort()[:5].tolist():\n");
    lm_text_add_str(out, "        print(f\"{i:8} {p[i]:.4f}\")\n");
}

/* ---- complete listing ---- */

lm_status lm_listing_begin(lm_listing *l, lm_facts *f, lm_listing_language in, lm_error *e)
{
    const lm_program *p = f->s.program;

    *l = (lm_listing){ .f = f, .p = p, .in = in, .given = LM_NONE, .layer = -1, .to = p->n_nodes };
    l->names = lm_alloc_zero(p->n_values, sizeof *l->names);
    l->last = lm_alloc_zero(p->n_values, sizeof *l->last);
    l->kept = lm_alloc_zero(p->n_values, sizeof *l->kept);
    if (!l->names || !l->last || !l->kept)
        return lm_fail_memory(e, "a listing", p->n_values);
    for (uint32_t i = 0; i < p->n_nodes; i++)
        for (uint32_t k = 0; k < p->nodes[i].n_in; k++)
            l->last[p->nodes[i].in[k]] = i;
    l->last[p->logits] = p->n_nodes;
    l->scores_by_layer = divides_by_layer(p);
    return LM_OK;
}

void lm_listing_end(lm_listing *l)
{
    lm_free(l->names);
    lm_free(l->last);
    lm_free(l->kept);
}

static lm_status write(lm_listing *l, stack *s, lm_text *out, lm_error *e)
{
    LM_TRY(find_layers(l->p, s, e));
    lm_listing_keep(l);
    LM_TRY(sort_layers(l, s, e));
    put_head(l, out);
    lm_listing_load(l, out);
    LM_TRY(lm_listing_helpers(l, out, e));
    put_layers(l, s, out);
    put_forward(l, s, out);
    put_end(l, out);
    return out->failed ? lm_fail_memory(e, "a listing", 0) : LM_OK;
}

lm_status lm_listing_write(lm_facts *f, lm_listing_language in, lm_text *out, lm_error *e)
{
    LM_REQUIRE(e, f && out);
    const lm_program *p = f->s.program;
    lm_listing l;
    stack s = { 0 };
    lm_text text = { 0 };
    lm_status status = lm_listing_begin(&l, f, in, e);

    s.start = lm_alloc_zero(p->n_layers + 1, sizeof *s.start);
    s.kind = lm_alloc_zero(p->n_layers + 1, sizeof *s.kind);
    s.texts = lm_alloc_zero(p->n_layers + 1, sizeof *s.texts);
    if (status == LM_OK)
        status = s.start && s.kind && s.texts ? write(&l, &s, &text, e)
                                              : lm_fail_memory(e, "a listing", p->n_values);
    for (uint32_t k = 0; k < s.kinds; k++)
        lm_text_free(&s.texts[k]);
    lm_free(s.start);
    lm_free(s.kind);
    lm_free(s.texts);
    lm_listing_end(&l);
    return lm_text_deliver(&text, status, "a listing", out, e);
}
