// A small storefront API: it asks a catalogue, and keeps the answers for a while. Every setting comes
// from the environment; what is not set there has the default that the contract declares.

"use strict";

const crypto = require("node:crypto");
const fs = require("node:fs");
const http = require("node:http");
const path = require("node:path");

const contract = JSON.parse(fs.readFileSync(path.join(__dirname, "api.schema.json"), "utf8"));

// `relayconf run` has checked the environment and written each value canonically: a duration in
// milliseconds, a size in bytes, a boolean as true or false. Blank is unset.
function setting(name) {
  return String(process.env[name]?.trim() || contract.properties[name].default || "");
}

// Compose mounts a secret as a file of the setting's name.
function secret(name) {
  const file = `/run/secrets/${name}`;
  return process.env[name] || (fs.existsSync(file) ? fs.readFileSync(file, "utf8").trimEnd() : "");
}

// Whether a share is on for a key: the first 8 bytes of the SHA-256 of "flag:key", read as a big-endian
// number, lie below the share of 2^64. Every language decides alike, and a session keeps its answer.
function isOn(flag, key) {
  const value = setting(flag);
  if (!value.endsWith("%")) return value === "true";
  const point = crypto.createHash("sha256").update(`${flag}:${key}`).digest().readBigUInt64BE(0);
  return point * 10000n < BigInt(Math.round(parseFloat(value) * 100)) << 64n;
}

const kept = new Map();

async function fetchItem(item, session) {
  const ranking = isOn("API_NEW_SEARCH", session) ? "new" : "old";
  const key = `${ranking}:${item}`;
  const found = kept.get(key);
  if (found && found.until > Date.now()) return found.text;
  const url = new URL(`${item}?ranking=${ranking}`, setting("API_UPSTREAM_URL"));
  const answer = await fetch(url, {
    headers: { authorization: `Bearer ${secret("API_UPSTREAM_TOKEN")}` },
    signal: AbortSignal.timeout(Number(setting("API_UPSTREAM_TIMEOUT_MS"))),
  });
  const text = await answer.text();
  if (isOn("API_CACHE_ENABLED", key) && text.length < Number(setting("API_CACHE_BYTES"))) {
    kept.set(key, { text, until: Date.now() + Number(setting("API_CACHE_TTL_MS")) });
  }
  return text;
}

const server = http.createServer(async (request, response) => {
  try {
    response.end(await fetchItem(request.url.slice(1), request.headers["x-session"] ?? ""));
  } catch (error) {
    response.writeHead(502).end(`${error.name}\n`);
  }
});
server.requestTimeout = Number(setting("API_REQUEST_TIMEOUT_MS"));
server.listen(Number(setting("API_PORT")), () => {
  console.error(`listening on ${server.address().port}`);
});
process.on("SIGTERM", () => server.close());
