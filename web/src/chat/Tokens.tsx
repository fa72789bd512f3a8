// A text split into its tokens, each coloured by its surprise.
import { useEffect, useId, useMemo, useRef } from "preact/hooks";
import { t } from "../i18n";
import type { Token } from "../store/types";
import { align } from "../text/align";
import { bits, probability } from "../text/format";
import { spelled, visible } from "../text/visible";

export const STEPS = 12;                 // of the colour scale, one bit each
export const step = (lp: number): number => Math.max(0, Math.min(STEPS, Math.round(bits(lp))));
const GROUP = 200;                       // tokens that are laid out together, and not while they are out of view

interface Props { text: string; tokens: Token[]; chosen: number | null; choose: (i: number | null) => void; mark?: number; label: string }

export function ColouredText({ text, tokens, chosen, choose, mark, label }: Props) {
    const root = useRef<HTMLDivElement>(null), pieces = useMemo(() => align(text, tokens), [text, tokens]), own = useId();
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
    const groups: number[] = [];
    for (let i = 0; i < tokens.length; i += GROUP) groups.push(i);
    const id = (i: number): string => `${own}-${i}`;
    return <div class="coloured" dir="auto" role="listbox" tabIndex={0} aria-label={label} ref={root} onKeyDown={onKey} {...(chosen === null ? {} : { "aria-activedescendant": id(chosen) })}
        onClick={(e) => {
            const i = (e.target as HTMLElement).closest<HTMLElement>("[data-i]")?.dataset["i"];
            if (i !== undefined) choose(Number(i) === chosen ? null : Number(i));
        }}>
        {groups.map((from) => <span class="group" role="group" key={from} aria-label={`${from}`}>
            {tokens.slice(from, from + GROUP).map((x, k) => {
                const i = from + k;
                return <span key={i} id={id(i)} data-i={i} role="option" aria-selected={i === chosen} class={`tk s${step(x.lp)}${i === chosen ? " chosen" : ""}${i === mark ? " mark" : ""}`}
                    title={`${spelled(x.text)}  p ${probability(Math.exp(x.lp))}`}>{pieces[i]!.text ? visible(pieces[i]!.text) : ""}</span>;
            })}
        </span>)}
    </div>;
}

export function Legend() {
    return <div class="legend" role="img" aria-label={t("legend")}>
        <span>{t("expected")}</span>
        <span class="ramp" aria-hidden="true">{Array.from({ length: STEPS + 1 }, (_, i) => <i key={i} class={`s${i}`}>{i % 3 ? "" : i}</i>)}</span>
        <span>{t("unexpected")}</span>
    </div>;
}
