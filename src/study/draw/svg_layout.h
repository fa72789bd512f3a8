/* svg_layout.h - the positions of the nodes, groups and edges of a graph: layers from top to bottom
 * (Sugiyama, Tagawa, Toda, doi 10.1109/TSMC.1981.4308636). Each group is laid out separately and then placed
 * as a unit.
 *
 * An edge that only duplicates a longer path into a sum is a skip edge: it runs on a rail to the right of
 * what it skips. Dashed edges lead back on rails on the left. Edges cross the border of a group at ports, one
 * per node that they come from. */
#ifndef LM_ANALYSIS_SVG_LAYOUT_H
#define LM_ANALYSIS_SVG_LAYOUT_H

#include "study/draw/graph.h"
#include "study/draw/svg.h"

typedef enum lm_spot_kind {
    LM_SPOT_NODE,
    LM_SPOT_GROUP,
    LM_SPOT_ENTRY,
    LM_SPOT_EXIT,
    LM_SPOT_BEND
} lm_spot_kind;

/* Anything that takes up space in a layer. `ref`: node, group or, for ports and bends, the node that the edge
 * comes from. */
typedef struct lm_spot {
    lm_spot_kind kind;
    uint32_t     ref, rank, order;
    double       w, h, x, y;             /* x: its middle; y: its top; in coordinates of the level */
    const char  *label;                  /* of a bend with a label */
} lm_spot;

typedef enum lm_link_kind { LM_LINK_DOWN, LM_LINK_SKIP, LM_LINK_BACK } lm_link_kind;

/* A link between spots of adjacent layers, or on a rail. Offsets are relative to the middle of a spot. */
typedef struct lm_svg_edge {
    lm_link_kind kind;
    uint32_t     from, to;               /* spots */
    uint32_t     source;                 /* the node that the link comes from */
    double       from_x, to_x;
    double       rail;                   /* x of a rail */
    bool         arrow, dashed;
    const char  *label;                  /* a short label next to the arrow; for BACK, along the rail */
} lm_svg_edge;

/* The inside of a group, or the whole graph. */
typedef struct lm_level {
    uint32_t group;                      /* LM_OUTSIDE: the whole graph */
    lm_spot *spots;
    lm_svg_edge *links;
    uint32_t n_spots, n_links, n_ranks, room_spots, room_links;
    double  *top, *height;               /* [n_ranks] */
    double   w, h, x, y;                 /* x, y: upper left corner in the drawing */
    double   title_x;
    lm_anchor title_anchor;
} lm_level;

typedef struct lm_layout {
    const lm_graph *g;
    lm_arena       *a;
    double         *node_w, *node_h;     /* [n_nodes], set by the caller */
    lm_level       *levels;              /* [n_groups + 1]: the groups, then the whole graph */
    bool            failed;              /* out of memory */
} lm_layout;

enum { LM_PAD = 14, LM_TITLE = 24 };     /* padding inside a group; the height of its title */

/* Lay out the graph in the arena, which must be used by nothing else. `node_w` and `node_h` must be set. */
void lm_lay_out(lm_layout *l);

/* Stages of the layout (svg_place.c): order within layers, then x and y. */
void lm_order_spots(lm_layout *l, lm_level *v);
void lm_place_spots(lm_layout *l, lm_level *v);

#endif
