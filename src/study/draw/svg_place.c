/* svg_place.c - the second half of the layered layout that svg_layout.c begins: the order of the spots within
 * layers, their coordinates, and the rails of links that skip or lead back.
 *
 * Order: the barycentre heuristic (Sugiyama, Tagawa, Toda, doi:10.1109/TSMC.1981.4308636). Sweeps down and up
 * sort each layer by the mean position of its neighbours; of all sweeps the order with the fewest crossings
 * is kept. Coordinates: for a fixed order, the positions closest to the wanted ones by weighted least
 * squares, found by pooling adjacent violators (Ayer, Brunk, Ewing, Reid, Silverman,
 * doi:10.1214/aoms/1177728423).
 *
 * Read: order, x, chains and bends, rails. Memory is the layout's arena. One thread. */
#include <math.h>
#include <string.h>

#include "study/draw/svg_layout.h"

enum { SWEEPS = 16, GAP_X = 22, GAP_Y = 34, RAIL = 16, MAX_RAILS = 32 };

/* ---- order: each spot at the mean position of its neighbours ---- */

static bool down(const lm_svg_edge *k)
{
    return k->kind == LM_LINK_DOWN;
}

static double middle_of_links(const lm_level *v, uint32_t spot, bool above)
{
    double   sum = 0;
    uint32_t n   = 0;

    for (uint32_t i = 0; i < v->n_links; i++) {
        const lm_svg_edge *k = &v->links[i];
        if (!down(k) || (above ? k->to : k->from) != spot)
            continue;
        const lm_spot *other = &v->spots[above ? k->from : k->to];
        /* ports of one group keep their order */
        sum += other->order + (above ? k->from_x : k->to_x) / 4000;
        n++;
    }
    return n ? sum / n : v->spots[spot].order;
}

static uint64_t crossings(const lm_level *v)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < v->n_links; i++)
        for (uint32_t k = i + 1; k < v->n_links; k++) {
            const lm_svg_edge *a = &v->links[i], *b = &v->links[k];
            if (!down(a) || !down(b) || v->spots[a->from].rank != v->spots[b->from].rank)
                continue;
            double from = v->spots[a->from].order + a->from_x / 4000 - v->spots[b->from].order -
                          b->from_x / 4000;
            double to   = v->spots[a->to].order + a->to_x / 4000 - v->spots[b->to].order - b->to_x / 4000;
            n += (from < 0 && to > 0) || (from > 0 && to < 0);
        }
    return n;
}

/* Sort the spots of a layer by `key`, stably. */
static void sort_rank(lm_level *v, uint32_t rank, const double *key, uint32_t *row)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < v->n_spots; i++)
        if (v->spots[i].rank == rank)
            row[n++] = i;
    for (uint32_t i = 1; i < n; i++)
        for (uint32_t k = i; k > 0; k--) {
            uint32_t a = row[k - 1], b = row[k];
            if (key[a] < key[b] || (!(key[a] > key[b]) && v->spots[a].order <= v->spots[b].order))
                break;
            row[k - 1] = b;
            row[k]     = a;
        }
    for (uint32_t i = 0; i < n; i++)
        v->spots[row[i]].order = i;
}

static void sweep_order(lm_level *v, bool above, double *key, uint32_t *row)
{
    for (uint32_t r = 0; r < v->n_ranks; r++) {
        uint32_t rank = above ? r : v->n_ranks - 1 - r;
        for (uint32_t i = 0; i < v->n_spots; i++)
            if (v->spots[i].rank == rank)
                key[i] = middle_of_links(v, i, above);
        sort_rank(v, rank, key, row);
    }
}

void lm_order_spots(lm_layout *l, lm_level *v)
{
    double   *key  = lm_arena_new(l->a, v->n_spots, double);
    uint32_t *row = lm_arena_new(l->a, v->n_spots, uint32_t),
             *best = lm_arena_new(l->a, v->n_spots, uint32_t);
    uint64_t  min = UINT64_MAX;

    l->failed |= !key || !row || !best;
    if (l->failed)
        return;
    for (uint32_t i = 0; i < v->n_spots; i++)
        key[i] = v->spots[i].kind == LM_SPOT_BEND ? 1e6 : 0;         /* bends come last, on the right */
    for (uint32_t r = 0; r < v->n_ranks; r++)
        sort_rank(v, r, key, row);
    for (int i = 0; i < SWEEPS && min; i++) {
        uint64_t n = crossings(v);
        if (n < min) {
            min = n;
            for (uint32_t c = 0; c < v->n_spots; c++)
                best[c] = v->spots[c].order;
        }
        sweep_order(v, i % 2 == 0, key, row);
    }
    for (uint32_t c = 0; c < v->n_spots; c++)
        v->spots[c].order = best[c];
}

