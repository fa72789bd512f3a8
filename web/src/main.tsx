import { render } from "preact";
import { App } from "./app";
import { loadChats } from "./store/chats";
import { startHistory } from "./store/history";
import { watchServer } from "./store/server";
import { prepare } from "./later/later";
import "./style.css";

if (import.meta.env.DEV) window.laminaLater = { text: await import("./later/text"), formulas: await import("./later/formulas"), curves: await import("./later/curves") };

render(<App />, document.getElementById("app")!);
void loadChats();
void watchServer();
startHistory();
prepare();
