// Does Mermaid's own parser read what lamina draws?
//
//   npm install --prefix build/mermaid mermaid@11 jsdom@24
//   node tools/mermaid/check.mjs build/mermaid FILE…
//
// Files hold Mermaid source, or Markdown with ```mermaid fences. Prints each that does not parse; the status counts them.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { resolve } from "node:path";

const [folder, ...files] = process.argv.slice(2);
const require = createRequire(pathToFileURL(resolve(folder, "node_modules", "x.js")));
const { JSDOM } = require("jsdom");
const { window } = new JSDOM("");
globalThis.window = window;
globalThis.document = window.document;
const { default: mermaid } = await import(pathToFileURL(resolve(folder, "node_modules/mermaid/dist/mermaid.core.mjs")));

let bad = 0, read = 0;
for (const file of files) {
    const text = readFileSync(file, "utf8");
    const fences = [...text.matchAll(/```mermaid\n([\s\S]*?)```/g)].map((m) => m[1]);
    for (const source of file.endsWith(".md") ? fences : [text]) {
        read++;
        try {
            await mermaid.parse(source);
        } catch (error) {
            bad++;
            console.log(`${file}: ${String(error.message ?? error).split("\n").slice(0, 4).join(" | ")}`);
        }
    }
}
console.log(`${read} diagrams, ${bad} that do not parse`);
process.exit(bad ? 1 : 0);
