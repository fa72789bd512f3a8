// Locate tokens in the text that they form. A character made of several tokens appears as U+FFFD in each of them: such a run gets the text
// up to the next readable token.
export interface Piece { from: number; to: number; text: string }

export function align(text: string, tokens: { text: string }[]): Piece[] {
    return from(text, tokens, []);
}

// As align, for a text and tokens that continue those of `before`, which becomes the result: only the last of its pieces are found again.
const AGAIN = 64;
export function alignMore(before: Piece[], text: string, tokens: { text: string }[]): Piece[] {
    let kept = Math.max(0, before.length - AGAIN);
    while (kept > 0 && tokens[kept - 1]!.text.includes("\ufffd")) kept--;
    before.length = kept;
    const out = from(text, tokens, before);
    return (out[out.length - 1]?.to ?? 0) === text.length ? out : align(text, tokens);
}

// Append the pieces that follow those of `out`.
function from(text: string, tokens: { text: string }[], out: Piece[]): Piece[] {
    let at = out[out.length - 1]?.to ?? 0;
    for (let i = out.length; i < tokens.length; i++) {
        const own = tokens[i]!.text;
        if (text.startsWith(own, at)) {
            out.push({ from: at, to: at + own.length, text: own });
            at += own.length;
            continue;
        }
        if (!own.includes("\ufffd")) {                 // not in the text: a special token of the model, or trimmed spaces
            const trimmed = own.trimStart();
            if (trimmed && trimmed !== own && text.startsWith(trimmed, at)) {
                out.push({ from: at, to: at + trimmed.length, text: trimmed });
                at += trimmed.length;
            } else out.push({ from: at, to: at, text: "" });
            continue;
        }
        let next = i + 1;
        while (next < tokens.length && tokens[next]!.text.includes("\ufffd")) next++;
        const found = next < tokens.length && tokens[next]!.text ? text.indexOf(tokens[next]!.text, at) : -1;
        const to = found < 0 ? (next < tokens.length ? at : text.length) : found;
        out.push({ from: at, to, text: text.slice(at, to) });
        for (let k = i + 1; k < next; k++) out.push({ from: to, to, text: "" });
        at = to;
        i = next - 1;
    }
    return out;
}

// Return where the groups begin in which coloured tokens are laid out: up to the end of a line after LEAST tokens, and no more than MOST.
// `known` are those of fewer tokens of the same answer; all but the last are final.
const LEAST = 100, MOST = 400;
export const ends = (tokens: { text: string }[], i: number): boolean => i === 0 || i === tokens.length || tokens[i - 1]!.text.endsWith("\n");
export function groups(tokens: { text: string }[], known: number[] = [0]): number[] {
    const out = known.slice();
    let begin = out[out.length - 1]!;
    for (let i = begin + LEAST; i < tokens.length; i++)
        if (i - begin >= MOST || (i - begin >= LEAST && ends(tokens, i))) out.push(begin = i);
    return out;
}
