// The token shown in the inspector.
import { signal } from "@preact/signals";

export interface Picked { chat: string; turn: string; at: number }
export const picked = signal<Picked | null>(null);
