// A fleet on the page: the figures of a lake that counts itself, the same as the command's, parts of it as sources, and names that no page may take for anything but text.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chmodSync, cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { faults } from "./faults.mjs";
import { api, bytes, choiceOf, EXAMPLES, figures, folder, go, highwater, HIGHWATER, page, recording, rows, settled, until, viewer } from "./support.mjs";

const lake = recording("fleet");
/** What the tool that made the lake counted itself. */
const counted = JSON.parse(execFileSync(join(EXAMPLES, "small_lake"), [lake], { encoding: "utf8", maxBuffer: 1 << 26 }));
const HOSTILE = "we\"ird 'svc' <b>bold</b>";
const slots = Object.keys(counted.by_slot).map(Number);
const last = slots.at(-1);
const sum = (values) => Object.values(values).reduce((all, each) => all + each, 0);
const START = slots[0];

const view = await viewer([lake]);
const opened = await page(view);
const fleet = (question, ...more) => JSON.parse(highwater("fleet", question, "fleet", ...more, "--json"));
const shownValues = (name) => opened.$$eval(`[data-column=${name}]`, (cells) => cells.map((cell) => Number(cell.dataset.value)));

test("a lake opens with its fleet, and its totals are those that were counted", async () => {
  assert.equal(await opened.locator("[role=tab][aria-selected=true]").textContent(), "Fleet");
  const shown = await figures(opened);
  assert.equal(shown["fleet-peak"], counted.by_slot[counted.burst]);
  assert.equal(shown["fleet-peak"], Math.max(...Object.values(counted.by_slot)));
  assert.equal(shown["fleet-latest"], counted.by_slot[last]);
  assert.equal(shown["chosen-total"], counted.by_slot[counted.burst]);
  assert.match(await opened.locator(".fleet-headline").textContent(), /2 services, 8 processes on 6 hosts/);
});

test("each bin of the timeline is one slot, and its bands add up to it", async () => {
  for (const by of ["service", "version", "region", "host"]) {
    const answer = await api(view, `fleet/timeline?source=0&by=${by}`);
    assert.equal(answer.slots.at(-1), last);
    assert.ok(answer.slots.includes(counted.burst));
    for (const [bin, slot] of answer.slots.entries()) {
      assert.equal(answer.total_bytes[bin], counted.by_slot[slot]);
      assert.equal(answer.bands.reduce((all, band) => all + band.bytes[bin], 0) + answer.rest_bytes[bin], counted.by_slot[slot]);
      if (by === "service" || by === "version") for (const band of answer.bands) assert.equal(band.bytes[bin], counted[`by_slot_${by}`][slot][band.value] ?? 0);
    }
  }
  // Only the largest are bands of their own; the rest is still in the total.
  const few = await api(view, "fleet/timeline?source=0&by=host&top=2");
  assert.equal(few.bands.length, 2);
  assert.equal(few.values, 6);
  for (const [bin, slot] of few.slots.entries()) assert.equal(few.bands[0].bytes[bin] + few.bands[1].bytes[bin] + few.rest_bytes[bin], counted.by_slot[slot]);
});

test("sites are those of the chosen slot, as they were counted and as the command prints them", async () => {
  const expected = (slot) => Object.values(counted.by_slot_function[slot]).sort((a, b) => b - a);
  assert.deepEqual(await shownValues("bytes"), expected(counted.burst));
  const told = fleet("top", "--at", "peak", "--top", "0");
  assert.deepEqual(told.rows.map((row) => row.bytes), expected(counted.burst));
  const slot = START + 60 * 10;
  await go(opened, `view=fleet&tree_at=${slot}`);
  assert.deepEqual(await shownValues("bytes"), expected(slot));
  assert.equal((await figures(opened))["chosen-total"], counted.by_slot[slot]);
  assert.deepEqual(await shownValues("share"), expected(slot).map((bytes) => bytes / counted.by_slot[slot]));
  assert.ok((await rows(opened)).some((cells) => cells.join(" ").includes("Session::open ← handle ← main")));
  // A click on the picture chooses a slot, Home the fullest one.
  await opened.locator(".stacked-box").focus();
  await opened.keyboard.press("ArrowRight");
  await settled(opened);
  assert.equal(Number(choiceOf(opened).get("tree_at")), slot + 60);
  assert.deepEqual(await shownValues("bytes"), expected(slot + 60));
  await opened.keyboard.press("Home");
  await settled(opened);
  assert.deepEqual(await shownValues("bytes"), expected(counted.burst));
});

