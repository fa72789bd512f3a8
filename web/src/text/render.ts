// Render the Markdown of models. Model output is never trusted: HTML in it is shown as text, links lead only to http, https and mailto
// addresses and reveal nothing about this page, pictures become links, and DOMPurify sanitises the result.
import type { MarkdownIt } from "markdown-it";
import type { Piece } from "./blocks";
import { highlight } from "./highlight";
import { later } from "../later/later";
import { visible } from "./visible";

const address = (href: string): boolean => /^(https?:\/\/|mailto:)[^\s]+$/i.test(href);

// Formulas within a line, and in lines of their own: \( \), \[ \], $ $, $$ $$.
const inLine = [/\\\(([^]{1,2000}?)\\\)/y, /\\\[([^]{1,4000}?)\\\]/y, /\$\$([^$]{1,4000}?)\$\$/y, /\$(?![\s$])((?:\\.|[^\\$\n]){1,500}?)(?<!\s)\$(?![\d$])/y];
const inLines = [/\$\$([^]{1,4000}?)\$\$[ \t]*(?=\n|$)/y, /\\\[([^]{1,4000}?)\\\][ \t]*(?=\n|$)/y];

function matched(patterns: RegExp[], text: string, at: number): RegExpExecArray | null {
    for (const p of patterns) {
        p.lastIndex = at;
        const m = p.exec(text);
        if (m) return m;
    }
    return null;
}

function formulaRules(md: MarkdownIt): void {
    md.inline.ruler.before("escape", "formula", (s, silent) => {
        if (s.src[s.pos] !== "$" && s.src[s.pos] !== "\\") return false;
        const m = matched(inLine, s.src, s.pos);
        if (!m) return false;
        if (!silent) Object.assign(s.push("formula", "", 0), { content: m[1], info: /^(\\\[|\$\$)/.test(m[0]) ? "block" : "line" });
        s.pos += m[0].length;
        return true;
    });
    md.block.ruler.before("fence", "formulas", (s, from, to, silent) => {
        const start = s.bMarks[from]! + s.tShift[from]!;
        if (s.sCount[from]! - s.blkIndent >= 4 || !/^(\$\$|\\\[)/.test(s.src.slice(start, start + 2))) return false;
        const m = matched(inLines, s.getLines(from, Math.min(to, from + 200), s.sCount[from]!, false), 0);
        if (!m) return false;
        if (silent) return true;
        const end = from + m[0].split("\n").length;
        Object.assign(s.push("formula", "", 0), { content: m[1], info: "block", map: [from, end], block: true });
        s.line = end;
        return true;
    }, { alt: ["paragraph"] });
    md.renderer.rules["formula"] = (tokens, i) => `<span data-math="${tokens[i]!.info}">${md.utils.escapeHtml(tokens[i]!.content)}</span>`;
}

function reader(): MarkdownIt {
    const { MarkdownIt: Reader, cjk } = later("text"), md = new Reader({ linkify: true, breaks: true }).use(cjk), { escapeHtml } = md.utils;
    md.linkify.set({ fuzzyLink: false });
    md.validateLink = address;
    formulaRules(md);
    md.inline.ruler.before("autolink", "br", (s, silent) => {
        const m = /^<br\s{0,9}\/?>/i.exec(s.src.slice(s.pos, s.pos + 16));
        if (!m) return false;
        if (!silent) s.push("hardbreak", "br", 0);
        s.pos += m[0].length;
        return true;
    });
    const opening = (href: unknown): string => `<a href="${escapeHtml(String(href))}" target="_blank" rel="noopener noreferrer nofollow">`;
    Object.assign(md.renderer.rules, {
        link_open: (tokens, i) => opening(tokens[i]!.attrGet("href")),
        image: (tokens, i) => `${opening(tokens[i]!.attrGet("src"))}🖼 ${escapeHtml(tokens[i]!.content || String(tokens[i]!.attrGet("src")))}</a>`,
        fence: (tokens, i) => `<pre data-lang="${escapeHtml(/^[\w+#.-]{1,24}/.exec(tokens[i]!.info.trim())?.[0] ?? "")}"><code>${escapeHtml(tokens[i]!.content)}</code></pre>`,
        table_open: () => '<div class="scroll"><table>',
        table_close: () => "</table></div>",
        th_open: (tokens, i) => `<th scope="col"${side(tokens[i]!.attrGet("style"))}>`,
        td_open: (tokens, i) => `<td${side(tokens[i]!.attrGet("style"))}>`,
    } satisfies MarkdownIt["renderer"]["rules"]);
    return md;
}

const side = (style: string | number | null): string => style ? ` class="to-${String(style).slice("text-align:".length)}"` : "";

let whole: MarkdownIt | null = null, structure: MarkdownIt | null = null;

// Return a reader of lines only, which divides a text into blocks.
export function lines(): MarkdownIt {
    if (structure) return structure;
    structure = reader();
    structure.core.ruler.enableOnly(["block"]);
    return structure;
}

const clean = (html: string): DocumentFragment => later("text").DOMPurify.sanitize(html, {
    RETURN_DOM_FRAGMENT: true,
    ALLOWED_TAGS: ["p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code", "em", "strong", "s", "a", "table", "thead", "tbody", "tr", "th", "td", "div", "span"],
    ALLOWED_ATTR: ["href", "target", "rel", "data-lang", "data-math", "class", "scope", "start"],
    ALLOW_DATA_ATTR: false,
});

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

// Turn the marks of tasks at the beginning of list items into boxes.
function tasks(root: HTMLElement): void {
    for (const item of root.querySelectorAll("li")) {
        const first = (item.firstElementChild?.tagName === "P" ? item.firstElementChild : item).firstChild, mark = first instanceof Text ? /^\[([ xX])\]\s/.exec(first.data) : null;
        if (!mark) continue;
        const box = document.createElement("input");
        box.type = "checkbox";
        box.disabled = true;
        box.checked = mark[1] !== " ";
        box.setAttribute("aria-label", box.checked ? "☑" : "☐");
        (first as Text).replaceData(0, 3, "");
        first!.before(box);
    }
}

// Render a piece of a text. What cannot be rendered is shown as it is.
export function renderPiece({ raw, plain: asItIs }: Piece, done: boolean, texts: CodeTexts): HTMLElement {
    if (asItIs) return plain(raw);
    const div = document.createElement("div");
    div.className = "block";
    div.dir = "auto";
    try {
        div.append(clean((whole ??= reader()).render(visible(raw))));
        headings(div);
        formulas(div);
        codes(div, done, texts);
        tasks(div);
        for (const wide of div.querySelectorAll<HTMLElement>(".scroll")) wide.tabIndex = 0;
    } catch {
        return plain(raw);
    }
    return div;
}
