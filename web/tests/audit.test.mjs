// What a person without a mouse, with a reader of screens, or with weak eyes needs: names, reach, contrast. Each view, light and dark, in both palettes.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { folder, go, highwater, page, recording, settled, viewer } from "./support.mjs";

const view = await viewer([recording("service.hw"), recording("rounds.log"), recording("ledger-2.img"), recording("ledger-1.img"), recording("trace.ctf"), recording("typed.hw"), recording("fragmented.hw")]);
const LOOKS = ["", "theme=dark", "palette=safe", "theme=dark&palette=safe"];
const VIEWS = [
  "view=overview&from=60000000&to=120000000&b=80000000", "view=flame&metric=peak&filter=size:16..65536", "view=flame&metric=peak&focus=service::handle&hide=service::main", "view=flame&metric=peak&search=Index",
  "view=table&metric=peak&by=function&pick=service::handle", "view=table&metric=allocated&by=site&at=peak", "view=blocks&at=peak", "view=leaks", "view=growth", "view=compare&at=100000000&b=peak", "view=compare&upright=1",
  "view=live", "source=1&view=types&pick=leaky::Proof", "source=2&view=image", "source=3&view=image&other=2", "source=4&view=overview", "source=5&view=types&pick=[Rust block] in typed::parse_config", "view=table&filter=inside:regex:(((",
  "source=6&view=rss", "source=6&view=rss&part=sites&sort=pinned", "source=6&view=rss&part=types", "source=6&view=rss&part=files", "source=6&view=rss&part=map&node=0-512",
];

/** Runs in the page. Text that contrasts too little with what is behind it, and things that can be used and have no name. */
function faults() {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const brush = canvas.getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const coloured = (text) => {
    if (!known.has(text)) {
      brush.clearRect(0, 0, 1, 1);
      brush.fillStyle = text;
      brush.fillRect(0, 0, 1, 1);
      const [red, green, blue, alpha] = brush.getImageData(0, 0, 1, 1).data;
      known.set(text, [red, green, blue, alpha / 255]);
    }
    return known.get(text);
  };
  const over = (upper, lower) => lower.map((part, index) => upper[index] * upper[3] + part * (1 - upper[3]));
  const luminance = (colour) => colour.slice(0, 3).map((part) => part / 255).map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)).reduce((sum, part, index) => sum + part * [0.2126, 0.7152, 0.0722][index], 0);
  const contrast = (one, other) => { const [high, low] = [luminance(one), luminance(other)].sort((a, b) => b - a); return (high + 0.05) / (low + 0.05); };
  const behind = (element) => {
    const layers = [];
    for (let each = element; each; each = each.parentElement) layers.push(coloured(getComputedStyle(each).backgroundColor));
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
  };
  const visible = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && element.getClientRects().length > 0;
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.textContent.trim();
    // Those of a control that cannot be used are allowed to be faint.
    if (!text || !visible(element) || element.closest("script, style, :disabled")) continue;
    const paper = behind(element);
    const ratio = contrast(over(coloured(getComputedStyle(element).color), paper), paper);
    if (ratio < 4.5) found.push(`'${text.slice(0, 30)}' of .${element.className || element.tagName} has a contrast of ${ratio.toFixed(2)}`);
  }
  const ink = coloured(getComputedStyle(document.body).color);
  for (const graph of document.querySelectorAll(".flame-canvas, .treemap canvas")) {
    const { data } = graph.getContext("2d").getImageData(0, 0, graph.width, graph.height);
    const pixels = new Map();
    for (let at = 0; at < data.length; at += 4) if (data[at + 3] === 255) { const key = (data[at] << 16) | (data[at + 1] << 8) | data[at + 2]; pixels.set(key, (pixels.get(key) ?? 0) + 1); }
    // Areas that names are written upon, not the pixels of letters and lines.
    for (const [key, many] of pixels) {
      const area = [key >> 16, (key >> 8) & 255, key & 255];
      if (many > 1500 && contrast(ink, area) < 4.5) found.push(`an area of rgb(${area}) has a contrast of ${contrast(ink, area).toFixed(2)} to names`);
    }
  }
  for (const element of document.querySelectorAll("button, a[href], input, select, canvas, [tabindex], [role=img], [role=slider], [role=grid]")) {
    if (!visible(element) || element.closest("[aria-hidden=true]")) continue;
    const label = element.getAttribute("aria-label") ?? [...(element.labels ?? [])].map((each) => each.textContent).join(" ");
    const name = (label || element.textContent || "").replace(/[^\p{L}\p{N}?+⇄×]/gu, "");
    if (!name || element.textContent.trim() === "×" && !label) found.push(`${element.outerHTML.slice(0, 90)} has no name`);
  }
  return [...new Set(found)];
}

