// Find what a reader seeks in a text: letters of either case, and white space of any length.
export interface Excerpt { before: string; match: string; after: string }

const LONGEST = 100, BEFORE = 30, AFTER = 60;        // characters

// Return null if nothing is sought.
export function finder(sought: string): RegExp | null {
    const words = sought.slice(0, LONGEST).trim().split(/\s+/u).filter(Boolean);
    return words.length ? new RegExp(words.map((w) => w.replace(/[\\^$.*+?()[\]{}|/]/gu, "\\$&")).join("\\s+"), "iu") : null;
}

const line = (text: string): string => text.replace(/\s+/gu, " ").replace(/^[\udc00-\udfff]|[\ud800-\udbff]$/gu, "");

// Return the first place where it is, with the words around it in one line.
export function excerpt(text: string, find: RegExp): Excerpt | null {
    const m = find.exec(text);
    if (!m) return null;
    const from = Math.max(0, m.index - BEFORE), end = m.index + m[0].length, to = Math.min(text.length, end + AFTER);
    const before = from ? text.slice(from, m.index).replace(/^\S{0,12}\s/u, "") : text.slice(0, m.index);
    return { before: (from ? "…" : "") + line(before).trimStart(), match: line(m[0]).slice(0, LONGEST), after: line(text.slice(end, to)) + (to < text.length ? "…" : "") };
}
