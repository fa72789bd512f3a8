// Locate tokens in the text that they form. A character made of several tokens appears as U+FFFD in each of them: such a run gets the text
// up to the next readable token.
export interface Piece { from: number; to: number; text: string }

export function align(text: string, tokens: { text: string }[]): Piece[] {
    const out: Piece[] = [];
    let at = 0;
    for (let i = 0; i < tokens.length; i++) {
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
