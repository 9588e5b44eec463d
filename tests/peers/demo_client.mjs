// Talks to `toolcrib demo-server`, or to a gateway in front of it, as a client of the TypeScript SDK would:
// demo_client.mjs v1|legacy|modern URL | PROGRAM ARGS…
// `v1` is the SDK's first line; the others are its second, in each era of the protocol.

import assert from "node:assert/strict";

const INFO = { name: "demo-client", version: "0" };
const CAN = { capabilities: { elicitation: {} } };
const answer = async () => ({ action: "accept", content: { name: "Ada" } });

async function ofTheFirstLine([target, ...args]) {
    const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
    const { ElicitRequestSchema } = await import("@modelcontextprotocol/sdk/types.js");
    const client = new Client(INFO, CAN);
    client.setRequestHandler(ElicitRequestSchema, answer);
    const { StdioClientTransport } = await import("@modelcontextprotocol/sdk/client/stdio.js");
    const { SSEClientTransport } = await import("@modelcontextprotocol/sdk/client/sse.js");
    const { WebSocketClientTransport } = await import("@modelcontextprotocol/sdk/client/websocket.js");
    const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
    const transport = kind(target) === "stdio" ? new StdioClientTransport({ command: target, args })
        : kind(target) === "ws" ? new WebSocketClientTransport(new URL(target))
        : kind(target) === "sse" ? new SSEClientTransport(new URL(target))
        : new StreamableHTTPClientTransport(new URL(target));
    await client.connect(transport);
    return { client, call: (params, options) => client.callTool(params, undefined, options) };
}

async function ofTheSecondLine(era, [target, ...args]) {
    const { Client, SSEClientTransport, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
    const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
    const mode = era === "legacy" ? "legacy" : { pin: "2026-07-28" };
    const client = new Client(INFO, { ...CAN, versionNegotiation: { mode } });
    client.setRequestHandler("elicitation/create", answer);
    const transport = kind(target) === "stdio" ? new StdioClientTransport({ command: target, args })
        : kind(target) === "sse" ? new SSEClientTransport(new URL(target))
        : new StreamableHTTPClientTransport(new URL(target));
    await client.connect(transport);
    return { client, call: (params, options) => client.callTool(params, options) };
}

function kind(target) {
    if (target.startsWith("ws:")) return "ws";
    if (!target.startsWith("http:")) return "stdio";
    return new URL(target).pathname === "/sse" ? "sse" : "http";
}

const [era, ...target] = process.argv.slice(2);
const { client, call } = await (era === "v1" ? ofTheFirstLine(target) : ofTheSecondLine(era, target));

const { tools } = await client.listTools();
assert.deepEqual(tools.map((tool) => tool.name), ["echo", "add", "counter", "slow", "fail", "image", "elicit"]);
// The client checks this against the output schema.
const added = await call({ name: "add", arguments: { a: 2, b: 40 } });
assert.deepEqual(added.structuredContent, { sum: 42 });
assert.equal((await call({ name: "fail", arguments: {} })).isError, true);
assert.equal((await call({ name: "image", arguments: {} })).content[0].mimeType, "image/png");
const steps = [];
const onprogress = ({ progress, total }) => steps.push([progress, total]);
await call({ name: "slow", arguments: { seconds: 0.2 } }, { onprogress });
// What comes together with the result is dropped by the SDK on a stream.
assert.deepEqual(steps.slice(0, 3), [[1, 4], [2, 4], [3, 4]]);
assert.equal((await call({ name: "elicit", arguments: {} })).content[0].text, "Hello, Ada!");
const { contents } = await client.readResource({ uri: "demo://square/12" });
assert.equal(contents[0].text, "144");
const { messages } = await client.getPrompt({ name: "introduce", arguments: { name: "Ada" } });
assert.match(messages[0].content.text, /Ada/);
await client.close();
console.log("all as it should be");
// A socket that the SDK keeps for later must not keep this process.
process.exit(0);
