// The inspector of a token: its alternatives, and what the model computed for it.
import type { Signal } from "@preact/signals";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Failure, post } from "../api/client";
import type { HeadRow, Likely, Trace, TracePaths, TraceRow, TraceToken } from "../api/types";
import { branchAt, changedAnswer, INSIDE, promptIds, writing } from "../chat/generate";
import { picked } from "../chat/picked";
import { t } from "../i18n";
import type { Conversation } from "../store/chats";
import { onlyModel, tracePaths } from "../store/server";
import type { Token, Turn } from "../store/types";
import { about, bits, figure, probability } from "../text/format";
import { spelled } from "../text/visible";
import { FailureNotice } from "../ui/failure";
import { IconButton, Meter, Select } from "../ui/parts";
import { seed } from "../views/compare-seed";
import { Lines } from "./Lines";
import { Latest, nameOf, rowOf, traces } from "./traced";

function Alternatives({ c, turn, at, token }: { c: Conversation; turn: Turn; at: number; token: Token }) {
    const all = token.top.some((a) => a.id === token.id) ? token.top : [...token.top, { id: token.id, text: token.text, lp: token.lp }];
    return <section>
        <h3>{t("alternatives")}</h3>
        <table class="alternatives"><thead class="hidden"><tr><th scope="col">{t("token")}</th><th scope="col">p</th><th scope="col">{t("branch")}</th></tr></thead><tbody>
            {all.map((a) => <tr key={a.id} class={a.id === token.id ? "is" : ""}>
                <td><span class="piece" dir="auto">{spelled(a.text)}</span></td>
                <td class="n">{probability(Math.exp(a.lp))}<Meter value={Math.exp(a.lp)} label={probability(Math.exp(a.lp))} /></td>
                <td>{a.id === token.id ? <span class="help">{t("chosenToken")}</span>
                    : <IconButton icon="branch" label={t("branchWith", { token: spelled(a.text) })} onClick={() => { branchAt(c, turn, at, a); picked.value = null; }} />}</td>
            </tr>)}
        </tbody></table>
    </section>;
}

const heat = (p: number | null): string => `q${Math.round(10 * Math.max(0, Math.min(1, p ?? 0)))}`;

// A signed bar around a middle line.
function Signed({ value, most }: { value: number | undefined; most: number }) {
    if (value === undefined) return null;
    const w = 50 * Math.min(1, Math.abs(value) / most);
    return <span class="signed" title={about(value)}><svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true"><rect class="track" x="49.5" width="1" height="10" /><rect class={value < 0 ? "minus" : "plus"} x={value < 0 ? 50 - w : 50} width={w} height="10" /></svg>
        <span class="hidden">{about(value)}</span></span>;
}

// The logit lens from the last layer down: how the answer formed.
export function Lens({ row }: { row: TraceRow }) {
    const layers = (row.lens ?? []).filter((l) => l.part === "layer").sort((a, b) => b.layer - a.layer), id = row.token.id;
    const gave = (layer: number, part: string): number | undefined => row.attribution?.find((a) => a.layer === layer && a.part === part)?.logit;
    const norm = (layer: number): number | undefined => row.norms?.find((n) => n.layer === layer && n.part === "layer")?.norm;
    const most = Math.max(1e-6, ...(row.attribution ?? []).filter((a) => a.part === "attention" || a.part === "mlp").map((a) => Math.abs(a.logit)));
    return <section>
        <h3>{t("lens")}<span class="help">{t("lensHelp")}</span></h3>
        <div class="scroll" tabIndex={0} role="region" aria-label={t("lens")}><table class="lens">
            <thead><tr><th scope="col">{t("layer")}</th><th scope="col" colSpan={2}>{t("wouldSay")}</th><th scope="col">p</th><th scope="col">{t("rank")}</th><th scope="col">{t("attnGives")}</th><th scope="col">{t("mlpGives")}</th><th scope="col">{t("norm")}</th></tr></thead>
            <tbody>{layers.map((l) => <tr key={l.path}>
                <th scope="row">{l.layer}</th>
                {[0, 1].map((k) => { const x = l.top[k]; return <td key={k} class={`say ${x ? heat(x.p) : ""}${x?.id === id ? " is" : ""}`} title={x ? `${spelled(x.text)} ${probability(x.p)}` : ""}><span dir="auto">{x ? spelled(x.text) : ""}</span></td>; })}
                <td class="n">{probability(l.p)}</td>
                <td class="n">{l.rank > 999 ? `${Math.round(l.rank / 1000)}k` : l.rank}</td>
                <td><Signed value={gave(l.layer, "attention")} most={most} /></td>
                <td><Signed value={gave(l.layer, "mlp")} most={most} /></td>
                <td class="n">{norm(l.layer) === undefined ? "" : about(norm(l.layer)!)}</td>
            </tr>)}</tbody>
        </table></div>
        {row.logit !== undefined && <p class="help">{t("partsSum", { n: about(row.logit) })}</p>}
    </section>;
}

