// The program of drain.py for a sandbox that has node (from 12 on) and no python3: the same options,
// the same output, the same promises. It has no lock of the directory, since node offers none; an
// old run may then claim between its check and its rename, and its claim is found by whoever is next.
'use strict';
const fs = require('fs');
const crypto = require('crypto');

const LEASE = '.relay-lease';
const MOST_FOREIGN = 100;
const TEMP_AGE = 60;
const word = (text, longest) => text.length <= longest && /^[A-Za-z0-9_-]+$/.test(text);

const options = {};
for (const pair of process.argv.slice(1).filter((one) => one !== '--')) {
  const at = pair.indexOf('=');
  options[pair.slice(0, at)] = pair.slice(at + 1);
}
const number = (name) => Number(options[name] || 0);
const dir = options.dir;
const runner = options.runner;
const generation = number('generation');
const known = new Set((options.known || '').split(','));
let count = number('count');
let room = number('bytes');
let keep = number('keep');
let before = '';
let mtime = 0n;
let watcher = null;
let blocked = false;
let identity = '';
let linked = false;
const lines = [];
const foreign = new Map();

const at = (name) => dir + '/' + name;
const claimName = (request) => request + '.claim.' + runner;
// A link that was at the path at the start is the operator's; any other leads away.
const statOf = options.follow ? fs.statSync : fs.lstatSync;
const identityOf = (found) => found.dev + ':' + found.ino;

class Ended extends Error {
  constructor(status, holder) {
    super(status);
    this.status = status;
    this.holder = holder || '';
  }
}

function readSome(path, size) {
  const fd = fs.openSync(path, fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW | fs.constants.O_NONBLOCK);
  try {
    const found = fs.fstatSync(fd);
    // RACE: a writer that swapped the file since it was looked at is judged again.
    if (!found.isFile() || found.nlink !== 1 || (size !== undefined && found.size !== size)) return null;
    const data = Buffer.alloc(size === undefined ? 200 : size);
    let filled = 0;
    while (filled < data.length) {
      const got = fs.readSync(fd, data, filled, data.length - filled, null);
      if (got === 0) break;
      filled += got;
    }
    return size === undefined ? data.slice(0, filled) : filled === size ? data : null;
  } finally {
    fs.closeSync(fd);
  }
}

function holder() {
  try {
    const words = String(readSome(at(LEASE))).trim().split(/\s+/);
    if (words.length === 2 && word(words[0], 32) && /^\d+$/.test(words[1])) {
      return { runner: words[0], generation: Number(words[1]) };
    }
  } catch (error) {
    return null;
  }
  return null;
}

function check() {
  const held = holder();
  if (!held || held.runner !== runner || held.generation !== generation) {
    throw new Ended('superseded', held ? held.runner : '');
  }
}

function writeLease(text) {
  const temp = at(LEASE + '.tmp.' + crypto.randomBytes(6).toString('hex'));
  const shared = (fs.statSync(dir).mode & 0o2000) !== 0;
  fs.writeFileSync(temp, text, { flag: 'wx', mode: 0o600 });
  try {
    if (shared) fs.chmodSync(temp, 0o660);
    fs.renameSync(temp, at(LEASE));
  } catch (error) {
    fs.unlinkSync(temp);
    throw error;
  }
}

function take(how) {
  const held = holder();
  if (held) {
    before = held.runner;
    const mine = held.runner === runner;
    if ((mine && held.generation > generation) || (how === 'free' && !mine)) {
      throw new Ended('superseded', held.runner);
    }
  }
  writeLease(runner + ' ' + generation + '\n');
}

function release() {
  const held = holder();
  if (held && held.runner === runner) writeLease('');
  throw new Ended('released');
}

function encoded(fields) {
  return '{' + fields.map(([name, value]) =>
    JSON.stringify(name) + ':' + (typeof value === 'bigint' ? String(value) : JSON.stringify(value))).join(',') + '}';
}

function fieldsOf(kind, request, found) {
  const age = Date.now() - Number(found.mtimeNs / 1000000n);
  return [[kind, request], ['ino', found.ino], ['mtime', found.mtimeNs], ['size', found.size], ['age', age]];
}

function stat(name) {
  try {
    return fs.lstatSync(at(name), { bigint: true });
  } catch (error) {
    return null;
  }
}

function show(request) {
  const name = claimName(request);
  const found = stat(name);
  if (!found) return;
  const key = request + ':' + found.ino + ':' + found.mtimeNs;
  if (known.has(key) || count <= 0) return;
  const fields = fieldsOf('claim', request, found);
  const size = Number(found.size);
  if (!found.isFile() || found.nlink !== 1n) {
    fields.push(['bad', 'the request is not a regular file of one name']);
  } else if (size <= room) {
    let data = null;
    try {
      data = readSome(at(name), size);
    } catch (error) {
      data = null;
    }
    if (data === null) fields.push(['bad', 'the request cannot be read']);
    else {
      room -= data.length;
      fields.push(['data', data.toString('base64')]);
    }
  } else if (lines.length) {
    // Room for it is in the next output.
    return;
  }
  known.add(key);
  count -= 1;
  lines.push(encoded(fields));
}

function tell(request, other) {
  const name = request + '.claim.' + other;
  const found = stat(name);
  if (found) foreign.set(name, encoded([...fieldsOf('foreign', request, found), ['runner', other]]));
}

