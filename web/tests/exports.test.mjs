// What is exported for other tools, read by those tools: Valgrind's dh_view.html, speedscope, and the code of the Firefox Profiler.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { dirname, extname, join } from "node:path";
import { after, test } from "node:test";
import { count, folder, highwater, json, recording, theBrowser, until } from "./support.mjs";

const resolve = createRequire(import.meta.url).resolve;
const files = folder();

/** The file that an export writes. */
function exported(source, format, ...options) {
  const file = join(files, `${format}-${options.join("")}.${format}.json`.replaceAll("/", "-"));
  highwater("export", source, "--to", format, "--force", "-o", file, ...options);
  return file;
}

/** A page of another tool. */
async function foreign(address) {
  const opened = await (await theBrowser()).newPage({ locale: "en-US", viewport: { width: 1280, height: 20_000 } });
  const wrong = [];
  opened.on("pageerror", (error) => wrong.push(String(error.stack)));
  await opened.goto(address);
  return Object.assign(opened, { done: async () => { await opened.close(); assert.deepEqual(wrong, []); } });
}

/** Compares the inclusive figure of each function that `shown` has, as far as its name stands once in the other tool's table, `names`. */
function compareFunctions(report, figure, names, shown) {
  const times = new Map();
  for (const name of names) times.set(name, (times.get(name) ?? 0) + 1);
  const theirs = new Set(shown.map(({ name }) => name).filter((name) => times.get(name) === 1));
  const ours = report.functions.filter(({ name }) => theirs.has(name));
  assert.ok(ours.length >= 10, `only ${ours.length} functions in common`);
  const by = new Map(shown.map(({ name, total }) => [name, total]));
  for (const { name, inclusive } of ours) assert.equal(by.get(name), figure(inclusive), name);
}

/** The root of the tree that dh_view made of a file, and the text that it shows. */
async function inDhView(file) {
  const opened = await foreign("file:///usr/libexec/valgrind/dh_view.html");
  await opened.setInputFiles("input[type=file]", file);
  await opened.waitForFunction("typeof gRoot === 'object' && document.body.innerText.includes('significance threshold')");
  const seen = await opened.evaluate(`(() => {
    const leaves = (node) => node._kids ? node._kids.flatMap(leaves) : [node];
    const most = leaves(gRoot).reduce((sum, leaf) => sum + leaf._maxBytes, 0);
    return { root: { ...gRoot, _kids: undefined }, data: { ...gData, pps: undefined, ftbl: undefined }, most, text: document.body.innerText };
  })()`);
  await opened.done();
  return seen;
}

test("dh_view of Valgrind shows the totals, the peak and the end of a recording", async () => {
  const file = recording("service.hw");
  const { totals, sites } = json("report", file);
  const { root, data, most, text } = await inDhView(exported(file, "dhat"));
  assert.equal(data.bklt, true);
  assert.equal(root._totalBytes, totals.allocated_bytes);
  assert.equal(root._totalBlocks, totals.allocations + totals.reallocations);
  assert.equal(root._atTGmaxBytes, totals.peak_bytes);
  assert.equal(root._atTEndBytes, totals.live_bytes);
  assert.equal(root._atTEndBlocks, totals.live_blocks);
  assert.equal(most, sites.reduce((sum, site) => sum + site.peak_bytes, 0));
  assert.equal(data.tg, Math.floor(totals.peak_at_ns / 1000));
  const peak = json("report", file, "--at", "peak");
  assert.equal(root._atTGmaxBlocks, peak.totals.live_blocks);
  assert.ok(root._totalLifetimes > 0 && root._totalLifetimes / root._totalBlocks <= data.te);
  assert.ok(text.includes(`Total:     ${count(totals.allocated_bytes)} bytes (100%`), text.slice(0, 2000));
  assert.ok(text.includes(`At t-gmax: ${count(totals.peak_bytes)} bytes (100%)`), text.slice(0, 2000));
  assert.ok(text.includes(`At t-end:  ${count(totals.live_bytes)} bytes (100%)`), text.slice(0, 2000));
});

test("dh_view shows what is live in a memory image, and claims no more", async () => {
  const file = recording("ledger-2.img");
  const { totals } = json("report", file);
  const { root, data, text } = await inDhView(exported(file, "dhat", "--metric", "live"));
  assert.equal(data.bklt, false);
  assert.equal(root._totalBytes, totals.live_bytes);
  assert.equal(root._totalBlocks, totals.live_blocks);
  assert.ok(text.includes("Live at {") && !text.includes("At t-end:"), text.slice(0, 2000));
});

