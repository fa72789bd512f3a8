// Measure the surprise of an answer that was generated without it, when it is seen: the model processes the answer again.
import { useEffect, useRef, useState } from "preact/hooks";
import { Failure, post } from "../api/client";
import type { Trace } from "../api/types";
import { t } from "../i18n";
import { saveTurn, type Conversation } from "../store/chats";
import type { Turn } from "../store/types";
import { FailureNotice } from "../ui/failure";
import { ALTERNATIVES, promptIds } from "./generate";

// One after the other.
let before: Promise<void> = Promise.resolve();

export function Measure({ c, turn }: { c: Conversation; turn: Turn }) {
    const root = useRef<HTMLParagraphElement>(null), [failure, setFailure] = useState<Failure | null>(null);
    const measure = async (): Promise<void> => {
        setFailure(null);
        try {
            const prompt = await promptIds(c, turn), own = (await post<{ tokens: number[] }>("/tokenize", { model: turn.model, content: turn.text, parse_special: false })).tokens;
            const x = await post<Trace>("/v1/trace", { model: turn.model, ids: [...prompt, ...own], top: ALTERNATIVES, positions: [-1], ...(turn.changed ? { intervene: turn.changed } : {}) });
            const tokens = x.tokens.slice(prompt.length).map((k) => ({ id: k.id, text: k.text, lp: Math.log(k.p ?? 1e-30), top: k.top.map((a) => ({ id: a.id, text: a.text, lp: Math.log(a.p ?? 1e-30) })) }));
            const s = c.turns.get(turn.id)!;
            s.value = { ...s.value, tokens };
            saveTurn(s.value);
        } catch (e) {
            setFailure(e instanceof Failure ? e : new Failure("server", String(e)));
        }
    };
    useEffect(() => {
        let gone = false;
        const watch = new IntersectionObserver((seen) => {
            if (!seen.some((x) => x.isIntersecting)) return;
            watch.disconnect();
            before = before.then(() => gone ? undefined : measure());
        });
        watch.observe(root.current!);
        return () => { gone = true; watch.disconnect(); };
    }, []);
    return <>
        {!failure && <p class="waiting" ref={root}><span class="dots" aria-hidden="true" />{t("measuring")}</p>}
        {failure && <FailureNotice kind={failure.kind} message={failure.message} remedies={{ retry: () => { void measure(); } }} />}
    </>;
}
