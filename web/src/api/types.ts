// The parts of the server's responses that the page reads: docs/server/api.md.
export interface ModelEntry {
    id: string;
    status: { value: "unloaded" | "loading" | "loaded" | "failed"; bytes: number; requests: number; error?: string };
    meta: { n_vocab: number; n_ctx_train: number; n_embd: number; n_params: number; size: number };
}

export interface TokenFigure { id: number; token: string; logprob: number; bytes?: number[] | null }
export interface TokenChoice extends TokenFigure { top_logprobs?: TokenFigure[] }

export interface Timings { prompt_n: number; prompt_ms: number; cache_n?: number; predicted_n: number; predicted_ms: number; predicted_per_second: number }
export interface Usage { prompt_tokens: number; completion_tokens: number; completion_tokens_details?: { reasoning_tokens?: number }; prompt_tokens_details?: { cached_tokens?: number } }

export interface CallPiece { index: number; id?: string; function?: { name?: string; arguments?: string } }
export interface ChatChunk {
    choices: { delta: { content?: string | null; reasoning_content?: string | null; tool_calls?: CallPiece[] }; logprobs?: { content?: TokenChoice[] | null } | null; finish_reason: string | null }[];
    usage?: Usage | null;
    timings?: Timings;
    warnings?: string[];
    trace?: TokenTrace;
}

export interface NativeChunk { content: string; stop: boolean; stop_type?: string; completion_probabilities?: TokenChoice[]; timings?: Timings; tokens_evaluated?: number; tokens_predicted?: number; trace?: TokenTrace }

export interface Memory { weights: number; mapped: number; kv: number; scratch: number; total: number }
export interface MachineModel {
    id: string; state: string; bytes: number; requests: number; leaves: number;
    allocated?: Memory; planned?: Memory;
    engine?: { cpu: string; threads: number; context: number; sequences: number; max_rows: number; weight_bytes_per_step: number; kv_bytes_per_position: number; ops_per_row: number; ops_per_logits: number };
    now?: { waiting: number; reading: number; writing: number; pages: number; pages_used: number; prefix_pages: number; prompt_budget: number; itl_target: number };
    totals?: { steps: number; prompt_rows: number; written_rows: number; draft_rows: number; draft_accepted: number; tokens: number; submitted: number; refused: number; preempted: number;
        prompt_tokens: number; cached_tokens: number; evicted_pages: number; step_seconds: number; queue_seconds: number; first_seconds: number };
}
export interface Machine {
    build: string; time: number; began: number;
    machine: { cpu: string | null; level: string | null; cores: number; threads: number; memory: number; available: number; memory_limit: number } | null;
    limits: { level: string; int8: number; bf16: number; f32: number; memory: number; threads: number } | null;
    models: MachineModel[];
}

// ---- POST /v1/trace ----
export interface Likely { id: number; text: string; p: number | null }
export interface TraceToken { id: number; text: string; position: number; p: number | null; surprise: number | null; entropy: number | null; top: Likely[] }
export interface LensRow { path: string; layer: number; part: string; position: number; top: Likely[]; rank: number; p: number | null; kl: number | null }
export interface HeadRow { layer: number; head: number; position: number; entropy: number; first: number; distance: number; top: { position: number; text: string; weight: number }[] }
export interface TraceRow {
    position: number;
    token: Likely;
    lens?: LensRow[];
    attribution?: { path: string; layer: number; part: string; logit: number }[];
    logit?: number;
    norms?: { path: string; layer: number; part: string; norm: number }[];
    experts?: { path: string; layer: number; experts: { expert: number; weight: number }[] }[];
    attention?: HeadRow[];
    weights?: { layer: number; head: number; first_position: number; weights: number[] }[];
}
export interface Trace {
    ids: number[]; tokens: TraceToken[]; next: { position: number; entropy: number; top: Likely[] }; rows: TraceRow[];
    times?: { path: string; layer: number; operation: string; seconds: number }[];
    experts_load?: { path: string; layer: number; load: number[] }[];
}
// Of a generated token, before its text; `error`: it could not be traced.
export interface TokenTrace { index: number; token?: Pick<TraceToken, "id" | "text" | "position">; row?: TraceRow; error?: string }
export interface TracePaths { layers: { layer: number; path: string; attention: string; mlp: string; n_heads: number; n_kv_heads: number; n_experts: number; neurons: number }[] }