test("leaks name the site, and the number of hosts that agree", async () => {
  await go(opened, "view=fleet&fleet=leaks");
  const shown = await rows(opened);
  const [leak] = shown.filter((cells) => cells.some((cell) => cell.includes("Session::open")));
  assert.ok(leak, JSON.stringify(shown));
  assert.equal(leak[0], "5 of 6");
  const told = fleet("leaks");
  assert.deepEqual(await shownValues("hosts"), told.rows.map((row) => row.hosts));
  assert.deepEqual(await shownValues("fastest"), told.rows.map((row) => row.fastest));
  assert.deepEqual(await shownValues("growth"), told.rows.map((row) => row.fastest * row.bytes_per_block));
  // 3 blocks a minute.
  const row = told.rows.find((each) => each.function === "Session::open");
  assert.ok(Math.abs(row.fastest - 180) < 1e-6, String(row.fastest));
});

test("growth between two versions, and between two regions", async () => {
  await go(opened, "view=fleet&fleet=growth&where=service%3Dcheckout");
  const shown = await rows(opened);
  assert.match(shown[0].join(" "), /Session::open/);
  const told = fleet("growth", "--from-version", "1.42.0", "--to-version", "1.43.0", "--where", "service=checkout");
  assert.deepEqual(await shownValues("grew"), told.rows.map((row) => row.grew));
  assert.deepEqual(await shownValues("hosts_grew"), told.rows.map((row) => row.hosts_grew));
  await go(opened, "view=fleet&fleet=growth&between=region&before=%3Dus-east-1&after=%3Deu-west-1&where=service%3Dcheckout");
  const regions = await rows(opened);
  assert.match(regions[0].join(" "), /TaxTable::load/);
  assert.equal((await shownValues("more"))[0], 300 * 700);
});

test("two versions open as two sources, and are compared", async () => {
  await go(opened, "view=fleet&fleet=growth&where=service%3Dcheckout");
  await opened.getByRole("button", { name: "Compare", exact: true }).click();
  await opened.waitForURL((url) => new URLSearchParams(url.hash.slice(1)).get("view") === "compare");
  await settled(opened);
  const chosen = choiceOf(opened);
  const answer = await api(view, `compare?a=${chosen.get("source")}@peak&b=${chosen.get("other")}@peak&by=function`);
  const most = (version) => Math.max(...slots.map((slot) => counted.by_slot_version[slot][version] ?? 0));
  assert.equal(answer.result?.before?.live_bytes ?? answer.before.live_bytes, most("1.42.0"));
  assert.equal(answer.result?.after?.live_bytes ?? answer.after.live_bytes, most("1.43.0"));
});

test("processes by slope; one opens with its snapshots", async () => {
  await go(opened, "view=fleet&fleet=processes");
  const told = fleet("processes", "--top", "0");
  const shown = await shownValues("bytes_per_hour");
  assert.deepEqual(shown, [...shown].sort((a, b) => b - a));
  const same = new Map(told.rows.map((row) => [row.pid + row.host, row.bytes_per_hour]));
  assert.ok(shown.length >= 14 && shown.every((value) => [...same.values()].includes(value)));
  const first = told.rows[0];
  await opened.locator(".table-body").focus();
  await opened.keyboard.press("ArrowDown");
  await settled(opened);
  await opened.keyboard.press("Enter");
  await opened.waitForURL((url) => new URLSearchParams(url.hash.slice(1)).get("view") === "overview");
  await settled(opened);
  assert.match(await opened.locator(".header").textContent(), new RegExp(`checkout on ${first.host}, pid ${first.pid}`));
  // Nothing else is drawn over it: neither the lake nor a part that was opened before.
  assert.equal(await opened.locator(".other-peak").count(), 0);
  const id = choiceOf(opened).get("source");
  const own = Object.values(counted.by_process[String(BigInt(processIdOf(first)))]);
  const timeline = await api(view, `peak?source=${id}`);
  assert.equal(timeline.bytes, Math.max(...own));
  await opened.goBack();
  await settled(opened);
  assert.equal(await opened.locator("[role=tab][aria-selected=true]").textContent(), "Fleet");
});

