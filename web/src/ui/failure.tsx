// Notices of failures: each kind has a sentence and the actions that can help.
import type { FailureKind } from "../api/client";
import { keyWanted } from "../api/client";
import { useState } from "preact/hooks";
import { t, type Key } from "../i18n";
import { watchServer } from "../store/server";
import { Notice } from "./parts";

const sentences: Record<FailureKind, Key> = {
    gone: "failGone", loading: "failLoading", draining: "failDraining", busy: "failBusy", key: "failKey", context: "failContext", model: "failModel", memory: "failMemory", refused: "failRefused",
    broken: "failBroken", server: "failServer", off: "failOff",
    traces: "failTraces", forbidden: "failForbidden",
};

export interface Remedies { retry?: (() => void) | undefined; shorten?: (() => void) | undefined; choose?: (() => void) | undefined; settings?: (() => void) | undefined; untraced?: (() => void) | undefined; first?: (() => void) | undefined }

const withTrace: FailureKind[] = ["traces", "off", "refused", "memory", "server"];         // what a request without a trace can avoid
const start = "lamina serve MODEL --allow-interventions";

function Command() {
    const [copied, setCopied] = useState(false);
    return <button type="button" onClick={() => { void navigator.clipboard?.writeText(start).then(() => setCopied(true)).catch(() => undefined); }}>{t(copied ? "copied" : "copyCommand")}</button>;
}

export function FailureNotice({ kind, message, remedies }: { kind: FailureKind; message: string; remedies: Remedies }) {
    const own = ["gone", "broken", "forbidden", "traces"].includes(kind) ? "" : message;
    const again = remedies.retry ?? (() => { void watchServer(); });
    return <Notice bad actions={<>
        {kind === "key" && <button type="button" onClick={() => { keyWanted.value = true; }}>{t("enterKey")}</button>}
        {kind === "context" && remedies.shorten && <button type="button" onClick={remedies.shorten}>{t("newChatSame")}</button>}
        {(kind === "model" || kind === "memory") && remedies.choose && <button type="button" onClick={remedies.choose}>{t("chooseModel")}</button>}
        {kind === "refused" && remedies.settings && <button type="button" onClick={remedies.settings}>{t("openSettings")}</button>}
        {withTrace.includes(kind) && remedies.untraced && <button type="button" onClick={remedies.untraced}>{t("untraced")}</button>}
        {kind === "forbidden" && <Command />}
        {kind === "forbidden" && remedies.first && <button type="button" onClick={remedies.first}>{t("showFirst")}</button>}
        <button type="button" onClick={again}>{t("tryAgain")}</button>
    </>}>
        <p>{t(sentences[kind])}</p>
        {kind === "forbidden" && <p class="detail"><code>{start}</code></p>}
        {own && <p class="detail" dir="auto">{own}</p>}
    </Notice>;
}
