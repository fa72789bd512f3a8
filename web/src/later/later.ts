// Three quarters of the page's script are libraries that nothing needs to begin with. They stand in the page as text (vite.config.ts), so
// that a browser need not read them before the page can be used; each is run, at once, when something first asks for it. The policy of the
// server lets these texts run because it knows their hashes.
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

// Those of messages before the first answer comes, when there is nothing else to do.
export function prepare(): void {
    const idle = window.requestIdleCallback ?? ((f: () => void) => setTimeout(f, 200));
    setTimeout(() => idle(() => { later("text"); }), 1000);
}
