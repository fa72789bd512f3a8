export const en = {
    // the frame
    chat: "Chat", model: "Model", compare: "Compare", tokens: "Tokens", machine: "Machine", views: "Views", language: "Language", theme: "Colours", themeAuto: "as the system", themeLight: "light", themeDark: "dark",
    help: "Help", skip: "Skip to the content", close: "Close", cancel: "Cancel", delete: "Delete", use: "Use", send: "Send", stop: "Stop", edit: "Edit", copy: "Copy", copied: "Copied", search: "Search",
    aboutText: "This page and the models behind it run on the machine that serves it. Conversations are kept in this browser alone; nothing is sent anywhere else.",
    keyEnter: "send the message", keyShiftEnter: "new line", keyEsc: "close the open panel", keyArrows: "move from token to token while surprise is shown", keyViews: "go to a view", keyNew: "new chat", keyHelpKey: "this help",
    keyTitle: "API key", keyHelp: "The server requires an API key. It was set when the server was started (--api-key).", key: "Key", keyKeep: "Keep it in this browser", enterKey: "Enter the key",
    // failures
    failGone: "The server does not answer. It may have been stopped, or the connection may be lost.", failLoading: "The server is loading the model.", failDraining: "The server is shutting down and takes no new requests.",
    failBusy: "Too many requests are waiting.", failKey: "The server requires an API key.", failContext: "The conversation no longer fits the model's context.", failModel: "The server does not have this model.",
    failMemory: "The model does not fit the memory that the server may use.", failRefused: "The server does not accept the request.", failBroken: "The connection broke before the answer was complete. The part that arrived is kept.",
    failServer: "Something went wrong in the server.", failOff: "This server does not offer this.", tryAgain: "Try again", newChatSame: "Continue in a new chat", chooseModel: "Choose a model", openSettings: "Open the settings",
    failTraces: "As many answers are being traced as the server allows at a time (--parallel).", failForbidden: "This server allows no interventions in the model. It allows them if it is started like this:", copyCommand: "Copy the command", untraced: "Answer without a trace", showFirst: "Show the first answer",
    // chats
    chats: "Chats", newChat: "New chat", today: "Today", yesterday: "Yesterday", deleteTitle: "Delete this chat?", export: "Export", import: "Import", importBad: "This file holds no chats of lamina, ChatGPT, Open WebUI or llama.cpp.",
    conversation: "Conversation", message: "Message", messageHint: "Message", you: "You", emptyChat: "Ask something. Every answer shows its tokens, its speed and, with surprise switched on, how sure the model was of each word.",
    waiting: "processing the prompt", toEnd: "To the end", regenerate: "Answer again", branchBefore: "Previous version", branchAfter: "Next version", branchOf: "Version {at} of {of}", sendBranch: "Send as a new version",
    reasoning: "Reasoning", toolCall: "Call of", toolResult: "Result of the call", nTokens: "{n} tokens", firstAfter: "first after {time}", fromCache: "{n} of {of} prompt tokens cached", contextLeft: "{n} tokens of context left",
    stopLength: "stopped at the limit", stopStopped: "stopped by you", stopCalls: "waits for a tool", stateLoading: "loading", stateFailed: "failed", stateUnloaded: "not loaded", changedBy: "written with this intervention",
    // surprise
    surprise: "Surprise", hSurprise: "Colour each token by how unexpected it was", legend: "Surprise in bits, from 0 to 12", expected: "expected", unexpected: "unexpected, bits", tokensOf: "{n} tokens of the answer",
    tracing: "Trace while writing", hTracing: "Compute the lens of each token while it is generated, so that a click shows it at once. Answers take several times as long.", traced: "with a trace",
    measuring: "Measuring", inspector: "Token", token: "Token", surpriseBits: "Surprise, bits", rank: "Rank", alternatives: "Alternatives", chosenToken: "chosen", branch: "Branch",
    branchWith: "Continue with “{token}” as a new version",
    // settings
    settings: "Settings", allSettings: "All settings", fewerSettings: "Fewer settings", system: "System prompt", hSystem: "Precedes the conversation and tells the model how to behave.",
    stops: "Stop strings", hStops: "One per line, at most four. The answer ends before the first of them.", format: "Output format", formatText: "free text", formatJson: "JSON", formatSchema: "JSON Schema", formatGrammar: "Grammar (GBNF)",
    formatRegex: "Regular expression", hSchema: "The answer is JSON that fits this schema. A keyword that cannot be enforced exactly is rejected, never ignored.", hGrammar: "The answer fits this grammar, written in GBNF as in llama.cpp.",
    hRegex: "The whole answer matches this expression.", tools: "Tools", hTools: "An array of functions as in OpenAI's API. Calls stop the answer and wait for the result that you enter.", sample: "Insert an example",
    sTemperature: "Temperature", hTemperature: "0: always the most probable token. Higher values give improbable tokens more weight.", sTopP: "Top P", hTopP: "Keep the most probable tokens whose probabilities together reach this. 1: off.",
    sTopK: "Top K", hTopK: "Keep this many of the most probable tokens. 0: all.", sMinP: "Min P", hMinP: "Drop tokens less probable than this share of the most probable one.", sMaxTokens: "Length", hMaxTokens: "Maximum number of tokens in an answer. -1: up to the end of the context.",
    sSeed: "Seed", hSeed: "The same request and seed give the same answer. -1: a new seed each time.", sRepeat: "Repetition penalty", hRepeat: "Divides the scores of tokens that are already in the text. 1: off.", sRepeatLast: "Penalty range",
    hRepeatLast: "Number of past tokens that penalties look at. -1: all.", sPresence: "Presence penalty", hPresence: "Subtracted once from the score of a token that is already in the text. 0: off.", sFrequency: "Frequency penalty", hFrequency: "Subtracted from the score of a token for each of its occurrences in the text. 0: off.",
    sTypical: "Typical P", hTypical: "Keep tokens whose surprise is near the expected one. 1: off.", sSigma: "Top-n sigma", hSigma: "Keep scores within this many standard deviations of the best. -1: off.", sXtcP: "XTC probability",
    hXtcP: "Probability of leaving out the most probable tokens in favour of others. 0: off.", sXtcT: "XTC threshold", hXtcT: "Probability above which XTC leaves tokens out.", sDynaRange: "Temperature range",
    hDynaRange: "The temperature varies by this much around its value, depending on how sure the model is. 0: off.", sDynaExp: "Temperature exponent", hDynaExp: "How the moving temperature follows the entropy.", sDryMul: "DRY strength",
    hDryMul: "Penalty for continuing a repetition of the text. 0: off.", sDryBase: "DRY base", hDryBase: "How fast that penalty grows with the length of the repetition.", sDryLen: "DRY length", hDryLen: "Repetitions up to this length are not penalised.", sDryLast: "DRY range",
    hDryLast: "Number of past tokens that DRY looks at. -1: all.", sMirostat: "Mirostat", hMirostat: "2: hold the surprise of the output near a target. 0: off.", sTau: "Mirostat target", hTau: "The target surprise, in bits.", sEta: "Mirostat rate", hEta: "How fast it adapts.",
    sMinKeep: "Keep at least", hMinKeep: "Minimum number of tokens that each sampler keeps.", sBudget: "Reasoning budget", hBudget: "Maximum number of reasoning tokens before the answer. -1: no limit.",
    // tokens
    text: "Text", tokensLead: "How the tokenizer of a model divides a text.", tokensSample: "The quick brown fox jumps over the lazy dog. 敏捷的棕色狐狸。 မင်္ဂလာပါ 🦊 0.1 + 0.2 == 0.3", specials: "Special tokens", hSpecials: "Add the tokenizer's special tokens, and recognise special tokens in the text",
    ids: "Ids", addModel: "Add a model", removeModel: "Remove {model}", characters: "Characters", bytesPerToken: "Bytes per token", firstOf: "The first {n} of {of} are shown.",
    // machine
    cores: "{n} cores", notLoaded: "This model is not in memory. The first request for it loads it.", generation: "Generation", promptRead: "Prompts", speed: "Tokens per second", rowsOfStep: "Rows in a step", rows: "Rows", texts: "Sequences", running: "running",
    waitingTexts: "Waiting", pagesUsed: "Pages of the cache", used: "used", prefixHits: "Hits of the prefix cache", hits: "of prompt tokens", shareOfLimit: "Share of the limit", limit: "of the machine", limitUnknown: "not measured: lamina doctor",
    memory: "Memory", memoryOf: "{n} of {of}", part: "Part", allocated: "Allocated, bytes", planned: "Planned, bytes", share: "Share", total: "Total", exactly: "as planned", memWeights: "Weights", memMapped: "Weights in the file", memCache: "KV cache",
    memScratch: "Scratch", sinceStart: "Since the start", requests: "Requests", tokensWritten: "Tokens generated", tokensRead: "Prompt tokens", tokensCached: "of which cached", steps: "Steps", meanStep: "Mean step", preempted: "Preemptions", evicted: "Pages evicted",
    // inspector
    lens: "Lens", lensHelp: "what the model would predict after each layer", layer: "Layer", wouldSay: "Prediction", attnGives: "Attn", mlpGives: "MLP", norm: "Norm", partsSum: "The parts add up to the score of the token, {n}. Attn and MLP: their contributions in each layer.",
    attention: "Attention", wholeRow: "All positions that head {head} attends to, by weight", attentionLines: "What each head attends to at position {n}", heads: "Heads", head: "Head", entropy: "Entropy, bits", onFirst: "On the first token", distance: "Mean distance", withoutHead: "Without this head?",
    answerWithout: "Answer again without it", sideBySide: "Side by side", asItIs: "As it is", without: "Without", experts: "Experts", noTrace: "This server cannot look inside the model.", looking: "looking inside",
    attentionNow: "Show it now", attentionLater: "It is shown when the answer is complete. Until then it slows the answer down.", sameBoth: "Both answers have the same tokens.", seedUnknown: "The seed of the first answer is not known: the answers may also differ by chance.",
    // model
    drawing: "Drawing", layers: "Layers", layerAlone: "layer {n} is unlike the others", layersAlike: "layers {a} to {b}: {n} alike", atOthers: "With other settings", setContext: "Context", setBatch: "Concurrent sequences", setKv: "Type of the cache", setWeights: "Weights as", together: "Together", perPosition: "One more token of context", opsOfToken: "Operations per token", readsAt: "Processing a prompt, at most", writesAt: "Generating, all sequences together, at most",
    parametersN: "{n} parameters", contextN: "context {n}", colouredBy: "Coloured by", colBytes: "bytes", colTime: "time", colLimit: "share of the limit", colNorm: "norm", colExperts: "expert load", measureLast: "Measure on the last answer",
    measuredOver: "Measured over {n} tokens: the end of the latest conversation, or a sample if there is none.", follow: "Follow", hFollow: "Measure repeatedly while an answer is written", operation: "Operation", shape: "Shape", type: "Type", bytes: "Bytes", time: "Time", ofLimit: "Of the limit",
    report: "Report", saveHtml: "Save as HTML", wholeModel: "The whole model",
    // compare
    compareLead: "One prompt, several models, settings or interventions.", columnN: "Answer {n}", modelOf: "Model of {n}", settingsOf: "Settings of {n}", removeColumn: "Remove {n}", addColumn: "Add an answer", interventions: "Interventions", answer: "Answer",
    partsAt: "They differ from token {n} on:", rivalHere: "where the other has", sameTokens: "The same tokens as A.", ownPerplexity: "Perplexity", perplexityUnder: "Perplexity under {n}",
    tryThese: "To begin with", sugTemperature: "Temperature 0 and 1.2", sugPenalty: "Without and with a repetition penalty", sugJson: "Free text and JSON", sugLayer: "With and without the attention of layer {n}", exampleA: "What is water made of?", exampleB: "Write one sentence about the sea.", exampleC: "Explain in three sentences how a bicycle stays upright.", exampleD: "Write a Python function that tells whether a word is a palindrome.",
    continue: "Continue", saveBranch: "Save as a new version", deleteMessage: "Delete this message", deleteMessageTitle: "Delete this message?", optionsOf: "Options of “{title}”", rename: "Rename", pin: "Pin", unpin: "Unpin", pinned: "Pinned", saveMarkdown: "Save as Markdown", attach: "Attach text files", attachBad: "{name} is not a text file in UTF-8 of at most {n} MB.",
} as const;