test("everything that can be used has a name, and all text contrasts with what is behind it", async () => {
  const opened = await page(view);
  const found = {};
  const look = async (where) => { for (const fault of await opened.evaluate(faults)) (found[fault] ??= []).push(where); };
  for (const looks of LOOKS) {
    for (const each of VIEWS) {
      await go(opened, `${each}&${looks}`);
      await look(`${each} ${looks}`);
    }
    await go(opened, looks);
    await opened.keyboard.press("?");
    await opened.getByRole("dialog").waitFor();
    await look(`help ${looks}`);
    await opened.keyboard.press("Escape");
    await opened.keyboard.press("+");
    await look(`a new filter ${looks}`);
    await opened.keyboard.press("Escape");
  }
  assert.deepEqual(found, {});
  await opened.done();
});

test("the Tab key reaches everything that can be used, in the order in which it is read, and shows where it is", async () => {
  const opened = await page(view);
  for (const each of VIEWS) {
    await go(opened, each);
    const all = await opened.evaluate(() => {
      const usable = [...document.querySelectorAll("button, a[href], input, select, summary, [tabindex='0']")].filter((element) => !element.disabled && element.tabIndex >= 0 && element.checkVisibility({ visibilityProperty: true }) && element.getClientRects().length > 0);
      usable.forEach((element, index) => (element.dataset.reach = String(index)));
      // The next Tab starts from the top.
      document.body.tabIndex = -1;
      document.body.focus();
      return usable.length;
    });
    const reached = [];
    for (let step = 0; step < all + 3 && reached.length < all; step += 1) {
      await opened.keyboard.press("Tab");
      const [place, ring] = await opened.evaluate(() => { const { activeElement: now } = document; const style = getComputedStyle(now); return [now.dataset.reach, style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2]; });
      if (place === undefined) continue;
      assert.ok(ring, `${each}: the ring of ${await opened.evaluate(() => document.activeElement.outerHTML.slice(0, 100))}`);
      reached.push(Number(place));
    }
    assert.equal(new Set(reached).size, all, `${each}: ${all - new Set(reached).size} are not reached`);
    assert.deepEqual(reached, [...reached].sort((a, b) => a - b), `${each}: the order`);
  }
  await opened.done();
});

test("Escape closes what is open, one after the other", async () => {
  const opened = await page(view, "view=table&metric=peak&by=site");
  await opened.locator(".table-body").focus();
  await opened.keyboard.press("ArrowDown");
  await settled(opened);
  assert.equal(await opened.locator(".picked").count(), 1);
  await opened.keyboard.press("+");
  await opened.getByRole("form", { name: "New filter" }).waitFor();
  await opened.keyboard.press("Escape");
  assert.equal(await opened.getByRole("form", { name: "New filter" }).count(), 0);
  assert.equal(await opened.locator(".picked").count(), 1);
  await opened.keyboard.press("Escape");
  await settled(opened);
  assert.equal(await opened.locator(".picked").count(), 0);
  await opened.done();
});

test("nothing moves by itself for those who do not want it", async () => {
  const opened = await page(view, "view=flame&metric=peak");
  assert.deepEqual(await opened.evaluate(() => [...document.querySelectorAll("*")].filter((each) => getComputedStyle(each).animationName !== "none" || getComputedStyle(each).transitionDuration !== "0s").map((each) => each.className)), []);
  await opened.done();
});

test("several processes: names and contrast", async () => {
  const place = folder();
  for (const [pid, parent] of [[10, 1], [11, 10]]) {
    const lines = [`{"event":"source","program":"cc${pid}","pid":${pid},"parent_pid":${parent},"forked":${pid === 11},"start_unix_ns":1700000000000000000}`, ...[0, 5_000_000].map((at) => JSON.stringify({ event: "allocate", address: `0x${(0x1000 + at).toString(16)}`, size: 50_000 * pid, time_ns: at, stack: ["main"] }))];
    writeFileSync(join(place, `${pid}.jsonl`), `${lines.join("\n")}\n`);
    highwater("import", join(place, `${pid}.jsonl`), "-o", join(place, `${pid}.hw`));
  }
  const opened = await page(await viewer([join(place, "10.hw"), join(place, "11.hw")]));
  for (const looks of LOOKS) {
    for (const each of ["", "&sort=peak&pick=0", "&tree_from=1000000&tree_to=4000000&tree_at=2000000"]) {
      await go(opened, `view=processes${each}&${looks}`);
      assert.equal(await opened.locator(".stacked-box").count(), 1);
      assert.deepEqual(await opened.evaluate(faults), [], `${each} ${looks}`);
    }
  }
  await opened.done();
});
