// Render the Markdown of models. Model output is never trusted: HTML in it is shown as text, links lead only to http, https and mailto
// addresses and reveal nothing about this page, pictures become links, and DOMPurify sanitises the result.
import type { Marked, TokenizerAndRendererExtension, Tokens } from "marked";
import { highlight } from "./highlight";
import { later } from "../later/later";
import { visible } from "./visible";

const escape = (s: string): string => s.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
const address = (href: string): string | null => /^(https?:\/\/|mailto:)[^\s]+$/i.test(href) ? href : null;

interface MathToken extends Tokens.Generic { type: "math" | "mathBlock"; text: string }

const mathNode = (t: Tokens.Generic, block: boolean): string => `<span data-math="${block ? "block" : "line"}">${escape((t as MathToken).text)}</span>`;

const math: TokenizerAndRendererExtension = {
    name: "math",
    level: "inline",
    start: (src: string) => { const i = src.search(/\$|\\\(|\\\[/); return i < 0 ? undefined : i; },
    tokenizer(src: string) {
        const m = /^\\\(([\s\S]{1,2000}?)\\\)/.exec(src) ?? /^\\\[([\s\S]{1,4000}?)\\\]/.exec(src) ?? /^\$\$([^$]{1,4000}?)\$\$/.exec(src)
            ?? /^\$(?![\s$])((?:\\.|[^\\$\n]){1,500}?)(?<!\s)\$(?![\d$])/.exec(src);
        return m ? { type: "math", raw: m[0], text: m[1]!, block: m[0].startsWith("\\[") || m[0].startsWith("$$") } : undefined;
    },
    renderer: (t) => mathNode(t, Boolean(t["block"])),
};

const mathBlock: TokenizerAndRendererExtension = {
    name: "mathBlock",
    level: "block",
    start: (src: string) => { const i = src.search(/\n(\$\$|\\\[)/); return i < 0 ? undefined : i + 1; },
    tokenizer(src: string) {
        const m = /^\$\$([\s\S]{1,4000}?)\$\$[ \t]*(?:\n|$)/.exec(src) ?? /^\\\[([\s\S]{1,4000}?)\\\][ \t]*(?:\n|$)/.exec(src);
        return m ? { type: "mathBlock", raw: m[0], text: m[1]! } : undefined;
    },
    renderer: (t) => `<p>${mathNode(t, true)}</p>`,
};

let reader: Marked | null = null;

function marked(): Marked {
    if (reader) return reader;
    reader = new (later("text").Marked)({ gfm: true, breaks: true, async: false, extensions: [mathBlock, math] });
    reader.use({
        renderer: {
            html: ({ text }) => escape(text),
            link({ href, tokens }) {
                const to = address(href), inner = this.parser.parseInline(tokens);
                return to ? `<a href="${escape(to)}" target="_blank" rel="noopener noreferrer nofollow">${inner}</a>` : inner;
            },
            image({ href, text }) {
                const to = address(href);
                return to ? `<a href="${escape(to)}" target="_blank" rel="noopener noreferrer nofollow">🖼 ${escape(text || to)}</a>` : escape(text);
            },
            code: ({ text, lang }) => `<pre data-lang="${escape(/^[\w+#.-]{1,24}/.exec(lang ?? "")?.[0] ?? "")}"><code>${escape(text)}</code></pre>`,
            table({ header, rows }) {
                const row = (cells: Tokens.TableCell[], tag: "th" | "td"): string => `<tr>${cells.map((c) =>
                    `<${tag}${tag === "th" ? ' scope="col"' : ""}${c.align ? ` class="to-${c.align}"` : ""}>${this.parser.parseInline(c.tokens)}</${tag}>`).join("")}</tr>`;
                return `<div class="scroll"><table><thead>${row(header, "th")}</thead><tbody>${rows.map((r) => row(r, "td")).join("")}</tbody></table></div>`;
            },
        },
    });
    return reader;
}

const clean = (html: string): DocumentFragment => later("text").DOMPurify.sanitize(html, {
    RETURN_DOM_FRAGMENT: true,
    ALLOWED_TAGS: ["p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code", "em", "strong", "del", "a", "table", "thead", "tbody", "tr", "th", "td", "div",
        "span", "input"],
    ALLOWED_ATTR: ["href", "target", "rel", "data-lang", "data-math", "class", "scope", "start", "type", "checked", "disabled"],
    ALLOW_DATA_ATTR: false,
});

export interface Block { raw: string; node: HTMLElement; done: boolean }

export const LONGEST = 20000;            // characters of a block; a longer one is shown as plain text

function plain(raw: string): HTMLElement {
    const div = document.createElement("div");
    div.className = "raw";
    div.textContent = visible(raw);
    return div;
}

function formulas(root: HTMLElement): void {
    for (const span of root.querySelectorAll<HTMLElement>("span[data-math]")) {
        const source = span.textContent ?? "";
        try {
            span.textContent = "";
            later("formulas").temml.render(source, span, { displayMode: span.dataset["math"] === "block", throwOnError: true, trust: false, maxSize: [20, 20], maxExpand: 200 });
            span.className = span.dataset["math"] === "block" ? "formula block" : "formula";
        } catch {
            span.textContent = source;
        }
    }
}

const HEADING = 2;                       // level of the page heading above a message

// Put the headings of a text below those of the page.
function headings(root: HTMLElement): void {
    for (const h of root.querySelectorAll("h1,h2,h3,h4,h5,h6")) {
        const p = document.createElement("p");
        p.className = `h h${Number(h.tagName[1]) + HEADING > 6 ? 6 : Number(h.tagName[1]) + HEADING}`;
        p.append(...h.childNodes);
        h.replaceWith(p);
    }
}

export interface CodeTexts { copy: string; copied: string }

function codes(root: HTMLElement, done: boolean, texts: CodeTexts): void {
    for (const pre of root.querySelectorAll("pre")) {
        const frame = document.createElement("div"), head = document.createElement("div"), name = document.createElement("span"), button = document.createElement("button");
        const code = pre.querySelector("code")!, source = code.textContent ?? "";
        frame.className = "code";
        head.className = "code-head";
        name.textContent = pre.dataset["lang"] ?? "";
        button.type = "button";
        button.className = "quiet";
        button.textContent = texts.copy;
        button.addEventListener("click", () => {
            void navigator.clipboard?.writeText(source).then(() => {
                button.textContent = texts.copied;
                setTimeout(() => { button.textContent = texts.copy; }, 1500);
            }).catch(() => undefined);
        });
        head.append(name, button);
        pre.replaceWith(frame);
        pre.tabIndex = 0;
        frame.append(head, pre);
        if (done) highlight(code, pre.dataset["lang"] ?? "");
    }
}

export function renderBlock(raw: string, done: boolean, texts: CodeTexts): HTMLElement {
    if (raw.length > LONGEST) return plain(raw);
    const div = document.createElement("div");
    div.className = "block";
    div.append(clean(marked().parse(visible(raw)) as string));
    headings(div);
    formulas(div);
    codes(div, done, texts);
    for (const box of div.querySelectorAll("input")) box.setAttribute("aria-label", box.checked ? "☑" : "☐");
    return div;
}

// Split a text into its top-level blocks; together they are the whole text.
export function blocksOf(text: string): string[] {
    const out: string[] = [];
    for (const t of marked().lexer(text)) {
        if (t.type === "space" && out.length) out[out.length - 1] += t.raw;
        else out.push(t.raw);
    }
    return out;
}