// What is most probable without a change in the model and with it. `chosen`: the tokens of either column that the answers have there.
export function Before({ now, then, chosen = [] }: { now: Likely[]; then: Likely[]; chosen?: (number | undefined)[] }) {
    const cells = (x: Likely | undefined, id: number | undefined) => { const is = x && x.id === id ? "is" : ""; return <><td class={is}>{x && <span class="piece" dir="auto">{spelled(x.text)}</span>}</td><td class={is}>{x && probability(x.p)}</td></>; };
    return <table class="plain before"><thead><tr><th scope="col">{t("asItIs")}</th><th scope="col">p</th><th scope="col">{t("without")}</th><th scope="col">p</th></tr></thead>
        <tbody>{Array.from({ length: Math.max(now.length, then.length) }, (_, i) => <tr key={i}>{cells(now[i], chosen[0])}{cells(then[i], chosen[1])}</tr>)}</tbody></table>;
}

// The conversation and the server of a token; a saved trace has neither. `busy`: its answer is being written.
interface Live { c: Conversation; turn: Turn; model: string; ids: number[]; paths: TracePaths | null; busy: boolean }

const intervened = (turn: Turn | undefined, more: string[] = []): { intervene?: string[] } => {
    const all = [...turn?.changed ?? [], ...more];
    return all.length ? { intervene: all } : {};
};

// The whole attention rows of a layer's heads; the trace contains only a few positions. They are requested when the layer is shown; while
// the answer is being written, which a request slows down, when a head is chosen.
const rowsKept = new Latest<Map<number, { first: number; weights: number[] }>>(50);

function useRows(live: Live | undefined, layer: number, heads: HeadRow[], position: number, ask: boolean): Map<number, { first: number; weights: number[] }> | null {
    const name = live ? `${live.model} ${layer} ${position} ${live.ids.join()} ${live.turn.changed?.join() ?? ""}` : "", [rows, setRows] = useState(rowsKept.get(name) ?? null);
    useEffect(() => {
        const known = rowsKept.get(name), abort = new AbortController();
        setRows(known ?? null);
        if (known || !heads.length || !live || !ask) return;
        post<Trace>("/v1/trace", { model: live.model, ids: live.ids, top: 0, positions: [position], weights: heads.map((h) => [layer, h.head]), ...intervened(live.turn) }, abort.signal).then((x) => {
            const found = new Map((x.rows[0]?.weights ?? []).map((w) => [w.head, { first: w.first_position, weights: w.weights }]));
            rowsKept.set(name, found);
            setRows(found);
        }).catch(() => undefined);       // the few positions of the trace remain
        return () => abort.abort();
    }, [name, ask]);
    return rows;
}

const LONGEST_ROW = 2000;

// The attention of one head, token by token from the beginning, coloured by weight.
function WholeRow({ row, tokens, head }: { row: { first: number; weights: number[] }; tokens: TraceToken[]; head: string }) {
    const shown = row.weights.slice(0, LONGEST_ROW);
    return <>
        <p class="whole-row" dir="auto" tabIndex={0} role="group" aria-label={t("wholeRow", { head })}>
            {shown.map((w, i) => <span key={i} class={heat(Math.sqrt(w))} title={`${row.first + i} ${probability(w)}`}>{spelled(tokens[row.first + i]?.text ?? "")}</span>)}
        </p>
        {row.weights.length > shown.length && <p class="help">{t("firstOf", { n: figure(shown.length), of: figure(row.weights.length) })}</p>}
    </>;
}

