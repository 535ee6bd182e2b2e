// Every figure on the page against the command line and against a naive replay of the events: each metric, each filter and pairs of them, the whole
// recording and a window, exact and sampled, one file and two.
//
// What a filter means for a block is written once more in `filtersOf`. Where the command line can be asked the same (`cli`), its JSON must say what the
// replay says; the page must always say what the replay says. To add a case, add a line to FILES, WINDOWS or `filtersOf`.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { test } from "node:test";
import { program, THREADS } from "./program.mjs";
import { EVERYTHING, Replay, sum } from "./replay.mjs";
import { bytes, count, highwater, json, page, recording, settled, viewer } from "./support.mjs";

const METRICS = ["live", "peak", "allocated", "leaked", "temporary", "freed"];
/** Samples do not say whether a thread allocated anything else before it freed a block. */
const metricsOf = (file) => METRICS.filter((metric) => !(file.isSampled && metric === "temporary"));

const FILES = Object.fromEntries(Object.entries({ exact: { seed: 1 }, other: { seed: 2 }, sampled: { seed: 3, sampled: true } }).map(([name, options]) => {
  const events = program(options);
  const path = `figures-${name}.hw`;
  writeFileSync(recording(`figures-${name}.jsonl`), events.map((event) => `${JSON.stringify(event)}\n`).join(""));
  highwater("import", `figures-${name}.jsonl`, "-o", path, "--force");
  return [name, { name, path, replay: new Replay(events), isSampled: options.sampled ?? false }];
}));

/** The time of the event that comes after this part of all. */
const timeOf = ({ replay }, part) => replay.moves[Math.floor(part * (replay.moves.length - 1))].at;
const WINDOWS = {
  "the whole recording": (file) => ({ fragment: "", from: 0, to: file.replay.duration, cli: [] }),
  "a window": (file) => {
    const [from, to] = [timeOf(file, 0.35), timeOf(file, 0.7)];
    return { fragment: `&from=${from}&to=${to}`, from, to, cli: ["--from", `${from}ns`, "--to", `${to}ns`] };
  },
};

const inside = (name) => ({ stack }) => stack.some((frame) => frame.function === name);
const from = (module) => ({ stack }) => stack.some((frame) => frame.module === module);
const within = (number, least, most) => number !== null && number >= least && number <= most;
/** One filter of each kind. */
function filtersOf(file) {
  const [early, middle, late] = [0.2, 0.5, 0.65].map((part) => timeOf(file, part));
  const lifetime = ({ life }) => (life.died === null ? null : life.died - life.born);
  return [
    { text: "inside:equal:parse", keeps: inside("parse"), cli: ["--filter", "^parse$"] },
    { text: "size:64..1024", keeps: ({ size }) => within(size, 64, 1024) },
    { text: "inside:contains:make", keeps: inside("make_node"), cli: ["--filter", "make"] },
    { text: `lifetime:..${middle - early}`, keeps: (state) => within(lifetime(state), 0, middle - early), deaths: true },
    { text: "inside:regex:^(grow|serve)$", keeps: (state) => inside("grow")(state) || inside("serve")(state), cli: ["--filter", "^(grow|serve)$"] },
    { text: "thread:2", keeps: ({ thread }) => thread === 2, cli: ["--by", "thread", "--filter", "^indexer$"] },
    { text: "outside:equal:load", keeps: (state) => !inside("load")(state) },
    { text: `freed:${middle}..${late}`, keeps: ({ life }) => within(life.died, middle, late), deaths: true },
    { text: "heap:mmap", keeps: ({ heap }) => heap === "mmap", cli: ["--by", "heap", "--filter", "^mmap$"] },
    { text: `allocated:${early}..${late}`, keeps: ({ life }) => within(life.born, early, late) },
    { text: "module:libtext.so", keeps: from("libtext.so"), cli: ["--filter", "^libtext\\.so$"] },
    { text: "freed:never", keeps: ({ life }) => life.died === null, deaths: true },
    { text: "type:Text", keeps: ({ type }) => type === "Text" },
    { text: `live:${middle}`, keeps: ({ life }) => life.born <= middle && (life.died === null || life.died > middle), deaths: true },
    { text: "freed:ever", keeps: ({ life }) => life.died !== null, deaths: true },
  ];
}

