/* devices.h - the table of devices, generated from src/analysis/facts/devices.tsv by scripts/devices. */
#ifndef LM_ANALYSIS_DEVICES_H
#define LM_ANALYSIS_DEVICES_H

#include "lamina/device.h"

extern const lm_device lm_device_table[];
extern const size_t    lm_n_devices;

#endif
