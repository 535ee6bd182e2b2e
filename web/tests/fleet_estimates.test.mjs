// A fleet of which one version of one service counts only samples of its blocks: every figure that contains these begins with ~, and no other does. On the page and in the terminal.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { EXAMPLES, go, highwater, page, picture, recording, rows, settled, viewer } from "./support.mjs";

const lake = recording("lake");
const counted = JSON.parse(execFileSync(join(EXAMPLES, "small_lake"), [lake, "sampled"], { encoding: "utf8", maxBuffer: 1 << 26 }));
const slots = Object.keys(counted.by_slot).map(Number);
const [first, last] = [slots[0], slots.at(-1)];
/** An instant before the sampled processes, and one with them. */
const [exact, sampled] = [counted.sampled_from - 60, counted.sampled_from];
/** The sites of the sampled processes: `parse` is one of an exact service, too. */
const SAMPLED = ["Shard::load", "Query::cache", "parse"];
const OTHERS = ["Cache::fill", "Session::open", "Report::render", "TaxTable::load"];

const view = await viewer([lake]);
const opened = await page(view);

/** What the cells of a row that is named so say in these columns. */
const cells = (name, columns) => opened.$$eval(".table-row", (elements, [name, columns]) => {
  const row = elements.find((each) => [...each.querySelectorAll(".name")].some((cell) => cell.textContent === name));
  return row ? columns.map((column) => row.querySelector(`[data-column=${column}]`)?.textContent ?? "") : null;
}, [name, columns]);

function assertMarks(texts, isEstimate, what) {
  assert.ok(texts?.length > 0 && texts.every((text) => /\d/.test(text)), `${what}: ${JSON.stringify(texts)}`);
  for (const text of texts) assert.equal(text.startsWith("~"), isEstimate, `${what}: ${JSON.stringify(texts)}`);
}

test("sites are estimates where a sampled process holds some of it", async () => {
  const columns = ["bytes", "blocks"];
  await go(opened, `view=fleet&tree_at=${exact}`);
  for (const name of [...OTHERS, ...SAMPLED]) assertMarks(await cells(name, [...columns, "share"]), false, `${name} before`);
  await go(opened, `view=fleet&tree_at=${sampled}`);
  for (const name of SAMPLED) assertMarks(await cells(name, columns), true, name);
  for (const name of OTHERS) assertMarks(await cells(name, columns), false, name);
  // Each is a part of a total that is one.
  for (const name of [...SAMPLED, ...OTHERS]) assertMarks(await cells(name, ["share"]), true, name);
  // Processes and hosts are counted.
  for (const name of SAMPLED) assertMarks(await cells(name, ["processes", "hosts"]), false, name);
  await go(opened, `view=fleet&tree_at=${sampled}&where=service%3Dcheckout`);
  assertMarks(await cells("parse", columns), false, "parse of checkout alone");
});

test("the totals and the parts of the diagram are estimates from when samples are in them", async () => {
  await go(opened, "view=fleet");
  await picture(opened, "fleet");
  const headline = await opened.locator(".fleet-headline").textContent();
  assert.match(headline, /hold ~\d/);
  assert.match(headline, /Most, ~\d/);
  assert.match(headline, /~ marks estimates/);
  for (const [slot, isEstimate] of [[first, false], [exact, false], [sampled, true], [last, true]]) {
    await go(opened, `view=fleet&tree_at=${slot}`);
    assertMarks([await opened.locator("[data-figure=chosen-total]").textContent()], isEstimate, String(slot));
    assert.equal(/: ~/.test(await opened.getByRole("slider", { name: "Instant of the fleet" }).getAttribute("aria-valuetext")), isEstimate);
    const box = await opened.locator(".stacked-box").boundingBox();
    const [left, right] = [70, 14];
    // Within the bin: its edges belong to one of two.
    await opened.mouse.move(box.x + left + ((slot + 20 - first) / (last - first)) * (box.width - left - right), box.y + 60);
    const reading = opened.locator(".stacked-reading");
    assertMarks([await reading.locator("b").textContent()], isEstimate, `the total at ${slot}`);
    for (const [service, isPartEstimate] of [["checkout", false], ["search", isEstimate]]) {
      const part = reading.locator("div", { hasText: service });
      if (service === "search" && slot === first) assert.equal(await part.count(), 1);
      assertMarks([await part.textContent()], isPartEstimate, `${service} at ${slot}`);
    }
  }
  await opened.mouse.move(2, 2);
  await go(opened, "view=fleet&where=service%3Dcheckout");
  assert.ok(!(await opened.locator(".fleet-headline").textContent()).includes("~"));
});

