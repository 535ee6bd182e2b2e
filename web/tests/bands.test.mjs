// The stacked timeline: its bands are the rows of a report at the same instant, a click filters, and the second file lies over the first.
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { api, bytes, choiceOf, coloursOf, dragTimeline, folder, go, highwater, json, page, recording, settled, until, viewer } from "./support.mjs";

const file = recording("service.hw");
const place = folder();
const LISTS = { function: "functions", thread: "threads", type: "types", module: "modules", heap: "heaps", line: "lines", file: "files", task: "tasks" };

/** The live bytes of each row of a report, by its name or number. */
function reported(path, by, at, more = []) {
  const document = json("report", path, "--by", by, "--at", `${at}ns`, "--top", "0", ...more);
  const name = (row) => (by === "thread" ? String(row.id) : row.name || row.type || "[unknown]");
  const rows = document[LISTS[by]].filter((row) => row.live_bytes > 0).map((row) => [name(row), row.live_bytes]);
  return { rows: new Map(rows), total: document.totals.live_bytes };
}

/** What the legend says: the instant, the bands by name or number, and the rest. */
async function legend(opened, selector = ".band-legend") {
  return opened.$eval(selector, (element) => {
    const rows = [...element.querySelectorAll("[data-band], [data-lane]")];
    return {
      at: Number(element.dataset.at),
      bands: rows.map((row) => [row.dataset.id ?? row.dataset.band ?? row.dataset.lane, Number(row.dataset.value)]),
      rest: Number(element.querySelector("[data-band-rest], .lane-rest")?.dataset.value ?? 0),
    };
  });
}

function assertReported({ at, bands, rest }, path, by, more) {
  const { rows, total } = reported(path, by, at, more);
  for (const [name, value] of bands) assert.equal(value, rows.get(name) ?? 0, `${by} ${name} at ${at}`);
  assert.equal(bands.reduce((sum, [, value]) => sum + value, 0) + rest, total, `${by} at ${at}`);
}

async function hover(opened, x, y = 60) {
  const box = await opened.locator(".layer").boundingBox();
  await opened.mouse.move(box.x + box.width * x, box.y + y);
  await settled(opened);
  return box;
}

test("bands are the rows of a report at the same instant, whatever they are", async () => {
  const view = await viewer([file, recording("tasks.hw")]);
  const opened = await page(view, "source=0&stack=function");
  for (const by of ["function", "thread", "type", "module", "heap", "line", "file"]) {
    await go(opened, `source=0&stack=${by}`);
    for (const x of [0.1, 0.35, 0.62, 0.9]) {
      await hover(opened, x);
      assertReported(await legend(opened), file, by);
    }
  }
  // Zoomed, filtered, and in blocks the rows are others; the law is the same.
  const { duration_ns } = (await api(view, "sources")).sources[0];
  const inside = `left=${Math.round(duration_ns * 0.3)}&right=${Math.round(duration_ns * 0.4)}`;
  await go(opened, `source=0&stack=function&${inside}&filter=size:64..`);
  for (const x of [0.2, 0.8]) {
    await hover(opened, x);
    assertReported(await legend(opened), file, "function", ["--filter", "size:64.."]);
  }
  await go(opened, "source=1&stack=task");
  await hover(opened, 0.5);
  assertReported(await legend(opened), recording("tasks.hw"), "task");
  // Without a pointer, A counts.
  await opened.mouse.move(2, 700);
  await go(opened, "source=0&stack=thread&at=end");
  const atEnd = await legend(opened);
  assert.ok(atEnd.at <= duration_ns && atEnd.at > duration_ns * 0.98);
  assertReported(atEnd, file, "thread");
  await opened.done();
});

test("estimates and traces of other tools have bands", async () => {
  const view = await viewer([recording("sampled.hw"), recording("trace.ctf")]);
  const opened = await page(view, "source=0&stack=function");
  await hover(opened, 0.5);
  const { at, bands } = await legend(opened);
  const { rows } = reported(recording("sampled.hw"), "function", at);
  for (const [name, value] of bands) assert.equal(value, rows.get(name) ?? 0, name);
  await go(opened, "source=1&stack=function");
  await hover(opened, 0.5);
  assertReported(await legend(opened), recording("trace.ctf"), "function");
  await opened.done();
});

