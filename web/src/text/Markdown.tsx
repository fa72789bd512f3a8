import { useLayoutEffect, useRef } from "preact/hooks";
import { t } from "../i18n";
import { blocksOf, renderBlock, type Block } from "./render";

const STEP = 6000, BUDGET = 10;          // characters parsed at once; milliseconds of work per frame

// Return the next blocks of the rest of a text: all of them, or those that are certainly complete within one step.
function next(rest: string): { raws: string[]; end: boolean } {
    if (rest.length > STEP) {
        const raws = blocksOf(rest.slice(0, STEP)).slice(0, -1);
        if (raws.length && rest.startsWith(raws.join(""))) return { raws, end: false };
    }
    return { raws: blocksOf(rest), end: true };
}

// Render a text as Markdown. Of a growing text only the last two blocks are parsed and rendered again. A long text is rendered in steps,
// as many per frame as time allows.
export function Markdown({ text: given, growing }: { text: string; growing: boolean }) {
    const root = useRef<HTMLDivElement>(null), blocks = useRef<Block[]>([]), text = given.replace(/\r\n?/g, "\n");
    useLayoutEffect(() => {
        const list = blocks.current, texts = { copy: t("copy"), copied: t("copied") };
        let kept = 0, at = 0, frame = 0;
        while (kept < list.length - 2 && list[kept]!.done && text.startsWith(list[kept]!.raw, at)) at += list[kept++]!.raw.length;
        const go = (): void => {
            const began = performance.now();
            for (;;) {
                const { raws, end } = next(text.slice(at));
                raws.forEach((raw, i) => {
                    const done = !growing || !end || i < raws.length - 1, old = list[kept + i];
                    if (old && old.raw === raw && old.done === done) return;
                    const node = renderBlock(raw, done, texts);
                    if (old) old.node.replaceWith(node);
                    else root.current!.append(node);
                    list[kept + i] = { raw, node, done };
                });
                kept += raws.length;
                at += raws.reduce((n, raw) => n + raw.length, 0);
                if (end) {
                    for (const old of list.splice(kept)) old.node.remove();
                    return;
                }
                if (performance.now() - began > BUDGET) {
                    frame = requestAnimationFrame(go);
                    return;
                }
            }
        };
        go();
        return () => cancelAnimationFrame(frame);
    }, [text, growing]);
    return <div class="markdown" dir="auto" ref={root} />;
}