test("a leak's bytes an hour are always estimates, its blocks where it was sampled", async () => {
  await go(opened, "view=fleet&fleet=leaks");
  assertMarks(await cells("Session::open", ["growth"]), true, "Session::open");
  assertMarks(await cells("Session::open", ["fastest", "slowest", "bytes_per_block"]), false, "Session::open");
  assertMarks(await cells("Query::cache", ["growth", "fastest", "slowest", "bytes_per_block"]), true, "Query::cache");
  // Three blocks of 2 KiB a minute.
  assert.deepEqual(await cells("Session::open", ["growth"]), ["~360.0 KiB/h"]);
  await go(opened, "view=fleet&fleet=leaks&where=version%3D1");
  assertMarks(await cells("Query::cache", ["fastest", "slowest", "bytes_per_block"]), false, "Query::cache of the exact version");
});

test("what grew from an exact to a sampled version is an estimate", async () => {
  const columns = ["grew", "old_mean", "new_mean"];
  await go(opened, "view=fleet&fleet=growth&where=service%3Dsearch");
  assertMarks(await cells("Query::cache", columns), true, "Query::cache");
  assert.match((await cells("Query::cache", columns))[0], /^~\+/);
  await go(opened, "view=fleet&fleet=growth&where=service%3Dcheckout");
  assertMarks(await cells("Session::open", columns), false, "Session::open");
  await go(opened, "view=fleet&fleet=growth&between=region&before=%3Dus-east-1&after=%3Deu-west-1&where=service%3Dcheckout");
  assertMarks(await cells("TaxTable::load", ["more", "a_mean", "b_mean"]), false, "TaxTable::load");
});

test("processes are estimates each for itself; the resident set is measured", async () => {
  await go(opened, "view=fleet&fleet=processes");
  const shown = await opened.$$eval(".table-row", (elements) => elements.map((row) => ({
    names: [...row.querySelectorAll(".name")].map((cell) => cell.textContent),
    marks: ["bytes_per_hour", "live_bytes", "hours_to_limit"].flatMap((column) => row.querySelector(`[data-column=${column}]`)?.textContent.startsWith("~") ?? []),
    measured: ["rss_bytes", "slots", "pid"].map((column) => row.querySelector(`[data-column=${column}]`).textContent),
  })));
  const isSampled = ({ names }) => names[0] === "search" && names[1] === "2";
  assert.equal(shown.filter(isSampled).length, 2);
  for (const row of shown) {
    assert.ok(row.marks.length >= 2 && row.marks.every((mark) => mark === isSampled(row)), JSON.stringify(row));
    assert.ok(!row.measured.join("").includes("~"), JSON.stringify(row));
  }
});

test("flame graphs and single processes are estimates if samples are in them", async () => {
  for (const [where, isEstimate] of [["", true], ["service=checkout", false], ["version=1", false], ["version=2", true]]) {
    await go(opened, `view=fleet${where && `&where=${encodeURIComponent(where)}`}`);
    await opened.getByRole("button", { name: /Flame graph at/ }).click();
    await opened.waitForURL((url) => new URLSearchParams(url.hash.slice(1)).get("view") === "flame");
    await settled(opened);
    await go(opened, `${new URL(opened.url()).hash.slice(1).replace("view=flame", "view=table")}`);
    const figures = (await rows(opened)).flat().filter((text) => /\d (B|KiB|MiB)/.test(text));
    assert.ok(figures.length > 0 && figures.every((text) => text.includes("~") === isEstimate), `${where}: ${figures}`);
  }
  for (const [where, isEstimate] of [["service=search&where=version%3D2", true], ["service=search&where=version%3D1", false], ["service=checkout", false]]) {
    await go(opened, `view=fleet&fleet=processes&where=${where.replace("service=", "service%3D")}`);
    await opened.locator(".table-row").first().click();
    await settled(opened);
    await opened.getByRole("button", { name: "Open its snapshots" }).click();
    await opened.waitForURL((url) => new URLSearchParams(url.hash.slice(1)).get("view") === "overview");
    await settled(opened);
    assertMarks([(await opened.locator("[data-figure=live_bytes]").first().textContent()).replace("live at A", "")], isEstimate, where);
  }
});

