// The page: what is looked at, its memory over time, and one view of it.
import { open } from "./answer";
import type { Measure, Metric } from "./answers";
import { server, serverGone } from "./api";
import { length, unit, when } from "./clock";
import { choice, choose, DEFAULT, type NamedInstant, ignored, placeInSaved, parseChoice } from "./choice";
import { Filters } from "./filters";
import * as format from "./format";
import { Help, helpShown } from "./help";
import { MemoryKinds } from "./kinds";
import { SavedInstants } from "./instants";
import { ContextMenu } from "./menu";
import { CopyLink } from "./link";
import { clean } from "./names";
import { saved, savedChoice } from "./saved";
import { SavePage } from "./save_page";
import { SourcePanel } from "./source";
import { growing, has, isObjectLog, metric, metrics, other, source, sources, sourcesProblem, titleOf } from "./sources";
import { instantOf, instantOfB, showRange, wholeRange } from "./timeline/range";
import { Timeline } from "./timeline/timeline";
import { dark, safe } from "./theme";
import { LIST, offeredViews } from "./views/list";

export function App() {
  const views = offeredViews();
  const view = views.includes(choice.value.view) ? choice.value.view : views[0];
  const known = sources.value !== null;
  // An object log is counted as a whole: its types know no window, no filter and no metric.
  const isOfWholeFile = view === "image" || (view === "types" && isObjectLog());
  const hasMetric = view === "flame" || view === "table" || (view === "types" && !isOfWholeFile);
  // The resident memory is that of the whole process. Filters that were chosen stay where they can be removed: the timeline follows them.
  const isOfFile = view !== "live" && view !== "processes" && view !== "fleet";
  const hasFilters = view !== "rss" || choice.value.filters.length > 0;
  return (
    <div class="app" aria-busy={sources.value === null || open.value > 0}>
      <Header />
      <Problems />
      {isOfFile && <Timeline />}
      <nav class="bar" aria-label="Views">
        <div class="tabs" role="tablist">
          {known && views.map((each, index) => (
            <button type="button" role="tab" key={each} id={`tab-${each}`} aria-selected={each === view} title={`${LIST[each].title} (${index + 1})`} onClick={() => choose({ view: each })}>{LIST[each].title}</button>
          ))}
        </div>
        <div class="metrics">
          {hasMetric && <MetricChoice />}
          {source.value && (has("timeline") || hasMetric) && isOfFile && <MeasureChoice isOfCounts={hasMetric && format.isCount(metric.value)} />}
        </div>
      </nav>
      {isOfFile && !isOfWholeFile && source.value && <div class="bar choices">{hasFilters && <><MemoryKinds /><Filters /></>}<WindowLine /><SavedInstants /></div>}
      <div class="view-and-source">
      <main class="view" aria-labelledby={`tab-${view}`}>
        {known && source.value === null && isOfFile ? <p class="nothing">{sources.value!.length ? "There is no such file any more: choose one above." : "Nothing is open yet."}</p> : known && view ? LIST[view].show() : !sourcesProblem.value && !serverGone.value && <p class="nothing">Opening…</p>}
      </main>
      <SourcePanel />
      </div>
      <ContextMenu />
      {helpShown.value && <Help />}
    </div>
  );
}

