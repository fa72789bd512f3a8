/* lamina.h - the whole public interface.
 *
 *   lm_model *m;  lm_engine *g;  lm_sampler *s;  lm_error e;
 *   lm_model_open("model.gguf", NULL, &m, &e);             description, weights on disk, tokenizer
 *   lm_engine_predict(m, &options, &memory, &e);           what running it will take
 *   lm_engine_new(m, &options, &g, &e);                    one plan, allocated once
 *   lm_engine_step(g, rows, n, &e);                        any mix of sequences
 *   lm_sampler_pick(s, lm_engine_logits(g, n - 1), …);     or lm_generate for the usual loop
 *
 * Every function says in its own header who owns what. Objects are not thread-safe unless said so; different objects may
 * be used by different threads. */
#ifndef LAMINA_H
#define LAMINA_H

#include "lamina/error.h"
#include "lamina/text.h"
#include "lamina/preset.h"
#include "lamina/model.h"
#include "lamina/engine.h"
#include "lamina/generate.h"
#include "lamina/verify.h"
#include "lamina/machine.h"
#include "lamina/device.h"
#include "lamina/language.h"
#include "lamina/facts.h"
#include "lamina/compare.h"
#include "lamina/fit.h"
#include "lamina/explain.h"
#include "lamina/report.h"
#include "lamina/describe.h"
#include "lamina/synth.h"

#endif
