// The comparison that another view requests.
import { signal } from "@preact/signals";

export interface Seed { prompt: string; columns: { model: string; intervene: string }[] }
export const seed = signal<Seed | null>(null);
