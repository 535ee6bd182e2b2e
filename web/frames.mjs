// Frames of the page while somebody moves about: bench/view-frames starts this with the program and a recording.
import { spawn } from "node:child_process";
import { chromium } from "playwright-core";

const [program, file] = process.argv.slice(2);
const child = spawn(program, ["view", "--no-open", file], { stdio: ["ignore", "pipe", "inherit"] });
process.on("exit", () => child.kill());
const address = await new Promise((resolve) => child.stdout.on("data", (data) => resolve(/http:\/\/\S+/.exec(String(data))[0])));
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"] });
const page = await browser.newPage({ viewport: { width: 1280, height: 720 } });

async function ready() {
  for (let quiet = 0; quiet < 3;) {
    await page.waitForTimeout(60);
    quiet = await page.evaluate(() => document.querySelector(".app")?.getAttribute("aria-busy") === "false") ? quiet + 1 : 0;
  }
}

/** Times between frames while `act` goes on, and what the page's own work took of each (the rest is the browser's). */
async function frames(act) {
  await page.evaluate(() => {
    window.frameTimes = [];
    let before = performance.now();
    const note = (now) => {
      window.frameTimes.push(now - before);
      before = now;
      window.frameRequest = requestAnimationFrame(note);
    };
    window.frameRequest = requestAnimationFrame(note);
  });
  await act();
  const times = await page.evaluate(() => {
    cancelAnimationFrame(window.frameRequest);
    return window.frameTimes.slice(1);
  });
  times.sort((a, b) => a - b);
  const part = (share) => times[Math.min(times.length - 1, Math.floor(times.length * share))].toFixed(1);
  return [String(times.length), part(0.5), part(0.95), part(0.99), part(1), String(times.filter((time) => time > 50).length)];
}

async function timed(name, act) {
  rows.push([name, ...(await frames(act))]);
}

const rows = [];
const opening = performance.now();
await page.goto(address);
await ready();
const opened = ((performance.now() - opening) / 1000).toFixed(2);
// While a recording is still being read, both processors are busy with that.
await page.waitForFunction(() => !document.querySelector(".facts")?.textContent.includes("being read"), null, { timeout: 600_000 });
await ready();
const layer = await page.locator(".layer").boundingBox();
const y = layer.y + 80;

await timed("timeline: zoomed with the wheel", async () => {
  await page.mouse.move(layer.x + layer.width / 2, y);
  for (let step = 0; step < 60; step += 1) {
    await page.mouse.wheel(0, -40);
    await page.waitForTimeout(16);
  }
});
await timed("timeline: moved by dragging its axis", async () => {
  const axis = await page.locator(".axis-grip").boundingBox();
  for (let sweep = 0; sweep < 4; sweep += 1) {
    const [from, to] = sweep % 2 ? [0.2, 0.8] : [0.8, 0.2];
    await page.mouse.move(axis.x + axis.width * from, axis.y + 8);
    await page.mouse.down();
    for (let step = 1; step <= 60; step += 1) {
      await page.mouse.move(axis.x + axis.width * (from + ((to - from) * step) / 60), axis.y + 8);
      await page.waitForTimeout(16);
    }
    await page.mouse.up();
  }
});
await page.keyboard.press("Escape");
await page.mouse.dblclick(layer.x + 300, y);
await ready();
await timed("window dragged, the overview follows", async () => {
  await page.mouse.move(layer.x + 200, y);
  await page.mouse.down();
  for (let step = 1; step <= 90; step += 1) {
    await page.mouse.move(layer.x + 200 + step * 8, y);
    await page.waitForTimeout(16);
  }
  await page.mouse.up();
});
await ready();
await page.evaluate(() => { location.hash = "view=flame&metric=allocated"; });
await ready();
const walk = async () => {
  const canvas = await page.locator(".flame-canvas").boundingBox();
  for (let step = 0; step < 60; step += 1) {
    await page.mouse.move(canvas.x + 20 + step * 15, canvas.y + 9 + (step % 8) * 18);
    await page.waitForTimeout(16);
  }
  await page.locator(".flame-canvas").focus();
  for (const key of ["ArrowDown", "ArrowDown", "Enter", "ArrowDown", "Enter", "Escape", "Escape"]) {
    await page.keyboard.press(key);
    await page.waitForTimeout(160);
  }
};
await timed("flame graph: hovered, zoomed, walked", walk);
console.log(`opened in ${opened} s\n`);
await page.route("**/api/1/tree?*", (route) => route.continue({ url: `${route.request().url()}&least=0` }));
await page.evaluate(() => { location.hash = "view=flame&metric=allocated&library=1&direction=up"; });
await ready();
const nodes = await page.evaluate(async () => {
  const answer = await fetch("api/1/tree?metric=allocated&library=1&direction=up&least=0");
  return JSON.parse((await answer.text()).trim().split("\n").at(-1)).result.node_depth.length;
});
await timed(`the same, with all ${nodes.toLocaleString("en-US")} nodes`, walk);
const head = ["", "frames", "median ms", "95% ms", "99% ms", "longest ms", "over 50 ms"];
const widths = head.map((title, column) => Math.max(title.length, ...rows.map((row) => row[column].length)));
for (const row of [head, ...rows]) console.log(row.map((cell, column) => (column ? cell.padStart(widths[column]) : cell.padEnd(widths[column]))).join("  ").trimEnd());
await browser.close();
child.kill();
