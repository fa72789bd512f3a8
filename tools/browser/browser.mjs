// The common parts of the checks: Chromium, the program, a count of complaints.
import { execFileSync } from "node:child_process";
import { createRequire } from "node:module";
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

export const root = resolve(import.meta.dirname, "../..");
export const lamina = resolve(root, process.env.LAMINA ?? "build/test/src/cli/lamina");
export const packages = createRequire(pathToFileURL(resolve(root, "build/browser/node_modules/x.js")));
export const folder = resolve(root, "build/browser");

// The machine's limits are measured once and stay the same while pages are compared with the program.
const env = { ...process.env, LAMINA_CACHE: resolve(folder, "cache"), LAMINA_LANG: "en" };

export function run(...args) {
    return execFileSync(lamina, args, { cwd: root, encoding: "utf8", maxBuffer: 1 << 28, env, stdio: ["ignore", "pipe", "pipe"] });
}

export function chromium() {
    const path = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((p) => existsSync(p));
    if (!path) throw new Error("there is no chromium: scripts/setup browser installs it");
    return packages("playwright-core").chromium.launch({ executablePath: path, args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"] });
}

const complaints = [];
export function check(truth, what) {
    if (truth) return;
    complaints.push(what);
    if (complaints.length <= 60) console.log(`  ✗ ${what}`);
}
export const failures = () => complaints.length;

// Forget the complaints after the first `n`: a flow is repeated.
export const forget = (n) => { complaints.splice(n); };

// Print every complaint that counts once more, so that the end of a long log has them.
export const summary = () => complaints.forEach((what) => console.log(`  ✗ ${what}`));

// A page reacts to an action with a delay: wait until a condition holds, else complain with the state after PATIENCE milliseconds.
const PATIENCE = 60000;
export async function until(truth, what) {
    const from = Date.now();
    while (!await truth()) {
        if (Date.now() - from > PATIENCE) return check(false, typeof what === "string" ? what : await what());
        await new Promise((done) => setTimeout(done, 20));
    }
}
