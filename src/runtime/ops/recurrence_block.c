/* recurrence_block.c - the operands of one block of a head's state (linear_recurrence,
 * selective_scan, gated_recurrence). */
#include "program/builder.h"
#include "runtime/ops/rowops.h"

_Static_assert(LM_STATE_COLUMNS == LM_STATE_BLOCK, "programs and kernels divide states alike");
_Static_assert((int)LM_MAX_SCAN_STATE == LM_MAX_RATES, "kernels have room for the rates of all programs");

void lm_recurrence_block(const lm_recurrence *r, uint64_t unit, const lm_operand in[5], lm_operand out,
                         const float *rates, uint64_t row, lm_recurrence_args *a)
{
    uint32_t blocks = lm_recurrence_blocks(r), head = (uint32_t)(unit / blocks),
             first = (uint32_t)(unit % blocks) * LM_STATE_COLUMNS, left = r->v_dim - first;
    size_t key = (size_t)lm_key_head(r, head) * r->k_dim, value = (size_t)head * r->v_dim + first;

    bool              by_lane = r->selective || r->gated;
    const lm_operand *v       = r->gated ? in : in + 2;              /* followed by its decay */

    a->q                = r->gated ? NULL : lm_row_of(in[0], row) + key;
    a->k                = r->gated ? NULL : lm_row_of(in[1], row) + key;
    a->v                = lm_row_of(v[0], row) + value;
    a->decay = lm_row_of(v[1], row) + (by_lane               ? value
                                       : r->decay_by_channel ? (size_t)head * r->k_dim
                                                             : head);
    a->beta             = by_lane ? NULL : lm_row_of(in[4], row) + head;
    a->rates            = by_lane ? rates + value * r->k_dim : NULL;
    a->o                = lm_row_of(out, row) + value;
    a->q_stride         = in[0].row;
    a->k_stride         = in[1].row;
    a->v_stride         = v[0].row;
    a->decay_stride     = v[1].row;
    a->beta_stride      = by_lane ? 0 : in[4].row;
    a->o_stride         = out.row;
    a->k_dim            = r->k_dim;
    a->columns          = left < LM_STATE_COLUMNS ? left : LM_STATE_COLUMNS;
    a->delta            = r->delta;
    a->decay_by_channel = r->decay_by_channel;
    a->gated            = r->gated;
}
