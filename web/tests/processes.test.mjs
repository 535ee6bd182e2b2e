// Several processes on one page: the tree, the total, each process at the same instant, the same figures as the command line, a saved page, and many processes.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { api, bytes, choiceOf, figures, go, HIGHWATER, json, page, picture, recording, rows, settled, until, viewer } from "./support.mjs";

const place = recording("tree");
mkdirSync(place);
const START = 1_700_000_000_000_000_000n;
const MS = 1_000_000;

/** A recording of a process: `blocks` are [from, to, bytes] in milliseconds since its start. */
function record(path, { name, pid, parent = 0, start, end, blocks, forked = false }) {
  const events = blocks.flatMap(([from, to, size], index) => {
    const address = `0x${(0x10000 + index * 0x100000).toString(16)}`;
    const made = { at: from, line: { event: "allocate", address, size, stack: ["malloc", `${name}_fill`, "main"] } };
    return to === null ? [made] : [made, { at: to, line: { event: "deallocate", address } }];
  });
  events.push({ at: end, line: { event: "mark", name: "end" } });
  events.sort((a, b) => a.at - b.at);
  const source = { event: "source", program: name, pid, parent_pid: parent, host: "builder", command: [name, "-c", `${name}.c`], ...(forked ? { forked } : {}) };
  // The start is beyond what a JavaScript number holds exactly.
  const first = JSON.stringify(source).replace(/}$/, `,"start_unix_ns":${START + BigInt(start * MS)}}`);
  const lines = [first, ...events.map(({ at, line }) => JSON.stringify({ ...line, time_ns: Math.round(at * MS), thread: 1 }))];
  const text = path.replace(/\.hw$/, ".jsonl");
  writeFileSync(text, lines.join("\n") + "\n");
  execFileSync(HIGHWATER, ["import", text, "-o", path], { stdio: "ignore" });
}

mkdirSync(join(place, "build.children"));
const main = join(place, "build.hw");
const child = (file) => join(place, "build.children", file);
record(main, { name: "make", pid: 10, start: 0, end: 1000, blocks: [[0, null, 300_000]] });
record(child("11-cc1.hw"), { name: "cc1", pid: 11, parent: 10, start: 100, end: 200, blocks: [[0, 180, 4_000_000], [50, null, 2_000_000]] });
record(child("12-cc1plus.hw"), { name: "cc1plus", pid: 12, parent: 10, start: 200, end: 200, blocks: [[10, 150, 5_000_000], [20, 21, 9_000_000], [160, null, 70_000]] });
record(child("13-make-fork.hw"), { name: "make", pid: 13, parent: 10, start: 500, end: 200, forked: true, blocks: [[0, null, 1_500_000]] });
record(child("14-ld.hw"), { name: "ld", pid: 14, parent: 13, start: 600, end: 300, blocks: [[0, 250, 800_000]] });

const view = await viewer([main]);
const opened = await page(view);
const tree = JSON.parse(execFileSync(HIGHWATER, ["processes", main, "--json"], { encoding: "utf8" }));

test("a recording with children begins with all of them", async () => {
  // The address is written when the choice rests.
  await opened.waitForURL((url) => new URLSearchParams(url.hash.slice(1)).get("view") === "processes", { timeout: 5000 });
  assert.equal(await opened.locator("[role=tab][aria-selected=true]").textContent(), "Processes");
  const names = (await rows(opened)).map(([name]) => name);
  assert.deepEqual(names.map((name) => name.split(" ")[0]), ["make", "cc1", "cc1plus", "make", "ld"]);
  assert.match(names[3], /forked, inherited up to 293\.0 KiB/);
  assert.match(await opened.locator(".processes-notes").textContent(), /inherited is counted in its parent only/);
  await picture(opened, "processes");
});

