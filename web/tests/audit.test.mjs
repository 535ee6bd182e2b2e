// What a person without a mouse, with a reader of screens, or with weak eyes needs: names, reach, contrast. Each view, light and dark, in both palettes.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { test } from "node:test";
import { faults } from "./faults.mjs";
import { folder, go, highwater, page, recording, settled, viewer } from "./support.mjs";

const view = await viewer([recording("service.hw"), recording("rounds.log"), recording("ledger-2.img"), recording("ledger-1.img"), recording("trace.ctf"), recording("typed.hw"), recording("fragmented.hw")]);
const LOOKS = ["", "theme=dark", "palette=safe", "theme=dark&palette=safe"];
const VIEWS = [
  "view=overview&from=60000000&to=120000000&b=80000000", "view=flame&metric=peak&filter=size:16..65536", "view=flame&metric=peak&focus=service::handle&hide=service::main", "view=flame&metric=peak&search=Index",
  "view=table&metric=peak&by=function&pick=service::handle", "view=table&metric=allocated&by=site&at=peak", "view=blocks&at=peak", "view=leaks", "view=growth", "view=compare&at=100000000&b=peak", "view=compare&upright=1",
  "view=live", "source=1&view=types&pick=leaky::Proof", "source=2&view=image", "source=3&view=image&other=2", "source=4&view=overview", "source=5&view=types&pick=[Rust block] in typed::parse_config", "view=table&filter=inside:regex:(((",
  "source=6&view=rss", "source=6&view=rss&part=sites&sort=pinned", "source=6&view=rss&part=types", "source=6&view=rss&part=files", "source=6&view=rss&part=map&node=0-512",
];

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

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** What axe finds that is serious or worse, by the element that it finds it in. */
async function axeFinds(opened) {
  // As code of the test, not of the page: its policy allows no other script.
  await opened.evaluate(`window.axe || (() => { ${AXE} })()`);
  return opened.evaluate(async () => {
    const { violations } = await window.axe.run(document, { resultTypes: ["violations"] });
    return violations.filter((each) => each.impact === "serious" || each.impact === "critical").flatMap((each) => each.nodes.map((node) => `${each.id}: ${node.target.join(" ")} ${node.html.slice(0, 100)}`));
  });
}

test("axe finds nothing serious, in each view, light and dark", async () => {
  const opened = await page(view);
  const found = {};
  const look = async (where) => { for (const fault of await axeFinds(opened)) (found[fault] ??= []).push(where); };
  for (const looks of ["", "theme=dark"]) {
    for (const each of [...VIEWS, "view=table&metric=peak&by=site&search=/(/"]) {
      await go(opened, `${each}&${looks}`);
      await look(`${each} ${looks}`);
    }
    await go(opened, `view=table&metric=peak&by=site&${looks}`);
    await opened.locator(".table-row").first().click({ button: "right" });
    await opened.getByRole("menu").waitFor();
    await look(`the menu of a row ${looks}`);
    await opened.keyboard.press("Escape");
    await opened.locator(".table-row").first().click();
    await settled(opened);
    await opened.keyboard.press("s");
    await settled(opened);
    assert.equal(await opened.locator(".source-panel").count(), 1);
    await look(`the source beside a table ${looks}`);
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