function tidy(name) {
  let age = null;
  if (name.endsWith('.res.json') && word(name.slice(0, -9), 200)) age = keep;
  else if (/^[A-Za-z0-9_-]{1,200}\.cancel$/.test(name)) age = TEMP_AGE;
  else if (/^(\.relay-lease|relay\.json|relay-probe|[A-Za-z0-9_-]{1,200}\.(req|res)\.json)\.tmp\.[A-Za-z0-9_.-]+$/.test(name)) age = TEMP_AGE;
  const found = age === null ? null : stat(name);
  if (!found || found.isDirectory() || Date.now() - Number(found.mtimeMs) < age * 1000) return;
  try {
    fs.unlinkSync(at(name));
  } catch (error) {
    // RACE: whoever fetches it first has it.
    return;
  }
}

function cancel(request) {
  try {
    fs.unlinkSync(at(claimName(request)));
    lines.push(encoded([['cancel', request]]));
    fs.unlinkSync(at(request + '.cancel'));
  } catch (error) {
    // What cannot be removed is in nobody's way: without its claim it means nothing.
    return;
  }
}

function claim(requests) {
  for (const request of requests) {
    const name = request + '.req.json';
    const found = stat(name);
    if (count <= 0) return;
    if (!found) continue;
    if (lines.length && Number(found.size) > room) return;
    check();
    try {
      fs.renameSync(at(name), at(claimName(request)));
    } catch (error) {
      // RACE: it was withdrawn, or another run won.
      continue;
    }
    show(request);
  }
}

function stay() {
  let found;
  try {
    found = statOf(dir, { bigint: true });
  } catch (error) {
    throw new Ended('gone');
  }
  if (identityOf(found) !== identity) throw new Ended('gone');
  return found.mtimeNs;
}

// Whether a name came into this directory, or went, since it had the mtime that is named.
function census() {
  mtime = stay();
  if (mtime !== BigInt(options.since)) throw new Ended('changed');
}

function look() {
  stay();
  check();
  const requests = [];
  const claimed = new Map();
  const cancels = [];
  for (const name of fs.readdirSync(dir)) {
    const parts = name.split('.claim.');
    if (name.endsWith('.req.json') && word(name.slice(0, -9), 200)) requests.push(name.slice(0, -9));
    else if (parts.length === 2 && word(parts[0], 200) && word(parts[1], 32)) {
      claimed.set(parts[0], [...(claimed.get(parts[0]) || []), parts[1]]);
    } else if (keep) tidy(name);
    if (name.endsWith('.cancel')) cancels.push(name.slice(0, -7));
  }
  keep = 0;
  for (const request of cancels) {
    if ((claimed.get(request) || []).includes(runner)) cancel(request);
  }
  for (const [request, runners] of claimed) {
    for (const other of runners) {
      if (other === runner) show(request);
      else if (foreign.size < MOST_FOREIGN) tell(request, other);
    }
  }
  const free = requests.filter((request) => !claimed.has(request));
  // Whether there are requests whose id is in flight: that it ends makes no event that is waited for.
  blocked = free.length < requests.length;
  claim(free);
  return lines.length > 0;
}

function say(fields) {
  const data = Buffer.from([...lines, ...foreign.values(), encoded(fields)].join('\n') + '\n');
  for (let written = 0; written < data.length; ) {
    try {
      written += fs.writeSync(1, data, written);
    } catch (error) {
      if (error.code !== 'EAGAIN') process.exit(1);
    }
  }
}

function finish(error) {
  const now = ['now', Date.now()];
  if (error instanceof Ended) {
    say([['status', error.status], now, ['holder', error.holder], ['before', before], ['watch', watcher ? 1 : 0], ['mtime', mtime], ['link', linked ? 1 : 0]]);
  } else {
    say([['status', 'failed'], now, ['error', String(error.code || 'unknown')]]);
  }
  process.exit(0);
}

function main() {
  if (options.make && !fs.existsSync(dir)) fs.mkdirSync(dir, 0o700);
  let found;
  try {
    found = statOf(dir, { bigint: true });
  } catch (error) {
    throw new Ended('gone');
  }
  if (!found.isDirectory()) throw new Ended('gone');
  identity = identityOf(found);
  linked = fs.lstatSync(dir).isSymbolicLink();
  if (options.release) release();
  if (options.holds) {
    show(options.holds);
    throw new Ended('idle');
  }
  if (options.take) take(options.take);
  const window = number('window') * 1000;
  const end = Date.now() + window;
  const find = () => {
    if (options.since !== undefined) census();
    else if (look()) throw new Ended('claimed');
  };
  find();
  if (window <= 0) throw new Ended('idle');
  const step = () => {
    try {
      find();
      if (performanceNow() >= end) throw new Ended('expired');
      if (blocked) setTimeout(step, 50);
    } catch (error) {
      finish(error);
    }
  };
  const performanceNow = monotonic(end - window);
  try {
    watcher = fs.watch(dir, step);
    watcher.on('error', () => {
      watcher = null;
    });
  } catch (error) {
    watcher = null;
  }
  const rescan = number(watcher ? 'rescan' : 'poll') * 1000;
  setInterval(step, Math.max(rescan, 10));
  setTimeout(step, window + 1);
  step();
}

// A clock that starts at `origin` and goes on evenly, whatever is done to the wall clock.
function monotonic(origin) {
  const began = process.hrtime();
  return () => {
    const [seconds, nanos] = process.hrtime(began);
    return origin + seconds * 1000 + nanos / 1e6;
  };
}

try {
  main();
} catch (error) {
  finish(error);
}