/** Of the process with this host and pid, from what was counted: 64 bits are more than a number of this language has. */
function processIdOf({ host, pid }) {
  const text = highwater("fleet", "processes", "fleet", "--top", "0", "--json", "--where", `host=${host}`, "--where", `pid=${pid}`);
  return /"process_id":\s*"?(-?\d+)/.exec(text)[1];
}

test("the flame graph of the fleet at an instant has its services at the root, and its total", async () => {
  await go(opened, "view=fleet");
  await opened.getByRole("button", { name: /Flame graph at/ }).click();
  await opened.waitForURL((url) => new URLSearchParams(url.hash.slice(1)).get("view") === "flame");
  await settled(opened);
  assert.equal(choiceOf(opened).get("source"), null);
  assert.equal(Number(choiceOf(opened).get("at")), (counted.burst - START) * 1e9);
  const tree = await api(view, `tree?source=0&at=${(counted.burst - START) * 1e9}&library=1`);
  assert.equal(tree.node_value[0], counted.by_slot[counted.burst]);
  const services = tree.node_depth.flatMap((depth, node) => (depth === 1 ? [[tree.names[tree.node_name[node]], tree.node_value[node]]] : []));
  assert.deepEqual(Object.fromEntries(services), Object.fromEntries(Object.entries(counted.by_slot_service[counted.burst]).map(([name, value]) => [`[service ${name}]`, value])));
  // Every instant of the source is one slot.
  for (const slot of [START, START + 60 * 29, last]) assert.equal((await api(view, `overview?source=0&at=${(slot - START) * 1e9}`)).figures.live_bytes, counted.by_slot[slot]);
});

test("labels narrow everything, and names stay names", async () => {
  await go(opened, `view=fleet&where=${encodeURIComponent(`service=${HOSTILE}`)}`);
  assert.equal((await figures(opened))["fleet-latest"], counted.by_slot_service[last][HOSTILE]);
  assert.equal(await opened.locator(".fleet-view b:text-is('bold'), .stacked-legend button b").count(), 0);
  assert.match((await rows(opened))[0].join(" "), /<script>alert\(1\)<\/script>/);
  await opened.locator(".fleet-label", { hasText: "eu-west-1" }).selectOption("=eu-west-1");
  await settled(opened);
  assert.deepEqual(choiceOf(opened).getAll("where"), [`service=${HOSTILE}`, "region=eu-west-1"]);
  assert.equal((await figures(opened))["fleet-latest"], 50 * 3000);
  await opened.getByRole("button", { name: /Flame graph at/ }).click();
  await opened.waitForURL((url) => new URLSearchParams(url.hash.slice(1)).get("view") === "flame");
  await settled(opened);
  const id = choiceOf(opened).get("source");
  assert.equal((await api(view, `overview?source=${id}&at=peak`)).figures.live_bytes, 50 * 3000);
  await go(opened, "view=fleet&where=service%3Dnothing");
  assert.match(await opened.locator(".nothing").first().textContent(), /No process of the fleet/);
  await opened.getByRole("button", { name: "Show all" }).click();
  await settled(opened);
  assert.equal((await figures(opened))["fleet-latest"], counted.by_slot[last]);
  await go(opened, "view=fleet&where=zone%3D1");
  assert.match(await opened.locator(".status-line.problem").first().textContent(), /no label 'zone'/);
});

