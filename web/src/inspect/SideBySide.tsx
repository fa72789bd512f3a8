// An answer that was generated with a change in the model, next to the first answer to the same message, and where they differ.
import { writing } from "../chat/generate";
import { picked } from "../chat/picked";
import { ColouredText } from "../chat/Tokens";
import { t } from "../i18n";
import { drawsSeeds } from "../store/server";
import type { Token, Turn } from "../store/types";
import { parted } from "../text/parted";
import { Before } from "./Inspector";

const SHOWN = 5;

// The most probable tokens of a place, and the chosen one.
function alternatives(x: Token | undefined): { id: number; text: string; p: number }[] {
    if (!x) return [];
    const top = x.top.slice(0, SHOWN), all = top.some((a) => a.id === x.id) ? top : [...top, x];
    return all.map((a) => ({ id: a.id, text: a.text, p: Math.exp(a.lp) }));
}

function Column({ turn, name, mark }: { turn: Turn; name: string; mark: number | null }) {
    const tokens = turn.tokens ?? [], chosen = picked.value?.turn === turn.id ? picked.value.at : null, busy = writing.value.has(turn.id);
    return <section aria-label={name} aria-busy={busy}>
        <h3>{name}</h3>
        {tokens.length ? <ColouredText text={turn.text} tokens={tokens} chosen={chosen} label={`${name}: ${t("tokensOf", { n: tokens.length })}`}
            choose={(at) => { picked.value = at === null ? null : { chat: turn.chat, turn: turn.id, at }; }} {...(mark === null ? {} : { mark })} />
            : busy && <p class="waiting"><span class="dots" aria-hidden="true" />{t("waiting")}</p>}
    </section>;
}

export function SideBySide({ turn, first }: { turn: Turn; first: Turn }) {
    const a = first.tokens ?? [], b = turn.tokens ?? [], ended = !writing.value.has(first.id) && !writing.value.has(turn.id), at = parted(a, b, ended, "id");
    const drawn = (first.numbers?.["seed"] ?? -1) === -1 && first.numbers?.["temperature"] !== 0 && drawsSeeds(first.model ?? "");
    return <>
        <div class="side-by-side">
            <Column turn={first} name={t("asItIs")} mark={at} />
            <Column turn={turn} name={t("without")} mark={at} />
        </div>
        {at !== null && <div class="parted">
            <p>{t("partsAt", { n: at + 1 })}</p>
            <Before now={alternatives(a[at])} then={alternatives(b[at])} chosen={[a[at]?.id, b[at]?.id]} />
        </div>}
        {at === null && ended && b.length > 0 && <p class="help">{t("sameBoth")}</p>}
        {drawn && <p class="help">{t("seedUnknown")}</p>}
    </>;
}
