// Three quarters of the page's script are libraries that are not needed at the start. The page contains them as text (vite.config.ts), so
// that the browser does not parse them before the page is usable; each runs synchronously at its first use. The server's policy allows
// these scripts by their hashes.
import type * as Curves from "./curves";
import type * as Formulas from "./formulas";
import type * as Text from "./text";

interface Libraries { text: typeof Text; formulas: typeof Formulas; curves: typeof Curves }

declare global { interface Window { laminaLater?: Partial<Libraries> } }

export function later<K extends keyof Libraries>(name: K): Libraries[K] {
    const known = window.laminaLater ??= {};
    if (!known[name]) {
        const script = document.createElement("script");
        script.textContent = document.getElementById(`later-${name}`)!.textContent;
        document.head.append(script);
        script.remove();
    }
    return known[name]!;
}

// Load the libraries of messages before the first answer arrives, when the browser is idle. Call it when the page is usable.
export function prepare(): void {
    const idle = window.requestIdleCallback ?? ((f: () => void) => setTimeout(f, 200));
    setTimeout(() => idle(() => { later("text"); }), 1000);
}