test("a click on a band or its name filters, with the keyboard too, and a click above them moves A", async () => {
  const view = await viewer([file]);
  const opened = await page(view, "stack=function");
  assert.ok((await coloursOf(opened, ".uplot canvas")) > 6);
  const first = opened.locator(".band-legend [data-band]").last();
  const name = await first.getAttribute("data-band");
  // The filter keeps more than the band.
  assert.match(await first.getAttribute("title"), /Click: all that is allocated inside this function, by its callees too\./);
  assert.match(await first.getAttribute("aria-label"), /: all that is allocated inside this function/);
  await first.focus();
  await opened.keyboard.press("Enter");
  await settled(opened);
  assert.deepEqual(choiceOf(opened).getAll("filter"), [`inside:equal:${name}`]);
  await opened.goBack();
  await settled(opened);
  assert.deepEqual(choiceOf(opened).getAll("filter"), []);
  // The lowest band lies on the axis.
  const height = Number(await opened.locator(".separator-below").getAttribute("aria-valuenow"));
  const box = await hover(opened, 0.5, height - 26);
  const under = await opened.locator(".band-under").getAttribute("data-band");
  const own = await legend(opened);
  assert.match(await opened.locator(".reading").textContent(), new RegExp(bytes(own.bands.find(([each]) => each === under)[1]).replace(".", "\\.")));
  await opened.mouse.click(box.x + box.width * 0.5, box.y + height - 26);
  await settled(opened);
  assert.deepEqual(choiceOf(opened).getAll("filter"), [`inside:equal:${under}`]);
  await opened.goBack();
  await settled(opened);
  await opened.mouse.click(box.x + box.width * 0.5, box.y + 10);
  await settled(opened);
  assert.ok(Number(choiceOf(opened).get("at")) > 0);
  assert.deepEqual(choiceOf(opened).getAll("filter"), []);
  // Its menu is that of every row.
  await first.click({ button: "right" });
  assert.match(await opened.locator("[role=menu]").textContent(), /Only inside.*Treat as allocator/);
  await opened.keyboard.press("Escape");
  // Thread by number, and colours that stay.
  await opened.locator("#stack").selectOption("thread");
  await settled(opened);
  const thread = opened.locator(".band-legend [data-band]").last();
  const colour = await thread.locator("i").getAttribute("style");
  const id = await thread.getAttribute("data-id");
  await dragTimeline(opened, 0.3, 0.5, 10);
  await opened.keyboard.press("z");
  await settled(opened);
  assert.equal(await opened.locator(`.band-legend [data-id="${id}"] i`).getAttribute("style"), colour);
  await opened.locator(`.band-legend [data-id="${id}"]`).click();
  await settled(opened);
  assert.deepEqual(choiceOf(opened).getAll("filter"), [`thread:${id}`]);
  await opened.done();
});

test("lanes show the same values, one row each", async () => {
  const view = await viewer([file]);
  const opened = await page(view, "stack=thread&lanes=1");
  await hover(opened, 0.4);
  const lanes = await legend(opened, ".lanes");
  assertReported(lanes, file, "thread");
  assert.equal(await opened.locator(".band-legend").count(), 0);
  const lane = opened.locator("[data-lane]").first();
  const id = await lane.getAttribute("data-id");
  await lane.focus();
  await opened.keyboard.press("Enter");
  await settled(opened);
  assert.deepEqual(choiceOf(opened).getAll("filter"), [`thread:${id}`]);
  await opened.getByLabel("lanes").uncheck();
  await settled(opened);
  assert.equal(await opened.locator(".lanes").count(), 0);
  await opened.done();
});

