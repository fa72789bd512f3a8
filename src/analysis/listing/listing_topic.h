/* listing_topic.h - the listing of one topic: the operations of a model that it is about. */
#ifndef LM_ANALYSIS_LISTING_TOPIC_H
#define LM_ANALYSIS_LISTING_TOPIC_H

#include "analysis/listing/listing.h"

/* `topic` as its card is called ("gqa", no other name), `title` for the head. Runs without a checkpoint too, on random weights of the
 * model's shapes. LM_USAGE for a topic that is not an operation, LM_UNSUPPORTED for one that the model does not have. */
lm_status lm_listing_part(lm_facts *f, const char *topic, const char *title, lm_listing_language in, lm_text *out, lm_error *e);

#endif
