export const en = {
    // the frame
    chat: "Chat", model: "Model", compare: "Compare", tokens: "Tokens", machine: "Machine", views: "Views", language: "Language", theme: "Colours", themeAuto: "as the system", themeLight: "light", themeDark: "dark",
    help: "Help", skip: "Skip to the content", close: "Close", cancel: "Cancel", delete: "Delete", use: "Use", send: "Send", stop: "Stop", edit: "Edit", copy: "Copy", copied: "Copied", search: "Search",
    aboutText: "This page and the models behind it run on the machine that serves it. Conversations are kept in this browser alone; nothing is sent anywhere else.",
    keyEnter: "send the message", keyShiftEnter: "new line", keyEsc: "close what is open", keyArrows: "from token to token, with surprise on", keyViews: "go to a view", keyNew: "new chat", keyHelpKey: "this help",
    keyTitle: "API key", keyHelp: "The server asks for a key. Whoever started it chose the key (--api-key).", key: "Key", keyKeep: "Keep it in this browser", enterKey: "Enter the key",
    // failures
    failGone: "The server does not answer. It may have been stopped, or the connection is gone.", failLoading: "The server is loading the model.", failDraining: "The server is shutting down and takes no new requests.",
    failBusy: "Too many requests are waiting.", failKey: "The server asks for an API key.", failContext: "The conversation does not fit the context of the model any more.", failModel: "The server does not have this model.",
    failMemory: "The model does not fit the memory that the server may use.", failRefused: "The server does not accept the request.", failBroken: "The connection broke before the answer was complete. What had come is kept.",
    failServer: "Something went wrong in the server.", failOff: "The server does not offer this.", tryAgain: "Try again", newChatSame: "Continue in a new chat", chooseModel: "Choose a model", openSettings: "Open the settings",
    // chats
    chats: "Chats", newChat: "New chat", today: "Today", yesterday: "Yesterday", deleteChat: "Delete “{title}”", deleteTitle: "Delete this chat?", export: "Export", import: "Import", importBad: "This file holds no chats of lamina.",
    conversation: "Conversation", message: "Message", messageHint: "Message", you: "You", emptyChat: "Ask something. Every answer shows its tokens, its speed and, with surprise switched on, how sure the model was of each word.",
    waiting: "reading", toEnd: "To the end", regenerate: "Answer again", branchBefore: "Previous version", branchAfter: "Next version", branchOf: "Version {at} of {of}", sendBranch: "Send as a new version",
    reasoning: "Reasoning", toolCall: "Call of", toolResult: "Result of the call", nTokens: "{n} tokens", firstAfter: "first after {time}", fromCache: "{n} of {of} prompt tokens cached", contextLeft: "{n} tokens of context left",
    stopLength: "stopped at the limit", stopStopped: "stopped by you", stopCalls: "waits for a tool", stateLoading: "loading", stateFailed: "failed", stateUnloaded: "not loaded", changedBy: "written with this intervention",
    // surprise
    surprise: "Surprise", hSurprise: "Colour each token by how unexpected it was", legend: "Surprise in bits, from 0 to 12", expected: "expected", unexpected: "unexpected, bits", tokensOf: "{n} tokens of the answer",
    measure: "Measure the surprise of this answer", measuring: "Measuring", inspector: "Token", token: "Token", surpriseBits: "Surprise, bits", rank: "Rank", alternatives: "In its place", chosenToken: "chosen", branch: "Branch",
    branchWith: "Continue with “{token}” as a new version",
    // settings
    settings: "Settings", allSettings: "All settings", fewerSettings: "Fewer settings", ofServer: "default", system: "System prompt", hSystem: "Stands before the conversation and says how the model should behave.",
    stops: "Stop texts", hStops: "One a line, up to four. The answer ends before the first of them.", format: "Form of the answer", formatText: "free text", formatJson: "JSON", formatSchema: "JSON Schema", formatGrammar: "Grammar (GBNF)",
    formatRegex: "Regular expression", hSchema: "The answer is JSON that fits this schema. A keyword that cannot be kept exactly is refused, never ignored.", hGrammar: "The answer fits this grammar, written in GBNF as in llama.cpp.",
    hRegex: "The answer as a whole matches this expression.", tools: "Tools", hTools: "An array of functions as in OpenAI's API. Calls stop the answer and wait for the result that you enter.", sample: "Insert an example",
    sTemperature: "Temperature", hTemperature: "0: always the most probable token. Higher values give improbable tokens more weight.", sTopP: "Top P", hTopP: "Keep the most probable tokens whose probabilities together reach this. 1: off.",
    sTopK: "Top K", hTopK: "Keep this many of the most probable tokens. 0: all.", sMinP: "Min P", hMinP: "Drop tokens less probable than this share of the most probable one.", sMaxTokens: "Length", hMaxTokens: "Most tokens of an answer. -1: as many as the context holds.",
    sSeed: "Seed", hSeed: "Same request and seed, same answer. -1: drawn each time.", sRepeat: "Repetition penalty", hRepeat: "Divides the scores of tokens that stand in the text already. 1: off.", sRepeatLast: "Penalty range",
    hRepeatLast: "Tokens that penalties look back. -1: all.", sPresence: "Presence penalty", hPresence: "Taken once from tokens that stand in the text already.", sFrequency: "Frequency penalty", hFrequency: "Taken for each time that a token stands in the text.",
    sTypical: "Typical P", hTypical: "Keep tokens whose surprise is near the expected one. 1: off.", sSigma: "Top-n sigma", hSigma: "Keep scores within this many standard deviations of the best. -1: off.", sXtcP: "XTC probability",
    hXtcP: "Chance to leave out the most probable tokens, so that others get their turn. 0: off.", sXtcT: "XTC threshold", hXtcT: "Probability above which XTC leaves tokens out.", sDynaRange: "Temperature range",
    hDynaRange: "The temperature moves by this much around its value, by how sure the model is. 0: off.", sDynaExp: "Temperature exponent", hDynaExp: "How the moving temperature follows the entropy.", sDryMul: "DRY strength",
    hDryMul: "Penalty for continuing a repetition of the text. 0: off.", sDryBase: "DRY base", hDryBase: "How fast that penalty grows with the length of the repetition.", sDryLen: "DRY length", hDryLen: "Repetitions up to this length are free.", sDryLast: "DRY range",
    hDryLast: "Tokens that DRY looks back. -1: all.", sMirostat: "Mirostat", hMirostat: "2: hold the surprise of the text near a target. 0: off.", sTau: "Mirostat target", hTau: "The surprise to hold, in bits.", sEta: "Mirostat rate", hEta: "How fast it adapts.",
    sMinKeep: "Keep at least", hMinKeep: "Tokens that every step of sampling leaves.", sBudget: "Reasoning budget", hBudget: "Most tokens of reasoning before the answer. -1: any number.",
    // tokens
    text: "Text", tokensLead: "Any text as a model reads it.", tokensSample: "The quick brown fox jumps over the lazy dog. 敏捷的棕色狐狸。 မင်္ဂလာပါ 🦊 0.1 + 0.2 == 0.3", specials: "Special tokens", hSpecials: "Add what the tokenizer puts around a text, and read special tokens that are spelled in it",
    ids: "Ids", addModel: "Add a model", removeModel: "Remove {model}", characters: "Characters", bytesPerToken: "Bytes per token", firstOf: "The first {n} of {of} are shown.",
    // machine
    cores: "{n} cores", notLoaded: "This model is not in memory. It is loaded when it is first asked for.", generation: "Generation", promptRead: "Prompts", speed: "Tokens per second", rowsOfStep: "Rows in a step", rows: "Rows", texts: "Texts", running: "running",
    waitingTexts: "Waiting", pagesUsed: "Pages of the cache", used: "used", prefixHits: "Hits of the prefix cache", hits: "of prompt tokens", shareOfLimit: "Share of the limit", limit: "of the machine", limitUnknown: "not measured: lamina doctor",
    memory: "Memory", memoryOf: "{n} of {of}", part: "Part", allocated: "Allocated, bytes", planned: "Planned, bytes", share: "Share", total: "Total", exactly: "as planned", memWeights: "Weights", memMapped: "Weights in the file", memCache: "KV cache",
    memScratch: "Scratch", sinceStart: "Since the start", requests: "Requests", tokensWritten: "Tokens generated", tokensRead: "Prompt tokens", tokensCached: "of which cached", steps: "Steps", meanStep: "Mean step", preempted: "Preemptions", evicted: "Pages evicted",
    // inspector
    lens: "Lens", lensHelp: "what the model would say after each layer", layer: "Layer", wouldSay: "Would say", attnGives: "Attn", mlpGives: "MLP", norm: "Norm", partsSum: "The parts add up to the score of the token, {n}. Attn and MLP: what they give it in each layer.",
    attention: "Attention", wholeRow: "All that head {head} looks at, by weight", attentionLines: "What each head at position {n} looks at", heads: "Heads", head: "Head", entropy: "Entropy, bits", onFirst: "On the first token", distance: "Mean distance", withoutHead: "Without this head?",
    answerWithout: "Answer again without it", sideBySide: "Side by side", asItIs: "As it is", without: "Without", experts: "Experts", noTrace: "This server cannot look inside the model.", looking: "looking inside",
    // model
    drawing: "Drawing", layers: "Layers", layerAlone: "layer {n} is unlike the others", layersAlike: "layers {a} to {b}: {n} alike", atOthers: "At other settings", setContext: "Context", setBatch: "Texts at once", setKv: "Type of the cache", setWeights: "Weights as", together: "Together", perPosition: "A token more of context", opsOfToken: "Operations of a token", readsAt: "Reading a prompt, at most", writesAt: "Generating, all texts together, at most",
    parametersN: "{n} parameters", contextN: "context {n}", colouredBy: "Coloured by", colBytes: "bytes", colTime: "time", colLimit: "share of the limit", colNorm: "norm", colExperts: "expert load", measureLast: "Measure on the last answer",
    measuredOver: "Measured over {n} tokens: the end of the latest conversation, or a sample where there is none.", follow: "Follow", hFollow: "Measure again and again while an answer is written", operation: "Operation", shape: "Shape", type: "Type", bytes: "Bytes", time: "Time", ofLimit: "Of the limit",
    report: "Report", saveHtml: "Save as HTML", wholeModel: "The whole model",
    // compare
    compareLead: "One prompt, several models, settings or interventions.", columnN: "Answer {n}", modelOf: "Model of {n}", settingsOf: "Settings of {n}", removeColumn: "Remove {n}", addColumn: "Add an answer", interventions: "Interventions", answer: "Answer",
    partsAt: "They part at token {n}:", rivalHere: "where the other has", sameTokens: "The same tokens as A.", ownPerplexity: "Perplexity", perplexityUnder: "Perplexity under {n}",
} as const;
