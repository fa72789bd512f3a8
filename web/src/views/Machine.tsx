import { useEffect, useState } from "preact/hooks";
import { t } from "../i18n";
import { history, historyFailure, MINUTES, watchClosely, type Sample } from "../store/history";
import { machine } from "../store/server";
import type { MachineModel, Memory } from "../api/types";
import { about, bytes, figure, seconds, share } from "../text/format";
import { FailureNotice } from "../ui/failure";
import { Select } from "../ui/parts";
import { Curve } from "./Curve";

const parts: [keyof Memory, "memWeights" | "memMapped" | "memCache" | "memScratch"][] = [["weights", "memWeights"], ["mapped", "memMapped"], ["kv", "memCache"], ["scratch", "memScratch"]];

function MemoryBar({ m, all }: { m: MachineModel; all: number }) {
    const a = m.allocated!, p = m.planned, same = p && parts.every(([k]) => p[k] === a[k]), total = a.total + a.mapped;
    let x = 0;
    return <section class="card">
        <header><h2>{t("memory")}</h2><span class="help">{t("memoryOf", { n: bytes(total), of: bytes(all) })}</span></header>
        <svg class="stack" viewBox="0 0 1000 20" preserveAspectRatio="none" role="img" aria-label={parts.map(([k, key]) => `${t(key)} ${bytes(a[k])}`).join(", ")}>
            <title>{t("memory")}</title>
            <rect class="track" width="1000" height="20" />
            {parts.map(([k]) => { const w = 1000 * a[k] / total, at = x; x += w; return <rect key={k} class={`mem-${k}`} x={at} width={w} height="20" />; })}
        </svg>
        <div class="scroll"><table class="plain">
            <thead><tr><th scope="col">{t("part")}</th><th scope="col">{t("allocated")}</th><th scope="col">{t("planned")}</th><th scope="col">{t("share")}</th></tr></thead>
            <tbody>{parts.map(([k, key]) => <tr key={k}><th scope="row"><i class={`swatch mem-${k}`} aria-hidden="true" />{t(key)}</th><td>{figure(a[k])}</td><td>{p ? figure(p[k]) : "–"}</td><td>{share(a[k] / total)}</td></tr>)}</tbody>
            <tfoot><tr><th scope="row">{t("total")}</th><td>{figure(total)}</td><td>{p ? figure(p.total + p.mapped) : "–"}</td><td>{same ? t("exactly") : ""}</td></tr></tfoot>
        </table></div>
    </section>;
}

function Big({ value, unit, label }: { value: string; unit: string; label: string }) {
    return <div class="big"><span class="label">{label}</span><span class="value">{value}<small>{unit}</small></span></div>;
}

function Curves({ list, now }: { list: Sample[]; now: number }) {
    const times = list.map((s) => s.time), of = (k: keyof Sample): number[] => list.map((s) => s[k]), range = { from: now - Math.max(120, Math.min(MINUTES * 60, now - (times[0] ?? now))), to: now };
    return <div class="curves">
        <Curve title={t("speed")} {...range} times={times} format={about} lines={[{ label: t("generation"), values: of("written"), color: "a", fill: true }, { label: t("promptRead"), values: of("read"), color: "b" }]} />
        <Curve title={t("rowsOfStep")} {...range} times={times} format={about} lines={[{ label: t("rows"), values: of("rows"), color: "a", fill: true }]} />
        <Curve title={t("texts")} {...range} times={times} whole format={(n) => figure(n)} lines={[{ label: t("running"), values: of("running"), color: "a", fill: true }, { label: t("waitingTexts"), values: of("waiting"), color: "c" }]} />
        <Curve title={t("pagesUsed")} {...range} times={times} max={1} format={share} lines={[{ label: t("used"), values: of("pages"), color: "a", fill: true }]} />
        <Curve title={t("prefixHits")} {...range} times={times} max={1} format={share} lines={[{ label: t("hits"), values: of("hits"), color: "b" }]} />
        <Curve title={t("shareOfLimit")} {...range} times={times} max={1} format={share} lines={[{ label: t("limit"), values: of("share"), color: "a", fill: true }]} />
    </div>;
}

export function MachineView() {
    const [chosen, setChosen] = useState("");
    useEffect(watchClosely, []);
    const now = machine.value, failure = historyFailure.value;
    const m = now?.models.find((x) => x.id === chosen) ?? now?.models.find((x) => x.now) ?? now?.models[0];
    const list = m ? history.value[m.id] ?? [] : [], latest = list[list.length - 1];
    const box = now?.machine;
    return <div class="view">
        <div class="head"><h1>{t("machine")}</h1>
            {box && <p class="lead">{box.cpu} · {t("cores", { n: box.cores })} · {box.level} · {bytes(box.memory)}{now.limits ? ` · ${bytes(now.limits.memory)}/s` : ""} · lamina {now.build}</p>}
            {now && now.models.length > 1 && <Select label={t("model")} value={m?.id ?? ""} options={now.models.map((x) => [x.id, x.id] as const)} onChange={setChosen} />}
        </div>
        {failure && <FailureNotice kind={failure.kind} message={failure.message} remedies={{}} />}
        {m && !m.now && <p class="help">{t("notLoaded")}</p>}
        {m?.now && m.totals && <>
            <div class="bigs">
                <Big label={t("generation")} value={about(latest?.written ?? 0)} unit="tok/s" />
                <Big label={t("shareOfLimit")} value={now?.limits ? share(latest?.share ?? 0) : "–"} unit={now?.limits ? "" : t("limitUnknown")} />
                <Big label={t("pagesUsed")} value={figure(m.now.pages_used)} unit={`/ ${figure(m.now.pages)}`} />
                <Big label={t("waitingTexts")} value={figure(m.now.waiting)} unit={`+ ${figure(m.now.reading + m.now.writing)} ${t("running")}`} />
            </div>
            <Curves list={list} now={now?.time ?? 0} />
            <div class="columns">
                <MemoryBar m={m} all={box?.memory ?? 0} />
                <section class="card">
                    <header><h2>{t("sinceStart")}</h2><span class="help">{seconds((now?.time ?? 0) - (now?.began ?? 0))}</span></header>
                    <dl class="list">
                        <div><dt>{t("requests")}</dt><dd>{figure(m.totals.submitted)}</dd></div>
                        <div><dt>{t("tokensWritten")}</dt><dd>{figure(m.totals.tokens)}</dd></div>
                        <div><dt>{t("tokensRead")}</dt><dd>{figure(m.totals.prompt_tokens)}</dd></div>
                        <div><dt>{t("tokensCached")}</dt><dd>{figure(m.totals.cached_tokens)} ({share(m.totals.prompt_tokens ? m.totals.cached_tokens / m.totals.prompt_tokens : 0)})</dd></div>
                        <div><dt>{t("steps")}</dt><dd>{figure(m.totals.steps)}</dd></div>
                        <div><dt>{t("meanStep")}</dt><dd>{m.totals.steps ? seconds(m.totals.step_seconds / m.totals.steps) : "–"}</dd></div>
                        <div><dt>{t("preempted")}</dt><dd>{figure(m.totals.preempted)}</dd></div>
                        <div><dt>{t("evicted")}</dt><dd>{figure(m.totals.evicted_pages)}</dd></div>
                    </dl>
                </section>
            </div>
        </>}
    </div>;
}
