/* act.c - the names of the activation functions. */
#include "tensor/act.h"

static const struct { const char *id, *word, *class_name; } acts[LM_ACT_COUNT] = {
#define X(name, id, word, class_name) { id, word, class_name },
    LM_ACT_LIST(X)
#undef X
};

const char *lm_act_id(lm_act a)
{
    return acts[a].id;
}

const char *lm_act_word(lm_act a)
{
    return acts[a].word;
}

const char *lm_act_class(lm_act a)
{
    return acts[a].class_name;
}
