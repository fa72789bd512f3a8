import { useLayoutEffect, useRef } from "preact/hooks";
import { t } from "../i18n";
import { next, type Piece } from "./blocks";
import { lines, renderPiece } from "./render";

interface Block extends Piece { node: HTMLElement; done: boolean }

const BUDGET = 10;                       // milliseconds of work per frame

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
                const { pieces, last } = next(lines(), text.slice(at), list[kept - 1]?.end);
                pieces.forEach((piece, i) => {
                    const done = !growing || !last || i < pieces.length - 1, old = list[kept + i];
                    if (old && old.raw === piece.raw && old.done === done && old.plain === piece.plain) { list[kept + i] = { ...old, ...piece }; return; }
                    const node = renderPiece(piece, done, texts);
                    if (old) old.node.replaceWith(node);
                    else root.current!.append(node);
                    list[kept + i] = { ...piece, node, done };
                });
                kept += pieces.length;
                at += pieces.reduce((n, { raw }) => n + raw.length, 0);
                if (last) {
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
    return <div class="markdown" ref={root} />;
}