const opposite = ({ text, keeps, deaths }) => ({ text: `!${text}`, keeps: (state) => !keeps(state), deaths });
const both = (one, other) => ({ texts: [one.text, other.text], keeps: (state) => one.keeps(state) && other.keeps(state), deaths: one.deaths || other.deaths });
/** No filter, each alone, and each with its neighbour or with its neighbour's opposite. */
function choicesOf(file) {
  const filters = filtersOf(file);
  const pairs = filters.map((filter, index) => [filter, filters[(index + 1) % filters.length], index % 2 === 1]);
  return [
    { texts: [], keeps: () => true, cli: [] },
    ...filters.map((filter) => ({ ...filter, texts: [filter.text] })),
    ...pairs.map(([one, other, isOpposite]) => both(one, isOpposite ? opposite(other) : other)),
  ];
}

// What rows are, and what they are called.
const place = ({ file, line }) => `${file}:${line}`;
const perFrame = (name) => ({ own: ({ stack }) => name(stack[0]), all: ({ stack }) => [...new Set(stack.map(name))] });
const GROUPINGS = {
  site: { own: ({ stack }) => `${stack[0].function} ${place(stack[0])}${stack.slice(1, 4).map((frame) => ` ← ${frame.function}`).join("")}` },
  function: perFrame((frame) => frame.function),
  thread: { own: ({ thread }) => `${THREADS[thread]} (${thread})` },
  file: perFrame((frame) => frame.file),
  type: { own: ({ type }) => type },
  module: perFrame((frame) => frame.module),
  heap: { own: ({ heap }) => heap },
  place: perFrame(place),
};

/** States by what they are called; `own` leaves what lies in frames further out to others. */
function grouped(states, by) {
  const groups = new Map();
  const group = (name) => groups.get(name) ?? groups.set(name, { own: [], all: [] }).get(name);
  for (const state of states) {
    const own = GROUPINGS[by].own(state);
    if (own === undefined) continue;
    group(own).own.push(state);
    for (const name of GROUPINGS[by].all?.(state) ?? [own]) group(name).all.push(state);
  }
  return [...groups].map(([name, { own, all }]) => ({ name, own: sum(own), all: sum(all) }));
}

const shown = (amount, metric, measure = "bytes") => (metric === "temporary" || measure === "blocks" ? count(amount.blocks) : bytes(amount.bytes));
const valueOf = (amount, metric) => (metric === "temporary" ? amount.blocks : amount.bytes);
const plural = (number, one) => `${count(number)} ${one}${number === 1 ? "" : "s"}`;
const percent = (part, whole) => `${((whole === 0 ? 0 : part / whole) * 100).toFixed(1)}%`;
const signed = (text, value) => `${value > 0 ? "+" : value < 0 ? "−" : ""}${text}`;
function duration(ns) {
  const [unit, scale, digits] = ns >= 1e9 ? ["s", 1e9, 2] : ns >= 1e6 ? ["ms", 1e6, 1] : ["µs", 1e3, 1];
  return ns === 0 ? "0s" : ns < 1e3 ? `${ns}ns` : `${(ns / scale).toFixed(digits)}${unit}`;
}

