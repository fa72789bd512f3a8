/* device.h - devices that models could run on, as their makers describe them. */
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
    const char *aliases;             /* further names, space between */
    const char *source;              /* who publishes the figures */
    const char *checked;             /* what has been compared with something published since it was written down, and where;
                                        "not confirmed": nothing has been */
    uint64_t    memory;              /* bytes; of processors and machines the most that there can be */
    double      memory_rate;         /* bytes a second */
    struct { double f32, f16, bf16, int8; } peak;    /* operations a second, dense; an addition and a multiplication are two.
                                                        0: not published */
    uint32_t    cores;               /* of processors; else 0 */
} lm_device;

/* In the order of the catalogue; NULL past the end. */
const lm_device *lm_device_at(size_t i);

/* By name, as people write it: "RTX 4090", "geforce-rtx-4090", "4090" where that leaves one. LM_USAGE lists those that an
 * ambiguous name could mean; LM_NOT_FOUND hints at the nearest. */
lm_status lm_device_find(const char *name, const lm_device **out, lm_error *e);

#ifdef __cplusplus
}
#endif
#endif
