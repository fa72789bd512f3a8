/* view_diagram.c - the data flow of a layer with its skip edges, and how query heads share keys, drawn in text. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analysis/ledger.h"
#include "analysis/page.h"
#include "analysis/traits.h"

enum { MOST_ROWS = 64, MOST_LANES = 6, LINE = 320 };

typedef struct row { char text[LINE]; uint32_t last_op; lm_value out; uint32_t skip; } row;     /* skip: row + 1 that it comes from */

typedef struct drawing {
    lm_page *v;
    row      rows[MOST_ROWS];
    uint32_t n, lane[MOST_ROWS], used;
} drawing;

static bool is_norm(const lm_node *n)
{
    return n->code == LM_OP_RMS_NORM || n->code == LM_OP_LAYER_NORM;
}

/* ---- what stands in a row ---- */

static void block_text(lm_facts *f, uint32_t first, uint32_t end, char out[LINE])
{
    const lm_program *p = f->s.program;
    char              word[48];

    snprintf(out, LINE, "%s", p->modules[p->nodes[first].module].name);
    for (uint32_t i = first; i < end; i++) {
        const lm_node *n = &p->nodes[i];
        if (n->code == LM_OP_ATTENTION && n->attention.spec.v_in_k) {
            snprintf(out, LINE, _("attention %u, latent %u + %u"), n->attention.spec.n_heads, n->attention.spec.v_dim,
                     n->attention.spec.k_dim - n->attention.spec.v_dim);
            return;
        }
        if (n->code == LM_OP_ATTENTION) {
            snprintf(out, LINE, n->attention.spec.window ? _("attention %u:%u, window") : _("attention %u:%u"),
                     n->attention.spec.n_heads, n->attention.spec.n_kv_heads);
            return;
        }
        if (n->code == LM_OP_EXPERTS) {
            snprintf(out, LINE, _("experts: %u of %u, each %u → %u → %u"), n->experts.top_k, n->experts.n_experts,
                     p->values[n->in[0]].width, n->experts.width, p->values[n->out].width);
            for (uint32_t k = first; k < end; k++)
                if (f->ledger->roles[k] & LM_ROLE_DOWN)
                    snprintf(out + strlen(out), LINE - strlen(out), _(", and %u shared"), p->values[p->nodes[k].in[0]].width);
            return;
        }
        if (n->code == LM_OP_GLU || n->code == LM_OP_ACT) {
            lm_traits t = { .has_act = true, .act = n->glu.act, .glu = n->code == LM_OP_GLU ? n : NULL };
            snprintf(out, LINE, "%s %u → %u → %u", lm_mlp_name(&t, word, sizeof word), p->values[p->nodes[first].in[0]].width,
                     p->values[n->out].width, p->values[p->nodes[end - 1].out].width);
        }
    }
}

static void add_row(drawing *d, const char *text, uint32_t op, lm_value out)
{
    if (d->n == MOST_ROWS)
        return;
    row *r     = &d->rows[d->n++];
    r->last_op = op;
    r->out     = out;
    r->skip    = 0;
    snprintf(r->text, sizeof r->text, "%s", text);
}

/* The row that made a value, or the entry of the layer. */
static uint32_t row_of(const drawing *d, lm_value v)
{
    for (uint32_t i = d->n; i-- > 0;)
        if (d->rows[i].out == v)
            return i;
    return 0;
}

/* Bytes of the characters that fit into so many columns. */
static size_t bytes_of(const char *text, unsigned columns)
{
    size_t n = 0, end;
    char   part[LINE];

    for (end = 0; text[end] && end + 4 < sizeof part; n = end) {
        part[end] = text[end];
        for (end++; ((unsigned char)text[end] & 0xC0) == 0x80 && end + 1 < sizeof part; end++)
            part[end] = text[end];
        part[end] = '\0';
        if (lm_text_columns(part) > columns)
            return n;
    }
    return n;
}

static void collect(drawing *d, uint32_t layer)
{
    lm_facts         *f = d->v->f;
    const lm_program *p = f->s.program;
    const lm_module  *m = &p->modules[f->ledger->layer[layer]];
    char              text[LINE];

    add_row(d, "x", m->first_op, m->in);
    for (uint32_t i = m->first_op, next; i < m->end_op; i = next) {
        const lm_node *n     = &p->nodes[i];
        uint32_t       block = f->ledger->block[i];
        next                 = block == LM_NONE ? i + 1 : p->modules[block].end_op;
        if (n->code == LM_OP_ADD && block == LM_NONE) {
            uint32_t a = row_of(d, n->in[0]), b = row_of(d, n->in[1]);
            add_row(d, "+", i, n->out);
            d->rows[d->n - 1].skip = (a < b ? a : b) + 1;
            continue;
        }
        if (is_norm(n) && next == i + 1)
            snprintf(text, sizeof text, "%s", n->code == LM_OP_RMS_NORM ? "RMSNorm" : "LayerNorm");
        else if (block == LM_NONE)
            snprintf(text, sizeof text, "%s", lm_op_of(n->code)->name);
        else
            block_text(f, i, next, text);
        uint32_t from = row_of(d, block == LM_NONE ? n->in[0] : p->modules[block].in);
        if (from + 1 != d->n)                /* not the row above: said, as no line is drawn for it */
            snprintf(text + strlen(text), sizeof text - strlen(text), "  ⟵ %.*s", (int)bytes_of(d->rows[from].text, 20),
                     d->rows[from].text);
        add_row(d, text, next - 1, p->nodes[next - 1].out);
    }
}