test("figures are those of a report of each file, and the total is that of one instant", async () => {
  const shown = await rows(opened);
  for (const [index, process] of tree.processes.entries()) {
    const { totals: recording, source } = json("report", process.path, "--at", "end");
    const [, , pid, , , peak, held, allocated, exit] = shown[index];
    assert.equal(pid, String(source.pid));
    assert.equal(peak, bytes(recording.peak_bytes));
    assert.equal(allocated, bytes(recording.allocated_bytes));
    assert.equal(exit, bytes(recording.live_bytes));
    assert.equal(held, process.held_bytes ? bytes(process.held_bytes) : "");
  }
  // cc1 and cc1plus held all they could for one millisecond.
  const highest = 300_000 + 6_000_000 + 14_000_000;
  assert.deepEqual(tree.highest, { at_ns: 220 * MS, bytes: highest, at_most_bytes: highest });
  assert.equal((await figures(opened)).highest, highest);
  assert.equal((await figures(opened))["chosen-total"], highest);
  const answer = await api(view, "processes");
  for (const [bin, total] of answer.total_bytes.entries()) {
    const parts = answer.stack.reduce((sum, { bytes }) => sum + bytes[bin], 0) + answer.rest_bytes[bin];
    assert.equal(parts, total);
  }
  assert.equal(Math.max(...answer.total_bytes), highest);
});

test("another instant shows what each process held then", async () => {
  await go(opened, `view=processes&tree_at=${620 * MS}`);
  const shown = await rows(opened);
  const held = Object.fromEntries(shown.map((cells) => [cells[2], cells[6]]));
  assert.deepEqual(held, { 10: bytes(300_000), 11: "", 12: "", 13: bytes(1_500_000), 14: bytes(800_000) });
  assert.equal((await figures(opened))["chosen-total"], 2_600_000);
  const box = await opened.locator(".stacked-box").boundingBox();
  // A click, a drag and keys do the same as the address.
  await opened.mouse.click(box.x + 70 + (box.width - 84) * 0.62, box.y + 80);
  await settled(opened);
  const at = Number(choiceOf(opened).get("tree_at"));
  assert.ok(Math.abs(at - 620 * MS) < 5 * MS, String(at));
  assert.equal((await figures(opened))["chosen-total"], 2_600_000);
  await opened.locator(".stacked-box").focus();
  await opened.keyboard.press("ArrowRight");
  await settled(opened);
  assert.ok(Number(choiceOf(opened).get("tree_at")) > at);
  await opened.keyboard.press("Home");
  await settled(opened);
  assert.equal(choiceOf(opened).get("tree_at"), null);
  await opened.mouse.move(box.x + 70 + (box.width - 84) * 0.5, box.y + 60);
  await opened.mouse.down();
  await opened.mouse.move(box.x + 70 + (box.width - 84) * 0.75, box.y + 60, { steps: 4 });
  await opened.mouse.up();
  await settled(opened);
  assert.ok(Math.abs(Number(choiceOf(opened).get("tree_from")) - 500 * MS) < 5 * MS);
  const zoomed = await api(view, `processes?from=${choiceOf(opened).get("tree_from")}&to=${choiceOf(opened).get("tree_to")}`);
  assert.equal(Math.max(...zoomed.total_bytes), 2_600_000);
  await opened.getByRole("button", { name: "whole time" }).click();
  await settled(opened);
  assert.equal(choiceOf(opened).get("tree_from"), null);
});

test("the figures of another instant are not known before its answer, and not if there is none", async () => {
  const held = /\/api\/1\/processes\/held/;
  const shownHeld = async () => (await rows(opened)).map((cells) => cells[6]);
  await go(opened, "view=processes");
  let waiting = null;
  await opened.route(held, (route) => { waiting = route; });
  await opened.evaluate((at) => { location.hash = `view=processes&tree_at=${at}`; }, 610 * MS);
  await until("it is asked", () => waiting !== null);
  assert.deepEqual(await shownHeld(), Array(5).fill("…"));
  assert.match(await opened.locator(".chosen-total").textContent(), /: … in all/);
  assert.ok(!("chosen-total" in (await figures(opened))) || Number.isNaN((await figures(opened))["chosen-total"]));
  await waiting.continue();
  await settled(opened);
  assert.equal((await figures(opened))["chosen-total"], 2_600_000);
  // The figures of the instant before are dimmed while the next ones are awaited.
  waiting = null;
  await opened.evaluate((at) => { location.hash = `view=processes&tree_at=${at}`; }, 700 * MS);
  await until("it is asked", () => waiting !== null);
  assert.equal(await opened.locator(".processes-view.old").count(), 1);
  await waiting.fulfill({ status: 500, contentType: "text/plain", body: "no memory left\n" });
  await settled(opened);
  assert.deepEqual(await shownHeld(), Array(5).fill("…"));
  assert.match(await opened.locator(".processes-view .problem").first().textContent(), /no memory left/);
  await opened.unroute(held);
});