/** Serves the built page of speedscope, as its package has it. */
async function speedscope() {
  const root = join(dirname(resolve("speedscope/package.json")), "dist/release");
  const types = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css" };
  const server = createServer((request, response) => {
    const path = new URL(request.url, "http://localhost").pathname.slice(1) || "index.html";
    response.setHeader("content-type", types[extname(path)] ?? "application/octet-stream");
    response.end(readFileSync(join(root, path)));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  after(() => server.close());
  return { address: `http://127.0.0.1:${server.address().port}/`, schema: JSON.parse(readFileSync(join(root, "file-format-schema.json"), "utf8")) };
}

/** What of a value a JSON schema does not allow: only the words that speedscope's schema uses. */
function violations(value, schema, whole, path = "$") {
  if (schema.$ref) return violations(value, whole.definitions[schema.$ref.split("/").at(-1)], whole, path);
  if (schema.anyOf) return schema.anyOf.some((each) => violations(value, each, whole, path).length === 0) ? [] : [`${path}: none of the alternatives`];
  const kind = Array.isArray(value) ? "array" : value === null ? "null" : typeof value;
  if (schema.type && schema.type !== kind) return [`${path}: ${kind} instead of ${schema.type}`];
  if (schema.const !== undefined && schema.const !== value) return [`${path}: not ${schema.const}`];
  if (schema.enum && !schema.enum.includes(value)) return [`${path}: not one of ${schema.enum}`];
  if (kind === "array") return value.flatMap((item, at) => violations(item, schema.items ?? {}, whole, `${path}[${at}]`));
  if (kind !== "object") return [];
  const missing = (schema.required ?? []).filter((name) => !(name in value)).map((name) => `${path}: no ${name}`);
  return missing.concat(Object.entries(schema.properties ?? {}).flatMap(([name, of]) => (name in value ? violations(value[name], of, whole, `${path}.${name}`) : [])));
}

/** Bytes as speedscope shows them. */
function asSpeedscope(bytes) {
  const units = ["B", "KB", "MB", "GB"];
  let [scaled, unit] = [bytes, 0];
  for (; scaled >= 1024 && unit < 3; unit += 1) scaled /= 1024;
  return unit === 0 ? `${scaled} B` : `${scaled.toFixed(2)} ${units[unit]}`;
}

test("speedscope shows the bytes of each function", async () => {
  const file = recording("service.hw");
  const { address, schema } = await speedscope();
  for (const [metric, field] of [["live", "live_bytes"], ["allocated", "allocated_bytes"]]) {
    const written = exported(file, "speedscope", "--at", "peak", "--metric", metric);
    const document = JSON.parse(readFileSync(written, "utf8"));
    assert.deepEqual(violations(document, schema, schema), []);
    assert.ok(violations({ ...document, profiles: [{ type: "sampled" }] }, schema, schema).length > 0);
    assert.deepEqual(document.profiles.map(({ unit }) => unit).toSorted(), ["bytes", "bytes", "none"]);
    const opened = await foreign(`${address}#view=sandwich`);
    await opened.setInputFiles("input[type=file]", written);
    await opened.locator("table tr").nth(10).waitFor();
    const rows = await opened.$$eval("table tr", (lines) => lines.map((line) => [...line.children].map((cell) => cell.textContent)).filter((cells) => cells.length === 3));
    const shown = rows.slice(1).map(([total, , name]) => ({ name, total: total.split(" (")[0] }));
    const report = json("report", file, "--at", "peak", "--by", "function", "--metric", metric);
    compareFunctions(report, (figures) => asSpeedscope(figures[field]), document.shared.frames.map(({ name }) => name), shown);
    await opened.done();
  }
});

/** The Firefox Profiler on the command line: the code of the page, with a session in the background. */
function profiler() {
  const program = join(dirname(resolve("@firefox-devtools/profiler-cli/package.json")), "dist/profiler-cli.js");
  const environment = { ...process.env, PROFILER_CLI_SESSION_DIR: folder(), PROFILER_CLI_NO_SYMBOLICATE: "1" };
  const run = (...words) => execFileSync(process.execPath, [program, ...words, "--session", "test"], { env: environment, encoding: "utf8", maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "pipe"] });
  return {
    stop: () => run("stop"),
    ask: (...words) => JSON.parse(run(...words, "--json")),
    load: async (file) => {
      // It gives a slow machine half a second to start the session, which goes on all the same.
      try { run("load", file); } catch { /* Asked below. */ }
      await until("the session", () => { try { return run("status"); } catch { return false; } });
    },
  };
}

test("the Firefox Profiler shows the bytes of each function, what was allocated, and memory over time", async () => {
  const file = recording("service.hw");
  const report = json("report", file, "--at", "peak", "--by", "function");
  const { ask, load, stop } = profiler();
  const written = exported(file, "firefox", "--at", "peak");
  try {
    await load(written);
    compareProfile(ask, report);
  } finally {
    stop();
  }
});

function compareProfile(ask, report) {
  for (const [strategy, field] of [["timing", "live_bytes"], ["native-allocations", "allocated_bytes"]]) {
    const { functions, weightType } = ask("thread", "functions", "--strategy", strategy);
    assert.equal(weightType, "bytes");
    const shown = functions.map(({ name, totalSamples }) => ({ name, total: totalSamples }));
    compareFunctions(report, (figures) => figures[field], shown.map(({ name }) => name), shown.filter(({ total }) => total > 0));
    assert.equal(functions.reduce((sum, { selfSamples }) => sum + selfSamples, 0), report.totals[field]);
  }
  const [memory] = ask("counter", "info", "c-0").stats;
  // The track begins with nothing, so its range is the peak.
  assert.equal(memory.value, report.totals.peak_bytes);
}
