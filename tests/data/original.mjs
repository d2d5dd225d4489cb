// The TypeScript original's two sides, as small as they can be and with its habits: no claim, no
// relay.json, no timeoutMs, errors without a code, files looked for by listing the directory.
//
//   node original.mjs writer DIR < calls   one line a call: {"id", "tool", "args"?, "giveUpAfter"?}
//   node original.mjs runner DIR           serves "echo", "fail" and "park" until stdin ends
//
// The writer makes all calls at once and prints one line for each: its id, and its answer's text.
import { mkdir, readFile, readdir, rename, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";

const [role, directory] = process.argv.slice(2);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
let written = 0;

async function publish(name, value) {
  const temporary = join(directory, `${name}.tmp.${process.pid}.${Date.now()}.${(written += 1)}`);
  await writeFile(temporary, JSON.stringify(value), "utf8");
  await rename(temporary, join(directory, name));
}

async function call({ id, tool, args, giveUpAfter }) {
  await publish(`${id}.req.json`, { toolName: tool, toolCallId: id, args });
  const deadline = Date.now() + (giveUpAfter ?? 30_000);
  while (Date.now() < deadline) {
    const text = await readFile(join(directory, `${id}.res.json`), "utf8").catch(() => null);
    if (text !== null) {
      await unlink(join(directory, `${id}.res.json`));
      const response = JSON.parse(text);
      if (response.paused) return "paused";
      return response.ok ? `ok ${response.text}` : `error ${response.error}`;
    }
    await pause(5);
  }
  await unlink(join(directory, `${id}.req.json`)).catch(() => null);
  return "gave up";
}

async function write() {
  const calls = [];
  for await (const line of createInterface({ input: process.stdin })) calls.push(JSON.parse(line));
  await Promise.all(
    calls.map(async (one) => console.log(JSON.stringify([one.id, await call(one)]))),
  );
}

async function run(name) {
  const request = JSON.parse(await readFile(join(directory, name), "utf8"));
  await unlink(join(directory, name));
  const text = request.args?.text ?? "";
  const answers = {
    echo: { ok: true, text },
    fail: { ok: false, error: text },
    park: { ok: true, paused: true },
  };
  const answer = answers[request.toolName] ?? { ok: false, error: `Unknown ${request.toolName}` };
  await publish(name.replace(/\.req\.json$/, ".res.json"), answer);
}

async function serve() {
  await mkdir(directory, { recursive: true });
  let over = false;
  process.stdin.on("end", () => (over = true)).resume();
  while (!over) {
    const names = (await readdir(directory)).filter((name) => name.endsWith(".req.json"));
    await Promise.all(names.map((name) => run(name).catch(() => null)));
    await pause(5);
  }
}

await (role === "writer" ? write() : serve());