test("processes are sorted and searched", async () => {
  await opened.getByRole("columnheader", { name: "Peak", exact: true }).getByRole("button").click();
  await settled(opened);
  assert.deepEqual((await rows(opened)).map(([, , pid]) => pid), ["12", "11", "13", "14", "10"]);
  await opened.getByRole("button", { name: "as a tree" }).click();
  await opened.getByLabel("Search processes").fill("cc1");
  await opened.waitForTimeout(250);
  await settled(opened);
  assert.deepEqual((await rows(opened)).map(([, , pid]) => pid), ["11", "12"]);
  await opened.getByLabel("Search processes").fill("/^ld$/");
  await opened.waitForTimeout(250);
  await settled(opened);
  assert.deepEqual((await rows(opened)).map(([, , pid]) => pid), ["14"]);
  await opened.getByLabel("Search processes").fill("");
  await opened.waitForTimeout(250);
  await settled(opened);
});

test("a process opens at the same instant, and the back button returns", async () => {
  await go(opened, "view=processes");
  await opened.locator(".table-row").nth(2).getByRole("button").click();
  await settled(opened);
  assert.equal(await opened.locator("[role=tab][aria-selected=true]").textContent(), "Overview");
  assert.equal(choiceOf(opened).get("at"), String(20 * MS), "220 ms are 20 ms of a process that began at 200 ms");
  const { totals: then } = json("report", child("12-cc1plus.hw"), "--at", "20ms");
  assert.equal((await figures(opened)).live_bytes, then.live_bytes);
  assert.match(await opened.locator(".header").textContent(), /cc1plus/);
  await opened.goBack();
  await settled(opened);
  assert.equal((await rows(opened)).length, 5);
  // The same with the keyboard.
  await opened.locator(".table-body").focus();
  await opened.keyboard.press("ArrowDown");
  await opened.keyboard.press("ArrowDown");
  await opened.keyboard.press("Enter");
  await settled(opened);
  assert.match(await opened.locator(".header").textContent(), /cc1 /);
  // A link to one process opens it.
  const linked = await page(view, "view=table&source=4");
  assert.match(await linked.locator(".header").textContent(), /ld/);
  await linked.done();
});

test("a process has a menu, and the table and the diagram are saved as files", async () => {
  await go(opened, "view=processes");
  const items = () => opened.$$eval("[role=menuitem]", (all) => all.map((each) => each.firstChild.textContent));
  await opened.locator(".table-row").nth(2).click({ button: "right" });
  assert.deepEqual(await items(), ["Open", "Open at its peak", "Put the instant at its peak", "Copy command", "Copy name"]);
  await opened.getByRole("menuitem", { name: "Open", exact: true }).click();
  await until("it is open", async () => /cc1plus/.test(await opened.locator(".header").textContent()));
  await go(opened, "view=processes");
  const saved = async (act) => {
    const [download] = await Promise.all([opened.waitForEvent("download"), act()]);
    return [download.suggestedFilename(), readFileSync(await download.path(), "utf8")];
  };
  const [, table] = await saved(() => opened.getByRole("button", { name: "CSV" }).click());
  const lines = table.trim().split("\r\n").map((line) => line.split(","));
  assert.deepEqual(lines.slice(1).map((cells) => [cells[0], Number(cells[lines[0].indexOf("peak_bytes")])]), tree.processes.map((process) => [process.name, process.peak_bytes]));
  const menu = opened.locator(".stacked-totals").getByRole("button", { name: "save…" });
  await menu.click();
  const [name, total] = await saved(() => opened.getByRole("menuitem", { name: "Save as CSV" }).click());
  assert.equal(name, "processes-total.csv");
  const bins = total.trim().split("\r\n").slice(1).map((line) => line.split(",").map(Number));
  // Its parts add up to the total of each bin.
  for (const [, all, , ...parts] of bins) assert.equal(parts.reduce((sum, part) => sum + part, 0), all);
  await menu.click();
  const [picture, svg] = await saved(() => opened.getByRole("menuitem", { name: /picture/ }).click());
  assert.equal(picture, "processes-total.svg");
  const drawn = await opened.evaluate((text) => {
    const parsed = new DOMParser().parseFromString(text, "image/svg+xml");
    return { isBroken: parsed.querySelector("parsererror") !== null, colours: [...parsed.querySelectorAll("path")].map((path) => path.getAttribute("fill")).filter((fill) => /^rgb/.test(fill ?? "")).length, text: parsed.documentElement.textContent };
  }, svg);
  assert.ok(!drawn.isBroken && drawn.colours >= 5 && /cc1plus 12/.test(drawn.text), JSON.stringify(drawn));
});

