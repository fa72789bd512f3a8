/* lamina.h - the whole interface of the engine. What explains models is in study.h.
 *
 *   lm_model *m;  lm_engine *g;  lm_sampler *s;  lm_error e;
 *   lm_model_open("model.gguf", NULL, &m, &e);             description, weights on disk, tokenizer
 *   lm_engine_predict(m, &options, &memory, &e);           memory that an engine will allocate
 *   lm_engine_new(m, &options, &g, &e);                    plan, and allocate once
 *   lm_engine_step(g, rows, n, &e);                        any mix of sequences
 *   lm_sampler_pick(s, lm_engine_logits(g, n - 1), …);     lm_generate: one sequence; lm_sequence: several
 *
 * Each header documents who owns its objects. Rules for all functions:
 *   Errors    See error.h. Results are written only on success.
 *   NULL      Passing NULL where it is not allowed returns LM_USAGE; getters return NULL, 0 or false, and
 *             free functions do nothing. `lm_error *` may always be NULL. Options may be NULL: the defaults.
 *   Options   All zero means the defaults ({0}, calloc, or lm_…_defaults()). Where 0 is useful but not the
 *             default, the struct has a field `literal`, which lm_…_defaults() sets: numbers set to 0 after
 *             it mean 0.
 *   Growth    Structs end in `reserved` words for later versions. The caller zeroes them; options with other
 *             values return LM_USAGE. Structs without reserved words never change, or are only seen through
 *             pointers.
 *   Outputs   Functions append to an lm_text or lm_tokens (buffer.h).
 *   Threads   An lm_model, lm_tokenizer and lm_template is immutable after opening: any number of threads and
 *             engines may share one. An lm_engine, lm_sampler, lm_stream, lm_sequence and lm_facts is used by
 *             one thread at a time; exceptions are documented (lm_engine_cancel, lm_engine_length …).
 *             Functions without a handle may be called by any thread.
 *   Strings   Returned strings belong to their handle and live as long as it. Strings of functions without a
 *             handle are constants. */
#ifndef LAMINA_H
#define LAMINA_H

#include "lamina/version.h"
#include "lamina/error.h"
#include "lamina/allot.h"
#include "lamina/diff.h"
#include "lamina/eval.h"
#include "lamina/log.h"
#include "lamina/logits.h"
#include "lamina/buffer.h"
#include "lamina/heap.h"
#include "lamina/cluster.h"
#include "lamina/text.h"
#include "lamina/adapter.h"
#include "lamina/train.h"
#include "lamina/answer.h"
#include "lamina/grammar.h"
#include "lamina/imatrix.h"
#include "lamina/preset.h"
#include "lamina/model.h"
#include "lamina/engine.h"
#include "lamina/embed.h"
#include "lamina/sampler.h"
#include "lamina/sequence.h"
#include "lamina/generate.h"
#include "lamina/chat.h"
#include "lamina/mixture.h"
#include "lamina/schedule.h"
#include "lamina/trace.h"
#include "lamina/verify.h"
#include "lamina/score.h"
#include "lamina/machine.h"
#include "lamina/language.h"
#include "lamina/describe.h"
#include "lamina/convert.h"
#include "lamina/quantize.h"
#include "lamina/merge.h"
#include "lamina/synth.h"

#endif
