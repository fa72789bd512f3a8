import { useEffect, useState } from "preact/hooks";
import { key, keyWanted, setKey } from "./api/client";
import { Chat } from "./chat/Chat";
import { language, t, type Key } from "./i18n";
import { chatById, chats, newChat, ready } from "./store/chats";
import { lastChat } from "./store/prefs";
import { trouble, watchServer } from "./store/server";
import { FailureNotice } from "./ui/failure";
import { Dialog } from "./ui/parts";
import { LanguageSelect, ThemeButton } from "./ui/preferences";
import { rest, view, views, type View } from "./ui/route";
import { Compare } from "./views/Compare";
import { MachineView } from "./views/Machine";
import { ModelView } from "./views/Model";
import { Tokens } from "./views/Tokens";

const names: Record<View, Key> = { chat: "chat", model: "model", compare: "compare", tokens: "tokens", machine: "machine" };

function KeyDialog() {
    const [value, setValue] = useState(key.value), [keep, setKeep] = useState(false);
    return <Dialog title={t("keyTitle")} onClose={() => { keyWanted.value = false; }}>
        <form onSubmit={(e) => { e.preventDefault(); setKey(value.trim(), keep); void watchServer(); }}>
            <p>{t("keyHelp")}</p>
            <label class="wide-label">{t("key")}<input type="password" autocomplete="off" value={value} onInput={(e) => setValue(e.currentTarget.value)} /></label>
            <label class="check"><input type="checkbox" checked={keep} onChange={(e) => setKeep(e.currentTarget.checked)} />{t("keyKeep")}</label>
            <div class="row end"><button type="submit" class="primary">{t("use")}</button></div>
        </form>
    </Dialog>;
}

function About({ onClose }: { onClose: () => void }) {
    return <Dialog title={t("help")} onClose={onClose}>
        <p class="row only-narrow"><ThemeButton /><LanguageSelect /></p>
        <p>{t("aboutText")}</p>
        <table class="plain keys-table"><tbody>
            {([["Enter", "keyEnter"], ["Shift Enter", "keyShiftEnter"], ["Esc", "keyEsc"], ["← → ↑ ↓", "keyArrows"], ["Alt 1 … 5", "keyViews"], ["Alt N", "keyNew"], ["?", "keyHelpKey"]] as [string, Key][]).map(([k, what]) =>
                <tr key={k}><th scope="row"><kbd>{k}</kbd></th><td>{t(what)}</td></tr>)}
        </tbody></table>
    </Dialog>;
}

function Header({ help }: { help: () => void }) {
    return <header class="top">
        <a class="brand" href="#/chat">lamina</a>
        <nav aria-label={t("views")}>{views.map((v) => <a key={v} href={`#/${v}${v === "chat" && lastChat.value ? `/${lastChat.value}` : ""}`} {...(view.value === v ? { "aria-current": "page" as const } : {})}>{t(names[v])}</a>)}</nav>
        <span class="grow" />
        <span class="row only-wide"><ThemeButton /><LanguageSelect /></span>
        <button type="button" class="icon-button" aria-label={t("help")} title={t("help")} onClick={help}>?</button>
    </header>;
}

// Register the keyboard shortcuts. Those without Alt are ignored while the user types.
function useKeys(help: () => void): void {
    useEffect(() => {
        const onKey = (e: KeyboardEvent): void => {
            const typing = (e.target as HTMLElement).closest?.("input,textarea,select");
            if (e.altKey && !e.ctrlKey && !e.metaKey && /^Digit[1-5]$/.test(e.code)) location.hash = `#/${views[Number(e.code[5]) - 1]!}`;
            else if (e.altKey && !e.ctrlKey && e.code === "KeyN") location.hash = `#/chat/${newChat(chatById(lastChat.peek())?.meta.peek()).meta.peek().id}`;
            else if (e.key === "?" && !typing) help();
            else return;
            e.preventDefault();
        };
        addEventListener("keydown", onKey);
        return () => removeEventListener("keydown", onKey);
    }, []);
}

function CurrentChat() {
    const wanted = rest.value.split("/")[0]!, c = chatById(wanted) ?? chatById(lastChat.peek()) ?? chats.value[0];
    useEffect(() => { if (!c) newChat(); }, [c]);
    return c ? <Chat key={c.meta.peek().id} c={c} /> : null;
}

export function App() {
    const [about, setAbout] = useState(false), help = (): void => setAbout(true);
    useKeys(help);
    useEffect(() => { document.title = view.value === "chat" ? "lamina" : `${t(names[view.value])} – lamina`; });
    void language.value;
    return <>
        <a class="skip" href="#main" onClick={(e) => { e.preventDefault(); document.getElementById("main")!.focus(); }}>{t("skip")}</a>
        <Header help={help} />
        {trouble.value && !keyWanted.value && <div class="trouble"><FailureNotice kind={trouble.value.kind} message={trouble.value.kind === "loading" ? "" : trouble.value.message} remedies={{}} /></div>}
        <main id="main" tabIndex={view.value === "chat" ? -1 : 0}>
            {view.value === "chat" ? ready.value && <CurrentChat /> : view.value === "model" ? <ModelView /> : view.value === "compare" ? <Compare /> : view.value === "tokens" ? <Tokens /> : <MachineView />}
        </main>
        {keyWanted.value && <KeyDialog />}
        {about && <About onClose={() => setAbout(false)} />}
    </>;
}