/* ---- x: as close to the middle of their links as space allows, by pooling neighbours that overlap (isotonic
 * regression) ---- */

typedef struct pool { double sum, weight; uint32_t first, n; } pool;

typedef struct row {
    uint32_t *spots;
    double   *want, *weight, *at;
    pool     *pools;
    uint32_t  n;
} row;

static void fill_row(const lm_level *v, uint32_t rank, row *r)
{
    r->n = 0;
    for (uint32_t i = 0; i < v->n_spots; i++)
        if (v->spots[i].rank == rank) {
            r->spots[v->spots[i].order] = i;
            r->n++;
        }
}

static double weight_of(const lm_level *v, const lm_svg_edge *k)
{
    bool     a = v->spots[k->from].kind == LM_SPOT_BEND, b = v->spots[k->to].kind == LM_SPOT_BEND;
    uint32_t out = 0, in = 0;

    for (uint32_t i = 0; i < v->n_links && !a && !b; i++) {
        out += down(&v->links[i]) && v->links[i].from == k->from;
        in += down(&v->links[i]) && v->links[i].to == k->to;
    }
    return a && b ? 8 : a || b ? 0.5 : out == 1 && in == 1 ? 4 : 1;
}

/* Pull the port where the stream leaves a group below the one where it enters, so that the stream runs
 * straight. */
static void want_straight(const lm_level *v, uint32_t spot, double *sum, double *weight)
{
    const lm_spot *me = &v->spots[spot], *other = NULL;
    lm_spot_kind   far = me->kind == LM_SPOT_ENTRY ? LM_SPOT_EXIT : LM_SPOT_ENTRY;

    if (me->kind != LM_SPOT_ENTRY && me->kind != LM_SPOT_EXIT)
        return;
    for (uint32_t i = 0; i < v->n_spots; i++) {
        if (i != spot && v->spots[i].kind == me->kind)
            return;                          /* several ports: not a single stream */
        if (v->spots[i].kind == far && other)
            return;
        other = v->spots[i].kind == far ? &v->spots[i] : other;
    }
    if (!other)
        return;
    *sum += 3 * other->x;
    *weight += 3;
}

enum { FROM_ABOVE = 1, FROM_BELOW = 2 };

static void want_places(const lm_level *v, row *r, int sides)
{
    for (uint32_t i = 0; i < r->n; i++) {
        double sum = 0, weight = 0;
        for (uint32_t k = 0; k < v->n_links; k++) {
            const lm_svg_edge *link = &v->links[k];
            if (!down(link))
                continue;
            if ((sides & FROM_ABOVE) && link->to == r->spots[i]) {
                double w = weight_of(v, link);
                sum += w * (v->spots[link->from].x + link->from_x - link->to_x);
                weight += w;
            }
            if ((sides & FROM_BELOW) && link->from == r->spots[i]) {
                double w = weight_of(v, link);
                sum += w * (v->spots[link->to].x + link->to_x - link->from_x);
                weight += w;
            }
        }
        want_straight(v, r->spots[i], &sum, &weight);
        r->want[i]   = weight > 0 ? sum / weight : v->spots[r->spots[i]].x;
        r->weight[i] = weight > 0 ? weight : 0.1;
    }
}

/* Find the positions closest to the wanted ones that preserve order and distance: isotonic regression by
 * pooling adjacent violators. A pool holds neighbours that touch; it moves as one. */
