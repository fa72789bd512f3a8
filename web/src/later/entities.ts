// Decode a character reference of HTML, as the package entities does with a table of its own. A browser has that table.
export function decodeHTMLStrict(reference: string): string {
    const text = document.createElement("textarea");
    text.innerHTML = reference;
    return text.value;
}
