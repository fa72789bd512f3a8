// Make characters visible that are invisible or change the direction of the text around them.
const hidden = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\ufeff]/g;

export function visible(text: string): string {
    return text.replace(hidden, (c) => {
        const code = c.charCodeAt(0);
        return code < 0x20 ? String.fromCharCode(0x2400 + code) : code === 0x7f ? "\u2421" : `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
    });
}

// The same for pieces of tokens, with visible spaces, tabs and line ends.
export function spelled(text: string): string {
    return visible(text).replace(/ /g, "·").replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/\r/g, "␍");
}
