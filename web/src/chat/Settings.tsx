import { useState } from "preact/hooks";
import { t, type Key } from "../i18n";
import type { Conversation } from "../store/chats";
import { defaults, onlyModel } from "../store/server";
import type { Format, Settings as All } from "../store/types";
import { Dialog, Select } from "../ui/parts";
import { numberFields, type NumberField } from "./fields";

const formats: [Format, Key][] = [["text", "formatText"], ["json", "formatJson"], ["schema", "formatSchema"], ["grammar", "formatGrammar"], ["regex", "formatRegex"]];

// A number field. Empty: the server's default.
function Field({ field, settings, model, change }: { field: NumberField; settings: All; model: string; change: (s: Partial<All>) => void }) {
    const value = settings.numbers[field.name], set = value !== undefined, own = defaults.value[model]?.[field.name], usual = typeof own === "number" ? own : field.usual;
    const put = (text: string): void => {
        const numbers = { ...settings.numbers }, n = Number(text);
        if (text.trim() === "" || !Number.isFinite(n)) delete numbers[field.name];
        else numbers[field.name] = n;
        change({ numbers });
    };
    return <div class={`setting ${set ? "set" : ""}`}>
        <label for={`set-${field.name}`}>{t(field.label)} <code>{field.name}</code></label>
        {field.name !== "seed" && <input type="range" aria-label={t(field.label)} min={field.min} max={Math.min(field.max, field.step === 1 ? 4096 : field.max)} step={field.step} value={value ?? usual}
            onInput={(e) => put(e.currentTarget.value)} />}
        <input id={`set-${field.name}`} type="number" inputMode="decimal" step="any" min={field.min} value={value ?? ""} placeholder={String(usual)} onInput={(e) => put(e.currentTarget.value)} />
        <p class="help">{t(field.help)}</p>
    </div>;
}

function jsonProblem(text: string): string {
    if (!text.trim()) return "";
    try { JSON.parse(text); return ""; } catch (e) { return e instanceof Error ? e.message : String(e); }
}

function Editor({ label, help, value, onInput, json }: { label: string; help: string; value: string; onInput: (v: string) => void; json?: boolean }) {
    const problem = json ? jsonProblem(value) : "";
    return <div class="setting wide">
        <label>{label}<textarea class="editor" spellcheck={false} rows={8} value={value} onInput={(e) => onInput(e.currentTarget.value)} aria-invalid={Boolean(problem)} /></label>
        {problem && <p class="problem" role="status">{problem}</p>}
        <p class="help">{help}</p>
    </div>;
}

const sampleSchema = JSON.stringify({ type: "object", properties: { answer: { type: "string" }, certain: { type: "boolean" } }, required: ["answer", "certain"], additionalProperties: false }, null, 2);
const sampleTools = JSON.stringify([{ type: "function", function: { name: "weather", description: "the weather of a place", parameters: { type: "object", properties: { place: { type: "string" } }, required: ["place"] } } }], null, 2);

export function SettingsFields({ settings, model, change }: { settings: All; model: string; change: (s: Partial<All>) => void }) {
    const [all, setAll] = useState(numberFields.some((f) => !f.common && settings.numbers[f.name] !== undefined));
    return <>
        <div class="settings">
            {numberFields.filter((f) => all || f.common).map((f) => <Field key={f.name} field={f} settings={settings} model={model} change={change} />)}
        </div>
        <p><button type="button" aria-expanded={all} onClick={() => setAll(!all)}>{t(all ? "fewerSettings" : "allSettings")}</button></p>
        <div class="setting wide">
            <label>{t("stops")}<textarea class="editor" rows={2} value={settings.stop.join("\n")}
                onInput={(e) => change({ stop: e.currentTarget.value.split("\n").filter((x) => x !== "").slice(0, 4) })} /></label>
            <p class="help">{t("hStops")}</p>
        </div>
        <div class="setting wide">
            <Select label={t("format")} value={settings.format} options={formats.map(([f, key]) => [f, t(key)] as const)}
                onChange={(format) => change({ format, ...(format === "schema" && !settings.schema ? { schema: sampleSchema } : {}) })} />
        </div>
        {settings.format === "schema" && <Editor label={t("formatSchema")} help={t("hSchema")} json value={settings.schema} onInput={(schema) => change({ schema })} />}
        {settings.format === "grammar" && <Editor label={t("formatGrammar")} help={t("hGrammar")} value={settings.grammar} onInput={(grammar) => change({ grammar })} />}
        {settings.format === "regex" && <Editor label={t("formatRegex")} help={t("hRegex")} value={settings.regex} onInput={(regex) => change({ regex })} />}
        {settings.format === "text" && <>
            <Editor label={t("tools")} help={t("hTools")} json value={settings.tools} onInput={(tools) => change({ tools })} />
            {!settings.tools && <p><button type="button" onClick={() => change({ tools: sampleTools })}>{t("sample")}</button></p>}
        </>}
    </>;
}

export function SettingsDialog({ c, onClose }: { c: Conversation; onClose: () => void }) {
    const m = c.meta.value, change = (part: Partial<All>): void => { c.change({ settings: { ...c.meta.peek().settings, ...part } }); };
    return <Dialog title={t("settings")} onClose={onClose} wide>
        <div class="setting wide">
            <label>{t("system")}<textarea rows={3} dir="auto" value={m.system} onInput={(e) => c.change({ system: e.currentTarget.value })} /></label>
            <p class="help">{t("hSystem")}</p>
        </div>
        <SettingsFields settings={m.settings} model={m.model || onlyModel.value} change={change} />
    </Dialog>;
}