test("a row has a menu, a table is searched and sorted", async () => {
  await go(opened, "view=fleet");
  await opened.locator(".table-row").first().click({ button: "right" });
  const names = await opened.getByRole("menuitem").allTextContents();
  assert.ok(names.some((name) => name.startsWith("Focus")), String(names));
  await opened.keyboard.press("Escape");
  await opened.getByLabel("Search functions").fill("cache");
  await opened.waitForTimeout(250);
  await settled(opened);
  assert.equal((await rows(opened)).length, 1);
  await go(opened, "view=fleet&sort=blocks&order=asc");
  const blocks = await shownValues("blocks");
  assert.deepEqual(blocks, [...blocks].sort((a, b) => a - b));
});

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const VIEWS = ["", "&fleet=leaks&pick=", "&fleet=growth&where=service%3Dcheckout", "&fleet=processes&label=host", "&where=service%3Dnothing"];

test("names, contrast, keys and widths, in each part, light and dark", async () => {
  for (const looks of ["", "&theme=dark", "&palette=safe", "&theme=dark&palette=safe"]) {
    for (const each of VIEWS) {
      await go(opened, `view=fleet${each}${looks}`);
      assert.deepEqual(await opened.evaluate(faults), [], `${each}${looks}`);
      if (looks.includes("palette")) continue;
      await opened.evaluate(`window.axe || (() => { ${AXE} })()`);
      const found = await opened.evaluate(async () => (await window.axe.run(document, { resultTypes: ["violations"] })).violations.filter((rule) => rule.impact === "serious" || rule.impact === "critical").flatMap((rule) => rule.nodes.map((node) => `${rule.id}: ${node.target.join(" ")}`)));
      assert.deepEqual(found, [], `${each}${looks}`);
    }
  }
  for (const width of [640, 1024, 2560]) {
    await opened.setViewportSize({ width, height: 720 });
    for (const each of VIEWS) {
      await go(opened, `view=fleet${each}`);
      const over = await opened.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      assert.ok(over <= 0, `${each} at ${width}: ${over} too wide`);
      if (!each.includes("nothing")) assert.ok((await opened.locator(".table-row").count()) > 0, `${each} at ${width}: no row is visible`);
    }
  }
  await opened.setViewportSize({ width: 1280, height: 720 });
});

test("a saved page has the fleet, and says what it does not have", async () => {
  const saved = join(folder(), "fleet.html");
  highwater("view", "fleet", "--save", saved);
  const own = await page({ address: pathToFileURL(saved).href });
  await until("the fleet is shown", async () => (await own.locator(".fleet-headline").count()) === 1);
  assert.equal((await figures(own))["fleet-peak"], counted.by_slot[counted.burst]);
  assert.deepEqual((await own.$$eval("[data-column=bytes]", (cells) => cells.map((cell) => Number(cell.dataset.value)))), Object.values(counted.by_slot_function[counted.burst]).sort((a, b) => b - a));
  await go(own, "view=fleet&fleet=leaks");
  assert.match((await rows(own)).flat().join(" "), /Session::open/);
  await go(own, "view=fleet&fleet=growth");
  assert.match(await own.locator(".status-line.problem").first().textContent(), /not in this saved page/);
  await own.done();
});

test("a lake opens with some processes and some time only", async () => {
  const part = await viewer([lake], { options: ["--where", "service=checkout", "--where", "version=1.42.0", "--until", new Date((START + 600) * 1000).toISOString().replace(".000", "")] });
  const own = await page(part);
  assert.equal((await figures(own))["fleet-latest"], counted.by_slot_version[START + 540]["1.42.0"]);
  await own.done();
  await part.stop();
});

