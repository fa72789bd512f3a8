// Chapters of the report from /v1/report: figures, formulas, derivations, tables, drawings.
import { useEffect, useRef, useState } from "preact/hooks";
import { later } from "../later/later";
import { Drawing } from "./Drawing";

interface Cell { text: string }
interface Step { heading?: string; name?: string; symbols?: string; numbers?: string; value?: number; text?: string }
export interface Block {
    kind: string; id?: string; number?: string; title?: string; text?: string; latex?: string; diagram?: string; blocks?: Block[]; items?: string[]; columns?: string[]; rows?: Cell[][];
    symbols?: { name: string; meaning: string; value: number | string }[]; steps?: Step[];
}

function Formula({ latex, text }: { latex: string; text: string }) {
    const root = useRef<HTMLDivElement>(null);
    useEffect(() => {
        root.current!.textContent = "";
        try { later("formulas").temml.render(latex, root.current!, { displayMode: true, throwOnError: true, trust: false }); } catch { root.current!.textContent = text; }
    }, [latex]);
    return <div class="formula block scroll" tabIndex={0} role="region" aria-label={text} ref={root} />;
}

function Table({ b }: { b: Block }) {
    const [head, ...more] = b.columns ?? [], named = [head, ...more].some((x) => x);
    return <div class="scroll" tabIndex={0} role="region" aria-label={b.title ?? b.id ?? ""}><table class="plain report-table">
        {named && <thead><tr>{b.columns!.map((x, i) => x ? <th key={i} scope="col">{x}</th> : <td key={i} />)}</tr></thead>}
        <tbody>{(b.rows ?? []).map((r, i) => <tr key={i}>{r.map((c, k) => k ? <td key={k}>{c?.text ?? ""}</td> : <th key={k} scope="row">{c?.text ?? ""}</th>)}</tr>)}</tbody>
    </table></div>;
}

function Derivation({ b }: { b: Block }) {
    return <div class="scroll" tabIndex={0} role="region" aria-label={b.title ?? ""}><table class="plain derivation"><tbody>
        {(b.steps ?? []).map((s, i) => s.heading ? <tr key={i}><th scope="row" colSpan={4}>{s.heading}</th></tr>
            : <tr key={i}><th scope="row">{s.name ?? s.text}</th><td>{s.symbols}</td><td>{s.numbers}</td><td>{typeof s.value === "number" ? s.value.toLocaleString("en") : ""}</td></tr>)}
    </tbody></table></div>;
}

function One({ b, model }: { b: Block; model: string }) {
    switch (b.kind) {
    case "text": return <p>{b.text}</p>;
    case "note": case "warning": return <p class="help">{b.text}</p>;
    case "verbatim": return <pre class="scroll" tabIndex={0}>{b.text}</pre>;
    case "list": return <ul class="bullets">{(b.items ?? []).map((x, i) => <li key={i}>{x}</li>)}</ul>;
    case "table": return <Table b={b} />;
    case "formula": return <Formula latex={b.latex ?? ""} text={b.text ?? ""} />;
    case "derivation": return <Derivation b={b} />;
    case "figure": return b.diagram ? <Drawing model={model} name={b.diagram} /> : <pre class="scroll" tabIndex={0}>{b.text}</pre>;
    case "section": case "fold": return <Fold b={b} model={model} />;
    default: return b.text ? <p>{b.text}</p> : null;
    }
}

// A chapter whose content is created when it is first opened.
export function Fold({ b, model }: { b: Block; model: string }) {
    const [open, setOpen] = useState(false);
    return <details class="fold chapter" id={b.id ? `report-${b.id}` : undefined} onToggle={(e) => { if (e.currentTarget.open) setOpen(true); }}>
        <summary>{b.number ? `${b.number} ` : ""}{b.title}</summary>
        {open && <div class="blocks">{(b.blocks ?? []).map((x, i) => <One key={i} b={x} model={model} />)}</div>}
    </details>;
}
