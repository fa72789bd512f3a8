// The state of the server: whether it responds, its models, and the context size of each.
import { computed, signal } from "@preact/signals";
import { Failure, get } from "../api/client";
import type { Machine, ModelEntry, TracePaths } from "../api/types";

export const models = signal<ModelEntry[]>([]);
export const trouble = signal<Failure | null>(null);
export const contexts = signal<Record<string, number>>({});
export const defaults = signal<Record<string, Record<string, unknown>>>({});         // sampling settings of a request that has none, by model
export const onlyModel = computed(() => models.value.length === 1 ? models.value[0]!.id : "");

let again = 0;

// Poll the server: every two seconds while it fails, else every twenty.
export async function watchServer(): Promise<void> {
    clearTimeout(again);
    try {
        const list = await get<{ data: ModelEntry[] }>("/v1/models");
        models.value = list.data;
        await get("/health");
        trouble.value = null;
    } catch (e) {
        if (e instanceof Failure) trouble.value = e;
    }
    again = window.setTimeout(() => { void watchServer(); }, trouble.value ? 2000 : 20000);
}

export function noteFailure(e: Failure): void {
    if (["gone", "loading", "draining", "key"].includes(e.kind)) {
        trouble.value = e;
        clearTimeout(again);
        again = window.setTimeout(() => { void watchServer(); }, 1500);
    }
}

const query = (model: string): string => model ? `?model=${encodeURIComponent(model)}` : "";
export const withModel = (path: string, model: string): string => path + (path.includes("?") ? query(model).replace("?", "&") : query(model));

// Return the context size of a model without loading it: for an unloaded model, the size that it was trained for.
export async function contextOf(model: string): Promise<number> {
    const known = contexts.value[model];
    if (known) return known;
    const props = await get<{ default_generation_settings?: { n_ctx?: number; params?: Record<string, unknown> } }>(withModel("/props", model));
    const n = props.default_generation_settings?.n_ctx ?? 0, params = props.default_generation_settings?.params;
    if (params) defaults.value = { ...defaults.value, [model]: params };
    if (n) contexts.value = { ...contexts.value, [model]: n };
    return n || (models.value.find((m) => m.id === model)?.meta.n_ctx_train ?? 0);
}

// Whether the server draws a new seed for each request to this model that has none. false: it has a default seed, or is not known yet.
export const drawsSeeds = (model: string): boolean => defaults.value[model]?.["seed"] === -1;

export const machine = signal<Machine | null>(null);

const paths = new Map<string, Promise<TracePaths | null>>();
export function tracePaths(model: string): Promise<TracePaths | null> {
    let p = paths.get(model);
    if (!p) {
        p = get<TracePaths>(withModel("/v1/trace/paths", model)).catch(() => null);
        paths.set(model, p);
        void p.then((x) => { if (!x) paths.delete(model); });
    }
    return p;
}
