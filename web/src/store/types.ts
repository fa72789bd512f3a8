import type { FailureKind } from "../api/client";

export interface Alternative { id: number; text: string; lp: number }
export interface Token { id: number; text: string; lp: number; top: Alternative[] }
export interface Call { id: string; name: string; args: string }

// A message. Those with one parent are branches; which of them is shown stands in ChatMeta.chosen.
export interface Turn {
    id: string;
    chat: string;
    parent: string | null;
    role: "user" | "assistant" | "tool";
    text: string;
    created: number;
    reasoning?: string;
    calls?: Call[];
    call?: string;                       // role "tool": what it answers
    model?: string;
    tokens?: Token[];                    // of the text, where they were asked for
    prefix?: number;                     // so many of them were taken from another branch
    stop?: string;                       // "stop" "length" "tool_calls"; "stopped": by the reader
    error?: { kind: FailureKind; message: string };
    stats?: { prompt: number; cached: number; tokens: number; reasoning: number; rate: number; first: number };
    warnings?: string[];
    changed?: string[];                  // interventions that it was written under
}

export type Format = "text" | "json" | "schema" | "grammar" | "regex";

export interface Settings {
    numbers: Record<string, number>;     // by the server's names; what is not there has the server's default
    stop: string[];
    format: Format;
    schema: string;
    grammar: string;
    regex: string;
    tools: string;
}

export interface ChatMeta {
    id: string;
    title: string;
    created: number;
    updated: number;
    model: string;
    system: string;
    settings: Settings;
    chosen: Record<string, string>;      // parent ("" of the first ones) to child
    draft: string;
}

export const plainSettings = (): Settings => ({ numbers: {}, stop: [], format: "text", schema: "", grammar: "", regex: "", tools: "" });
