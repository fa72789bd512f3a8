// One document: the script and the style stand in it, and nothing is fetched. Licences of what it is made of stand at its end.
import { readFileSync, readdirSync } from "node:fs";
import { resolve } from "node:path";
import { build } from "esbuild";
import { defineConfig, type Plugin } from "vite";

const server = process.env["LAMINA_URL"] ?? "http://127.0.0.1:8080";
const packages = ["preact", "@preact/signals", "@preact/signals-core", "uplot", "markdown-it", "markdown-it-cjk-friendly", "linkify-it", "mdurl", "uc.micro", "punycode.js", "get-east-asian-width", "dompurify", "temml", "highlight.js"];

function licences(): string {
    const texts = packages.map((name) => {
        const folder = resolve(import.meta.dirname, "node_modules", name), file = readdirSync(folder).filter((f) => /^licen[sc]e/i.test(f)).sort()[0];
        const about = JSON.parse(readFileSync(resolve(folder, "package.json"), "utf8")) as { version: string; license: string };
        if (!file) throw new Error(`${name} has no licence file`);
        return `${name} ${about.version} (${about.license})\n\n${readFileSync(resolve(folder, file), "utf8").trim()}`;
    });
    return texts.join("\n\n----\n\n").replace(/-->/g, "").replace(/\r/g, "");
}

// Nothing in a script ends the element that it stands in.
const inline = (code: string): string => code.replace(/<(?=\/script|!--)/gi, "\\x3c");

// What is not needed to begin with, each as a text that is run later (src/later/later.ts).
async function libraries(): Promise<string> {
    const texts = await Promise.all(["text", "formulas", "curves"].map(async (name) => {
        const made = await build({ entryPoints: [resolve(import.meta.dirname, `src/later/${name}.ts`)], bundle: true, minify: true, write: false, format: "iife", globalName: `laminaLater.${name}`, target: "es2022",
            alias: { entities: resolve(import.meta.dirname, "src/later/entities.ts") }, legalComments: "none", charset: "utf8" });
        return `<script type="text/plain" id="later-${name}">${inline(made.outputFiles[0]!.text.trim())}</script>`;
    }));
    return texts.join("");
}

function oneFile(): Plugin {
    return {
        name: "one-file",
        enforce: "post",
        async generateBundle(_, bundle) {
            const page = bundle["index.html"];
            if (page?.type !== "asset") throw new Error("there is no page");
            let text = String(page.source);
            const later = await libraries();
            for (const [name, part] of Object.entries(bundle)) {
                if (part.type === "chunk") {
                    const code = inline(part.code);
                    text = text.replace(/<script [^>]*src="[^"]*"[^>]*><\/script>/, "")
                        .replace("</body>", () => `<script type="module">${code}</script></body>`);
                } else if (name.endsWith(".css")) {
                    text = text.replace(/<link rel="stylesheet"[^>]*>/, () => `<style>${String(part.source).trim()}</style>`);
                } else continue;
                delete bundle[name];
            }
            text = text.replace("</body>", () => `${later}</body>`);
            page.source = `${text.trim()}\n<!--\n${licences()}\n-->\n`;
        },
    };
}

export default defineConfig({
    root: import.meta.dirname,
    esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
    build: { outDir: "dist", emptyOutDir: true, assetsInlineLimit: 1 << 20, cssCodeSplit: false, modulePreload: false, target: "es2022", reportCompressedSize: false },
    plugins: [oneFile()],
    server: {
        fs: { allow: [".."] },
        proxy: Object.fromEntries(["/v1", "/tokenize", "/detokenize", "/apply-template", "/completion", "/props", "/slots", "/health", "/metrics"].map((path) =>
            [path, { target: server, changeOrigin: true, configure: (proxy) => { proxy.on("proxyReq", (r) => { r.removeHeader("origin"); }); } }])),
    },
});
