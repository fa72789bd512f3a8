// Search the texts of all chats, the newest first. The work has a bound: so many characters, and so many chats with matches.
import { batch, signal } from "@preact/signals";
import { excerpt, finder, type Excerpt } from "../text/excerpt";
import { chats, type Conversation } from "./chats";
import { storedTurns } from "./db";
import type { Turn } from "./types";

export interface Match extends Excerpt { turn: string }
export interface Matches { of: Map<Conversation, Match[]>; partial: boolean }

const PER_CHAT = 3, CHATS = 100, CHARACTERS = 30e6;

export function matchesIn(turns: Pick<Turn, "id" | "text" | "created">[], find: RegExp): Match[] {
    const out: Match[] = [];
    for (const t of turns.sort((a, b) => a.created - b.created)) {
        const found = out.length < PER_CHAT && typeof t.text === "string" ? excerpt(t.text, find) : null;
        if (found) out.push({ ...found, turn: t.id });
    }
    return out;
}

// `goesOn`: whether somebody still waits for it.
export async function search(sought: string, goesOn: () => boolean): Promise<Matches> {
    const find = finder(sought), out: Matches = { of: new Map(), partial: false };
    let read = 0;
    for (const c of find ? chats.peek() : []) {
        if (!goesOn()) break;
        if (read > CHARACTERS || out.of.size >= CHATS) { out.partial = true; break; }
        const turns = c.loaded.peek() ? [...c.turns.values()].map((t) => t.peek()) : await storedTurns(c.meta.peek().id).catch(() => []);
        for (const t of turns) read += t.text?.length ?? 0;
        const matches = matchesIn(turns, find!);
        if (matches.length) out.of.set(c, matches);
    }
    return out;
}

// The message that was chosen among the matches, and whether it is still to be scrolled to.
export const found = signal<string | null>(null);
export const seeking = signal(false);

// Show the branch that the message is in.
export async function show(c: Conversation, turn: string): Promise<void> {
    await c.load();
    batch(() => {
        for (const t of c.upTo(turn)) c.choose(t);
        found.value = turn;
        seeking.value = true;
    });
}
