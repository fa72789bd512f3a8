// The running model: its layers, the cost of each operation, and measurements of the last answer.
import { useEffect, useState } from "preact/hooks";
import { Failure, get, getText, post } from "../api/client";
import type { Trace } from "../api/types";
import { ModelChoice } from "../chat/Chat";
import { promptIds, writing } from "../chat/generate";
import { language, t, type Key } from "../i18n";
import { chatById } from "../store/chats";
import { lastChat } from "../store/prefs";
import { machine, onlyModel, withModel } from "../store/server";
import { about, bytes, figure, seconds, share } from "../text/format";
import { FailureNotice } from "../ui/failure";
import { download, Select, Switch } from "../ui/parts";
import { Drawing } from "./Drawing";
import { Fold, type Block } from "./Report";
import { Settings } from "./Settings";

interface Module { path: string; class: string; in: number | null; out: number | null; parameters: number; flops: number; shape?: number[]; weight?: { type: string; bytes: number } }
type Tree = Module & Record<string, unknown>;
interface Operation { path: string; name: string; class: string; shape: string; type: string; bytes: number; flops: number }
interface Speed { measured: boolean; memory: number; int8: number; bf16: number; f32: number }

const isModule = (x: unknown): x is Tree => typeof x === "object" && x !== null && "class" in x && "path" in x;

function leaves(m: Tree): Operation[] {
    const inner = Object.values(m).filter(isModule);
    if (inner.length) return inner.flatMap(leaves);
    const own = Object.values(m).filter((x): x is { type: string; bytes: number } => typeof x === "object" && x !== null && "bytes" in x && "type" in x);
    return [{ path: m.path, name: m.path, class: m.class, shape: m.in !== null && m.out !== null ? `${figure(m.in)} → ${figure(m.out)}` : "", type: [...new Set(own.map((x) => x.type))].join(" "),
        bytes: own.reduce((n, x) => n + x.bytes, 0), flops: m.flops }];
}

type Colour = "time" | "bytes" | "limit" | "norm" | "experts";
const colours: [Colour, Key][] = [["bytes", "colBytes"], ["time", "colTime"], ["limit", "colLimit"], ["norm", "colNorm"], ["experts", "colExperts"]];

interface Live { trace: Trace; tokens: number }

// Return the value that colours an operation or a layer; undefined: not known.
function measured(colour: Colour, ops: Operation[], layer: number, live: Live | null, speed: Speed | null): number | undefined {
    const times = live?.trace.times?.filter((x) => ops.some((o) => x.path === o.path || x.path.startsWith(`${o.path}.`))) ?? [], time = times.length ? times.reduce((n, x) => n + x.seconds, 0) : undefined;
    if (colour === "bytes") return ops.reduce((n, o) => n + o.bytes, 0);
    if (!live) return undefined;
    if (colour === "time") return time;
    if (colour === "limit") {
        if (!time || !speed?.measured) return undefined;
        const work = ops.reduce((n, o) => n + o.flops, 0) * live.tokens, moved = ops.reduce((n, o) => n + o.bytes, 0);
        return Math.max(work / Math.max(speed.int8, speed.bf16, speed.f32), moved / speed.memory) / time;
    }
    const row = live.trace.rows[0];
    if (colour === "norm") return row?.norms?.find((x) => ops.length > 1 ? x.layer === layer && x.part === "layer" : ops[0]!.path.startsWith(x.path) && x.layer === layer && x.part !== "layer")?.norm;
    const load = live.trace.experts_load?.find((x) => x.layer === layer)?.load;
    return load ? Math.max(...load) / Math.max(1, load.reduce((a, b) => a + b, 0)) : undefined;
}

const shown = (colour: Colour, x: number | undefined): string => x === undefined ? "–" : colour === "bytes" ? bytes(x) : colour === "time" ? seconds(x) : colour === "norm" ? about(x) : share(x);

