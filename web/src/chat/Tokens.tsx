// A text split into its tokens, each coloured by its surprise.
import { useEffect, useId, useMemo, useRef, useState } from "preact/hooks";
import { t } from "../i18n";
import type { Token } from "../store/types";
import { align, alignMore, ends, groups, type Piece } from "../text/align";
import { bits, probability } from "../text/format";
import { spelled, visible } from "../text/visible";

export const STEPS = 12;                 // of the colour scale, one bit each
export const step = (lp: number): number => Math.max(0, Math.min(STEPS, Math.round(bits(lp))));

interface Props { text: string; tokens: Token[]; chosen: number | null; choose: (i: number | null) => void; mark?: number; label: string }
interface GroupProps { tokens: Token[]; pieces: Piece[]; from: number; to: number; chosen: number; mark: number; shown: boolean; run: boolean; id: (i: number) => string }

// A group out of view is plain text; one of whole lines is a block, which is not laid out there. A group is made again only when something
// in it changes, so an answer of any length costs the same per token written.
function Group({ tokens, pieces, from, to, chosen, mark, shown, run, id }: GroupProps) {
    const text = (x: Piece): string => x.text ? visible(x.text) : "";
    return useMemo(() => <div class={`group${run ? " run" : ""}`} role="group" aria-label={`${from}`} data-from={from}>
        {!shown ? pieces.slice(from, to).map(text).join("") : tokens.slice(from, to).map((x, k) => {
            const i = from + k;
            return <span key={i} id={id(i)} data-i={i} role="option" aria-selected={i === chosen} class={`tk s${step(x.lp)}${i === chosen ? " chosen" : ""}${i === mark ? " mark" : ""}`}
                title={`${spelled(x.text)}  p ${probability(Math.exp(x.lp))}`}>{text(pieces[i]!)}</span>;
        })}
    </div>, [tokens[from], tokens[to - 1], to, pieces[from]?.from, pieces[to - 1]?.to, chosen, mark, shown, run, id]);
}

// What was found for fewer tokens of the same answer.
interface Laid { text: string; tokens: Token[]; pieces: Piece[]; starts: number[] }

function lay(before: Laid | null, text: string, tokens: Token[]): Laid {
    if (before?.text === text && before.tokens === tokens) return before;
    const n = before?.tokens.length ?? 0, more = before && n > 0 && n <= tokens.length && tokens[n - 1] === before.tokens[n - 1] && tokens[0] === before.tokens[0] && text.startsWith(before.text);
    return { text, tokens, pieces: more ? alignMore(before.pieces, text, tokens) : align(text, tokens), starts: groups(tokens, more ? before.starts : [0]) };
}

// Return the groups that are in view.
function useNear(root: { current: HTMLElement | null }, n: number): Set<number> {
    const [near, setNear] = useState<Set<number>>(() => new Set()), watch = useRef<IntersectionObserver | null>(null);
    useEffect(() => {
        watch.current = new IntersectionObserver((seen) => setNear((was) => {
            const now = new Set(was);
            for (const x of seen) {
                const from = Number((x.target as HTMLElement).dataset["from"]);
                if (x.isIntersecting) now.add(from); else now.delete(from);
            }
            return now;
        }));
        return () => watch.current?.disconnect();
    }, []);
    useEffect(() => { for (const x of root.current?.children ?? []) watch.current?.observe(x); }, [n]);
    return near;
}

export function ColouredText({ text, tokens, chosen, choose, mark, label }: Props) {
    const root = useRef<HTMLDivElement>(null), laid = useRef<Laid | null>(null), own = useId();
    const { pieces, starts } = laid.current = lay(laid.current, text, tokens), near = useNear(root, starts.length);
    useEffect(() => {
        if (chosen !== null) root.current?.querySelector(`[data-i="${chosen}"]`)?.scrollIntoView({ block: "nearest" });
    }, [chosen]);
    const onKey = (e: KeyboardEvent): void => {
        const move = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 10, ArrowUp: -10 }[e.key];
        if (e.key === "Escape" && chosen !== null) choose(null);
        else if (e.key === "Home" || e.key === "End") choose(e.key === "Home" ? 0 : tokens.length - 1);
        else if (move && e.key in { ArrowRight: 1, ArrowLeft: 1, ArrowDown: 1, ArrowUp: 1 }) choose(Math.max(0, Math.min(tokens.length - 1, chosen === null ? 0 : chosen + move)));
        else return;
        e.preventDefault();
    };
    const id = useMemo(() => (i: number): string => `${own}-${i}`, [own]);
    return <div class="coloured" dir="auto" role="listbox" tabIndex={0} aria-label={label} ref={root} onKeyDown={onKey} {...(chosen === null ? {} : { "aria-activedescendant": id(chosen) })}
        onClick={(e) => {
            const i = (e.target as HTMLElement).closest<HTMLElement>("[data-i]")?.dataset["i"];
            if (i !== undefined) choose(Number(i) === chosen ? null : Number(i));
        }}>
        {starts.map((from, k) => {
            const to = starts[k + 1] ?? tokens.length, within = (i: number | null | undefined): number => i !== null && i !== undefined && i >= from && i < to ? i : -1;
            return <Group key={from} run={!ends(tokens, from) || !ends(tokens, to)} tokens={tokens} pieces={pieces} from={from} to={to} chosen={within(chosen)} mark={within(mark)} id={id} shown={near.has(from) || within(chosen) >= 0 || starts.length < 4} />;
        })}
    </div>;
}

export function Legend() {
    return <div class="legend" role="img" aria-label={t("legend")}>
        <span>{t("expected")}</span>
        <span class="ramp" aria-hidden="true">{Array.from({ length: STEPS + 1 }, (_, i) => <i key={i} class={`s${i}`}>{i % 3 ? "" : i}</i>)}</span>
        <span>{t("unexpected")}</span>
    </div>;
}
