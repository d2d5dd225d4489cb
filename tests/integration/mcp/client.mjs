// A client that is not Python's: node client.mjs MODULES PACKAGE MODE COMMAND...
//
// Starts COMMAND as an MCP server, goes through what an agent does, and prints what it saw as one
// line of JSON. It asks for the tools anew whenever it is told that they have changed.
import { createRequire } from "node:module";

const [modules, name, mode, command, ...args] = process.argv.slice(2);
const require = createRequire(`${modules}/here.js`);

function load() {
  if (name === "sdk") {
    const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
    const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
    return { Client, StdioClientTransport };
  }
  const { Client } = require("@modelcontextprotocol/client");
  const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");
  return { Client, StdioClientTransport };
}

const { Client, StdioClientTransport } = load();
const seen = {};
let changed;
const change = new Promise((resolve) => (changed = resolve));
const client = new Client(
  { name: "test", version: "1" },
  {
    versionNegotiation: { mode },
    listChanged: { tools: { autoRefresh: true, debounceMs: 0, onChanged: (e, t) => changed(e ?? t) } },
  },
);
const transport = new StdioClientTransport({ command, args, stderr: "inherit" });

await client.connect(transport);
seen.server = client.getServerVersion();
seen.tools = (await client.listTools()).tools.map((tool) => tool.name);

async function call(tool, given, options) {
  try {
    const result = await client.callTool({ name: tool, arguments: given }, ...options);
    return { isError: result.isError, text: result.content[0].text };
  } catch (error) {
    return { thrown: error.code ?? error.name };
  }
}
const withOptions = (options) => (name === "sdk" ? [undefined, options] : [options]);

seen.echo = await call("echo", { text: "grüße" }, []);
seen.fail = await call("fail", { why: "no such order" }, []);
seen.unknown = await call("nope", {}, []);
const big = "x".repeat(5_000_000);
seen.big = (await call("echo", { text: big }, [])).text === big;
const abort = new AbortController();
setTimeout(() => abort.abort(), 100);
seen.cancelled = await call("wait", { seconds: 60 }, withOptions({ signal: abort.signal }));
seen.after = await call("echo", { text: "still there" }, []);
process.stdout.write("change\n");
seen.changed = (await change).map((tool) => tool.name);
await client.close();
process.stdout.write(`${JSON.stringify(seen)}\n`);
