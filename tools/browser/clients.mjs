// OpenAI's own client for Node against lamina serve: answers, streams, calls of tools, structured output, vectors, responses, errors, a client that leaves.
//
//   node tools/browser/clients.mjs         LAMINA=build/test/src/cli/lamina
import { check, failures, packages, until } from "./browser.mjs";
import { model, serve } from "./serving.mjs";

const OpenAI = packages("openai").OpenAI, KEY = "key-of-the-check";
const messages = [{ role: "system", content: "Be brief." }, { role: "user", content: "How is the weather in Paris?" }];
const parameters = { type: "object", properties: { city: { type: "string", maxLength: 12 }, days: { type: "integer" } }, required: ["city", "days"], additionalProperties: false };
const tools = [{ type: "function", function: { name: "get_weather", description: "The weather of a city.", parameters, strict: true } }];

// Return the error that the client makes of a rejected request.
async function rejected(request, what) {
    try {
        await request;
    } catch (e) {
        return e;
    }
    check(false, `${what}: accepted`);
    return {};
}

async function answers(client) {
    const request = { model: "demo", messages, temperature: 0, max_tokens: 24 };
    const whole = await client.chat.completions.create({ ...request, logprobs: true, top_logprobs: 2 });
    check(whole.choices[0].message.content.length > 0 && whole.usage.completion_tokens === whole.choices[0].logprobs.content.length, "an answer and its log-probabilities");
    let text = "", usage;
    for await (const part of await client.chat.completions.create({ ...request, stream: true, stream_options: { include_usage: true } })) {
        text += part.choices[0]?.delta.content ?? "";
        usage = part.usage ?? usage;
    }
    check(text === whole.choices[0].message.content, `streamed ${JSON.stringify(text)}, whole ${JSON.stringify(whole.choices[0].message.content)}`);
    check(usage.total_tokens === whole.usage.total_tokens, "the usage of a stream");
    const plain = await client.completions.create({ model: "demo", prompt: ["One, two,", "Red, green,"], temperature: 0, max_tokens: 4 });
    check(plain.choices.length === 2 && plain.choices[1].index === 1, "two prompts");
}

async function calls(client) {
    const request = { model: "demo", messages, tools, tool_choice: "required", temperature: 0, max_tokens: 60 };
    const call = (await client.chat.completions.create(request)).choices[0].message.tool_calls[0], given = JSON.parse(call.function.arguments);
    check(call.function.name === "get_weather" && typeof given.city === "string" && Number.isInteger(given.days), `a call: ${call.function.arguments}`);
    const stream = client.chat.completions.stream(request), streamed = (await stream.finalChatCompletion()).choices[0].message.tool_calls[0];
    check(streamed.function.arguments === call.function.arguments, `a streamed call: ${streamed.function.arguments}`);
    const after = await client.chat.completions.create({
        ...request, tool_choice: "none", max_tokens: 8,
        messages: [...messages, { role: "assistant", content: null, tool_calls: [call] }, { role: "tool", tool_call_id: call.id, content: "sunny" }],
    });
    check(!after.choices[0].message.tool_calls, "an answer after the result of a call");
    const format = { type: "json_schema", json_schema: { name: "weather", schema: parameters, strict: true } };
    const parsed = (await client.chat.completions.parse({ model: "demo", messages, response_format: format, temperature: 0, max_tokens: 60 })).choices[0].message.parsed;
    check(Object.keys(parsed).sort().join() === "city,days", "an object of its schema");
}

async function others(client) {
    const models = [];
    for await (const m of client.models.list()) models.push(m.id);
    check(models.join() === "demo", `models: ${models}`);
    const vectors = await client.embeddings.create({ model: "demo", input: ["hello", "world"] });
    check(vectors.data.length === 2 && Math.abs(vectors.data[0].embedding.reduce((s, x) => s + x * x, 0) - 1) < 1e-3, "vectors of length 1");
    const first = await client.responses.create({ model: "demo", input: "Say hello.", temperature: 0, max_output_tokens: 8 });
    let text = "";
    for await (const e of await client.responses.create({ model: "demo", input: "Say hello.", temperature: 0, max_output_tokens: 8, stream: true }))
        if (e.type === "response.output_text.delta") text += e.delta;
    check(text === first.output_text && text.length > 0, `responses: ${JSON.stringify(text)}, ${JSON.stringify(first.output_text)}`);
    const next = await client.responses.create({ model: "demo", input: "Again.", previous_response_id: first.id, max_output_tokens: 4 });
    check(next.previous_response_id === first.id && next.usage.input_tokens > first.usage.input_tokens, "a response continues another");
}

async function failed(client, url) {
    const request = { model: "demo", messages, max_tokens: 4 };
    check((await rejected(new OpenAI({ baseURL: `${url}/v1`, apiKey: "wrong", maxRetries: 0 }).chat.completions.create(request), "a wrong key")).status === 401, "a wrong key");
    const long = await rejected(client.chat.completions.create({ ...request, messages: [{ role: "user", content: "word ".repeat(2000) }] }), "a long prompt");
    check(long.status === 400 && long.code === "context_length_exceeded", `a prompt longer than the context: ${long.status} ${long.code}`);
    const schema = await rejected(client.chat.completions.create({ ...request, response_format: { type: "json_schema", json_schema: { name: "x", schema: { type: "array", contains: { type: "string" } } } } }), "a schema");
    check(schema.status === 400 && schema.message.includes("contains"), `a keyword that cannot be enforced: ${schema.message}`);
    const stream = await client.chat.completions.create({ ...request, max_tokens: 400, stream: true, ignore_eos: true });
    for await (const _ of stream) break;
    stream.controller.abort();
    await until(async () => (await (await fetch(`${url}/slots`, { headers: { Authorization: `Bearer ${KEY}` } })).json()).every((s) => !s.is_processing), "a client that left still has its slot");
}

const server = await serve("--port", "0", "-m", model, "-a", "demo", "-c", "512", "-np", "4", "--embeddings", "--api-key", KEY, "--chat-template-file", "tests/e2e/serve/tools.jinja");
const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: KEY, maxRetries: 0 });
for (const flow of [answers, calls, others]) await flow(client).catch((e) => check(false, `${flow.name}: ${e}`));
await failed(client, server.url).catch((e) => check(false, `failed: ${e}`));
await server.close();
console.log(failures() ? `${failures()} complaints about OpenAI's client for Node` : "OpenAI's client for Node: no complaint");
process.exit(failures() ? 1 : 0);
