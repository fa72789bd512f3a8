// Highlight code in the languages that models are often asked for. The highlighter escapes its HTML; it is sanitised all the same.
import { later } from "../later/later";

let known = false;

export function highlight(code: Element, language: string): void {
    const { DOMPurify, hljs, languages } = later("text");
    if (!known) for (const [name, l] of Object.entries(languages)) hljs.registerLanguage(name, l);
    known = true;
    const source = code.textContent ?? "";
    if (!hljs.getLanguage(language) || source.length > 40000) return;
    const html = hljs.highlight(source, { language, ignoreIllegals: true }).value;
    code.replaceChildren(DOMPurify.sanitize(html, { RETURN_DOM_FRAGMENT: true, ALLOWED_TAGS: ["span"], ALLOWED_ATTR: ["class"] }));
}
