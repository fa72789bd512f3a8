/* study.h - the whole interface of the study: what explains models. It reads models that lamina.h has opened,
 * and runs them only where a function says so. A liblamina built with -Dstudy=disabled has neither it nor
 * these headers.
 *
 * The rules of lamina.h hold: errors, NULL, options, growth, outputs, threads, strings. An lm_facts is used
 * by one thread at a time. */
#ifndef LAMINA_STUDY_H
#define LAMINA_STUDY_H

#include "lamina/lamina.h"
#include "lamina/study/clusterplan.h"
#include "lamina/study/device.h"
#include "lamina/study/facts.h"
#include "lamina/study/audit.h"
#include "lamina/study/compare.h"
#include "lamina/study/fit.h"
#include "lamina/study/explain.h"
#include "lamina/study/report.h"

#endif
