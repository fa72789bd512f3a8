// An incremental parser of server-sent events: bytes may be cut anywhere, even within a character.
// https://html.spec.whatwg.org/multipage/server-sent-events.html
export interface StreamEvent { event: string; data: string }

export class EventParser {
    private readonly decoder = new TextDecoder("utf-8");
    private rest = "";
    private data: string[] = [];
    private event = "";
    private afterReturn = false;
    private began = false;

    // Return the events that these bytes complete.
    push(bytes: Uint8Array): StreamEvent[] {
        return this.read(this.decoder.decode(bytes, { stream: true }));
    }

    private read(text: string): StreamEvent[] {
        const out: StreamEvent[] = [];
        if (!this.began && text) {
            this.began = true;
            if (text.startsWith("\ufeff")) text = text.slice(1);
        }
        // A \n at the start of this piece after a \r at the end of the last one is part of the same line end.
        if (this.afterReturn && text) {
            this.afterReturn = false;
            if (text.startsWith("\n")) text = text.slice(1);
        }
        this.rest += text;
        let from = 0;
        for (;;) {
            const end = nextEnd(this.rest, from);
            if (end < 0) break;
            const line = this.rest.slice(from, end);
            from = end + 1;
            if (this.rest[end] === "\r") {
                if (from === this.rest.length) this.afterReturn = true;
                else if (this.rest[from] === "\n") from++;
            }
            const done = this.line(line);
            if (done) out.push(done);
        }
        this.rest = this.rest.slice(from);
        return out;
    }

    private line(line: string): StreamEvent | null {
        if (line === "") {
            const done = this.data.length ? { event: this.event || "message", data: this.data.join("\n") } : null;
            this.data = [];
            this.event = "";
            return done;
        }
        if (line.startsWith(":")) return null;
        const colon = line.indexOf(":");
        const field = colon < 0 ? line : line.slice(0, colon);
        let value = colon < 0 ? "" : line.slice(colon + 1);
        if (value.startsWith(" ")) value = value.slice(1);
        if (field === "data") this.data.push(value);
        else if (field === "event") this.event = value;
        return null;
    }
}

function nextEnd(text: string, from: number): number {
    for (let i = from; i < text.length; i++) {
        const c = text.charCodeAt(i);
        if (c === 10 || c === 13) return i;
    }
    return -1;
}
