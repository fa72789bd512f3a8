// A layer's heads as lines to the earlier tokens that they attend to.
import type { HeadRow } from "../api/types";
import { t } from "../i18n";
import { probability } from "../text/format";
import { spelled } from "../text/visible";

const ROW = 20, MOST = 24, WIDTH = 330, LEFT = 150, RIGHT = 270;

export function Lines({ heads, chosen, choose, position }: { heads: HeadRow[]; chosen: number | null; choose: (head: number) => void; position: number }) {
    // The tokens with the largest total weight over all heads, in the order of the text.
    const total = new Map<number, { text: string; weight: number }>();
    for (const h of heads) for (const x of h.top) {
        const at = total.get(x.position) ?? { text: x.text, weight: 0 };
        total.set(x.position, { text: x.text, weight: at.weight + x.weight });
    }
    const tokens = [...total].sort((a, b) => b[1].weight - a[1].weight).slice(0, MOST).sort((a, b) => a[0] - b[0]);
    const rows = Math.max(tokens.length, heads.length), y = (i: number, of: number): number => (i + 0.5) * ROW + (rows - of) * ROW / 2, places = new Map(tokens.map(([p], i) => [p, y(i, tokens.length)]));
    return <>
        <svg class="attends" viewBox={`0 0 ${WIDTH} ${rows * ROW}`} role="img" aria-label={t("attentionLines", { n: position })}>
            <title>{t("attentionLines", { n: position })}</title>
            {tokens.map(([p, x], i) => <text key={p} class="to" x={LEFT - 8} y={y(i, tokens.length) + 4}>{spelled(x.text).slice(0, 16)}<tspan class="at" dx="4">{p}</tspan></text>)}
            {heads.map((h, i) => <text key={h.head} class="of" x={RIGHT + 4} y={y(i, heads.length) + 4}>{h.head}</text>)}
            {heads.map((h, i) => <g key={h.head} class={chosen === null || chosen === h.head ? "" : "other"}>
                {h.top.map((x) => places.has(x.position) && <path key={x.position} d={`M${RIGHT - 4} ${y(i, heads.length)} C ${RIGHT - 50} ${y(i, heads.length)}, ${LEFT + 50} ${places.get(x.position)!}, ${LEFT} ${places.get(x.position)!}`}
                    class={`w${Math.round(9 * x.weight)}`}><title>{`${h.layer}.${h.head} → ${spelled(x.text)} ${probability(x.weight)}`}</title></path>)}
            </g>)}
        </svg>
        <div class="heads" role="group" aria-label={t("heads")}>
            {heads.map((h) => <button key={h.head} type="button" aria-pressed={h.head === chosen} onClick={() => choose(h.head)} title={h.top[0] ? `${spelled(h.top[0].text)} ${probability(h.top[0].weight)}` : ""}>{h.head}</button>)}
        </div>
    </>;
}
