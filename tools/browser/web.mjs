// The page of lamina serve in Chromium, against the real server with the demo model: every view and flow at two widths, without requests to
// other servers, without console errors, and without findings of axe-core.
//
//   node tools/browser/web.mjs [WIDTH] [NAME…]    LAMINA=build/test/src/cli/lamina; screenshots in build/browser/shots
//
// Two processes of this script run side by side, each with its own server and browser: without WIDTH one per width, with WIDTH alone each with
// half of the flows.
import { spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { check, chromium, failures, folder, forget, summary } from "./browser.mjs";
import { serve, model } from "./serving.mjs";
import { flows as ordinary } from "./web_flows.mjs";
import { flows as more } from "./web_more.mjs";
import { flows as rough } from "./web_rough.mjs";
import { flows as traces } from "./web_traces.mjs";
import { openPage, shots } from "./web_page.mjs";

// Flows that look at no layout: without WIDTH, each is run at one.
const ONE_WIDTH = { long: 1280, start: 1280, prefix: 1280, failures: 1280, stopping: 390, keys: 390, reading: 390 };
const heights = { 1280: 860, 390: 844 };
const flows = { ...ordinary, ...more, ...rough, ...traces };

function child(width, names) {
    return new Promise((done) => spawn(process.execPath, [import.meta.filename, width, ...names], { stdio: "inherit" }).on("close", (status) => done(status ?? 1)));
}

// Return the flows of one process at each width.
function widths(named) {
    return Object.keys(heights).map((width) => [width, named.length ? named : Object.keys(flows).filter((name) => Number(width) === (ONE_WIDTH[name] ?? Number(width)))]);
}

// Return every second flow for each of two processes, which take about as long.
function halves(width) {
    return [0, 1].map((half) => [width, Object.keys(flows).filter((_, i) => i % 2 === half)]);
}

// Run one flow with an empty browser; return the time it took, in milliseconds.
async function once(flow, name, width, server, browser) {
    const from = Date.now(), where = `${name} ${width}`;
    const { page, close } = await openPage(browser, server.url, { width, height: heights[width], where });
    try {
        await flow({ page, where, width, server, browser });
    } catch (e) {
        check(false, `${where}: ${String(e.message ?? e).split("\n").slice(0, 3).join(" ")}`);
        await page.screenshot({ path: join(shots, `web-${name}-${width}-failed.png`) }).catch(() => undefined);
    }
    await close();
    return Date.now() - from;
}

// Run the named flows at one width. A flow with complaints is run once more, because a busy machine can delay the browser
// between an action and a look at the page; what fails twice counts. Of "hostile", which shows that text of the model never runs, the first run
// counts.
async function flowsAt(width, names) {
    mkdirSync(shots, { recursive: true });
    const browser = await chromium(), server = await serve(model, "--port", "0", "--parallel", "4", "-c", "4096", "--temp", "0", "--allow-interventions");
    try {
        for (const [name, flow] of Object.entries(flows)) {
            if (!names.includes(name)) continue;
            const before = failures();
            for (const bad of name === "hostile" ? ["✗"] : ["↻", "✗"]) {
                if (failures() > before) forget(before);
                const took = await once(flow, name, width, server, browser);
                console.log(`${failures() === before ? "✓" : bad} ${name} ${width}  ${took} ms`);
                if (failures() === before) break;
            }
        }
    } finally {
        await browser.close();
        await server.close();
    }
    summary();
    console.log(failures() ? `${width} px: ${failures()} complaints; screenshots in ${folder}/shots` : `the page is as it should be at ${width} px`);
    return failures() ? 1 : 0;
}

const [first, ...rest] = process.argv.slice(2);
if (first in heights && rest.length) process.exit(await flowsAt(Number(first), rest));
process.exit(Math.max(...await Promise.all((first in heights ? halves(first) : widths(process.argv.slice(2))).map((one) => child(...one)))));
