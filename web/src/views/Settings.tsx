// What the model needs with other settings. All numbers come from the engine's plan for exactly these settings (docs/server/api.md,
// /v1/settings): they are looked up and added, never computed here.
import { useEffect, useId, useState } from "preact/hooks";
import { Failure, get } from "../api/client";
import { language, t, type Key } from "../i18n";
import { withModel } from "../store/server";
import { about, bytes, figure } from "../text/format";
import { FailureNotice } from "../ui/failure";

interface Plans {
    now: [number, number, number, number]; contexts: number[]; batches: number[]; kv: string[]; precisions: string[];
    weights: number[]; mapped: number[]; perToken: number[]; flops: number[]; prefill: number[]; values: number[][]; threads: number[][]; bookkeeping: number[][]; cache: number[][];
    limits?: string[]; prompt?: number[][]; generation?: number[][];
}

function flops(n: number): string {
    for (const [limit, unit] of [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"]] as const) if (n >= limit) return `${about(n / limit)} ${unit}FLOP`;
    return `${figure(n)} FLOP`;
}

function Slider({ name, stops, at, set }: { name: string; stops: string[]; at: number; set: (i: number) => void }) {
    const id = useId();
    if (stops.length < 2) return null;
    return <div class="slider">
        <label for={id}>{name}</label><output for={id}>{stops[at]}</output>
        <input id={id} type="range" min={0} max={stops.length - 1} value={at} aria-valuetext={stops[at]!} onInput={(e) => set(Number(e.currentTarget.value))} />
    </div>;
}

export function Settings({ model }: { model: string }) {
    const [plans, setPlans] = useState<Plans | null>(null), [at, setAt] = useState<[number, number, number, number]>([0, 0, 0, 0]), [failure, setFailure] = useState<Failure | null>(null), [tries, setTries] = useState(0);
    useEffect(() => {
        const abort = new AbortController();
        setFailure(null);
        get<Plans>(withModel(`/v1/settings?language=${language.value}`, model), abort.signal).then((x) => { setPlans(x); setAt(x.now); })
            .catch((e: unknown) => { if (e instanceof Failure) setFailure(e); });
        return () => abort.abort();
    }, [model, language.value, tries]);
    if (failure) return <FailureNotice kind={failure.kind} message={failure.message} remedies={{ retry: () => setTries(tries + 1) }} />;
    if (!plans) return <p class="waiting"><span class="dots" aria-hidden="true" />{t("waiting")}</p>;
    const [c, b, k, p] = at, set = (i: number) => (x: number): void => setAt(at.map((y, n) => n === i ? x : y) as typeof at);
    const weights = plans.weights[p]! + plans.mapped[p]!, cache = plans.cache[k * plans.batches.length + b]![c]!, scratch = plans.values[p]![b]! + plans.threads[p]![k]! + plans.bookkeeping[b]![c]!;
    const total = weights + cache + scratch, sizes: [Key, number, string][] = [["memWeights", weights, "mem-weights"], ["memCache", cache, "mem-kv"], ["memScratch", scratch, "mem-scratch"]];
    const write = plans.generation?.[(p * plans.kv.length + k) * plans.batches.length + b], read = plans.prompt?.[p];
    const rate = (name: Key, list: number[] | undefined, i: number) => list?.[2 * i] ? <tr><th scope="row">{t(name)}</th><td>{about(list[2 * i]!)} tok/s</td><td>{plans.limits?.[list[2 * i + 1]!]}</td></tr> : null;
    let x = 0;
    return <section class="card">
        <header><h2>{t("atOthers")}</h2></header>
        <div class="sliders">
            <Slider name={t("setContext")} stops={plans.contexts.map((n) => figure(n))} at={c} set={set(0)} />
            <Slider name={t("setBatch")} stops={plans.batches.map((n) => figure(n))} at={b} set={set(1)} />
            <Slider name={t("setKv")} stops={plans.kv} at={k} set={set(2)} />
            <Slider name={t("setWeights")} stops={plans.precisions} at={p} set={set(3)} />
        </div>
        <svg class="stack" viewBox="0 0 1000 20" preserveAspectRatio="none" aria-hidden="true">
            {sizes.map(([name, n, mark]) => { const w = 1000 * n / total, from = x; x += w; return <rect key={name} class={mark} x={from} width={w} height="20" />; })}
        </svg>
        <table class="plain settings-table" aria-live="polite"><tbody>
            {sizes.map(([name, n, mark]) => <tr key={name}><th scope="row"><i class={`swatch ${mark}`} aria-hidden="true" />{t(name)}</th><td>{bytes(n)}</td><td>{figure(n)}</td></tr>)}
            <tr class="sum"><th scope="row">{t("together")}</th><td>{bytes(total)}</td><td>{figure(total)}</td></tr>
            <tr><th scope="row">{t("perPosition")}</th><td>{bytes(plans.perToken[k]!)}</td><td>{figure(plans.perToken[k]!)}</td></tr>
            <tr><th scope="row">{t("opsOfToken")}</th><td>{flops(plans.flops[c]!)}</td><td>{figure(plans.flops[c]!)}</td></tr>
            {rate("readsAt", read, k)}
            {rate("writesAt", write, c)}
        </tbody></table>
    </section>;
}
