// Highlight code in the languages that models are often asked for. The highlighter escapes its HTML; it is sanitised all the same. Its time grows
// with the square of some texts: it gets parts of bounded size, none of a text with longer lines, and after BUDGET the rest stays plain.
import { later } from "../later/later";

export const PART = 4000, LINE = 1000;   // characters
const BUDGET = 50;                       // milliseconds

let known = false;

// Divide code into parts of whole lines, at blank lines where there are any; null: a line is too long.
export function partsOf(source: string): string[] | null {
    if (source.split("\n").some((line) => line.length > LINE)) return null;
    const out: string[] = [];
    for (let at = 0; at < source.length;) {
        const end = at + PART, blank = source.lastIndexOf("\n\n", end - 2), to = end >= source.length ? source.length : blank >= at + PART / 2 ? blank + 2 : source.lastIndexOf("\n", end - 1) + 1;
        out.push(source.slice(at, to));
        at = to;
    }
    return out;
}

export function highlight(code: Element, language: string): void {
    const { DOMPurify, hljs, languages } = later("text");
    if (!known) for (const [name, l] of Object.entries(languages)) hljs.registerLanguage(name, l);
    known = true;
    const parts = hljs.getLanguage(language) ? partsOf(code.textContent ?? "") : null, began = performance.now();
    if (!parts) return;
    code.replaceChildren(...parts.map((part) => performance.now() - began > BUDGET ? part
        : DOMPurify.sanitize(hljs.highlight(part, { language, ignoreIllegals: true }).value, { RETURN_DOM_FRAGMENT: true, ALLOWED_TAGS: ["span"], ALLOWED_ATTR: ["class"] })));
}
