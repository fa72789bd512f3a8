// Small components of the views.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { t } from "../i18n";

const paths = {
    plus: "M8 3v10M3 8h10", menu: "M2 4h12M2 8h12M2 12h12", close: "M4 4l8 8M12 4l-8 8", retry: "M13 8a5 5 0 1 1-1.5-3.5M13 2v3h-3", edit: "M3 13l1-3 7-7 2 2-7 7zM10 4l2 2",
    branch: "M5 3v6a3 3 0 0 0 3 3h3M5 3v10M9 10l2 2-2 2", copy: "M6 6h7v7H6zM3 10V3h7", left: "M10 3L5 8l5 5", right: "M6 3l5 5-5 5", down: "M3 6l5 5 5-5", send: "M8 13V3M4 7l4-4 4 4", stop: "M4 4h8v8H4z",
    settings: "M2 5h7M13 5h1M2 11h1M7 11h7M9 3.2v3.6h4V3.2zM3 9.2v3.6h4V9.2z", trash: "M3 4h10M6 4V2.5h4V4M4.5 4l.5 9.5h6l.5-9.5", light: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6M8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1",
    dark: "M13 9.5A5.5 5.5 0 1 1 6.5 3a4.5 4.5 0 0 0 6.5 6.5z", auto: "M8 2a6 6 0 1 0 0 12zM8 2a6 6 0 0 1 0 12", more: "M3 8h.01M8 8h.01M13 8h.01", attach: "M12.5 7.5l-5 5a3 3 0 0 1-4.2-4.2l5.5-5.5a2 2 0 0 1 2.8 2.8l-5.4 5.4a1 1 0 0 1-1.4-1.4l4.6-4.6", pin: "M6 2.5h4M6.5 2.5v4L4.5 9h7l-2-2.5v-4M8 9v4.5",
} as const;
export type IconName = keyof typeof paths;

export const Icon = ({ name }: { name: IconName }) =>
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><path d={paths[name]} /></svg>;

interface ButtonProps { icon: IconName; label: string; onClick?: (e: MouseEvent) => void; disabled?: boolean; pressed?: boolean; expanded?: boolean; class?: string; text?: boolean }

export const IconButton = ({ icon, label, onClick, disabled, pressed, expanded, class: c, text }: ButtonProps) =>
    <button type="button" class={`icon-button ${c ?? ""}`} {...(text ? {} : { title: label })} {...(text ? {} : { "aria-label": label })} onClick={onClick} disabled={disabled ?? false}
        {...(pressed === undefined ? {} : { "aria-pressed": pressed })} {...(expanded === undefined ? {} : { "aria-expanded": expanded })}>
        <Icon name={icon} />{text && <span>{label}</span>}
    </button>;

export function Select<T extends string>({ label, value, options, onChange, hideLabel, class: c }: {
    label: string; value: T; options: (readonly [T, string])[]; onChange: (value: T) => void; hideLabel?: boolean; class?: string }) {
    const id = useId();
    return <span class={`field ${c ?? ""}`}>
        <label for={id} class={hideLabel ? "hidden" : ""}>{label}</label>
        <select id={id} value={value} onChange={(e) => onChange(e.currentTarget.value as T)}>
            {options.map(([v, text]) => <option key={v} value={v}>{text}</option>)}
        </select>
    </span>;
}

export const Switch = ({ label, on, onChange, title }: { label: string; on: boolean; onChange: (on: boolean) => void; title?: string }) =>
    <button type="button" role="switch" aria-checked={on} class="switch" title={title ?? label} onClick={() => onChange(!on)}><span class="knob" aria-hidden="true" />{label}</button>;

// A native dialog of the browser: it keeps the focus inside and closes with Escape.
export function Dialog({ title, onClose, children, wide }: { title: string; onClose: () => void; children: ComponentChildren; wide?: boolean }) {
    const ref = useRef<HTMLDialogElement>(null), id = useId();
    useEffect(() => {
        const d = ref.current!, before = document.activeElement;
        d.showModal();
        return () => { d.close(); if (before instanceof HTMLElement) before.focus(); };
    }, []);
    return <dialog ref={ref} class={wide ? "wide" : ""} aria-labelledby={id} onCancel={(e) => { e.preventDefault(); onClose(); }}
        onClick={(e) => { if (e.target === ref.current) onClose(); }}>
        <div class="dialog">
            <header><h2 id={id}>{title}</h2><IconButton icon="close" label={t("close")} onClick={onClose} /></header>
            {children}
        </div>
    </dialog>;
}

// Ask before something is deleted.
export const Confirm = ({ title, text, onYes, onNo }: { title: string; text: string; onYes: () => void; onNo: () => void }) =>
    <Dialog title={title} onClose={onNo}>
        <p class="preview" dir="auto">{text}</p>
        <div class="row end"><button type="button" onClick={onNo}>{t("cancel")}</button><button type="button" class="danger" onClick={onYes}>{t("delete")}</button></div>
    </Dialog>;

export const Notice = ({ children, bad, actions }: { children: ComponentChildren; bad?: boolean; actions?: ComponentChildren }) =>
    <div class={`notice ${bad ? "bad" : ""}`} role={bad ? "alert" : "status"}><div>{children}</div>{actions && <div class="actions">{actions}</div>}</div>;

export const Meter = ({ value, label }: { value: number; label: string }) =>
    <span class="meter" role="img" aria-label={label} title={label}><svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect class="track" width="100" height="8" /><rect class="level" width={Math.max(0, Math.min(100, value * 100))} height="8" /></svg></span>;

// Whether a key sends what was typed. The Enter that ends a composition does not: in Safari it has the key code 229, and comes after the
// composition.
export const sends = (e: KeyboardEvent): boolean => e.key === "Enter" && !e.shiftKey && !e.isComposing && e.keyCode !== 229;

// Save a text as a file on the reader's disk.
export function download(name: string, type: string, text: string): void {
    const url = URL.createObjectURL(new Blob([text], { type })), a = document.createElement("a");
    a.href = url;
    a.download = name;
    a.click();
    setTimeout(() => { URL.revokeObjectURL(url); }, 10000);
}
