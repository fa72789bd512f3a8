import { language } from "../i18n";

const formats = new Map<string, Intl.NumberFormat>();

export function figure(n: number, digits = 0): string {
    const key = `${language.value} ${digits}`;
    let f = formats.get(key);
    if (!f) {
        // Digits and separators are English in every language, as everywhere in lamina.
        f = new Intl.NumberFormat("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
        formats.set(key, f);
    }
    return Number.isFinite(n) ? f.format(n) : "–";
}

// Format with three significant digits; at most three after the point, none from 100 on.
export function about(n: number): string {
    const a = Math.abs(n);
    return figure(n, a === 0 || a >= 100 ? 0 : a >= 10 ? 1 : a >= 1 ? 2 : 3);
}

export function bytes(n: number): string {
    for (const [limit, unit] of [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]] as const) if (n >= limit) return `${about(n / limit)} ${unit}`;
    return `${figure(n)} B`;
}

export function seconds(s: number): string {
    return s < 1e-3 ? `${about(s * 1e6)} µs` : s < 1 ? `${about(s * 1e3)} ms` : s < 120 ? `${about(s)} s` : `${figure(s / 60)} min`;
}

export const share = (x: number): string => `${figure(100 * x, x >= 0.0995 || x === 0 ? 0 : 1)} %`;
export const probability = (p: number | null): string => p === null ? "–" : p >= 0.9995 ? "1.00" : p >= 0.001 ? p.toFixed(p >= 0.1 ? 2 : 3) : p.toExponential(0);
export const bits = (lp: number): number => -lp / Math.LN2;