function Strip({ layers, ops, values, colour, open, choose }: { layers: Tree[]; ops: Operation[][]; values: (number | undefined)[]; colour: Colour; open: number; choose: (i: number) => void }) {
    const most = Math.max(1e-30, ...values.map((x) => x ?? 0));
    const runs: [number, number][] = [];
    const sign = (i: number): string => JSON.stringify(ops[i]!.map((o) => [o.class, o.shape, o.type]));
    for (let i = 0; i < layers.length; i++) {
        const last = runs[runs.length - 1];
        if (last && sign(last[0]) === sign(i)) last[1] = i;
        else runs.push([i, i]);
    }
    return <div class="strip-frame">
        <div class="strip" role="group" aria-label={t("layers")}>
            {layers.map((_, i) => <button key={i} type="button" aria-pressed={i === open} class={`q${Math.round(10 * (values[i] ?? 0) / most)}`} title={`${t("layer")} ${i}: ${shown(colour, values[i])}`} onClick={() => choose(i)}>{i}</button>)}
        </div>
        <p class="help">{runs.map(([a, b]) => a === b ? t("layerAlone", { n: a }) : t("layersAlike", { a, b, n: b - a + 1 })).join(" · ")}</p>
    </div>;
}

async function idsOfLast(model: string): Promise<number[]> {
    const c = chatById(lastChat.peek());
    await c?.load();
    const last = c?.path().map((x) => x.peek()).filter((x) => x.role === "assistant" && x.text).pop();
    const own = async (text: string): Promise<number[]> => (await post<{ tokens: number[] }>("/tokenize", { model, content: text })).tokens;
    if (!c || !last?.parent) return own(t("tokensSample"));
    return [...await promptIds(c, { ...last, model }), ...last.tokens?.map((x) => x.id) ?? await own(last.text)];
}