function Header() {
  const file = source.value;
  const list = sources.value ?? [];
  return (
    <header class="header">
      <h1>Highwater</h1>
      {list.length > 1
        ? <select class="source" aria-label="File" value={choice.value.source} onChange={(event) => choose({ source: Number(event.currentTarget.value) })}>
            {!file && <option value={choice.value.source}>—</option>}
            {list.map((each) => <option value={each.id} key={each.id}>{titleOf(each)}{each.problem ? " (cannot be read)" : ""}</option>)}
          </select>
        : file && <strong class="source">{titleOf(file)}</strong>}
      {file && choice.value.view !== "processes" && choice.value.view !== "fleet" && <p class="facts">{factsOf()}</p>}
      {file && growing.value.has(file.id) && <span class="growing" role="status" title="The file is still being written, and this page follows it. A window or an instant that you choose stays where it is.">growing</span>}
      <span class="stretch" />
      {saved && <span class="saved-note" title="This page is a file: it has the data of one choice inside">saved page{saved.saved ? `, ${saved.saved.slice(0, 10)}` : ""}</span>}
      {!saved && file && !serverGone.value && <CopyLink />}
      {!saved && file && !serverGone.value && <SavePage />}
      <button type="button" aria-pressed={safe.value} title="Colours that colour-blind eyes can tell apart (c)" onClick={() => choose({ palette: safe.value ? "" : "safe" })}>◑ safe colours</button>
      <button type="button" title="Light or dark (d)" onClick={() => choose({ theme: dark.value ? "light" : "dark" })}>{dark.value ? "☀ light" : "☾ dark"}</button>
      <button type="button" title="All keys (?)" aria-label="Help: all keys" onClick={() => (helpShown.value = true)}>?</button>
    </header>
  );
}

function factsOf(): string {
  const file = source.value!;
  const parts = file.path ? [clean(file.name)] : [];
  if (file.duration_ns > 0 && has("timeline")) parts.push(length(file.duration_ns));
  if (file.timed === false && has("timeline")) parts.push(unit() === "line" ? "no times in the log" : `counts ${unit()}s instead of time`);
  if (file.events > 0 && has("timeline")) parts.push(`${format.count(file.events)} ${has("states") ? "states" : "events"}`);
  if (typeof file.reading === "number") parts.push(`being read: ${Math.floor(file.reading * 100)}%`);
  if (file.estimated) parts.push(`estimates${file.sampling ? `, ${file.sampling}` : ""}`);
  return parts.join(" · ");
}

/** The places of damage that are named one by one. */
const SHOWN_DAMAGE = 3;

/** Which part of a file is missing. */
function damagedBytes({ offset, length }: { offset: number; length: number }): string {
  return length > 1 ? `bytes ${format.count(offset)} to ${format.count(offset + length - 1)}` : `at byte ${format.count(offset)}`;
}

/** What went wrong, a line each. The page goes on with what it has. */
function Problems() {
  const file = source.value;
  const lines: string[] = [];
  if (server.value === "silent") lines.push("The server does not answer any more; this page shows what it had and tries again. Start it anew with 'highwater view'.");
  if (server.value === "another") lines.push("This page belongs to a viewer that has ended; open the address that the new one printed. What it had is still shown.");
  if (sourcesProblem.value) lines.push(sourcesProblem.value);
  if (ignored.value.length) lines.push(`This link has ${ignored.value.length === 1 ? "a part that makes" : "parts that make"} no sense and ${ignored.value.length === 1 ? "is" : "are"} left out: ${ignored.value.map((part) => clean(part)).join(", ")}`);
  if (file?.problem) lines.push(clean(file.problem.includes(file.path) ? file.problem : `${file.path}: ${file.problem}`));
  const damage = file?.damage ?? [];
  if (damage.length) lines.push(`The file is damaged in ${damage.length === 1 ? "one place" : `${format.count(damage.length)} places`}: ${damage.slice(0, SHOWN_DAMAGE).map((each) => `${clean(each.what)}, ${damagedBytes(each)}`).join("; ")}${damage.length > SHOWN_DAMAGE ? "; …" : ""}. What is undamaged is shown.`);
  const elsewhere = saved !== null && placeInSaved("overview") === null;
  if (!lines.length && !elsewhere) return null;
  return (
    <div class="problems" role="alert">
      {lines.map((line) => <p key={line}>{line}</p>)}
      {elsewhere && <p>This window, instant or filter is not in this saved page. <button type="button" onClick={showWhatIsSaved}>Show what is</button></p>}
    </div>
  );
}

function showWhatIsSaved(): void {
  const { source: file, from, to, at, filters } = parseChoice(savedChoice());
  choose(file === choice.value.source ? { from, to, at, filters } : { from: null, to: null, at: DEFAULT.at, filters: [] });
}

