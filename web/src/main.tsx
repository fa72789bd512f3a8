import { render } from "preact";
import type { Saved } from "./inspect/SavedTrace";
import { App } from "./app";
import { SavedTrace } from "./inspect/SavedTrace";
import { loadChats } from "./store/chats";
import { startHistory } from "./store/history";
import { watchServer } from "./store/server";
import { prepare } from "./later/later";
import "./style.css";

if (import.meta.env.DEV) window.laminaLater = { text: await import("./later/text"), formulas: await import("./later/formulas"), curves: await import("./later/curves") };

const root = document.getElementById("app")!, saved = document.getElementById("trace");         // `lamina trace -o FILE.html` adds the trace
if (saved) {
    render(<SavedTrace saved={JSON.parse(saved.textContent) as Saved} />, root);
} else {
    render(<App />, root);
    void loadChats().then(prepare);
    void watchServer();
    startHistory();
}
