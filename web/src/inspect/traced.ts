// What the model computed for tokens, by turn and index: rows that arrived with their answer, and traces that were requested later. They are
// large, so they are kept in memory only, and only the latest.
import type { TokenTrace, Trace, TraceRow } from "../api/types";

export class Latest<T> {
    private readonly all = new Map<string, T>();
    constructor(private readonly most: number) {}
    get(name: string): T | undefined { return this.all.get(name); }
    set(name: string, value: T): void {
        this.all.delete(name);
        this.all.set(name, value);
        if (this.all.size > this.most) this.all.delete(this.all.keys().next().value!);
    }
    forget(prefix: string): void { for (const name of this.all.keys()) if (name.startsWith(prefix)) this.all.delete(name); }
}

const rows = new Latest<TraceRow>(1000);
export const traces = new Latest<Trace>(50);
export const nameOf = (turn: string, at: number): string => `${turn} ${at}`;
export const rowOf = (turn: string, at: number): TraceRow | undefined => rows.get(nameOf(turn, at));

// Return what keeps the traces of an answer that begins now, whose first generated token has index `first`. A token whose trace failed has
// none; those of other tokens are found by their positions.
export function keeper(turn: string, first: number): (x: TokenTrace) => void {
    let seen = 0, begin: number | null = null;
    rows.forget(`${turn} `);
    traces.forget(`${turn} `);
    return (x) => {
        if (x.token) {
            begin ??= x.token.position - seen;
            if (x.row) rows.set(nameOf(turn, first + x.token.position - begin), x.row);
        }
        seen++;
    };
}
