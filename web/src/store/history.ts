// The last minutes of the machine, sampled every second while a view shows them, else every five seconds.
import { signal } from "@preact/signals";
import { Failure, get } from "../api/client";
import type { Machine, MachineModel } from "../api/types";
import { machine } from "./server";

export interface Sample { time: number; read: number; written: number; rows: number; pages: number; hits: number; waiting: number; running: number; share: number }

export const MINUTES = 10;
export const history = signal<Record<string, Sample[]>>({});
export const historyFailure = signal<Failure | null>(null);

let last: Machine | null = null, planned = 0, timer = 0, watchers = 0;

// Return the rates between two samples. `share` is the larger of two fractions: the bytes that steps read per second of the memory
// bandwidth, and the operations per second of the cores' peak.
function between(a: MachineModel, b: MachineModel, seconds: number, limits: Machine["limits"], time: number): Sample | null {
    if (!a.totals || !b.totals || !b.now || !b.engine || b.totals.steps < a.totals.steps) return null;
    const d = (k: keyof typeof a.totals): number => b.totals![k] - a.totals![k];
    const steps = d("steps"), busy = d("step_seconds"), prompts = d("prompt_tokens");
    const memory = limits && busy > 0 ? steps * b.engine.weight_bytes_per_step / busy / limits.memory : 0;
    const compute = limits && busy > 0 ? (d("prompt_rows") + d("written_rows")) * b.engine.ops_per_row / busy / Math.max(limits.int8, limits.bf16, limits.f32) : 0;
    return { time, read: d("prompt_rows") / seconds, written: d("tokens") / seconds, rows: steps ? (d("prompt_rows") + d("written_rows") + d("draft_rows")) / steps : 0,
        pages: b.now.pages ? b.now.pages_used / b.now.pages : 0, hits: prompts ? d("cached_tokens") / prompts : NaN, waiting: b.now.waiting, running: b.now.reading + b.now.writing,
        share: Math.max(memory, compute) };
}

async function sample(): Promise<void> {
    try {
        const now = await get<Machine>(`/v1/machine${planned++ % 10 ? "" : "?plan=1"}`), before = last;
        for (const m of now.models) m.planned ??= before?.models.find((x) => x.id === m.id && x.allocated)?.planned as never;
        if (before) {
            const next = { ...history.value };
            for (const m of now.models) {
                const a = before.models.find((x) => x.id === m.id), s = a ? between(a, m, Math.max(0.2, now.time - before.time), now.limits, now.time) : null;
                if (s) next[m.id] = [...(next[m.id] ?? []).filter((x) => x.time > now.time - MINUTES * 60), s];
            }
            history.value = next;
        }
        last = now;
        machine.value = now;
        historyFailure.value = null;
    } catch (e) {
        historyFailure.value = e instanceof Failure ? e : new Failure("server", String(e));
        last = null;
    }
}

function tick(): void {
    void sample().finally(() => { timer = window.setTimeout(tick, document.hidden ? 5000 : watchers ? 1000 : 5000); });
}

export const startHistory = tick;
export function watchClosely(): () => void {
    watchers++;
    clearTimeout(timer);
    tick();
    return () => { watchers--; };
}