// What can be changed about a head, and what follows.
function WithoutHead({ live, layer, head, position }: { live: Live; layer: number; head: number; position: number }) {
    const [then, setThen] = useState<{ now: Likely[]; then: Likely[] } | null>(null), [failure, setFailure] = useState<Failure | null>(null), [busy, setBusy] = useState(false);
    const path = live.paths?.layers.find((l) => l.layer === layer)?.attention ?? `model.layers.${layer}.self_attn`, change = `${path}#head${head}=0`;
    const without = async (): Promise<void> => {
        setBusy(true);
        setFailure(null);
        try {
            const body = { model: live.model, ids: live.ids.slice(0, position + 1), top: 5, positions: [-1] };
            const [now, x] = await Promise.all([[], [change]].map((more) => post<Trace>("/v1/trace", { ...body, ...intervened(live.turn, more) }))) as [Trace, Trace];
            setThen({ now: now.next.top, then: x.next.top });
        } catch (e) { setFailure(e instanceof Failure ? e : new Failure("server", String(e))); }
        setBusy(false);
    };
    return <>
        <div class="row">
            <button type="button" disabled={busy} onClick={() => { void without(); }}>{t("withoutHead")}</button>
            <button type="button" onClick={() => { changedAnswer(live.c, live.turn, change); picked.value = null; }}>{t("answerWithout")}</button>
            <button type="button" onClick={() => {
                const before = live.c.upTo(live.turn.id).filter((x) => x.role === "user").pop();
                seed.value = { prompt: before?.text ?? "", columns: [[], [change]].map((more) => ({ model: live.model, intervene: intervened(live.turn, more).intervene?.join("; ") ?? "" })) };
                location.hash = "#/compare";
            }}>{t("sideBySide")}</button>
        </div>
        {failure && <FailureNotice kind={failure.kind} message={failure.message} remedies={{ retry: () => { void without(); } }} />}
        {then && <Before now={then.now} then={then.then} />}
    </>;
}

export function Attention({ row, tokens, position, live }: { row: TraceRow; tokens: TraceToken[]; position: number; live?: Live }) {
    const heads = row.attention ?? [], layers = [...new Set(heads.map((h) => h.layer))];
    // The layer whose attention contributed most to the token is shown first.
    const first = useMemo(() => layers.reduce((a, b) => {
        const of = (l: number): number => row.attribution?.find((x) => x.layer === l && x.part === "attention")?.logit ?? 0;
        return of(b) > of(a) ? b : a;
    }, layers[0] ?? 0), [row]);
    const [layer, setLayer] = useState(first), [head, setHead] = useState<number | null>(null);
    useEffect(() => { setLayer(first); setHead(null); }, [first]);
    const own = heads.filter((h) => h.layer === layer), chosen = own.find((h) => h.head === head), whole = useRows(live, layer, own, position, !live?.busy || head !== null), wholeRow = chosen && whole?.get(chosen.head);
    const lines = own.map((h) => { const w = whole?.get(h.head); return w ? { ...h, top: w.weights.map((x, i) => ({ position: w.first + i, text: tokens[w.first + i]?.text ?? "", weight: x })).filter((x) => x.weight >= 0.01) } : h; });
    if (!own.length) return null;
    return <section>
        <h3>{t("attention")}<Select label={t("layer")} value={String(layer)} options={layers.map((l) => [String(l), String(l)] as const)} onChange={(l) => { setLayer(Number(l)); setHead(null); }} /></h3>
        <Lines heads={lines} chosen={head} choose={(h) => setHead(h === head ? null : h)} position={position} />
        {chosen && <>
            <dl class="figures">
                <div><dt>{t("head")}</dt><dd>{layer}.{chosen.head}</dd></div>
                <div><dt>{t("entropy")}</dt><dd>{about(chosen.entropy)}</dd></div>
                <div><dt>{t("onFirst")}</dt><dd>{probability(chosen.first)}</dd></div>
                <div><dt>{t("distance")}</dt><dd>{about(chosen.distance)}</dd></div>
            </dl>
            {wholeRow && <WholeRow row={wholeRow} tokens={tokens} head={`${layer}.${chosen.head}`} />}
            {live && <WithoutHead key={`${layer}.${chosen.head}`} live={live} layer={layer} head={chosen.head} position={position} />}
        </>}
    </section>;
}

export function Experts({ row }: { row: TraceRow }) {
    if (!row.experts?.length) return null;
    return <section><h3>{t("experts")}</h3>
        <table class="plain"><tbody>{row.experts.map((x) => <tr key={x.path}><th scope="row">{x.layer}</th><td>{x.experts.map((e) => <span class="expert" key={e.expert}>{e.expert} <small>{probability(e.weight)}</small></span>)}</td></tr>)}</tbody></table>
    </section>;
}