test("the second file is drawn from its own start, with its own peak, and can be switched off", async () => {
  const view = await viewer([file, recording("sampled.hw")]);
  const opened = await page(view, "source=0");
  const { sources } = await api(view, "sources");
  const second = sources[1];
  const mark = opened.locator(".other-peak");
  assert.match(await mark.textContent(), new RegExp(bytes(second.peak.bytes).replace(".", "\\.")));
  const box = await opened.locator(".layer").boundingBox();
  const x = Number(/translateX\(([\d.]+)px/.exec(await mark.getAttribute("style"))[1]);
  const expected = ((second.peak.at_ns - (second.begins_ns ?? 0)) / (sources[0].duration_ns - (sources[0].begins_ns ?? 0))) * box.width;
  assert.ok(Math.abs(x - expected) < 1, `${x} ${expected}`);
  await mark.click();
  await settled(opened);
  assert.equal(choiceOf(opened).get("b"), String(second.peak.at_ns));
  assert.equal(choiceOf(opened).get("other"), "1");
  await opened.getByRole("button", { name: "curves…" }).click();
  await opened.getByLabel("second file").uncheck();
  await settled(opened);
  assert.equal(await mark.count(), 0);
  assert.equal(await opened.locator(".timeline-head .of-overlay").count(), 1, "only the box in the menu is left");
  await opened.done();
});

test("curves of the whole process do not squash what is filtered, and rss can be switched off", async () => {
  const view = await viewer([file]);
  const opened = await page(view, "");
  const top = () => opened.evaluate(() => [...document.querySelectorAll(".uplot canvas")][0].toDataURL());
  const whole = await api(view, "timeline?points=600");
  const name = (await api(view, "rows?by=function&at=peak&limit=1&sort=value&order=asc")).rows[0]?.key;
  assert.ok(whole.gauges.some((gauge) => gauge.name === "rss") && name);
  const before = await top();
  await opened.getByRole("button", { name: "curves…" }).click();
  await opened.getByLabel("rss", { exact: true }).uncheck();
  await opened.keyboard.press("Escape");
  await settled(opened);
  assert.notEqual(await top(), before);
  assert.ok(!(await opened.locator(".curves").textContent()).includes("rss"));
  // With a filter, the scale is the same with and without curves of the process.
  const scale = async (fragment) => {
    await go(opened, fragment);
    await hover(opened, 0.5, 40);
    return opened.locator(".peak:not(.other-peak)").first().textContent();
  };
  const filter = `filter=${encodeURIComponent(`inside:equal:${name}`)}`;
  assert.equal(await scale(filter), await scale(`${filter}&curve=rss`));
  assert.match(await opened.locator(".curves").textContent(), /live bytes/);
  await opened.done();
});

test("the timeline is higher on high screens, and its height can be dragged and typed", async () => {
  const view = await viewer([file]);
  const opened = await page(view, "", { viewport: { width: 1280, height: 1440 } });
  const edge = opened.getByRole("separator", { name: "Height of the timeline" });
  const height = async () => Number(await edge.getAttribute("aria-valuenow"));
  const high = await height();
  assert.ok(high > 200, String(high));
  await edge.focus();
  await opened.keyboard.press("ArrowDown");
  assert.equal(await height(), high + 20);
  const box = await edge.boundingBox();
  await opened.mouse.move(box.x + 300, box.y + 3);
  await opened.mouse.down();
  await opened.mouse.move(box.x + 300, box.y - 57, { steps: 4 });
  await opened.mouse.up();
  assert.equal(await height(), high - 40);
  const canvas = await opened.locator(".uplot canvas").first().boundingBox();
  assert.ok(Math.abs(canvas.height - (high - 40)) < 2);
  await opened.reload();
  await settled(opened);
  assert.equal(await height(), high - 40);
  // Nothing lies upon the bar of the window, and A's flag not upon the axis.
  await dragTimeline(opened, 0.2, 0.7);
  await opened.keyboard.press("p");
  const [bar, head, flag, grip] = await Promise.all([".window-bar", ".timeline-head", ".handle-a .flag", ".axis-grip"].map((each) => opened.locator(each).first().boundingBox()));
  assert.ok(head.y + head.height <= bar.y + 1);
  for (const peak of await opened.locator(".peak, .rss-peak, .other-peak").all()) assert.ok((await peak.boundingBox()).y >= bar.y + bar.height - 1);
  assert.ok(flag.y + flag.height <= grip.y + 1, `${flag.y + flag.height} ${grip.y}`);
  await opened.done();
});

test("a saved page has the bands of its filters", async () => {
  const path = join(place, "stacked.html");
  highwater("view", file, "--save", path);
  const offline = await page({ address: pathToFileURL(path).href }, "stack=thread", { offline: true });
  for (const by of ["function", "thread", "type", "module"]) {
    await go(offline, `stack=${by}`);
    await hover(offline, 0.6);
    assertReported(await legend(offline), file, by);
  }
  assert.deepEqual(await offline.$$eval("#stack option", (options) => options.map((option) => option.value)), ["", "function", "type", "thread", "module"]);
  await offline.done();
});