static void settle(lm_level *v, row *r)
{
    uint32_t n = 0;
    double   shift = 0;

    for (uint32_t i = 0; i < r->n; i++) {
        if (i)
            shift += (v->spots[r->spots[i - 1]].w + v->spots[r->spots[i]].w) / 2 + GAP_X;
        r->at[i]     = shift;
        r->pools[n++] = (pool){ r->weight[i] * (r->want[i] - shift), r->weight[i], i, 1 };
        while (n > 1 &&
               r->pools[n - 2].sum / r->pools[n - 2].weight > r->pools[n - 1].sum / r->pools[n - 1].weight) {
            r->pools[n - 2].sum += r->pools[n - 1].sum;
            r->pools[n - 2].weight += r->pools[n - 1].weight;
            r->pools[n - 2].n += r->pools[n - 1].n;
            n--;
        }
    }
    for (uint32_t p = 0; p < n; p++)
        for (uint32_t i = r->pools[p].first; i < r->pools[p].first + r->pools[p].n; i++)
            v->spots[r->spots[i]].x = r->pools[p].sum / r->pools[p].weight + r->at[i];
}

static void place_x(lm_layout *l, lm_level *v)
{
    row r = { lm_arena_new(l->a, v->n_spots, uint32_t), lm_arena_new(l->a, v->n_spots, double),
              lm_arena_new(l->a, v->n_spots, double), lm_arena_new(l->a, v->n_spots, double),
              lm_arena_new(l->a, v->n_spots, pool), 0 };

    l->failed |= !r.spots || !r.want || !r.weight || !r.at || !r.pools;
    if (l->failed)
        return;
    for (int i = 0; i < 3 * SWEEPS; i++)
        for (uint32_t k = 0; k < v->n_ranks; k++) {
            bool     falling = i % 2 == 0;
            uint32_t rank    = falling ? k : v->n_ranks - 1 - k;
            fill_row(v, rank, &r);
            want_places(v, &r, i > 2 * SWEEPS ? FROM_ABOVE | FROM_BELOW : falling ? FROM_ABOVE : FROM_BELOW);
            settle(v, &r);
        }
}

/* ---- straight chains and bends ---- */

/* Find how far a spot may move without coming too close to its neighbours. */
static void room_of(const lm_level *v, uint32_t spot, double *min, double *max)
{
    const lm_spot *me = &v->spots[spot];

    for (uint32_t i = 0; i < v->n_spots; i++) {
        const lm_spot *o = &v->spots[i];
        double         apart = (me->w + o->w) / 2 + GAP_X / 2.0;
        if (o->rank != me->rank)
            continue;
        if (o->order + 1 == me->order)
            *min = fmax(*min, o->x + apart);
        if (o->order == me->order + 1)
            *max = fmin(*max, o->x - apart);
    }
}

static const lm_svg_edge *way_on(const lm_level *v, uint32_t spot, bool back)
{
    for (uint32_t i = 0; i < v->n_links; i++)
        if (down(&v->links[i]) && (back ? v->links[i].to : v->links[i].from) == spot)
            return &v->links[i];
    return NULL;
}

/* Return the only link from a spot, if it is also the only link to its target; otherwise NULL. */
static const lm_svg_edge *only_way(const lm_level *v, uint32_t spot)
{
    const lm_svg_edge *on = NULL;
    uint32_t       in = 0;

    for (uint32_t i = 0; i < v->n_links; i++) {
        if (!down(&v->links[i]) || v->links[i].from != spot)
            continue;
        if (on)
            return NULL;
        on = &v->links[i];
    }
    for (uint32_t i = 0; on && i < v->n_links; i++)
        in += down(&v->links[i]) && v->links[i].to == on->to;
    return in == 1 ? on : NULL;
}

static bool led_to(const lm_level *v, uint32_t spot)
{
    for (uint32_t i = 0; i < v->n_spots; i++) {
        const lm_svg_edge *on = only_way(v, i);
        if (on && on->to == spot)
            return true;
    }
    return false;
}

/* Align spots that form a chain without branches below each other, if there is space. */
static void align_chains(lm_level *v)
{
    for (uint32_t i = 0; i < v->n_spots; i++) {
        const lm_svg_edge *on = only_way(v, i);
        double         min = -INFINITY, max = INFINITY, sum = 0, offset = 0;
        uint32_t       n = 0;
        if (!on || led_to(v, i))
            continue;
        for (uint32_t at = i;; at = on->to) {
            double low = -INFINITY, high = INFINITY;
            room_of(v, at, &low, &high);
            min = fmax(min, low - offset);
            max  = fmin(max, high - offset);
            sum += v->spots[at].x - offset;
            n++;
            on = only_way(v, at);
            if (!on)
                break;
            offset += on->from_x - on->to_x;
        }
        if (min > max)
            continue;
        double x = fmin(fmax(sum / n, min), max);
        offset   = 0;
        for (uint32_t at = i;; at = on->to) {
            v->spots[at].x = x + offset;
            on             = only_way(v, at);
            if (!on)
                break;
            offset += on->from_x - on->to_x;
        }
    }
}

