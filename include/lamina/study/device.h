/* study/device.h - catalogue of devices, with their makers' data. */
#ifndef LAMINA_DEVICE_H
#define LAMINA_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "lamina/error.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lm_device {
    const char *name;                /* "rtx-4090" */
    const char *title;               /* "GeForce RTX 4090" */
    const char *kind;                /* "gpu" "accelerator" "apple" "phone" "board" "cpu" */
    const char *aliases;             /* further names, separated by spaces */
    const char *source;              /* publisher of the data */
    const char *checked;             /* which data was checked against a publication, and which;
                                        "not confirmed": none */
    uint64_t    memory;              /* bytes; for processors and machines the maximum */
    double      memory_rate;         /* bytes per second */
    struct { double f32, f16, bf16, int8; } peak;    /* operations per second, dense; a multiply-add counts as
                                                        two. 0: not published */
    uint32_t    cores;               /* for processors; else 0 */
} lm_device;

/* In the order of the catalogue; NULL past the end. */
const lm_device *lm_device_at(size_t i);

/* By name, as people write it: "RTX 4090", "geforce-rtx-4090", "4090" where that leaves one. LM_USAGE lists
 * those that an ambiguous name could mean; LM_NOT_FOUND hints at the nearest. */
lm_status lm_device_find(const char *name, const lm_device **out, lm_error *e);

/* Return the bytes of the device's memory that a model cannot have because the operating system, the driver
 * and the runtime need them, by its kind; 0 for NULL. *source, if `source` is not NULL: the rule, with what
 * it was taken from, or that it is an assumption. */
uint64_t lm_device_reserve(const lm_device *d, const char **source);

#ifdef __cplusplus
}
#endif
#endif
