/* devices.h - the table of devices, generated from src/study/facts/devices.tsv by scripts/devices. */
#ifndef LM_ANALYSIS_DEVICES_H
#define LM_ANALYSIS_DEVICES_H

#include <stdbool.h>

#include "lamina/study/device.h"

extern const lm_device lm_device_table[];
extern const size_t    lm_n_devices;

/* Return the bytes that a model can have on a device: its memory less lm_device_reserve. */
uint64_t lm_device_usable(const lm_device *d);

/* Return whether `total` bytes fit in `memory` bytes and leave less than 5 % of it. */
bool lm_is_tight(uint64_t memory, uint64_t total);

#endif