static void straighten(lm_level *v)
{
    for (uint32_t i = 0; i < v->n_spots; i++) {
        const lm_svg_edge *in = v->spots[i].kind == LM_SPOT_BEND ? way_on(v, i, true) : NULL;
        double         min = -INFINITY, max = INFINITY, want;
        uint32_t       last = i;
        if (!in || v->spots[in->from].kind == LM_SPOT_BEND)
            continue;                        /* each chain once, from its first bend */
        for (uint32_t at = i; v->spots[at].kind == LM_SPOT_BEND; at = way_on(v, at, false)->to) {
            room_of(v, at, &min, &max);
            last = at;
        }
        want = v->spots[in->from].x + in->from_x;
        if (min > max)
            continue;
        if (want < min || want > max) {      /* in line with the end of the chain if it cannot be in line with
                                                the beginning */
            const lm_svg_edge *out = way_on(v, last, false);
            want               = fmin(fmax(v->spots[out->to].x + out->to_x, min), max);
        }
        for (uint32_t at = i; v->spots[at].kind == LM_SPOT_BEND; at = way_on(v, at, false)->to)
            v->spots[at].x = want;
    }
}

/* ---- rails ---- */

/* Return the first lane whose rails do not overlap [first, last]; `taken`: the first and last layer of each
 * rail. */
static int free_lane(uint32_t (*taken)[2], int *n, uint32_t first, uint32_t last, const int *lanes)
{
    for (int lane = 0;; lane++) {
        bool free = true;
        for (int i = 0; i < *n; i++)
            free &= lanes[i] != lane || taken[i][1] <= first || taken[i][0] >= last;
        if (free)
            return lane;
    }
}

/* Return the outer edge of the spots in the layers that a rail passes. */
static double edge_of(const lm_level *v, uint32_t first, uint32_t last, double side)
{
    double edge = -INFINITY;

    for (uint32_t i = 0; i < v->n_spots; i++)
        if (v->spots[i].rank >= first && v->spots[i].rank <= last &&
            side * v->spots[i].x + v->spots[i].w / 2 > edge)
            edge = side * v->spots[i].x + v->spots[i].w / 2;
    return edge;
}

static void place_rails(lm_level *v, lm_link_kind kind)
{
    double   side = kind == LM_LINK_SKIP ? 1 : -1;
    uint32_t taken[MAX_RAILS][2];
    int      lanes[MAX_RAILS], n = 0;

    for (uint32_t i = 0; i < v->n_links; i++) {
        lm_svg_edge *k = &v->links[i];
        if (k->kind != kind)
            continue;
        uint32_t a = v->spots[k->from].rank, b = v->spots[k->to].rank, first = a < b ? a : b,
                 last = a < b ? b : a;
        int      lane = free_lane(taken, &n, first, last, lanes);
        double   edge = edge_of(v, first, last, side);
        for (int r = 0; r < n; r++)          /* outside the rails next to it */
            if (taken[r][1] > first && taken[r][0] < last && lanes[r] < lane && edge < lanes[r] * RAIL)
                edge = lanes[r] * RAIL;
        k->rail = side * (edge + RAIL + lane * RAIL);
        if (n < MAX_RAILS) {
            taken[n][0] = first;
            taken[n][1] = last;
            lanes[n++]  = lane;
        }
    }
}

/* ---- y, and final positions ---- */

static bool ends_in_ports(const lm_level *v)
{
    for (uint32_t i = 0; i < v->n_spots; i++)
        if (v->spots[i].rank + 1 == v->n_ranks && v->spots[i].kind != LM_SPOT_EXIT)
            return false;
    return true;
}

