// Preferences of the reader, stored in this browser.
import { effect, signal, type Signal } from "@preact/signals";

function kept<T>(name: string, otherwise: T): Signal<T> {
    let first = otherwise;
    try {
        const text = localStorage.getItem(name);
        if (text !== null) first = JSON.parse(text) as T;
    } catch { /* not a value that this page stored */ }
    const s = signal(first);
    effect(() => { try { localStorage.setItem(name, JSON.stringify(s.value)); } catch { /* storage is full or not allowed */ } });
    return s;
}

export type Theme = "auto" | "light" | "dark";
export const theme = kept<Theme>("lamina-theme", "auto");
export const surprise = kept<boolean>("lamina-surprise", false);
export const tracing = kept<boolean>("lamina-trace", false);          // while surprise is shown
export const sidebar = kept<boolean>("lamina-sidebar", innerWidth >= 800);
export const lastModel = kept<string>("lamina-model", "");
export const lastChat = kept<string>("lamina-chat", "");

effect(() => {
    if (theme.value === "auto") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = theme.value;
});