/* ---- skip edges: each in the first lane that is free between its ends ---- */

static void choose_lanes(drawing *d)
{
    for (uint32_t i = 0; i < d->n; i++) {
        if (!d->rows[i].skip)
            continue;
        uint32_t lane = 0;
        for (uint32_t k = 0; k < i; k++)
            if (d->rows[k].skip && k > d->rows[i].skip - 1 && d->lane[k] == lane) {
                lane++;
                k = UINT32_MAX;              /* look again at all of them */
            }
        d->lane[i] = lane < MOST_LANES ? lane : MOST_LANES - 1;
        d->used    = d->lane[i] + 1 > d->used ? d->lane[i] + 1 : d->used;
    }
}

static bool begins(const drawing *d, uint32_t at, uint32_t lane)
{
    for (uint32_t i = 0; i < d->n; i++)
        if (d->rows[i].skip == at + 1 && d->lane[i] == lane)
            return true;
    return false;
}

static bool ends(const drawing *d, uint32_t at, uint32_t lane)
{
    return d->rows[at].skip && d->lane[at] == lane;
}

static const char *lane_piece(const drawing *d, uint32_t at, uint32_t lane)
{
    for (uint32_t i = 0; i < d->n; i++) {
        if (!d->rows[i].skip || d->lane[i] != lane)
            continue;
        uint32_t from = d->rows[i].skip - 1;
        if (at == from && !ends(d, at, lane))
            return "──┐";
        if (at == i)
            return begins(d, at, lane) ? "──┤" : "──┘";
        if (at > from && at < i)
            return "  │";
    }
    return "   ";
}

/* Does an edge of an outer lane cross this place? */
static bool passes(const drawing *d, uint32_t at, uint32_t lane)
{
    for (uint32_t i = 0; i < d->n; i++)
        if (d->rows[i].skip && d->lane[i] > lane && (at == d->rows[i].skip - 1 || at == i))
            return true;
    return false;
}

static void put_rows(drawing *d)
{
    unsigned wide = 0;

    for (uint32_t i = 0; i < d->n; i++) {
        unsigned n = lm_text_columns(d->rows[i].text);
        wide       = n > wide ? n : wide;
    }
    for (uint32_t i = 0; i < d->n; i++) {
        bool end = passes(d, i, 0) || begins(d, i, 0) || ends(d, i, 0);
        lm_buf_add_str(d->v->out, "  ");
        lm_put(d->v->out, d->rows[i].text, 0);
        lm_buf_add_char(d->v->out, ' ');
        lm_put_rule(d->v->out, end ? "─" : " ", wide - lm_text_columns(d->rows[i].text));
        for (uint32_t lane = 0; lane < d->used; lane++) {
            const char *piece = lane_piece(d, i, lane);
            bool        blank = strcmp(piece, "   ") == 0;
            lm_buf_add_str(d->v->out, blank && passes(d, i, lane) ? "───" : piece);
        }
        while (d->v->out->size && d->v->out->data[d->v->out->size - 1] == ' ')
            d->v->out->data[--d->v->out->size] = '\0';
        lm_buf_add_char(d->v->out, '\n');
    }
}

/* ---- heads ---- */

static void put_heads(lm_page *v)
{
    lm_traits t;

    lm_find_traits(v->f->ledger, &t);
    if (!t.attention)
        return;
    const lm_attention_spec *s = &t.attention->attention.spec;
    uint32_t                 group = s->n_heads / s->n_kv_heads;
    lm_buf_printf(v->out, _("\n  heads (%s)\n"), lm_facts_text(v->f, "attention.type"));
    if (t.latent) {
        lm_buf_printf(v->out, _("  every one of %u heads ← latent of %u lanes + rotated key of %u lanes, shared\n"), s->n_heads,
                      t.kv_rank,
                      t.rope_dim);
        return;
    }
    for (uint32_t k = 0; k < s->n_kv_heads; k++) {
        if (s->n_kv_heads > 8 && k > 1 && k + 1 < s->n_kv_heads) {
            if (k == 2)
                lm_buf_add_str(v->out, "  ⋮\n");
            continue;
        }
        lm_buf_printf(v->out, "  KV %-3u ←  ", k);
        for (uint32_t q = 0; q < group && q < 8; q++)
            lm_buf_printf(v->out, "%sQ %u", q ? "  " : "", k * group + q);
        lm_buf_printf(v->out, group > 8 ? "  … Q %u\n" : "\n", (k + 1) * group - 1);
    }
}

/* ---- the page ---- */

void lm_view_diagram(lm_page *v)
{
    lm_facts         *f = v->f;
    const lm_program *p = f->s.program;
    lm_buf            flow = { 0 };

    lm_put_flow(f, &flow);
    lm_buf_printf(v->out, "  %s\n", flow.data ? flow.data : "");
    lm_buf_free(&flow);
    for (uint32_t i = 0; i < p->n_layers; i++) {
        drawing  d     = { .v = v };
        uint32_t alike = 0;
        if (v->o->layer >= 0 ? i != (uint32_t)v->o->layer : f->ledger->twin[i] != i)
            continue;
        for (uint32_t k = 0; k < p->n_layers; k++)
            alike += f->ledger->twin[k] == f->ledger->twin[i];
        lm_buf_printf(v->out, _("\n  %s, one of %u made alike\n\n"), p->modules[f->ledger->layer[i]].path, alike);
        collect(&d, i);
        choose_lanes(&d);
        put_rows(&d);
    }
    put_heads(v);
}