/** The lines of a table of the command, under its heading, by the words that name them. */
function told(...parameters) {
  const [heading, ...tables] = highwater("fleet", ...parameters).split("\n\n");
  return { heading, line: (words) => tables.join("\n").split("\n").find((line) => words.every((word) => (word instanceof RegExp ? word.test(line) : line.includes(word)))) };
}

test("the terminal marks the same figures", () => {
  const instant = (slot) => new Date(slot * 1000).toISOString().replace(".000", "");
  const before = told("top", lake, "--at", instant(exact), "--top", "0");
  assert.ok(!before.heading.includes("~") && !before.line(["Shard::load"]).includes("~"));
  const top = told("top", lake, "--top", "0");
  assert.match(top.heading, /live +~\d/);
  assert.match(top.heading, /figures with ~ are estimates/);
  for (const name of SAMPLED) assert.match(top.line([name]), /^ *~[\d.]+ \w+ +~[\d.]+% +~[\d,]+ /, name);
  for (const name of OTHERS) assert.match(top.line([name]), /^ *[\d.]+ \w+ +~[\d.]+% +[\d,]+ /, name);
  // The fleet's total is one also if no row of the table is.
  assert.match(told("top", lake, "--top", "1", "--at", instant(counted.burst)).heading, /~/);

  const growth = told("growth", lake, "--top", "0");
  assert.match(growth.line(["Query::cache"]), /~\+.*~.*~/);
  assert.ok(!growth.line(["Session::open"]).includes("~"));
  const leaks = told("leaks", lake, "--top", "0");
  assert.equal(leaks.line(["Session::open"]).split("~").length - 1, 1);
  assert.match(leaks.line(["Session::open"]), /^ *~360\.0 KiB\/h/);
  assert.equal(leaks.line(["Query::cache"]).split("~").length - 1, 3);
  const diff = told("diff", lake, "--a", "version=1", "--b", "version=2");
  assert.match(diff.line(["Query::cache"]), /~\+.*~.*~/);
  assert.ok(!told("diff", lake, "--a", "version=1.42.0", "--b", "version=1.43.0").line(["Session::open"]).includes("~"));
  const processes = told("processes", lake, "--top", "0");
  assert.match(processes.line([/ search +2 /]), /^ *~[+-].* ~[\d.]+ .*~\d+/);
  for (const words of [[/ search +1 /], [" checkout "]]) assert.ok(!processes.line(words).includes("~"), String(words));
  const timeline = told("timeline", lake, "--by", "service", "--top", "1");
  assert.match(timeline.heading, /peak +~/);
  assert.match(timeline.line([" more"]), /~|checkout/);
  const byVersion = told("timeline", lake, "--by", "version");
  assert.ok(!byVersion.line([/\d +1\.43\.0$/]).includes("~"));
  assert.match(byVersion.line([/\d +2$/]), /~[\d.]+ \w+ +~/);
  const written = (...parameters) => highwater("fleet", "flamegraph", lake, "-o", "sampled.folded", "--force", ...parameters);
  assert.match(written(), /: ~\d/);
  assert.match(written("--at", instant(exact)), /: \d/);
  assert.ok(readFileSync(recording("sampled.folded"), "utf8").length > 0);
});

test("the page is closed without a fault", async () => {
  await opened.done();
});
