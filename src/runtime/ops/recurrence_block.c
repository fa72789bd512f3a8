/* recurrence_block.c - the operands of one block of a head's state (linear_recurrence, selective_scan). */
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

    a->q                = lm_row_of(in[0], row) + key;
    a->k                = lm_row_of(in[1], row) + key;
    a->v                = lm_row_of(in[2], row) + value;
    a->decay = lm_row_of(in[3], row) + (r->selective          ? value
                                        : r->decay_by_channel ? (size_t)head * r->k_dim
                                                              : head);
    a->beta             = r->selective ? NULL : lm_row_of(in[4], row) + head;
    a->rates            = r->selective ? rates + value * r->k_dim : NULL;
    a->o                = lm_row_of(out, row) + value;
    a->q_stride         = in[0].row;
    a->k_stride         = in[1].row;
    a->v_stride         = in[2].row;
    a->decay_stride     = in[3].row;
    a->beta_stride      = r->selective ? 0 : in[4].row;
    a->o_stride         = out.row;
    a->k_dim            = r->k_dim;
    a->columns          = left < LM_STATE_COLUMNS ? left : LM_STATE_COLUMNS;
    a->delta            = r->delta;
    a->decay_by_channel = r->decay_by_channel;
}
