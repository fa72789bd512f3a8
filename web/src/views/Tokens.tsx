// Any text as the tokens of the server's models, several side by side.
import { useEffect, useMemo, useState } from "preact/hooks";
import { Failure, post } from "../api/client";
import { t } from "../i18n";
import { models } from "../store/server";
import { align } from "../text/align";
import { figure } from "../text/format";
import { spelled } from "../text/visible";
import { FailureNotice } from "../ui/failure";
import { IconButton, Switch } from "../ui/parts";

interface Piece { id: number; piece: string | number[] }
const LIMIT = 4000;                      // maximum number of tokens drawn

// Group tokens that only together form a character.
function runs(text: string, pieces: Piece[]): { text: string; ids: number[]; at: number }[] {
    const out: { text: string; ids: number[]; at: number }[] = [], places = align(text, pieces.map((p) => ({ text: typeof p.piece === "string" ? p.piece : "\ufffd" })));
    pieces.forEach((p, i) => {
        const last = out[out.length - 1], broken = typeof p.piece !== "string" || p.piece.includes("\ufffd");
        if (broken && i > 0 && !places[i]!.text && last) last.ids.push(p.id);
        else out.push({ text: broken ? spelled(places[i]!.text) || spell(p.piece) : spell(p.piece), ids: [p.id], at: i });
    });
    return out;
}

const spell = (p: Piece["piece"]): string => typeof p === "string" ? spelled(p) : p.map((b) => `<${b.toString(16).toUpperCase().padStart(2, "0")}>`).join("");

function Column({ model, text, special, ids, remove }: { model: string; text: string; special: boolean; ids: boolean; remove: (() => void) | null }) {
    const [pieces, setPieces] = useState<Piece[]>([]), [failure, setFailure] = useState<Failure | null>(null), [busy, setBusy] = useState(false), [tries, setTries] = useState(0);
    useEffect(() => {
        const abort = new AbortController();
        const timer = setTimeout(() => {
            setBusy(true);
            post<{ tokens: Piece[] }>("/tokenize", { model, content: text, with_pieces: true, add_special: special, parse_special: special }, abort.signal)
                .then((x) => { setPieces(x.tokens); setFailure(null); setBusy(false); })
                .catch((e: unknown) => { if (e instanceof Failure) { setFailure(e); setBusy(false); } });
        }, 120);
        return () => { clearTimeout(timer); abort.abort(); };
    }, [model, text, special, tries]);
    const shown = useMemo(() => runs(text, pieces.slice(0, LIMIT)), [pieces]);
    const bytes = new TextEncoder().encode(text).length, chars = [...text].length;
    return <section class="card token-column" aria-busy={busy}>
        <header><h2 dir="auto">{model}</h2>{remove && <IconButton icon="close" label={t("removeModel", { model })} onClick={remove} />}</header>
        {failure ? <FailureNotice kind={failure.kind} message={failure.message} remedies={{ retry: () => setTries(tries + 1) }} /> : <>
            <dl class="figures">
                <div><dt>{t("tokens")}</dt><dd>{figure(pieces.length)}</dd></div>
                <div><dt>{t("characters")}</dt><dd>{figure(chars)}</dd></div>
                <div><dt>{t("bytesPerToken")}</dt><dd>{pieces.length ? figure(bytes / pieces.length, 2) : "–"}</dd></div>
            </dl>
            <ol class="pieces" aria-label={t("tokens")}>
                {shown.map((r, i) => <li key={r.at} class={`c${i % 5}${r.ids.length > 1 ? " run" : ""}`} title={`${r.at + 1}: ${r.ids.join(" ")}`}><span dir="auto">{r.text}</span>{ids && <small>{r.ids.join(" ")}</small>}</li>)}
            </ol>
            {pieces.length > LIMIT && <p class="help">{t("firstOf", { n: figure(LIMIT), of: figure(pieces.length) })}</p>}
        </>}
    </section>;
}

let keptText = "";
let keptModels: string[] = [];

export function Tokens() {
    const [text, setText] = useState(keptText || t("tokensSample")), [chosen, setChosen] = useState<string[]>(keptModels), [special, setSpecial] = useState(true), [ids, setIds] = useState(true);
    keptText = text;
    keptModels = chosen;
    const all = models.value.map((m) => m.id), shown = chosen.filter((m) => all.includes(m)).length ? chosen.filter((m) => all.includes(m)) : all.slice(0, 1), rest = all.filter((m) => !shown.includes(m));
    return <div class="view">
        <div class="head"><h1>{t("tokens")}</h1><p class="lead">{t("tokensLead")}</p></div>
        <label class="wide-label">{t("text")}<textarea rows={5} dir="auto" spellcheck={false} value={text} onInput={(e) => setText(e.currentTarget.value)} /></label>
        <div class="row">
            <Switch label={t("specials")} title={t("hSpecials")} on={special} onChange={setSpecial} />
            <Switch label={t("ids")} on={ids} onChange={setIds} />
            {rest.length > 0 && <select aria-label={t("addModel")} value="" onChange={(e) => setChosen([...shown, e.currentTarget.value])}>
                <option value="">{t("addModel")}</option>
                {rest.map((m) => <option key={m}>{m}</option>)}
            </select>}
        </div>
        <div class="columns">
            {shown.map((m) => <Column key={m} model={m} text={text} special={special} ids={ids} remove={shown.length > 1 ? () => setChosen(shown.filter((x) => x !== m)) : null} />)}
        </div>
    </div>;
}
