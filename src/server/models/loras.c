/* loras.c - loras.h: adapters are opened with the model and closed with it. The server's scales are changed
 * under the service's lora_lock; a request copies them when it begins. */
#include "server/models/loras.h"

#include <math.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "server/models/service.h"
#include "server/front/memory.h"

#define MAX_SCALE 1e6

/* ---- opening and closing ---- */

lm_status lm_loras_take(lm_service *s, lm_error *e)
{
    while (s->o.loras && s->o.loras[s->n_loras])
        s->n_loras++;
    if (s->n_loras && !(s->lora_scales = lm_memory_zero(s->n_loras, sizeof *s->lora_scales)))
        return lm_fail_memory(e, "adapters", s->n_loras * sizeof *s->lora_scales);
    if (s->n_loras)
        memcpy(s->lora_scales, s->o.lora_scales, s->n_loras * sizeof *s->lora_scales);
    return LM_OK;
}

lm_status lm_loras_load(lm_service *s, lm_error *e)
{
    if (!s->n_loras)
        return LM_OK;
    if (!(s->loras = lm_memory_zero(s->n_loras + 1, sizeof *s->loras)))
        return lm_fail_memory(e, "adapters", s->n_loras * sizeof *s->loras);
    for (size_t i = 0; i < s->n_loras; i++) {
        const char *warning;
        LM_TRY(lm_adapter_open(s->model, s->o.loras[i], &s->loras[i], e));
        for (size_t k = 0; s->o.engine.log.write && (warning = lm_adapter_warning(s->loras[i], k)); k++)
            s->o.engine.log.write(s->o.engine.log.arg, LM_LOG_WARNING, warning);
    }
    s->o.engine.adapters = (const lm_adapter *const *)s->loras;
    s->o.engine.adapter_scales = s->o.lora_scales;
    return LM_OK;
}

void lm_loras_unload(lm_service *s)
{
    for (size_t i = 0; s->loras && i < s->n_loras; i++)
        lm_adapter_close(s->loras[i]);
    lm_heap_free(s->loras);
    s->loras = NULL;
    s->o.engine.adapters = NULL;
    s->o.engine.adapter_scales = NULL;
}

/* ---- scales ---- */

/* Who may only read a service takes its lock all the same: the cast away from const changes nothing else. */
static pthread_mutex_t *lock_of(const lm_service *s)
{
    return (pthread_mutex_t *)&s->lora_lock;
}

static void now(const lm_service *s, float *scales)
{
    pthread_mutex_lock(lock_of(s));
    memcpy(scales, s->lora_scales, s->n_loras * sizeof *scales);
    pthread_mutex_unlock(lock_of(s));
}

static lm_status read_one(const lm_service *s, const json_t *x, size_t at, float *scales, bool *named,
                          lm_error *e)
{
    const json_t *id = json_object_get(x, "id"), *scale = json_object_get(x, "scale");
    double value = json_number_value(scale);

    if (!json_is_integer(id) || !json_is_number(scale))
        return lm_fail(e, LM_USAGE, "lora", LM_NO_OFFSET,
                       "element %zu must be {\"id\": N, \"scale\": NUMBER}", at);
    if (!s->n_loras)
        return lm_fail(e, LM_USAGE, "lora", LM_NO_OFFSET, "the server has no adapters: start it with --lora");
    if (json_integer_value(id) < 0 || (size_t)json_integer_value(id) >= s->n_loras)
        return lm_fail(e, LM_USAGE, "lora", LM_NO_OFFSET,
                       "the adapter %lld does not exist; the server has adapters 0 to %zu",
                       (long long)json_integer_value(id), s->n_loras - 1);
    if (!(fabs(value) <= MAX_SCALE))
        return lm_fail(e, LM_USAGE, "lora", LM_NO_OFFSET, "the scale %g is outside -1000000 to 1000000",
                       value);
    if (named[json_integer_value(id)])
        return lm_fail(e, LM_USAGE, "lora", LM_NO_OFFSET, "the adapter %lld is listed twice",
                       (long long)json_integer_value(id));
    named[json_integer_value(id)] = true;
    scales[json_integer_value(id)] = (float)value;
    return LM_OK;
}

lm_status lm_loras_read(const lm_service *s, const json_t *list, float **out, lm_error *e)
{
    float *scales = lm_memory_zero(s->n_loras + 1, sizeof *scales);
    bool *named = lm_memory_zero(s->n_loras + 1, sizeof *named);
    lm_status status = scales && named ? LM_OK : lm_fail_memory(e, "adapters", s->n_loras * sizeof *scales);

    *out = NULL;
    if (status == LM_OK && !list && s->n_loras)
        now(s, scales);
    for (size_t i = 0; status == LM_OK && i < json_array_size(list); i++)
        status = read_one(s, json_array_get(list, i), i, scales, named, e);
    lm_heap_free(named);
    if (status == LM_OK && s->n_loras)
        *out = scales;
    else
        lm_heap_free(scales);
    return status;
}

json_t *lm_loras_json(const lm_service *s, const float *scales)
{
    json_t *list = json_array();
    float *theirs = NULL;

    if (!scales && lm_loras_read(s, NULL, &theirs, NULL) == LM_OK)
        scales = theirs;
    for (size_t i = 0; scales && i < s->n_loras; i++)
        json_array_append_new(list, json_pack("{s:I, s:f}", "id", (json_int_t)i, "scale", (double)scales[i]));
    lm_heap_free(theirs);
    return list;
}

void lm_loras_fingerprint(const lm_service *s, char out[24])
{
    unsigned char digest[8];
    crypto_generichash_state h;

    snprintf(out, 24, "%s", lm_schedule_fingerprint(s->schedule));
    pthread_mutex_lock(lock_of(s));
    if (s->n_loras && memcmp(s->lora_scales, s->o.lora_scales, s->n_loras * sizeof *s->lora_scales) != 0) {
        crypto_generichash_init(&h, NULL, 0, sizeof digest);
        crypto_generichash_update(&h, (const unsigned char *)out, strlen(out));
        crypto_generichash_update(&h, (const unsigned char *)s->lora_scales,
                                  s->n_loras * sizeof *s->lora_scales);
        crypto_generichash_final(&h, digest, sizeof digest);
        sodium_bin2hex(out + 3, 2 * sizeof digest + 1, digest, sizeof digest);
    }
    pthread_mutex_unlock(lock_of(s));
}
