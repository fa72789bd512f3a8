import type { FailureKind } from "../api/client";

export interface Alternative { id: number; text: string; lp: number }
export interface Token { id: number; text: string; lp: number; top: Alternative[] }
export interface Call { id: string; name: string; args: string }

// A message. Messages with the same parent are branches; ChatMeta.chosen selects the one that is shown.
export interface Turn {
    id: string;
    chat: string;
    parent: string | null;
    role: "user" | "assistant" | "tool";
    text: string;
    created: number;
    reasoning?: string;
    calls?: Call[];
    call?: string;                       // role "tool": the id of the call that it answers
    model?: string;
    tokens?: Token[];                    // of the text, if they were requested
    prefix?: number;                     // number of leading tokens taken from another branch or chosen by the reader
    stop?: string;                       // "stop" "length" "tool_calls"; "stopped": by the reader
    error?: { kind: FailureKind; message: string };
    numbers?: Record<string, number>;    // sampling settings that it was requested with
    traced?: boolean;                    // it was requested with a trace
    stats?: { prompt: number; cached: number; tokens: number; reasoning: number; rate: number; first: number };
    warnings?: string[];
    changed?: string[];                  // interventions that it was generated with
    from?: string;                       // the answer to the same message that these change
}

export type Format = "text" | "json" | "schema" | "grammar" | "regex";

export interface Settings {
    numbers: Record<string, number>;     // by the server's names; a missing one has the server's default
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
    chosen: Record<string, string>;      // parent ("" for the first messages) to child
    draft: string;
    pinned?: boolean;
}

export const plainSettings = (): Settings => ({ numbers: {}, stop: [], format: "text", schema: "", grammar: "", regex: "", tools: "" });