/** What the page must show, view by view, in the form in which `read` finds it. */
const EXPECTED = {
  overview({ file, window, filter, at = "peak" }) {
    const { replay } = file;
    const counted = (metric) => replay.counted(metric, window, at === "end" ? window.to : at, filter);
    const total = (metric) => sum(counted(metric));
    const events = counters(file, window, filter);
    const peak = replay.peak(window, filter);
    const figures = {
      live_bytes: { value: total("live").bytes, note: plural(total("live").blocks, "block") },
      peak_bytes: { value: peak.bytes, note: `at ${duration(peak.at)}` },
      allocated_bytes: { value: total("allocated").bytes, note: plural(events.allocations, "allocation") },
      freed_bytes: { value: total("freed").bytes, note: plural(events.frees, "free") },
    };
    if (!file.isSampled && !filter.deaths) figures.reallocations = { value: events.reallocations, note: null };
    if (!file.isSampled) {
      const [part, whole] = [total("temporary").blocks, total("allocated").blocks];
      // In a window something may be freed at once that came before it.
      figures.temporary_allocations = { value: part, note: whole > 0 && part <= whole ? `${percent(part, whole)} of allocations` : null };
    }
    for (const [name, figure] of Object.entries(figures)) figure.text = name.endsWith("_bytes") ? bytes(figure.value) : count(figure.value);
    // With A at the peak, what is live is what is there at the peak.
    const tops = ["live", at === "peak" ? "leaked" : "peak", "allocated", "temporary"].filter((metric) => metricsOf(file).includes(metric)).map((metric) => {
      const rows = grouped(counted(metric), "site");
      const all = valueOf(total(metric), metric);
      return rows.sort((a, b) => valueOf(b.own, metric) - valueOf(a.own, metric)).map(({ name, own }) => [shown(own, metric), percent(valueOf(own, metric), all), name.split(" ← ")[0]]);
    });
    const a = at === "peak" ? `A peak, ${duration(replay.peak(window, EVERYTHING).at)}` : at === "end" ? `A end, ${duration(window.to)}` : `A ${duration(at)}`;
    return { figures, tops: tops.map((rows) => rows.sort()), a };
  },

  table({ file, window, filter, metric, by }) {
    const states = file.replay.counted(metric, window, window.to, filter);
    const all = sum(states);
    const rows = grouped(states, by);
    const allocated = new Map(metric === "temporary" ? grouped(file.replay.counted("allocated", window, window.to, filter), by).map((row) => [row.name, row.own]) : []);
    const frames = states.flatMap(({ stack }) => stack);
    // Each function of these programs has one line.
    const named = (name) => (by === "function" ? `${name} ${place(frames.find((frame) => frame.function === name))}` : name);
    // Where filters look at single blocks, rows have no figures of all that they allocated.
    const hasFigures = filter.texts.every((text) => /^!?(inside|outside|module):/.test(text));
    const ofItsOwn = (name, own) => {
      const whole = allocated.get(name) ?? { bytes: 0, blocks: 0 };
      // A row that has nothing temporary of its own is there for what it calls.
      if (!hasFigures || own.blocks === 0) return ["", ""];
      return [own.blocks <= whole.blocks ? percent(own.blocks, whole.blocks) : "", bytes(whole.bytes)];
    };
    return {
      sum: `${plural(rows.length, "row")}, ${shown(all, metric)} in all`,
      rows: rows.map(({ name, own, all: total }) => [
        percent(valueOf(own, metric), valueOf(all, metric)), shown(own, metric), ...(by === "function" ? [shown(total, metric)] : []), count(own.blocks), ...(metric === "temporary" ? ofItsOwn(name, own) : []),
        ...(by === "type" && metric !== "temporary" ? [bytes(Math.round(own.bytes / own.blocks))] : []), named(name),
      ]).sort(),
    };
  },

  flame({ file, window, filter, metric, measure }) {
    const all = sum(file.replay.counted(metric, window, window.to, filter));
    return { flame: all.blocks === 0 ? null : `${shown(all, metric, measure)} in all` };
  },

  compare({ file, window, filter, other, by }) {
    const whole = { from: 0, to: other.replay.duration };
    const before = file.replay.counted("peak", window, null, filter);
    const after = other === file ? file.replay.counted("live", window, window.to, filter) : other.replay.counted("peak", whole, null, filter);
    const [a, b] = [sum(before), sum(after)];
    const sides = [before, after].map((states) => new Map(grouped(states, by).map((row) => [row.name, row.own])));
    const none = { bytes: 0, blocks: 0, exact: 0 };
    const names = [...new Set(sides.flatMap((side) => [...side.keys()]))];
    const rows = names.map((name) => [name, ...sides.map((side) => side.get(name) ?? none)]).filter(([, old, now]) => old.bytes !== now.bytes || old.blocks !== now.blocks);
    const what = (old, now) => {
      if (old.blocks === 0) return "came";
      if (now.blocks === 0) return "went";
      return now.bytes < old.bytes || (now.bytes === old.bytes && now.blocks < old.blocks) ? "shrank" : "grew";
    };
    const difference = (value, text) => signed(text(Math.abs(value)), value);
    const change = (old, now) => [difference(Math.round(now.exact - old.exact), bytes), difference(now.blocks - old.blocks, count)];
    return {
      peaks: [file.replay.peak(window, EVERYTHING).at, other === file ? window.to : other.replay.peak(whole, EVERYTHING).at].map(duration),
      change: `${bytes(a.bytes)} → ${bytes(b.bytes)}, ${change(a, b).join(", ")} blocks`,
      rows: rows.map(([name, old, now]) => {
        const [changed, blocks] = change(old, now);
        return [changed, bytes(old.bytes), bytes(now.bytes), blocks, what(old, now), name.split(" ← ")[0]];
      }).sort(),
    };
  },
};