// The lens at once if it came with the answer; the rest by a request. While such an answer is being written, the request waits until it is
// wanted, as it slows the answer down.
function Inside({ c, turn, at }: { c: Conversation; turn: Turn; at: number }) {
    const model = turn.model ?? onlyModel.value, came = rowOf(turn.id, at), busy = writing.value.has(turn.id), name = `${nameOf(turn.id, at)}${came ? " attention" : ""}`;
    const trace = traces.get(name), [, setArrived] = useState(""), [failure, setFailure] = useState<Failure | null>(null), [paths, setPaths] = useState<TracePaths | null>(null);
    const [tries, setTries] = useState(0), [wanted, setWanted] = useState(""), ask = !came || !busy || wanted === name;
    useEffect(() => {
        const abort = new AbortController();
        setFailure(null);
        if (!ask) return;
        void tracePaths(model).then(setPaths);
        if (traces.get(name)) return;
        // Wait, so that moving through tokens with the keys requests only the token where the user stops.
        const timer = setTimeout(() => {
            void (async () => {
                try {
                    const ids = [...await promptIds(c, turn), ...turn.tokens!.slice(0, at + 1).map((x) => x.id)];
                    const x = await post<Trace>("/v1/trace", { model, ids, top: 0, positions: [ids.length - 2], ...(came ? {} : INSIDE), attention: true, ...intervened(turn) }, abort.signal);
                    traces.set(name, x);
                    setArrived(name);
                } catch (e) {
                    if (e instanceof Failure) setFailure(e);
                }
            })();
        }, 200);
        return () => { clearTimeout(timer); abort.abort(); };
    }, [name, tries, ask]);
    const looked = trace?.rows[0], row = useMemo(() => came && looked?.attention ? { ...came, attention: looked.attention } : came ?? looked, [came, looked]);
    return <>
        {row?.lens && <Lens row={row} />}
        {failure ? failure.kind === "off" ? <p class="help">{t("noTrace")}</p> : <FailureNotice kind={failure.kind} message={failure.message} remedies={{ retry: () => setTries(tries + 1) }} />
            : trace && row?.attribution ? <Attention row={row} tokens={trace.tokens} position={row.position} live={{ c, turn, model, ids: trace.ids, paths, busy }} />
            : ask ? <p class="waiting"><span class="dots" aria-hidden="true" />{t("looking")}</p>
            : <section><h3>{t("attention")}</h3><div class="row"><button type="button" onClick={() => setWanted(name)}>{t("attentionNow")}</button></div><p class="help">{t("attentionLater")}</p></section>}
        {row && <Experts row={row} />}
    </>;
}

export function Inspector({ c, turn: s, at }: { c: Conversation; turn: Signal<Turn>; at: number }) {
    const turn = s.value, token = turn.tokens?.[at], root = useRef<HTMLElement>(null);
    useEffect(() => {
        const onKey = (e: KeyboardEvent): void => { if (e.key === "Escape" && !document.querySelector("dialog[open]")) picked.value = null; };
        addEventListener("keydown", onKey);
        return () => removeEventListener("keydown", onKey);
    }, []);
    if (!token) return null;
    const rank = token.top.findIndex((a) => a.id === token.id);
    return <aside class="inspector" aria-label={t("inspector")} ref={root} tabIndex={0}>
        <header>
            <h2>{t("token")} {at + 1} <span class="piece" dir="auto">{spelled(token.text)}</span></h2>
            <IconButton icon="close" label={t("close")} onClick={() => { picked.value = null; }} />
        </header>
        <dl class="figures">
            <div><dt>p</dt><dd>{probability(Math.exp(token.lp))}</dd></div>
            <div><dt>{t("surpriseBits")}</dt><dd>{about(bits(token.lp))}</dd></div>
            <div><dt>{t("rank")}</dt><dd>{rank < 0 ? `> ${token.top.length}` : rank + 1}</dd></div>
            <div><dt>id</dt><dd>{token.id}</dd></div>
        </dl>
        <Alternatives c={c} turn={turn} at={at} token={token} />
        <Inside c={c} turn={turn} at={at} />
    </aside>;
}