export function ModelView() {
    const [chosen, setChosen] = useState(""), model = chosen || onlyModel.value || machine.value?.models.find((m) => m.now)?.id || machine.value?.models[0]?.id || "";
    const [layers, setLayers] = useState<Tree[]>([]), [speed, setSpeed] = useState<Speed | null>(null), [about_, setAbout] = useState<{ name: string; parameters: number; context: number; flow: string } | null>(null);
    const [failure, setFailure] = useState<Failure | null>(null), [open, setOpen] = useState(0), [colour, setColour] = useState<Colour>("bytes"), [live, setLive] = useState<Live | null>(null), [busy, setBusy] = useState(false), [follow, setFollow] = useState(false);
    const [report, setReport] = useState<Block[]>([]), [tries, setTries] = useState(0);
    useEffect(() => {
        if (!model) return;
        const abort = new AbortController(), fact = <T,>(path: string): Promise<T> => get<T>(withModel(`/v1/facts?path=${encodeURIComponent(path)}`, model), abort.signal);
        setFailure(null);
        setLive(null);
        void (async () => {
            const [l, s, name, parameters, context, flow] = await Promise.all([fact<Tree[]>("layers"), fact<Speed>("speed"), fact<string>("model.name"), fact<number>("parameters.total"), fact<number>("architecture.context"), fact<string>("flow.model")]);
            setLayers(l);
            setSpeed(s);
            setAbout({ name, parameters, context, flow });
            setOpen((x) => Math.min(x, l.length - 1));
        })().catch((e: unknown) => { if (e instanceof Failure) setFailure(e); });
        return () => abort.abort();
    }, [model, tries]);
    useEffect(() => {
        if (!model) return;
        const abort = new AbortController();
        get<{ blocks: Block[] }>(withModel(`/v1/report?language=${language.value}`, model), abort.signal).then((r) => setReport(r.blocks)).catch(() => undefined);
        return () => abort.abort();
    }, [model, language.value]);
    const measure = async (): Promise<void> => {
        setBusy(true);
        try {
            const ids = (await idsOfLast(model)).slice(-512);
            setLive({ trace: await post<Trace>("/v1/trace", { model, ids, top: 0, positions: [-1], norms: true, experts: true, times: true }), tokens: ids.length });
            setFailure(null);
        } catch (e) { if (e instanceof Failure) setFailure(e); setFollow(false); }
        setBusy(false);
    };
    useEffect(() => { if (colour !== "bytes" && !live && !busy && model) void measure(); }, [colour, model]);
    const running = writing.value.size > 0;
    useEffect(() => {
        if (!follow || !running) return;
        const timer = setInterval(() => { void measure(); }, 2500);
        return () => { clearInterval(timer); void measure(); };
    }, [follow, running]);
    const ops = layers.map(leaves), values = layers.map((_, i) => measured(colour, ops[i]!, i, live, speed)), own = ops[open] ?? [];
    const each = own.map((o) => measured(colour, [o], open, live, speed)), most = Math.max(1e-30, ...each.map((x) => x ?? 0));
    const prefix = `${layers[open]?.path ?? ""}.`;
    return <div class="view">
        <div class="head"><h1>{about_?.name ?? t("model")}</h1>{about_ && <p class="lead">{t("parametersN", { n: figure(about_.parameters) })} · {t("contextN", { n: figure(about_.context) })}</p>}
            <span class="grow" /><ModelChoice label={t("model")} value={model} onChange={setChosen} /></div>
        {failure && <FailureNotice kind={failure.kind} message={failure.message} remedies={{ retry: () => setTries(tries + 1) }} />}
        {about_ && <p class="flow scroll" tabIndex={0}>{about_.flow}</p>}
        {layers.length > 0 && <>
            <section class="card">
                <header class="wrap"><h2>{t("layers")}</h2><span class="row">
                    <Select label={t("colouredBy")} value={colour} options={colours.map(([c, key]) => [c, t(key)] as const)} onChange={setColour} />
                    <button type="button" disabled={busy} onClick={() => { void measure(); }}>{t(busy ? "measuring" : "measureLast")}</button>
                    <Switch label={t("follow")} title={t("hFollow")} on={follow} onChange={setFollow} />
                </span></header>
                <Strip layers={layers} ops={ops} values={values} colour={colour} open={open} choose={setOpen} />
                {live && <p class="help">{t("measuredOver", { n: figure(live.tokens) })}</p>}
            </section>
            <div class="columns model-columns">
                <section class="card">
                    <header><h2>{t("layer")} {open}</h2><span class="help">{layers[open]?.class} · {t("parametersN", { n: figure(layers[open]?.parameters ?? 0) })}</span></header>
                    <div class="scroll" tabIndex={0} role="region" aria-label={`${t("layer")} ${open}`}><table class="plain operations">
                        <thead><tr><th scope="col">{t("operation")}</th><th scope="col">{t("shape")}</th><th scope="col">{t("type")}</th><th scope="col">{t("bytes")}</th><th scope="col">FLOP</th><th scope="col">{t("time")}</th><th scope="col">{t("ofLimit")}</th></tr></thead>
                        <tbody>{own.map((o, i) => <tr key={o.path}>
                            <th scope="row"><i class={`swatch q${Math.round(10 * (each[i] ?? 0) / most)}`} aria-hidden="true" />{o.path.replace(prefix, "")}</th>
                            <td>{o.shape}</td><td>{o.type}</td><td>{o.bytes ? figure(o.bytes) : ""}</td><td>{o.flops ? figure(o.flops) : ""}</td>
                            <td>{live ? shown("time", measured("time", [o], open, live, speed)) : "–"}</td><td>{live ? shown("limit", measured("limit", [o], open, live, speed)) : "–"}</td>
                        </tr>)}</tbody>
                    </table></div>
                </section>
                <section class="card"><header><h2>{t("drawing")}</h2></header><Drawing model={model} name="layer" layer={open} /></section>
            </div>
            <Settings model={model} />
            <section class="card">
                <header class="wrap"><h2>{t("report")}</h2><span class="row">
                    <button type="button" onClick={() => { void getText(withModel(`/v1/report?form=html&language=${language.value}`, model)).then((x) => download(`${model}.html`, "text/html", x)); }}>{t("saveHtml")}</button>
                    <button type="button" onClick={() => { void getText(withModel(`/v1/report?form=markdown&language=${language.value}`, model)).then((x) => download(`${model}.md`, "text/markdown", x)); }}>Markdown</button>
                </span></header>
                <Fold b={{ kind: "section", title: t("wholeModel"), blocks: [{ kind: "figure", diagram: "flow" }] }} model={model} />
                {report.filter((b) => b.kind === "section").map((b) => <Fold key={b.id} b={b} model={model} />)}
            </section>
        </>}
    </div>;
}