/** How often things happened to what is kept. */
function counters({ replay }, window, filter) {
  const moves = replay.within(window);
  const blocks = (how, side) => sum(moves.filter((move) => move.how === how).map((move) => move[side]).filter(filter.keeps)).blocks;
  return {
    allocations: filter.deaths ? sum(replay.counted("allocated", window, window.to, filter)).blocks : blocks("allocate", "arrives"),
    frees: blocks("deallocate", "leaves"),
    reallocations: filter.deaths ? 0 : blocks("reallocate", "arrives"),
  };
}

/** In the browser: goes to a choice, waits until all of it is answered, and reads what is there. */
async function read(fragment) {
  const before = location.href;
  const changed = new Promise((resolve) => addEventListener("hashchange", resolve, { once: true }));
  location.hash = fragment;
  if (location.href !== before) await changed;
  // A new choice is drawn, then asked for, then the page is busy: each takes a frame at the most.
  for (let quiet = 0; quiet < 4;) {
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
    quiet = document.querySelector(".app")?.getAttribute("aria-busy") === "false" ? quiet + 1 : 0;
  }
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  // That estimates have their sign and their range is another test's: estimates.test.mjs.
  const text = (selector, within = document) => within.querySelector(selector)?.textContent.trim().replaceAll("~", "") ?? null;
  const figure = (each) => [each.dataset.figure, { value: Number(each.dataset.value), note: text("small:not(.range)", each), text: text("b", each) }];
  // What tells two rows apart is no figure; beside callers it would be said twice, and is looked at.
  const detail = (cell) => (cell.querySelector(".callers") ? "" : cell.querySelector(".detail")?.textContent ?? "");
  const ranges = all("[role=columnheader]").findIndex((head) => head.textContent === "95% range");
  const caller = (cell) => cell.querySelector(".caller")?.textContent ?? "";
  const cells = (row) => [...row.children].filter((cell, index) => !cell.querySelector(".share-bar") && index !== ranges).map((cell) => cell.textContent.replace(detail(cell), "").replace(caller(cell), "").replaceAll("~", "").trim());
  const peak = document.querySelector("button.peak");
  return {
    figures: Object.fromEntries(all("[data-figure]").map(figure)),
    tops: all(".top").map((top) => all("li:not(.nothing) button", top).map((row) => [text(".numeric", row), text(".share", row), text(".name .name", row).split(" ← ")[0]]).sort()),
    sum: text(".tools small"),
    rows: all(".table-row").map(cells).sort(),
    flame: /^.* in all/.exec(text("#flame-details") ?? "")?.[0] ?? null,
    change: text(".change-total"),
    a: text(".window-line .instant-a"),
    peaks: all(".compare-view small.at").map((each) => each.textContent),
    peak: peak && { text: text("span", peak), title: /at [^ ]+:/.exec(peak.title)?.[0] ?? peak.title },
    problem: text(".problem"),
  };
}

const PAGES = 6;
/** Looks at each case on one of several pages, and lists what is wrong. */
async function examine(files, cases) {
  const view = await viewer(files);
  const pages = await Promise.all(Array.from({ length: PAGES }, () => page(view, "", { viewport: { width: 1280, height: 1200 } })));
  const wrong = [];
  let next = 0;
  await Promise.all(pages.map(async (opened) => {
    while (next < cases.length) {
      const each = cases[next++];
      const found = await opened.evaluate(read, each.fragment);
      const expected = { ...EXPECTED[each.view](each), ...peakLabel(each) };
      try {
        assert.deepEqual(Object.fromEntries(Object.keys(expected).map((name) => [name, found[name]])), expected);
      } catch (error) {
        wrong.push(`#${each.fragment}${found.problem ? `: ${found.problem}` : ""}\n${error.message}`);
      }
    }
  }));
  for (const opened of pages) await opened.done();
  await view.stop();
  assert.equal(wrong.length, 0, `${wrong.length} of ${cases.length} views are wrong, among them\n${wrong.slice(0, 4).join("\n")}`);
}

