// Sampling settings that the server supports (docs/server/api.md), with their descriptions.
import type { Key } from "../i18n";

export interface NumberField { name: string; label: Key; help: Key; min: number; max: number; step: number; usual: number; common?: boolean }

export const numberFields: NumberField[] = [
    { name: "temperature", label: "sTemperature", help: "hTemperature", min: 0, max: 2, step: 0.05, usual: 0.8, common: true },
    { name: "top_p", label: "sTopP", help: "hTopP", min: 0, max: 1, step: 0.01, usual: 0.95, common: true },
    { name: "top_k", label: "sTopK", help: "hTopK", min: 0, max: 200, step: 1, usual: 40, common: true },
    { name: "min_p", label: "sMinP", help: "hMinP", min: 0, max: 1, step: 0.01, usual: 0.05, common: true },
    { name: "max_tokens", label: "sMaxTokens", help: "hMaxTokens", min: -1, max: 131072, step: 1, usual: -1, common: true },
    { name: "seed", label: "sSeed", help: "hSeed", min: -1, max: 2 ** 31, step: 1, usual: -1, common: true },
    { name: "repeat_penalty", label: "sRepeat", help: "hRepeat", min: 0.5, max: 2, step: 0.01, usual: 1 },
    { name: "repeat_last_n", label: "sRepeatLast", help: "hRepeatLast", min: -1, max: 4096, step: 1, usual: 64 },
    { name: "presence_penalty", label: "sPresence", help: "hPresence", min: -2, max: 2, step: 0.05, usual: 0 },
    { name: "frequency_penalty", label: "sFrequency", help: "hFrequency", min: -2, max: 2, step: 0.05, usual: 0 },
    { name: "typical_p", label: "sTypical", help: "hTypical", min: 0, max: 1, step: 0.01, usual: 1 },
    { name: "top_n_sigma", label: "sSigma", help: "hSigma", min: -1, max: 10, step: 0.1, usual: -1 },
    { name: "xtc_probability", label: "sXtcP", help: "hXtcP", min: 0, max: 1, step: 0.01, usual: 0 },
    { name: "xtc_threshold", label: "sXtcT", help: "hXtcT", min: 0, max: 0.5, step: 0.01, usual: 0.1 },
    { name: "dynatemp_range", label: "sDynaRange", help: "hDynaRange", min: 0, max: 2, step: 0.05, usual: 0 },
    { name: "dynatemp_exponent", label: "sDynaExp", help: "hDynaExp", min: 0, max: 10, step: 0.1, usual: 1 },
    { name: "dry_multiplier", label: "sDryMul", help: "hDryMul", min: 0, max: 5, step: 0.05, usual: 0 },
    { name: "dry_base", label: "sDryBase", help: "hDryBase", min: 1, max: 4, step: 0.05, usual: 1.75 },
    { name: "dry_allowed_length", label: "sDryLen", help: "hDryLen", min: 0, max: 100, step: 1, usual: 2 },
    { name: "dry_penalty_last_n", label: "sDryLast", help: "hDryLast", min: -1, max: 4096, step: 1, usual: -1 },
    { name: "mirostat", label: "sMirostat", help: "hMirostat", min: 0, max: 2, step: 2, usual: 0 },
    { name: "mirostat_tau", label: "sTau", help: "hTau", min: 0, max: 10, step: 0.1, usual: 5 },
    { name: "mirostat_eta", label: "sEta", help: "hEta", min: 0, max: 1, step: 0.01, usual: 0.1 },
    { name: "min_keep", label: "sMinKeep", help: "hMinKeep", min: 0, max: 100, step: 1, usual: 0 },
    { name: "reasoning_budget", label: "sBudget", help: "hBudget", min: -1, max: 32768, step: 1, usual: -1 },
];
