// The route, which is the address after #: /chat/ID, /model/NAME …
import { computed, signal } from "@preact/signals";

export const views = ["chat", "model", "compare", "tokens", "machine"] as const;
export type View = (typeof views)[number];

const read = (): string => {
    const text = location.hash.replace(/^#\/?/, "");
    try { return decodeURI(text); } catch { return text; }
};
export const address = signal(read());
addEventListener("hashchange", () => { address.value = read(); });

export const view = computed<View>(() => views.find((v) => address.value === v || address.value.startsWith(`${v}/`)) ?? "chat");
export const rest = computed(() => address.value.split("/").slice(1).join("/"));
export const go = (to: string): void => { location.hash = `#/${encodeURI(to)}`; };
