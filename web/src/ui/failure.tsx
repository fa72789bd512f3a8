// Notices of failures: each kind has a sentence and the actions that can help.
import type { FailureKind } from "../api/client";
import { keyWanted } from "../api/client";
import { t, type Key } from "../i18n";
import { watchServer } from "../store/server";
import { Notice } from "./parts";

const sentences: Record<FailureKind, Key> = {
    gone: "failGone", loading: "failLoading", draining: "failDraining", busy: "failBusy", key: "failKey", context: "failContext", model: "failModel", memory: "failMemory", refused: "failRefused",
    broken: "failBroken", server: "failServer", off: "failOff",
};

export interface Remedies { retry?: (() => void) | undefined; shorten?: (() => void) | undefined; choose?: (() => void) | undefined; settings?: (() => void) | undefined }

export function FailureNotice({ kind, message, remedies }: { kind: FailureKind; message: string; remedies: Remedies }) {
    const own = ["gone", "broken"].includes(kind) ? "" : message;
    const again = remedies.retry ?? (() => { void watchServer(); });
    return <Notice bad actions={<>
        {kind === "key" && <button type="button" onClick={() => { keyWanted.value = true; }}>{t("enterKey")}</button>}
        {kind === "context" && remedies.shorten && <button type="button" onClick={remedies.shorten}>{t("newChatSame")}</button>}
        {(kind === "model" || kind === "memory") && remedies.choose && <button type="button" onClick={remedies.choose}>{t("chooseModel")}</button>}
        {kind === "refused" && remedies.settings && <button type="button" onClick={remedies.settings}>{t("openSettings")}</button>}
        <button type="button" onClick={again}>{t("tryAgain")}</button>
    </>}>
        <p>{t(sentences[kind])}</p>
        {own && <p class="detail" dir="auto">{own}</p>}
    </Notice>;
}