/** The label on the timeline names the peak of what is kept in all of the recording. */
function peakLabel({ file, filter }) {
  const peak = file.replay.peak({ from: 0, to: Infinity }, filter);
  return { peak: peak.bytes === 0 ? null : { text: `peak ${bytes(peak.bytes)}`, title: `at ${duration(peak.at)}:` } };
}

function casesOf(file, source, other, otherSource) {
  const cases = [];
  for (const window of Object.values(WINDOWS).map((of) => of(file))) {
    for (const [index, filter] of choicesOf(file).entries()) {
      const chosen = `&source=${source}${window.fragment}${filter.texts.map((text) => `&filter=${encodeURIComponent(text)}`).join("")}`;
      const by = (step) => Object.keys(GROUPINGS)[filter.texts.length === 0 && step === 0 ? 0 : (index + step) % 8];
      const add = (view, more, options = {}) => cases.push({ view, fragment: `view=${view}${chosen}${more}`, file, window, filter, ...options });
      const at = index % 2 === 0 ? "end" : timeOf(file, 0.6);
      add("overview", "");
      add("overview", `&at=${at}`, { at });
      for (const [step, metric] of metricsOf(file).entries()) {
        // With a second file beside it, every third is enough: only the file could be mistaken.
        if (other !== file && (index + step) % 3 !== 0) continue;
        const measure = index % 2 === 0 ? "bytes" : "blocks";
        add("table", `&metric=${metric}&by=${by(step)}&at=end`, { metric, by: by(step) });
        add("flame", `&metric=${metric}&measure=${measure}&at=end`, { metric, measure });
      }
      add("compare", `&by=${by(7)}${other === file ? "" : `&other=${otherSource}`}`, { by: by(7), other });
    }
  }
  return cases;
}

test("the replay says what the command line says", () => {
  for (const file of Object.values(FILES)) {
    for (const [name, of] of Object.entries(WINDOWS)) {
      const window = of(file);
      for (const filter of choicesOf(file).filter(({ cli }) => cli)) {
        const where = `${file.path}, ${name}, ${filter.texts}`;
        const document = json("report", file.path, ...window.cli, ...filter.cli);
        const told = filter.texts.length === 0 ? [document.totals] : document[`${document.by}s`];
        const total = (metric) => sum(file.replay.counted(metric, window, window.to, filter));
        const { allocations, frees, reallocations } = counters(file, window, filter);
        const expected = { live_bytes: total("live").bytes, live_blocks: total("live").blocks, allocated_bytes: total("allocated").bytes, freed_bytes: total("freed").bytes, allocations, frees };
        if (!file.isSampled) Object.assign(expected, { reallocations, temporary_allocations: total("temporary").blocks });
        for (const [figure, value] of Object.entries(expected)) {
          const said = told.reduce((all, row) => all + row[figure], 0);
          // Each row of estimates is rounded by itself.
          const slack = file.isSampled && figure.endsWith("_bytes") ? told.length / 2 : 0;
          assert.ok(Math.abs(said - value) <= slack, `${where}: ${figure} is ${said}, by the replay ${value}`);
        }
        if (filter.texts.length === 0) {
          const peak = file.replay.peak(window, filter);
          assert.deepEqual([document.totals.peak_bytes, document.totals.peak_at_ns], [peak.bytes, peak.at], where);
        }
      }
    }
  }
});

