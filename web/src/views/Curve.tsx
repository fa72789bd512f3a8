import type uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useEffect, useRef } from "preact/hooks";
import { theme } from "../store/prefs";
import { figure, share } from "../text/format";
import { later } from "../later/later";

export interface Line { label: string; values: number[]; color: "a" | "b" | "c"; fill?: boolean }

// The steps of an axis of counts.
const COUNTS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000];

const css = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// One figure of curves over the common time axis. Its caption and its label give the latest values as text.
export function Curve({ title, times, lines, format, whole, from, to, max }: { title: string; times: number[]; lines: Line[]; format: (n: number) => string; whole?: boolean; from: number; to: number; max?: number }) {
    const root = useRef<HTMLDivElement>(null), plot = useRef<uPlot | null>(null);
    const data = [times, ...lines.map((l) => l.values.map((v) => Number.isFinite(v) ? v : null))] as uPlot.AlignedData;
    useEffect(() => {
        const box = root.current!, ink = css("--dim"), rule = css("--rule");
        const axis = { stroke: ink, grid: { stroke: rule, width: 1 }, ticks: { stroke: rule, width: 1, size: 4 }, font: `11px ${getComputedStyle(document.body).fontFamily}` };
        const u = new (later("curves").uPlot)({
            width: box.clientWidth, height: 132, legend: { show: false }, cursor: { y: false, sync: { key: "machine" } }, padding: [8, 8, 0, 0],
            scales: { x: { time: true, range: (_u, _a, _b) => [range.current[0], range.current[1]] }, y: { range: (_u, _lo, hi) => [0, max ?? Math.max(1, (hi ?? 0) * 1.15)] } },
            axes: [{ ...axis, size: 26, values: (_u, at, _i, _s, step) => at.map((x) => new Date(x * 1000).toTimeString().slice(0, step < 60 ? 8 : 5)) },
                { ...axis, size: 52, ...(whole ? { incrs: COUNTS } : {}), values: (_u, at, _i, _s, step) => at.map((x) => max === 1 ? share(x) : figure(x, step < 1 ? 1 : 0)) }],
            series: [{}, ...lines.map((l) => ({ label: l.label, stroke: css(`--line-${l.color}`), width: 1.5, ...(l.fill ? { fill: css(`--fill-${l.color}`) } : {}), points: { show: false }, spanGaps: true }))],
        }, data, box);
        plot.current = u;
        const watch = new ResizeObserver(() => { u.setSize({ width: box.clientWidth, height: 132 }); });
        watch.observe(box);
        return () => { watch.disconnect(); u.destroy(); plot.current = null; };
    }, [theme.value, title, lines.length]);
    const range = useRef<[number, number]>([from, to]);
    range.current = [from, to];
    useEffect(() => { plot.current?.setData(data); });
    const now = lines.map((l) => `${l.label} ${format(l.values[l.values.length - 1] ?? 0)}`).join(", ");
    return <figure class="curve">
        <figcaption><h2>{title}</h2><span class="keys">{lines.map((l) => <span key={l.label} class={`key ${l.color}`}>{l.label} <b>{format(l.values[l.values.length - 1] ?? NaN)}</b></span>)}</span></figcaption>
        <div ref={root} role="img" aria-label={`${title}: ${now}`} />
    </figure>;
}
