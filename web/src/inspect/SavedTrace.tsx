// A trace in a file of its own: the text coloured by surprise, and what the model computed for the chosen token. No server is needed.
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Trace, TraceToken } from "../api/types";
import { ColouredText, Legend } from "../chat/Tokens";
import { t } from "../i18n";
import type { Token } from "../store/types";
import { about, bits, probability } from "../text/format";
import { spelled } from "../text/visible";
import { Meter } from "../ui/parts";
import { LanguageSelect, ThemeButton } from "../ui/preferences";
import { Attention, Experts, Lens } from "./Inspector";

export interface Saved { model: string; trace: Trace }

const logOf = (p: number | null): number => p === null ? 0 : Math.log(p);

const shown = (x: TraceToken): Token => ({ id: x.id, text: x.text, lp: logOf(x.p), top: x.top.map((a) => ({ id: a.id, text: a.text, lp: logOf(a.p) })) });

// The tokens of the text, and the most probable one after it.
function tokensOf(trace: Trace): Token[] {
    const top = trace.next.top.map((a) => ({ id: a.id, text: a.text, lp: logOf(a.p) })), next = top[0];
    return [...trace.tokens.map(shown), ...(next ? [{ ...next, top }] : [])];
}

function Alternatives({ token }: { token: Token }) {
    return <section>
        <h3>{t("alternatives")}</h3>
        <table class="alternatives"><thead class="hidden"><tr><th scope="col">{t("token")}</th><th scope="col">p</th></tr></thead><tbody>
            {token.top.map((a) => <tr key={a.id} class={a.id === token.id ? "is" : ""}>
                <td><span class="piece" dir="auto">{spelled(a.text)}</span></td>
                <td class="n">{probability(Math.exp(a.lp))}<Meter value={Math.exp(a.lp)} label={probability(Math.exp(a.lp))} /></td>
            </tr>)}
        </tbody></table>
    </section>;
}

export function SavedTrace({ saved }: { saved: Saved }) {
    const { trace, model } = saved, tokens = useMemo(() => tokensOf(trace), [trace]), text = useMemo(() => tokens.map((x) => x.text).join(""), [tokens]);
    const [at, setAt] = useState(tokens.length - 1), token = tokens[at], row = trace.rows.find((r) => r.position === at - 1), rank = token ? token.top.findIndex((a) => a.id === token.id) : -1;
    useEffect(() => { document.title = `${model} – lamina`; }, [model]);
    return <>
        <header class="top"><span class="brand">lamina</span><h1>{model}</h1><span class="grow" /><ThemeButton /><LanguageSelect /></header>
        <main id="main" class="saved-trace">
            <section><Legend /><ColouredText text={text} tokens={tokens} chosen={at} choose={(i) => { if (i !== null) setAt(i); }} mark={trace.tokens.length} label={t("text")} /></section>
            {token && <aside class="inspector" aria-label={t("inspector")} tabIndex={0}>
                <header><h2>{t("token")} {at + 1} <span class="piece" dir="auto">{spelled(token.text)}</span></h2></header>
                <dl class="figures">
                    <div><dt>p</dt><dd>{at ? probability(Math.exp(token.lp)) : "–"}</dd></div>
                    <div><dt>{t("surpriseBits")}</dt><dd>{at ? about(bits(token.lp)) : "–"}</dd></div>
                    <div><dt>{t("rank")}</dt><dd>{!at ? "–" : rank < 0 ? `> ${token.top.length}` : rank + 1}</dd></div>
                    <div><dt>id</dt><dd>{token.id}</dd></div>
                </dl>
                {at > 0 && <Alternatives token={token} />}
                {row && <><Lens row={row} /><Attention row={row} tokens={trace.tokens} position={row.position} /><Experts row={row} /></>}
            </aside>}
        </main>
    </>;
}
