// Files of what is shown: their figures are those of the command line, and `go tool pprof` reads the profiles.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { api, folder, go, json, page, recording, viewer } from "./support.mjs";

const view = await viewer([recording("service.hw"), recording("sampled.hw"), recording("fragmented.hw"), recording("rounds.log"), recording("hostile.hw")]);
const made = folder();

async function downloaded(opened, control) {
  const [saved] = await Promise.all([opened.waitForEvent("download"), control.click()]);
  return { name: saved.suggestedFilename(), path: await saved.path() };
}

/** The lines of a file with commas, as objects. */
async function csv(opened) {
  const { path } = await downloaded(opened, opened.getByRole("button", { name: "CSV" }));
  const fields = (line) => [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)].map(([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? plain);
  const [titles, ...rows] = readFileSync(path, "utf8").trim().split("\r\n").map(fields);
  return rows.map((row) => Object.fromEntries(titles.map((title, index) => [title, row[index]])));
}

const total = (rows, column) => rows.reduce((sum, row) => sum + Number(row[column]), 0);

test("a CSV that takes long can be cancelled", async () => {
  const opened = await page(view, "view=table&by=function&metric=allocated");
  await opened.route(/\/api\/1\/rows\?.*limit=10000/, () => {});
  await opened.getByRole("button", { name: "CSV" }).click();
  await opened.getByRole("button", { name: "Cancel saving" }).click();
  assert.equal(await opened.getByRole("button", { name: "CSV" }).isEnabled(), true);
  assert.equal(await opened.locator(".table-view .problem").count(), 0);
  await opened.done();
});

test("every table is saved as CSV with the figures of the command line", async () => {
  const opened = await page(view);
  await go(opened, "view=leaks&at=end");
  const leaks = json("leaks", recording("service.hw"), "--top", "0");
  let rows = await csv(opened);
  assert.equal(total(rows, "bytes"), leaks.totals.live_bytes);
  assert.equal(total(rows, "blocks"), leaks.totals.live_blocks);

  await go(opened, "view=growth&at=end");
  rows = await csv(opened);
  const growth = await api(view, "growth?source=0&points=40&limit=1000");
  assert.deepEqual(rows.map((row) => [row.name, Number(row.bytes), Number(row.score)]), growth.sites.map((site) => [site.key, site.live_bytes, site.score]));

  await go(opened, "view=compare&at=peak&b=end&other=0");
  rows = await csv(opened);
  const [peak, end] = ["peak", "end"].map((at) => json("report", recording("service.hw"), "--at", at).totals);
  assert.equal(total(rows, "change"), end.live_bytes - peak.live_bytes);
  assert.equal(total(rows, "blocks_after") - total(rows, "blocks_before"), end.live_blocks - peak.live_blocks);

  await go(opened, "view=blocks&at=peak&filter=size:128..");
  rows = await csv(opened);
  const blocks = await api(view, "blocks?source=0&at=peak&filter=size:128..&limit=1");
  assert.equal(rows.length, blocks.count);
  assert.ok(rows.length > 1000, "more than one answer of the server has");
  assert.equal(total(rows, "size"), blocks.bytes);

  await go(opened, "source=3&view=types");
  rows = await csv(opened);
  assert.equal(total(rows, "never_dropped_bytes"), json("objects", recording("rounds.log")).leaked_bytes_total);

  const rss = await api(view, "rss?source=2&limit=2000&by=type");
  await go(opened, "source=2&view=rss");
  assert.equal(total(await csv(opened), "resident_bytes"), rss.sum_bytes);
  for (const [part, list] of [["sites", rss.sites], ["types", rss.groups]]) {
    await go(opened, `source=2&view=rss&part=${part}`);
    rows = await csv(opened);
    assert.equal(rows.length, list.length, part);
    assert.equal(total(rows, "pinned_bytes"), list.reduce((sum, row) => sum + row.pinned_bytes, 0), part);
  }
  await go(opened, "source=2&view=rss&part=files");
  assert.equal(total(await csv(opened), "resident_bytes"), rss.files.reduce((sum, each) => sum + each.shared_bytes + each.private_bytes, 0));
  await opened.done();
});

function pprof(...parameters) {
  return execFileSync("go", ["tool", "pprof", ...parameters], { encoding: "utf8", env: { ...process.env, HOME: made, PPROF_TMPDIR: made }, stdio: ["ignore", "pipe", "pipe"], maxBuffer: 1 << 28 });
}

/** The sums over all samples, by the name of the value. */
function sums(path) {
  const lines = pprof("-raw", path).split("\n");
  const at = lines.indexOf("Samples:");
  const names = lines[at + 1].trim().split(/\s+/).map((name) => name.split("/")[0].replace(/\[dflt\]$/, ""));
  const found = Object.fromEntries(names.map((name) => [name, 0]));
  for (const line of lines.slice(at + 2, lines.indexOf("Locations"))) {
    const values = line.split(":")[0].trim().split(/\s+/).map(Number);
    if (values.length === names.length && !values.some(Number.isNaN)) names.forEach((name, index) => (found[name] += values[index]));
  }
  return found;
}

test("go tool pprof reads a profile of what is shown: metric, window, instant and filters", async () => {
  const opened = await page(view);
  const file = recording("service.hw");
  const [from, to] = [60_000_000, 120_000_000];
  const within = json("report", file, "--from", `${from}ns`, "--to", `${to}ns`).totals;
  const peak = json("report", file, "--at", "peak").totals;
  const end = json("report", file, "--at", `${to}ns`, "--filter", "Index::add", "--top", "0");
  const inside = end.sites.reduce(([bytes, blocks], site) => [bytes + site.live_bytes, blocks + site.live_blocks], [0, 0]);
  for (const [fragment, expected] of [
    ["view=flame", { inuse_objects: peak.live_blocks, inuse_space: peak.live_bytes }],
    [`view=table&metric=allocated&from=${from}&to=${to}`, { alloc_objects: within.allocations + within.reallocations, alloc_space: within.allocated_bytes }],
    [`view=flame&metric=freed&from=${from}&to=${to}`, { free_objects: within.frees + within.reallocations, free_space: within.freed_bytes }],
    [`view=table&metric=temporary&from=${from}&to=${to}`, { temporary_objects: within.temporary_allocations }],
    [`view=flame&at=${to}&filter=inside:contains:Index::add`, { inuse_objects: inside[1], inuse_space: inside[0] }],
  ]) {
    await go(opened, fragment);
    const { name, path } = await downloaded(opened, opened.getByRole("button", { name: "pprof" }));
    assert.match(name, /^service-[a-z-]+\.pb\.gz$/);
    assert.deepEqual(sums(path), expected, fragment);
  }
  // What a reader of the profile sees: the functions with their figures, and what they are of.
  await go(opened, "view=flame&at=peak&filter=inside:contains:Index");
  const { path } = await downloaded(opened, opened.getByRole("button", { name: "pprof" }));
  assert.match(pprof("-top", path), /service::Index::add/);
  assert.match(pprof("-comments", path), /metric: live at \d+ ns\n[^]*filter: inside:contains:Index/);
  await opened.done();
});

test("a profile of samples, and one of hostile names, are read as well", async () => {
  const opened = await page(view, "source=1&view=flame&metric=allocated");
  const { path } = await downloaded(opened, opened.getByRole("button", { name: "pprof" }));
  const { rows } = await api(view, "rows?source=1&metric=allocated&limit=10000");
  assert.equal(sums(path).alloc_space, rows.reduce((sum, row) => sum + row.value, 0));
  assert.match(pprof("-comments", path), /estimated from samples, one about every 4096 bytes/);
  await go(opened, "source=4&view=flame&metric=allocated");
  const hostile = await downloaded(opened, opened.getByRole("button", { name: "pprof" }));
  assert.equal(hostile.name, "hostile-allocated.pb.gz");
  assert.equal(sums(hostile.path).alloc_space, 4096 + 1024 + 64);
  await opened.done();
});
