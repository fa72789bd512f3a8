// A text file within a message: its name, and its contents between fences that are longer than any in it.
export function attached(name: string, contents: string): string {
    const longest = (contents.match(/`{3,}/g) ?? []).reduce((n, x) => Math.max(n, x.length), 2), fence = "`".repeat(longest + 1), kind = /\.([\w+-]{1,16})$/.exec(name)?.[1] ?? "";
    return `${name}:\n${fence}${kind}\n${contents.replace(/\r\n?/g, "\n").replace(/\n*$/, "\n")}${fence}\n`;
}

// Return the text of a file, or null if it is none.
export async function textOf(file: File): Promise<string | null> {
    try {
        const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
        return text.includes("\0") ? null : text;
    } catch {
        return null;
    }
}