const METRIC_TITLES: { [metric: string]: string } = {
  live: "live at A", peak: "at the peak of the window", "own-peak": "the most each row held until A", allocated: "allocated in the window", allocations: "allocations in the window", leaked: "allocated in the window, never freed", temporary: "temporary in the window", freed: "freed in the window",
};

/** What a metric means for this file, and these filters: its peak is that of the whole memory, whatever they keep. */
export function titleOfMetric(each: Metric): string {
  if (each === "live" && !has("timeline")) return "live";
  if (each === "peak" && choice.value.filters.length > 0) return "at the peak of the whole memory";
  return METRIC_TITLES[each];
}

function MetricChoice() {
  return (
    <label>Metric <select id="metric" value={metric.value} onChange={(event) => choose({ metric: event.currentTarget.value as Metric })}>
      {metrics.value.map((each) => <option value={each} key={each}>{titleOfMetric(each)}</option>)}
    </select></label>
  );
}

/** Holds for the timeline, and for whatever below it can be either. */
function MeasureChoice({ isOfCounts }: { isOfCounts: boolean }) {
  if (!has("counts")) return null;
  return (
    <label title={isOfCounts ? "Of the timeline: this metric counts allocations" : undefined}>{isOfCounts ? "Unit of the timeline" : "Unit"} <select id="measure" value={choice.value.measure} onChange={(event) => choose({ measure: event.currentTarget.value as Measure })}>
      <option value="bytes">bytes</option><option value="blocks">blocks</option>
    </select></label>
  );
}

/** "peak, 1.2s"; while it is not known where that is, "peak". */
function peakAnd(name: NamedInstant, at: number | null, file = source.value): string {
  const title = { peak: "peak", "rss-peak": "RSS peak", end: "end" }[name];
  return at === null ? title : `${title}, ${when(at, file)}`;
}

/** The chosen window and instants as text, and buttons for those who do not drag. */
function WindowLine() {
  const file = source.value!;
  if (!has("timeline")) return file.duration_ns > 0 ? <span class="window-line">one instant: {when(file.duration_ns)}</span> : null;
  const { from, to, at, b } = choice.value;
  const start = from ?? wholeRange().left;
  const end = to ?? file.duration_ns;
  const chosen = from !== null || to !== null;
  const a = instantOf(at, end);
  const instantB = instantOfB(b, other.value, file.duration_ns);
  return (
    <span class="window-line">
      <span>{chosen ? <>window <b>{when(start)}</b> – <b>{when(end)}</b> ({length(end - start)})</> : "window: all"}</span>
      {chosen && <button type="button" class="quiet" title="Zoom the timeline to the window (z)" onClick={() => showRange(start, end, true)}>zoom</button>}
      {chosen && <button type="button" class="quiet" title="The whole recording again (x)" onClick={() => choose({ from: null, to: null })}>all</button>}
      <span class="instant-a">A <b>{typeof at === "string" ? peakAnd(at, a) : when(a ?? end)}</b></span>
      {b !== null ? <span class="instant-b">B <b>{typeof b === "string" ? peakAnd(b, instantB, other.value) : when(instantB ?? 0, other.value)}</b></span> : null}
      <button type="button" class="quiet" title="Put A at the peak (p)" onClick={() => choose({ at: "peak" })}>A to peak</button>
      {file.rss_peak && <button type="button" class="quiet" title="Put A where RSS is highest (r)" onClick={() => choose({ at: "rss-peak" })}>to RSS peak</button>}
      <button type="button" class="quiet" title="Put A at the end of the window (e)" onClick={() => choose({ at: "end" })}>to end</button>
      <button type="button" class="quiet" title="Put B where A is, or take it away (b)" onClick={() => choose(b === null ? { b: a ?? "peak", other: file.id } : { b: null })}>{b === null ? "set B" : "no B"}</button>
    </span>
  );
}
