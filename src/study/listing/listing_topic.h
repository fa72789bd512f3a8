/* listing_topic.h - the listing of one topic: the operations of a model that the topic is about. */
#ifndef LM_ANALYSIS_LISTING_TOPIC_H
#define LM_ANALYSIS_LISTING_TOPIC_H

#include "study/listing/listing.h"

/* Write the listing of a topic. `topic`: the name of its card ("gqa"; no aliases); `title`: for the heading.
 * The listing also runs without a checkpoint, on random weights with the model's shapes. LM_USAGE: the topic
 * is not an operation; LM_UNSUPPORTED: the model has no such operation. */
lm_status lm_listing_part(lm_facts *f, const char *topic, const char *title, lm_listing_language in,
                          lm_text *out, lm_error *e);

#endif