test("a question that takes long says so, and can be cancelled", async () => {
  const own = folder();
  const [engine, slow, started] = ["engine", "slow", "started"].map((name) => join(own, name));
  const real = process.env.HIGHWATER_FLEET ?? join(HIGHWATER, "..", "highwater-fleet");
  // Without a program in the program's place: it is ended with the question.
  writeFileSync(engine, `#!/bin/bash\nif [[ $1 != --version && -e ${slow} ]]; then echo $$ >${started}; while [[ -e ${slow} ]]; do read -t 0.1 <> <(:); done; fi\nexec ${real} "$@"\n`);
  chmodSync(engine, 0o700);
  const patient = await viewer([lake], { environment: { HIGHWATER_FLEET: engine } });
  const shown = await page(patient);
  const before = await shownRows(shown);
  writeFileSync(slow, "");
  await shown.evaluate(() => { location.hash = "view=fleet&fleet=leaks"; });
  const cancel = shown.getByRole("button", { name: "Cancel", exact: true });
  await cancel.waitFor();
  assert.ok((await shown.locator(".status-line.waiting progress").count()) > 0);
  const child = readFileSync(started, "utf8").trim();
  assert.ok(existsSync(`/proc/${child}`));
  await cancel.click();
  await settled(shown);
  assert.match(await shown.locator(".status-line.problem").textContent(), /cancelled/);
  await until("the engine is ended", () => !existsSync(`/proc/${child}`));
  // The diagram has its own answer, which stays.
  assert.equal((await figures(shown))["fleet-peak"], counted.by_slot[counted.burst]);
  rmSync(slow);
  await shown.getByRole("button", { name: "Ask again" }).click();
  await settled(shown);
  assert.match((await shownRows(shown)).join(" "), /Session::open/);
  await go(shown, "view=fleet");
  assert.deepEqual(await shownRows(shown), before);
  // So can what a button opens.
  await go(shown, "view=fleet&where=service%3Dcheckout");
  writeFileSync(slow, "");
  const flame = shown.getByRole("button", { name: /Flame graph at/ });
  await flame.click();
  await cancel.waitFor();
  await cancel.click();
  await settled(shown);
  assert.equal(choiceOf(shown).get("view"), "fleet");
  rmSync(slow);
  await flame.click();
  await shown.waitForURL((url) => new URLSearchParams(url.hash.slice(1)).get("view") === "flame");
  await settled(shown);
  await shown.done();
  await patient.stop();
});

const shownRows = async (page) => (await rows(page)).map((cells) => cells.join(" "));

test("files of the lake that cannot be used are named, and are in no figure", async () => {
  const own = join(folder(), "damaged");
  cpSync(lake, own, { recursive: true });
  const table = join(own, "incoming", "processes");
  const of = (host) => readdirSync(table, { recursive: true }).filter((name) => name.includes(host) && name.endsWith(".parquet")).map((name) => join(table, name));
  const [cut, foreign] = [of("host-0"), of("host-3")];
  for (const file of cut) writeFileSync(file, readFileSync(file).subarray(0, 500));
  for (const file of foreign) writeFileSync(file, "no Parquet");
  const broken = await viewer([own]);
  const shown = await page(broken);
  const told = await shown.locator(".processes-notes").textContent();
  // Three of them by their names.
  assert.ok(told.startsWith(`${cut.length + foreign.length} files of the lake could not be used, and are in no figure`), told);
  assert.equal([...cut, ...foreign].filter((file) => told.includes(file.split("/").at(-1))).length, 3, told);
  assert.match(await shown.locator(".fleet-headline").textContent(), /5 processes on 4 hosts/);
  // What the other hosts hold, as it was counted by process.
  const left = JSON.parse(execFileSync(HIGHWATER, ["fleet", "processes", own, "--top", "0", "--json"], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] })).rows;
  const latest = left.reduce((sum, { process_id }) => sum + (counted.by_process[process_id][last] ?? 0), 0);
  assert.equal((await figures(shown))["fleet-latest"], latest);
  await shown.done();
  await broken.stop();
});

test("without an engine, one line says how to get it", () => {
  const said = (environment) => {
    try {
      return execFileSync(HIGHWATER, ["view", "--no-open", "fleet"], { cwd: recording("."), encoding: "utf8", stdio: "pipe", env: { ...process.env, ...environment } });
    } catch (error) {
      return String(error.stderr);
    }
  };
  for (const [environment, words] of [[{ HIGHWATER_DUCKDB: "/nowhere/libduckdb.so" }, /libduckdb\.so.*HIGHWATER_DUCKDB names it/], [{ HIGHWATER_DUCKDB: "", HOME: folder(), XDG_DATA_HOME: "" }, /DuckDB.*'highwater fleet install' fetches it/]]) {
    const line = said(environment);
    assert.match(line, words);
    assert.equal(line.trim().split("\n").length, 1, line);
  }
});

test("the page is closed without a fault", async () => {
  await opened.done();
});
