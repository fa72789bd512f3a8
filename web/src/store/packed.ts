// The tokens of an answer as the browser's database stores them. It copies what it is given object by object, which for an answer of 20,000
// tokens with their alternatives takes longer than many frames; numbers in arrays and one text are copied at once.
import type { Alternative, Token } from "./types";

export interface Packed { ids: Int32Array; lps: Float64Array; lengths: Uint32Array; tops: Uint8Array; texts: string }

export function pack(tokens: Token[]): Packed {
    let n = 0, at = 0;
    for (const t of tokens) n += 1 + t.top.length;
    const out = { ids: new Int32Array(n), lps: new Float64Array(n), lengths: new Uint32Array(n), tops: new Uint8Array(tokens.length) }, texts: string[] = [];
    const put = (x: Alternative): void => {
        out.ids[at] = x.id;
        out.lps[at] = x.lp;
        out.lengths[at++] = x.text.length;
        texts.push(x.text);
    };
    tokens.forEach((t, i) => {
        out.tops[i] = t.top.length;
        put(t);
        t.top.forEach(put);
    });
    return { ...out, texts: texts.join("") };
}

export function unpack({ ids, lps, lengths, tops, texts }: Packed): Token[] {
    let at = 0, from = 0;
    const next = (): Alternative => {
        const id = ids[at]!, lp = lps[at]!, to = from + lengths[at++]!, text = texts.slice(from, to);
        from = to;
        return { id, text, lp };
    };
    return Array.from(tops, (n) => ({ ...next(), top: Array.from({ length: n }, next) }));
}
