/* document_figure.c - draw the figures of a report. */
#include <string.h>

#include "study/draw/svg_graph.h"
#include "study/page/document.h"

bool lm_doc_draw(const lm_block *b, lm_text *out)
{
    const lm_doc_figure *f    = &b->figure;
    const char          *name = b->title ? b->title : f->diagram ? f->diagram : "";
    lm_explain_options o = {
        .form = LM_FORM_SVG, .layer = f->layer, .pieces = f->pieces, .n_pieces = f->n_pieces
    };

    if (f->graph && strcmp(f->diagram, "heads") != 0) {      /* rows of squares fit the width of a page; nodes
                                                                side by side do not */
        bool drawn = lm_svg_graph(f->graph, name, false, out);
        out->failed |= !drawn;
        return true;
    }
    if (f->draw)
        return f->draw(f->subject, name, out);
    return f->diagram && b->facts && lm_diagram_svg(b->facts, f->diagram, name, &o, out);
}
