// The route, which is the address after #: /chat/ID, /model/NAME …
import { computed, signal } from "@preact/signals";

export const views = ["chat", "model", "compare", "tokens", "machine"] as const;
export type View = (typeof views)[number];

const read = (): string => decodeURI(location.hash.replace(/^#\/?/, ""));
export const address = signal(read());
addEventListener("hashchange", () => { address.value = read(); });

export const view = computed<View>(() => views.find((v) => address.value === v || address.value.startsWith(`${v}/`)) ?? "chat");
export const rest = computed(() => address.value.split("/").slice(1).join("/"));
export const go = (to: string): void => { location.hash = `#/${encodeURI(to)}`; };