test("it fits narrow and wide windows", async () => {
  await go(opened, "view=processes");
  for (const width of [640, 1024, 2560]) {
    await opened.setViewportSize({ width, height: 800 });
    await settled(opened);
    const overflow = await opened.evaluate(() => [...document.querySelectorAll(".processes-view, .table-head, .stacked-totals, .tools")].filter((each) => each.scrollWidth > each.clientWidth + 1).map((each) => `${each.className} ${each.scrollWidth} > ${each.clientWidth}`));
    assert.deepEqual(overflow, [], `${width} px`);
  }
  await opened.setViewportSize({ width: 1280, height: 720 });
});

test("a saved page has the processes, and the largest of them", async () => {
  const saved = join(place, "tree.html");
  execFileSync(HIGHWATER, ["view", main, "--save", saved], { stdio: "ignore" });
  assert.ok(existsSync(saved));
  const read = await page({ address: pathToFileURL(saved).href });
  assert.equal(await read.locator("[role=tab][aria-selected=true]").textContent(), "Processes");
  assert.deepEqual((await rows(read)).map(([, , pid]) => pid), ["10", "11", "12", "13", "14"]);
  assert.equal((await figures(read)).highest, tree.highest.bytes);
  await read.locator(".table-row").nth(2).getByRole("button").click();
  await settled(read);
  assert.match(await read.locator(".header").textContent(), /cc1plus/);
  await read.done();
});

test("a page that was saved at another instant has what each process held then", async () => {
  const { html } = await api(view, `saved_page?view=${encodeURIComponent(`view=processes&tree_at=${620 * MS}`)}`);
  const saved = join(place, "instant.html");
  writeFileSync(saved, html);
  const read = await page({ address: pathToFileURL(saved).href });
  const held = Object.fromEntries((await rows(read)).map((cells) => [cells[2], cells[6]]));
  assert.deepEqual(held, { 10: bytes(300_000), 11: "", 12: "", 13: bytes(1_500_000), 14: bytes(800_000) });
  assert.equal((await figures(read))["chosen-total"], 2_600_000);
  // The instant of the highest total is in it, too.
  await read.getByTitle("Show this instant").click();
  assert.equal((await figures(read))["chosen-total"], tree.highest.bytes);
  await read.done();
});

test("five hundred processes take one question, and few rows", async () => {
  const many = join(place, "many");
  mkdirSync(many);
  for (let number = 0; number < 500; number += 1) {
    record(join(many, `${1000 + number}-cc.hw`), { name: `cc${number}`, pid: 1000 + number, parent: 999, start: number * 10, end: 60, blocks: [[1, 50, 100_000 + number * 1000], [2, null, 7_000]] });
  }
  const server = await viewer([many]);
  const asked = [];
  const wide = await page(server);
  wide.on("request", (request) => asked.push(new URL(request.url()).pathname));
  assert.equal(await wide.locator("[role=tab][aria-selected=true]").textContent(), "Processes");
  assert.match(await wide.locator(".processes-headline").textContent(), /^500 processes/);
  assert.ok(await wide.locator(".table-row").count() < 60, "only rows on the screen exist");
  await wide.locator(".table-body").evaluate((body) => { body.scrollTop = body.scrollHeight; });
  await until("the last row", async () => /^cc499/.test((await rows(wide)).at(-1)[0]));
  assert.deepEqual(asked.filter((path) => /processes|overview|timeline/.test(path)), [], "scrolling asks nothing");
  const { processes } = await api(server, "sources");
  assert.deepEqual(processes, { count: 500, is_tree: true });
  assert.equal((await api(server, "sources")).sources.length, 1, "one of them is open");
  await wide.done();
});

test("nothing leaves the machine, and nothing throws", async () => {
  await opened.done();
});
