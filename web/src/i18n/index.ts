// The page in four languages: tables with one entry per text. The compiler checks that they have the keys of the English one.
import { effect, signal } from "@preact/signals";
import { en } from "./en";
import { my } from "./my";
import { zhHans } from "./zh-hans";
import { zhHant } from "./zh-hant";

export type Texts = Record<keyof typeof en, string>;
export type Key = keyof typeof en;
export type Tag = "en" | "zh-Hant" | "zh-Hans" | "my";

const tables: Record<Tag, Texts> = { en, "zh-Hant": zhHant, "zh-Hans": zhHans, my };
export const languages: [Tag, string][] = [["en", "English"], ["zh-Hant", "繁體中文"], ["zh-Hans", "简体中文"], ["my", "မြန်မာ"]];

function negotiate(wanted: readonly string[]): Tag {
    for (const w of wanted) {
        const l = w.toLowerCase();
        if (l.startsWith("my")) return "my";
        if (/^zh\b.*\b(hant|tw|hk|mo)\b/.test(l)) return "zh-Hant";
        if (l.startsWith("zh")) return "zh-Hans";
        if (l.startsWith("en")) return "en";
    }
    return "en";
}

const keptTag = localStorage.getItem("lamina-language");
export const language = signal<Tag>(keptTag !== null && keptTag in tables ? keptTag as Tag : negotiate(navigator.languages));

export function setLanguage(tag: Tag): void {
    localStorage.setItem("lamina-language", tag);
    language.value = tag;
}

effect(() => { document.documentElement.lang = language.value; });

export function t(key: Key, values?: Record<string, string | number>): string {
    const text = tables[language.value][key];
    return values ? text.replace(/\{(\w+)\}/g, (all, name: string) => name in values ? String(values[name]) : all) : text;
}
