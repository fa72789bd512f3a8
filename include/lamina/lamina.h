/* lamina.h - the whole public interface.
 *
 *   lm_model *m;  lm_engine *g;  lm_sampler *s;  lm_error e;
 *   lm_model_open("model.gguf", NULL, &m, &e);             description, weights on disk, tokenizer
 *   lm_engine_predict(m, &options, &memory, &e);           what running it will take
 *   lm_engine_new(m, &options, &g, &e);                    one plan, allocated once
 *   lm_engine_step(g, rows, n, &e);                        any mix of sequences
 *   lm_sampler_pick(s, lm_engine_logits(g, n - 1), …);     or lm_generate for the usual loop, lm_sequence for many texts
 *
 * Every function says in its own header who owns what. What holds for all of them:
 *   Errors    error.h. A result is written only on success.
 *   NULL      An argument that is NULL and must not be is LM_USAGE. Getters answer NULL, 0 or false to it, functions that free do
 *             nothing. An lm_error may always be NULL, and options: the defaults.
 *   Options   begin all zero, which is the defaults ({0}, calloc, or lm_…_defaults()).
 *   Growth    Structs end in `reserved` words, which later versions give meanings to; zero is what there is today. A program zeroes
 *             them; options in which they are not are LM_USAGE. Structs without them never change, or are seen by pointer only.
 *   Outputs   buffer.h: whatever is written into an lm_text or lm_tokens is appended.
 *   Threads   An lm_model, lm_tokenizer and lm_template never change once they are open: any number of threads may use one, and any
 *             number of engines. An lm_engine, lm_sampler, lm_stream, lm_sequence and lm_facts is used by one thread at a time, but
 *             for what says otherwise (lm_engine_cancel, lm_engine_length …). Functions without a handle may be called by any thread.
 *   Strings   that are returned belong to their handle and live as long as it; those of functions without a handle are constants. */
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
#if __has_include("lamina/facts.h")                      /* an installation may leave out what running models does not need */
#include "lamina/clusterplan.h"
#include "lamina/device.h"
#include "lamina/facts.h"
#include "lamina/audit.h"
#include "lamina/compare.h"
#include "lamina/fit.h"
#include "lamina/explain.h"
#include "lamina/report.h"
#endif

#endif
