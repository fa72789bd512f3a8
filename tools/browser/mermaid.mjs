// Check that Mermaid's own parser accepts every diagram of reports, explanations and comparisons.
//
//   node tools/browser/mermaid.mjs [FILE…]        FILE: Mermaid source, or Markdown with ```mermaid fences
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { join } from "node:path";
import { check, failures, folder, packages, run } from "./browser.mjs";

const { JSDOM } = packages("jsdom");
const { window } = new JSDOM("");
globalThis.window = window;
globalThis.document = window.document;
const { default: mermaid } = await import(pathToFileURL(join(folder, "node_modules/mermaid/dist/mermaid.core.mjs")));

let read = 0;
async function parse(source, where) {
    read++;
    try {
        await mermaid.parse(source);
    } catch (error) {
        check(false, `${where}: ${String(error.message ?? error).split("\n").slice(0, 4).join(" | ")}`);
    }
}

async function parse_fences(text, where) {
    for (const [, source] of text.matchAll(/```mermaid\n([\s\S]*?)```/g)) await parse(source, where);
}

function attempt(...args) {
    try {
        return run(...args);
    } catch (error) {
        if (error.status === 1) return "";          // the model has no such part
        throw error;
    }
}

const files = process.argv.slice(2);
for (const file of files) {
    const text = readFileSync(file, "utf8");
    await (file.endsWith(".md") ? parse_fences(text, file) : parse(text, file));
}
if (!files.length) {
    const models = ["llama-3.2-3b", "deepseek-v2", "gemma-2-2b", "gpt-j-6b", "mixtral-8x7b", "gpt2"];
    const names = JSON.parse(run("explain", "--json"));
    for (const model of models) {
        for (const { diagram } of names.diagrams) {
            const source = attempt("explain", "--diagram", diagram, model, "--md");
            if (source) await parse(source, `${model}: ${diagram}`);
        }
        await parse_fences(run("report", model, "--format", "md"), `report ${model}`);
    }
    for (const { topic } of names.topics) await parse_fences(run("explain", topic, "--md"), `explain ${topic}`);
    for (const language of ["my", "zh-Hant", "zh-Hans"]) await parse_fences(run("report", "deepseek-v2", "--format", "md", "--lang", language), `report in ${language}`);
    await parse_fences(run("report", "llama-3.2-3b", "mistral-7b-v0.1", "--format", "md"), "report of two");
    await parse_fences(run("compare", "llama-3.2-3b", "mistral-7b-v0.1", "deepseek-v2", "--md"), "compare");
}
console.log(`${read} diagrams, ${failures()} that do not parse`);
process.exit(failures() || !read ? 1 : 0);
