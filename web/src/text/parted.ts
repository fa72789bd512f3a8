// Return the index of the first token in which two answers differ: beyond the end of the shorter one only if both have `ended`. null: they
// do not differ. Answers of one tokenizer are compared by id, as different tokens may look the same.
export function parted<T extends { id: number; text: string }>(a: T[], b: T[], ended: boolean, by: "id" | "text"): number | null {
    const n = Math.min(a.length, b.length);
    for (let i = 0; i < n; i++) if (a[i]![by] !== b[i]![by]) return i;
    return !ended || a.length === b.length ? null : n;
}