/** Recordings of real programs, whose events are not known here: what the command line says of them. */
const REAL = { "a recording": "service.hw", "a sampled recording": "sampled.hw", "a trace": "trace.ctf" };
for (const [title, path] of Object.entries(REAL)) {
  test(`${title} of a real program`, async () => {
    const whole = json("report", path);
    const isSampled = whole.totals.estimate === true;
    const { duration_ns } = whole.source;
    const name = whole.sites[0].stack.find((frame) => frame.function).function;
    const exactly = `^${name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}$`;
    const thread = whole.threads[0];
    const filters = [
      { fragment: "", cli: [] },
      { fragment: `&filter=${encodeURIComponent(`inside:equal:${name}`)}`, cli: ["--filter", exactly] },
      { fragment: `&filter=thread:${thread.id}`, cli: ["--by", "thread", "--filter", `^${thread.id}$`] },
    ];
    const [from, to] = [Math.round(duration_ns * 0.3), Math.round(duration_ns * 0.7)];
    const windows = [{ fragment: "", cli: [], at: [] }, { fragment: `&from=${from}&to=${to}`, cli: ["--from", `${from}ns`, "--to", `${to}ns`], at: ["--at", `${to}ns`] }];
    const view = await viewer([path]);
    const opened = await page(view);
    for (const window of windows) {
      for (const filter of filters) {
        const document = json("report", path, ...window.cli, ...filter.cli);
        const told = filter.fragment === "" ? [document.totals] : document[`${document.by}s`];
        const where = `${path} ${window.fragment}${filter.fragment}`;
        const { figures } = await opened.evaluate(read, `view=overview&at=end${window.fragment}${filter.fragment}`);
        const said = (figure) => told.reduce((all, row) => all + (row[figure] ?? 0), 0);
        const noted = (figure) => Number(/^[\d,]+/.exec(figures[figure].note)?.[0].replaceAll(",", ""));
        const found = {
          live_bytes: figures.live_bytes.value, live_blocks: noted("live_bytes"), allocated_bytes: figures.allocated_bytes.value, allocations: noted("allocated_bytes"),
          freed_bytes: figures.freed_bytes.value, frees: noted("freed_bytes"), reallocations: figures.reallocations?.value, temporary_allocations: figures.temporary_allocations?.value,
        };
        for (const [figure, value] of Object.entries(found)) {
          // What cannot be estimated is shown by neither.
          if (isSampled && ["reallocations", "temporary_allocations"].includes(figure)) {
            assert.equal(value, told[0][figure] ?? undefined, `${where}: ${figure}`);
            continue;
          }
          const slack = isSampled && figure.endsWith("_bytes") ? told.length / 2 : 0;
          assert.ok(Math.abs(said(figure) - value) <= slack, `${where}: ${figure} is ${value} on the page, ${said(figure)} in the report`);
        }
        if (isSampled) assert.equal(figures.temporary_allocations, undefined, where);
        if (filter.fragment === "") {
          assert.deepEqual([figures.peak_bytes.value, figures.peak_bytes.note], [document.totals.peak_bytes, `at ${duration(document.totals.peak_at_ns)}`], where);
        }
        if (filter.cli.includes("thread")) continue;
        for (const [metric, amount] of [["live", "live_bytes"], ["allocated", "allocated_bytes"], ["freed", "freed_bytes"]]) {
          const { rows, sum: all } = await opened.evaluate(read, `view=table&at=end&metric=${metric}${window.fragment}${filter.fragment}`);
          // A window's rows are those of its events; what is live at its end may be older.
          const { sites: told } = metric === "live" ? json("report", path, ...window.at, ...filter.cli) : document;
          const sites = told.map((site) => site[amount]).filter((value) => value > 0).sort((a, b) => b - a);
          assert.match(all, new RegExp(`^${count(sites.length)} rows?`), `${where}: ${metric}`);
          assert.deepEqual(rows.map((row) => row[1]).sort(), sites.slice(0, rows.length).map(bytes).sort(), `${where}: ${metric}`);
        }
      }
    }
    await opened.done();
    await view.stop();
  });
}

test("one file: an exact recording", async () => {
  const { exact } = FILES;
  await examine([exact.path], casesOf(exact, 0, exact, 0));
});

test("one file: a sampled recording", async () => {
  const { sampled } = FILES;
  await examine([sampled.path], casesOf(sampled, 0, sampled, 0));
});

test("two files: exact recordings", async () => {
  const { exact, other } = FILES;
  await examine([exact.path, other.path], casesOf(other, 1, exact, 0));
});

test("two files: an exact recording and a sampled one", async () => {
  const { exact, sampled } = FILES;
  await examine([exact.path, sampled.path], casesOf(sampled, 1, exact, 0));
});

test("two files: the file is chosen, and its figures are shown", async () => {
  const { exact, sampled } = FILES;
  const view = await viewer([exact.path, sampled.path]);
  const opened = await page(view);
  for (const [index, file] of [[1, sampled], [0, exact]]) {
    await opened.getByLabel("File", { exact: true }).selectOption(String(index));
    await settled(opened);
    const { figures } = EXPECTED.overview({ file, window: WINDOWS["the whole recording"](file), filter: EVERYTHING });
    assert.deepEqual((await opened.evaluate(read, new URL(opened.url()).hash.slice(1))).figures, figures);
  }
  await opened.done();
  await view.stop();
});
