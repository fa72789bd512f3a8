// Split a text into top-level blocks that are parsed and rendered on their own. Work is bounded: no more than LONGEST characters are parsed at
// once, and of a growing text only the last two blocks are parsed again.
import type { MarkdownIt } from "markdown-it";

export interface Piece {
    raw: string;
    plain?: true;                        // part of a block longer than LONGEST, which is shown as it is
    end?: string;                        // where that block ends: the next piece is part of it
}

export const STEP = 6000, LONGEST = 20000;

// Return the blocks of a text; together they are the whole text. Only the structure of lines is parsed.
export function blocksOf(reader: MarkdownIt, text: string): string[] {
    const starts = reader.parse(text, {}).filter((t) => t.level === 0 && t.nesting >= 0 && t.map).map((t) => t.map![0]).slice(1), out: string[] = [];
    let from = 0, line = 0;
    for (const start of starts) {
        let to = from;
        for (; line < start; line++) to = text.indexOf("\n", to) + 1;
        out.push(text.slice(from, to));
        from = to;
    }
    out.push(text.slice(from));
    return out;
}

// Cut before the end of a line, so that the mark of a block's end is never divided.
function cut(text: string): string {
    const line = text.lastIndexOf("\n", LONGEST - 1);
    return text.slice(0, line > 0 ? line : LONGEST);
}

// Return the next pieces of the rest of a text: all of them, or some that are complete. `end` is that of the piece before.
export function next(reader: MarkdownIt, rest: string, end = ""): { pieces: Piece[]; last: boolean } {
    if (end) {
        const window = rest.slice(0, LONGEST), at = window.indexOf(end);
        if (at >= 0) {
            const after = at + end.length, line = end === "\n\n" ? after - 1 : window.indexOf("\n", after), raw = line < 0 ? window : window.slice(0, line + 1);
            return { pieces: [{ raw, plain: true }], last: raw.length === rest.length };
        }
        return rest.length < LONGEST ? { pieces: [{ raw: rest, plain: true }], last: true } : { pieces: [{ raw: cut(window), plain: true, end }], last: false };
    }
    for (const size of [STEP, LONGEST]) {
        if (rest.length <= size) return { pieces: blocksOf(reader, rest).map((raw) => ({ raw })), last: true };
        const raws = blocksOf(reader, rest.slice(0, size)).slice(0, -1);
        if (raws.length) return { pieces: raws.map((raw) => ({ raw })), last: false };
    }
    const block = rest.slice(0, LONGEST).trimEnd();                // blank lines that follow a block make it no longer
    if (rest.startsWith("\n\n", block.length) && blocksOf(reader, `${block}\n\nx`).length > 1) return { pieces: [{ raw: `${block}\n\n` }], last: false };
    const fence = /^\n* {0,3}(`{3,}|~{3,})/.exec(rest)?.[1];
    return { pieces: [{ raw: cut(rest), plain: true, end: fence ? `\n${fence}` : "\n\n" }], last: false };
}