static void place_y(lm_level *v, double from)
{
    double y = from;

    for (uint32_t r = 0; r < v->n_ranks; r++) {
        double h = 0;
        bool   group = false, solid = false;
        for (uint32_t i = 0; i < v->n_spots; i++)
            if (v->spots[i].rank == r) {
                h = v->spots[i].h > h ? v->spots[i].h : h;
                group |= v->spots[i].kind == LM_SPOT_GROUP;
                solid |= v->spots[i].kind != LM_SPOT_ENTRY && v->spots[i].kind != LM_SPOT_EXIT;
            }
        for (uint32_t i = 0; i < v->n_spots; i++)
            if (v->spots[i].rank == r)
                v->spots[i].y = y + (group ? 0 : (h - v->spots[i].h) / 2);
        v->top[r]    = y;
        v->height[r] = h;
        bool border = (!solid && !r) || (r + 2 == v->n_ranks && ends_in_ports(v));
        y += h + (r + 1 == v->n_ranks ? 0 : border ? GAP_Y / 2 : GAP_Y);
    }
    v->h = y + (v->group == LM_OUTSIDE ? 2 : v->height[v->n_ranks - 1] > 0 ? LM_PAD : 0);
}

static void extent(const lm_level *v, double *left, double *right)
{
    *left  = INFINITY;
    *right = -INFINITY;
    for (uint32_t i = 0; i < v->n_spots; i++) {
        *left  = fmin(*left, v->spots[i].x - v->spots[i].w / 2);
        *right = fmax(*right, v->spots[i].x + v->spots[i].w / 2);
    }
    for (uint32_t i = 0; i < v->n_links; i++) {
        const lm_svg_edge *k = &v->links[i];
        if (k->kind == LM_LINK_SKIP)
            *right = fmax(*right, k->rail + 4);
        if (k->kind == LM_LINK_BACK)
            *left = fmin(*left, k->rail - (k->label ? 20 : 4));
        if (k->kind == LM_LINK_DOWN && k->label)
            *right = fmax(*right, v->spots[k->to].x + v->spots[k->to].w / 2 + 8);
    }
}

static void shift_x(lm_level *v, double by)
{
    for (uint32_t i = 0; i < v->n_spots; i++)
        v->spots[i].x += by;
    for (uint32_t i = 0; i < v->n_links; i++)
        v->links[i].rail += by;
}

/* Place the title where no edge enters: on the left, otherwise on the right, otherwise widen the group. */
static void place_title(const lm_layout *l, lm_level *v)
{
    double wide = lm_svg_width(l->g->groups[v->group].title, LM_SVG_SMALL, true) + 2 * LM_PAD,
           first = INFINITY, last = -INFINITY;

    for (uint32_t i = 0; i < v->n_spots; i++)
        if (v->spots[i].kind == LM_SPOT_ENTRY) {
            first = fmin(first, v->spots[i].x);
            last  = fmax(last, v->spots[i].x);
        }
    if (v->w < wide) {
        shift_x(v, (wide - v->w) / 2);
        first += (wide - v->w) / 2;
        last += (wide - v->w) / 2;
        v->w = wide;
    }
    v->title_x      = LM_PAD;
    v->title_anchor = LM_ANCHOR_START;
    if (first > wide - LM_PAD + 8)
        return;
    if (last < v->w - wide + LM_PAD - 8) {
        v->title_x      = v->w - LM_PAD;
        v->title_anchor = LM_ANCHOR_END;
        return;
    }
    double more = wide - LM_PAD + 8 - first;
    shift_x(v, more);
    v->w += more;
}

void lm_place_spots(lm_layout *l, lm_level *v)
{
    double left, right, pad = v->group == LM_OUTSIDE ? 2 : LM_PAD;

    v->top    = lm_arena_new(l->a, v->n_ranks, double);
    v->height = lm_arena_new(l->a, v->n_ranks, double);
    l->failed |= !v->top || !v->height;
    if (l->failed)
        return;
    place_x(l, v);
    align_chains(v);
    straighten(v);
    place_rails(v, LM_LINK_SKIP);
    place_rails(v, LM_LINK_BACK);
    extent(v, &left, &right);
    shift_x(v, pad - left);
    v->w = right - left + 2 * pad;
    place_y(v, v->group == LM_OUTSIDE ? 2 : LM_TITLE);
    if (v->group != LM_OUTSIDE)
        place_title(l, v);
}
