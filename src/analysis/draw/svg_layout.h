/* svg_layout.h - where the nodes, groups and edges of a graph stand: layers from top to bottom (Sugiyama, Tagawa, Toda, doi
 * 10.1109/TSMC.1981.4308636), each group laid out on its own and then placed whole.
 *
 * An edge that only repeats a longer way into a sum is a skip edge: it runs on a rail at the right of what it skips. Dashed
 * edges lead back on rails at the left. What crosses the border of a group does so at a port, one for each node it comes
 * from. */
#ifndef LM_ANALYSIS_SVG_LAYOUT_H
#define LM_ANALYSIS_SVG_LAYOUT_H

#include "analysis/draw/graph.h"
#include "analysis/draw/svg.h"

typedef enum lm_spot_kind { LM_SPOT_NODE, LM_SPOT_GROUP, LM_SPOT_ENTRY, LM_SPOT_EXIT, LM_SPOT_BEND } lm_spot_kind;

/* Whatever takes room in a layer. `ref`: node, group, or for ports and bends the node that the edge comes from. */
typedef struct lm_spot {
    lm_spot_kind kind;
    uint32_t     ref, rank, order;
    double       w, h, x, y;             /* x: its middle; y: its top; in the level's own coordinates */
    const char  *label;                  /* of a bend that carries one */
} lm_spot;

typedef enum lm_link_kind { LM_LINK_DOWN, LM_LINK_SKIP, LM_LINK_BACK } lm_link_kind;

/* Between spots of neighbouring layers, or on a rail. Offsets from the spots' middles. */
typedef struct lm_link {
    lm_link_kind kind;
    uint32_t     from, to;               /* spots */
    uint32_t     source;                 /* the node that it comes from */
    double       from_x, to_x;
    double       rail;                   /* x of a rail */
    bool         arrow, dashed;
    const char  *label;                  /* short ones, beside the arrow; of BACK: along the rail */
} lm_link;

/* The inside of a group, or the whole. */
typedef struct lm_level {
    uint32_t group;                      /* LM_OUTSIDE: the whole */
    lm_spot *spots;
    lm_link *links;
    uint32_t n_spots, n_links, n_ranks, room_spots, room_links;
    double  *top, *height;               /* [n_ranks] */
    double   w, h, x, y;                 /* x, y: of the upper left corner in the drawing */
    double   title_x;
    lm_anchor title_anchor;
} lm_level;

typedef struct lm_layout {
    const lm_graph *g;
    lm_arena       *a;
    double         *node_w, *node_h;     /* [n_nodes], given */
    lm_level       *levels;              /* [n_groups + 1]: the groups, then the whole */
    bool            failed;              /* out of memory */
} lm_layout;

enum { LM_PAD = 14, LM_TITLE = 24 };     /* inside a group; the room of its title */

/* In the arena, which must be the caller's own. `node_w`, `node_h` are set. */
void lm_lay_out(lm_layout *l);

/* Steps of it (svg_place.c): order within layers, then x and y. */
void lm_order_spots(lm_layout *l, lm_level *v);
void lm_place_spots(lm_layout *l, lm_level *v);

#endif
