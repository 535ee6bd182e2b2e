// Two files that were put in no order: the older one comes first, and filters mean the same in both.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { api, bytes, choiceOf, folder, go, highwater, json, page, recording, rows, settled, viewer } from "./support.mjs";

const made = folder();

/** A run whose functions allocate, one after the other; the times are those of their ends. */
function run(name, startUnixNs, allocations) {
  const lines = [{ event: "source", program: name, pid: 7, start_unix_ns: startUnixNs }];
  allocations.forEach(([innermost, size, thread], index) => {
    lines.push({ event: "thread", thread: thread[0], name: thread[1] });
    lines.push({ event: "allocate", address: `0x${(index + 1).toString(16)}000`, size, time_ns: (index + 1) * 1000, thread: thread[0], stack: [{ function: innermost, file: "/src/app.c", line: innermost.length }, "main"] });
  });
  writeFileSync(join(made, `${name}.jsonl`), lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  highwater("import", "--force", join(made, `${name}.jsonl`), "-o", recording(`${name}.hw`));
  return recording(`${name}.hw`);
}

// The newer run is the first file; its sites and threads have other numbers than in the older one.
const newer = run("newer", 1_700_000_900_000_000_000, [["only_new", 500, [1, "new"]], ["load", 3000, [2, "reader"]]]);
const older = run("older", 1_700_000_000_000_000_000, [["load", 1000, [1, "reader"]], ["save", 200, [2, "writer"]]]);
const view = await viewer([newer, older]);
const siteOf = async (source, name) => (await api(view, `rows?source=${source}&by=site&metric=live&at=peak`)).rows.find((row) => row.key.startsWith(name)).id;
const headings = (opened) => opened.$$eval(".table-head [role=columnheader]", (all) => all.map((each) => each.textContent.replace(/ [▲▼]$/, "")));
const items = (opened) => opened.$$eval("[role=menuitem]", (all) => all.map((each) => each.firstChild.textContent));
const rowOf = (opened, name) => opened.locator(".table-row", { hasText: name });

test("figures stand under the heading of their file, the older one first", async () => {
  const opened = await page(view, "view=compare");
  assert.deepEqual((await headings(opened)).slice(0, 3), ["Change", "B", "A"]);
  const load = (await rows(opened)).find((row) => row.at(-1).startsWith("load"));
  assert.deepEqual(load.slice(0, 3), [`+${bytes(2000)}`, bytes(1000), bytes(3000)]);
  assert.equal(Number(await opened.locator(".change-total").getAttribute("data-change")), 3500 - 1200);
  // Put in an order, A is first.
  await go(opened, "view=compare&other=1");
  assert.deepEqual((await headings(opened)).slice(0, 3), ["Change", "A", "B"]);
  const ordered = (await rows(opened)).find((row) => row.at(-1).startsWith("load"));
  assert.deepEqual(ordered.slice(0, 3), [`−${bytes(2000)}`, bytes(3000), bytes(1000)]);
  await opened.done();
});

test("a row's filter is the one of the chosen file, and a row that it does not have has none", async () => {
  const opened = await page(view, "view=compare");
  await rowOf(opened, "load").click({ button: "right" });
  await opened.getByRole("menuitem", { name: "Only this site", exact: true }).click();
  await settled(opened);
  assert.equal(choiceOf(opened).get("filter"), `site:${await siteOf(0, "load")}`);
  // The same site of the older file has another number.
  assert.notEqual(await siteOf(0, "load"), await siteOf(1, "load"));
  assert.deepEqual((await rows(opened)).map((row) => row.slice(0, 3)), [[`+${bytes(2000)}`, bytes(1000), bytes(3000)]]);
  await go(opened, "view=compare");
  await rowOf(opened, "save").click({ button: "right" });
  const offered = await items(opened);
  assert.ok(offered.includes("Copy name") && !offered.some((name) => /site|blocks|timeline|inside/.test(name)), offered.join());
  await opened.done();
});

test("threads of filters are found by their names in the other file, on the timeline, too", async () => {
  const opened = await page(view);
  const asked = [];
  opened.on("request", (request) => asked.push(new URL(request.url())));
  await go(opened, "view=compare&filter=thread:2");
  assert.deepEqual((await rows(opened)).map((row) => row.slice(0, 3)), [[`+${bytes(2000)}`, bytes(1000), bytes(3000)]]);
  const overlaid = asked.filter((url) => url.pathname.endsWith("/timeline") && url.searchParams.get("source") === "1");
  assert.ok(overlaid.length > 0);
  assert.deepEqual(overlaid.map((url) => url.searchParams.get("filters_of")), overlaid.map(() => "0"));
  await opened.done();
});

test("the source panel says which way it compares", async () => {
  const opened = await page(view, "view=compare&source_file=%2Fsrc%2Fapp.c:4");
  assert.match(await opened.locator(".source-sum").textContent(), /^B → A: \+2\.2 KiB self/);
  await go(opened, "view=compare&other=1&source_file=%2Fsrc%2Fapp.c:4");
  assert.match(await opened.locator(".source-sum").textContent(), /^A → B: −2\.2 KiB self/);
  await opened.done();
});

test("a change is an estimate if either file is sampled", async () => {
  const both = await viewer([recording("service.hw"), recording("sampled.hw")]);
  const { lines } = json("report", "service.hw", "--at", "peak", "--by", "line");
  const file = lines.map((row) => row.name).find((name) => /service\.rs:\d+$/.test(name ?? "")).replace(/:\d+$/, "");
  const opened = await page(both, `view=compare&other=1&source_file=${encodeURIComponent(`${file}:1`)}`);
  assert.match(await opened.locator(".source-sum b").first().textContent(), /^~/);
  await opened.done();
});

test("a comparison's flame graph is drawn in blocks, too", async () => {
  const opened = await page(view, "view=compare&compared=flame&measure=blocks");
  await opened.locator(".flame-canvas").hover({ position: { x: 60, y: 9 } });
  assert.match(await opened.locator("#flame-details").textContent(), /0 blocks · 2 → 2/);
  await opened.done();
});

test("types are offered only where some are known", async () => {
  const opened = await page(view, "view=table");
  const offered = () => opened.$$eval("#by option, .tools label select option", (all) => all.map((each) => each.value));
  assert.ok(!(await offered()).includes("type") && (await offered()).includes("thread"));
  await go(opened, "view=compare");
  assert.ok(!(await offered()).includes("type") && (await offered()).includes("thread"));
  await opened.done();
});
