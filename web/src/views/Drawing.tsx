// A drawing from the library, the same as in its reports, in the colours of the page.
import { useEffect, useRef, useState } from "preact/hooks";
import { Failure, getText } from "../api/client";
import { language, t } from "../i18n";
import { withModel } from "../store/server";
import { later } from "../later/later";
import { FailureNotice } from "../ui/failure";

const kept = new Map<string, string>();

export function Drawing({ model, name, layer }: { model: string; name: string; layer?: number }) {
    const root = useRef<HTMLDivElement>(null), [failure, setFailure] = useState<Failure | null>(null), [tries, setTries] = useState(0);
    const path = withModel(`/v1/drawing?name=${encodeURIComponent(name)}${layer === undefined ? "" : `&layer=${layer}`}&language=${language.value}`, model);
    useEffect(() => {
        let here = true;
        const put = (text: string): void => {
            // The page's style includes that of drawings (figure.css), so that one theme applies to both.
            const svg = later("text").DOMPurify.sanitize(text.replace(/<style>[^<]*<\/style>/g, ""), { RETURN_DOM_FRAGMENT: true, USE_PROFILES: { svg: true }, FORBID_TAGS: ["style", "a", "image"], FORBID_ATTR: ["style"] });
            root.current!.replaceChildren(svg);
        };
        setFailure(null);
        const known = kept.get(path);
        if (known) put(known);
        else getText(path).then((text) => { kept.set(path, text); if (here) put(text); }).catch((e: unknown) => { if (here && e instanceof Failure) setFailure(e); });
        return () => { here = false; };
    }, [path, tries]);
    return <>
        {failure && <FailureNotice kind={failure.kind} message={failure.message} remedies={{ retry: () => setTries(tries + 1) }} />}
        <div class="drawing" ref={root} tabIndex={0} role="region" aria-label={t("drawing")} />
    </>;
}
