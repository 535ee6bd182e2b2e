// What was recorded, and where to look first.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Metric, Overview, Row } from "../answers";
import { useAnswer } from "../answer";
import { choice, choose } from "../choice";
import { when } from "../clock";
import * as estimate from "../estimate";
import * as format from "../format";
import { clean } from "../names";
import { about } from "../question";
import { has, metrics, source } from "../sources";
import { distinctCallers, RowName } from "../stack";
import { menuHandlers, MoreButton } from "../menu";
import { Nothing, StatusLine } from "../status";
import { Headline } from "../headline";
import { subjectOfSite } from "../subject";
import { titleOfInstant } from "../timeline/range";

export function OverviewView() {
  const answer = useAnswer<Overview>(about("overview"), 80);
  const data = answer.data;
  const file = source.value!;
  return (
    <div class={`overview${answer.isOld ? " old" : ""}`}>
      <StatusLine answer={answer} />
      <Headline />
      {data && <Figures data={data} />}
      {data && <section class="words beside" aria-label="Beside the figures"><Resident />{notCounted(data.figures)}{givenBack(data.figures)}</section>}
      {data && data.anomalies.length > 0 && <section class="words" aria-label="Anomalies">{isPart() && <h2>In the whole recording</h2>}{data.anomalies.map((line) => <p key={line} class="anomaly">{clean(line)}</p>)}</section>}
      {data && (
        <div class="tops">
          <Top title={!has("timeline") ? "Live" : `Live at ${typeof choice.value.at === "string" ? `${titleOfInstant(choice.value.at)}, ` : ""}${when(data.at_ns)}`} metric="live" rows={data.top.live} />
          {has("timeline") && choice.value.at === "peak" && metrics.value.includes("leaked") && <Top title="Allocated in the window, never freed" metric="leaked" rows={data.top.leaked} />}
          {has("timeline") && choice.value.at !== "peak" && <Top title={choice.value.filters.length > 0 ? "At the peak of the whole memory" : "At the peak of the window"} metric="peak" rows={data.top.peak} />}
          {metrics.value.includes("allocated") && data.figures.allocated_bytes !== undefined && <Top title={has("timeline") ? "Allocated in the window" : "Allocated"} metric="allocated" rows={data.top.allocated} />}
          {has("timeline") && metrics.value.includes("temporary") && <Top title="Temporary in the window" metric="temporary" rows={data.top.temporary} hint="freed before its thread allocated anything else" />}
        </div>
      )}
      {data && (
        <section class="words" aria-label="Notes">
          {data.notes.map((line) => <p key={line}>{clean(line)}</p>)}
          {data.anomalies.length === 0 && has("timeline") && <p class="fine">The events show no anomaly.</p>}
          {file.started && <p>Started {clean(file.started.replace("T", " ").replace(/\.\d+Z$/, " UTC"))}{file.host ? ` on ${clean(file.host)}` : ""}{file.threads?.length ? `, ${format.plural(file.threads.length, "thread")}` : ""}{file.sampling ? `; ${clean(file.sampling)}` : ""}.</p>}
        </section>
      )}
    </div>
  );
}

/** Whether what is shown is less than the whole recording: oddities are reported for the whole recording. */
function isPart(): boolean {
  const { from, to, filters } = choice.value;
  return from !== null || to !== null || filters.length > 0;
}

/** The least address space that is worth a line: nearly every program has a guard page or two. */
const LEAST_SPACE = 64 << 10;

/** What the process takes, which is not the same as what is live, and the way to where it is. */
function Resident() {
  const peak = source.value?.rss_peak;
  if (!has("rss") && !peak) return null;
  return (
    <p class="resident">
      {peak && <>Resident memory (RSS) is highest at {when(peak.at_ns)}: <b data-exact>{format.bytes(peak.bytes)}</b>.</>}
      {has("rss") && <> <button type="button" class="quiet" onClick={() => choose({ view: "rss" })}>Where the resident memory is</button></>}
    </p>
  );
}

/** Address space that is mapped and in no figure. */
function notCounted({ reserved_bytes: reserved = 0, mapped_file_bytes: files = 0 }: Overview["figures"]) {
  const parts = [reserved > 0 && `${format.bytes(reserved)} of reserved address space`, files > 0 && `${format.bytes(files)} of mapped files`].filter(Boolean);
  return reserved + files >= LEAST_SPACE && <p class="not-counted" data-exact>Not counted at that instant: {parts.join(", ")}.</p>;
}

/** Memory that is in the figures, but that the program gave back to the kernel and may touch again. */
function givenBack({ returned_bytes: returned = 0 }: Overview["figures"]) {
  return returned >= LEAST_SPACE && <p class="given-back" data-exact>Given back at that instant, and still counted: up to {format.bytes(returned)} of mappings.</p>;
}

/** A count with its unit; nothing where it is not known. */
function counted(value: number | undefined, one: string): string {
  return value === undefined ? "" : estimate.plural(value, one);
}

function Figures({ data }: { data: Overview }) {
  const figures = data.figures;
  const { temporary_allocations: temporary, allocated_blocks: allocated } = figures;
  // Near the edges of a window something may be freed at once that came before it.
  const share = temporary !== undefined && allocated !== undefined && allocated > 0 && temporary <= allocated ? `${format.percent(temporary / allocated)} of allocations` : "";
  const promoted = figures.promoted_blocks ? `, ${estimate.count(figures.promoted_blocks)} promoted` : "";
  return (
    <dl class="figures">
      <Figure name="live_bytes" title={has("timeline") ? "live at A" : "live"} value={figures.live_bytes} samples={figures.live_samples} note={figures.live_blocks !== undefined ? estimate.plural(figures.live_blocks, "block") : ""} />
      {!has("timeline") && <Figure name="live_blocks" title="blocks" value={figures.live_blocks} counted />}
      {has("timeline") && <><Figure name="peak_bytes" title="peak in the window" value={figures.peak_bytes} samples={figures.peak_samples} note={figures.peak_at_ns !== undefined && figures.peak_at_ns !== null ? `at ${when(figures.peak_at_ns)}` : ""} known />
      <Figure name="allocated_bytes" title="allocated" value={figures.allocated_bytes} samples={figures.allocated_samples} note={`${counted(figures.allocations, "allocation")}${promoted}`} known />
      <Figure name="freed_bytes" title="freed" value={figures.freed_bytes} samples={figures.freed_samples} note={counted(figures.frees, "free")} known />
      <Figure name="reallocations" title="reallocations" value={figures.reallocations} counted known={metrics.value.includes("temporary")} />
      <Figure name="temporary_allocations" title="temporary" value={temporary} counted note={share} /></>}
    </dl>
  );
}

/** `known`: one that every recording has, so that where it is missing, the filters make it unknowable. */
function Figure({ name, title, value, samples, note, counted, known }: { name: string; title: string; value: number | null | undefined; samples?: number; note?: ComponentChildren; counted?: boolean; known?: boolean }) {
  if (value === undefined || value === null) {
    return known && choice.value.filters.length > 0 ? <div data-unknown={name}><dt>{title}</dt><dd title="These filters go by how long blocks lived; that is not known of this figure"><b class="faint">not known</b></dd></div> : null;
  }
  return (
    <div data-figure={name} data-value={value}>
      <dt>{title}</dt>
      <dd title={`${estimate.count(value)}${counted ? "" : " bytes"}`}><b class={counted || !estimate.isWide(value, estimate.rangeOfBytes(value, samples)) ? "" : "faint"}>{counted ? estimate.count(value) : estimate.bytes(value)}</b>{!counted && <FigureRange value={value} samples={samples} />}{note && <small>{note}</small>}</dd>
    </div>
  );
}

/** The range of an estimate, on a line of its own. */
function FigureRange({ value, samples }: { value: number; samples?: number }) {
  const range = estimate.rangeOfBytes(value, samples);
  return range && <small class="range" title={estimate.rangeTitle(value, range)}>{estimate.rangeText(range)}</small>;
}

function Top({ title, metric, rows, hint }: { title: string; metric: Metric; rows: Row[]; hint?: string }) {
  const callers = distinctCallers(rows);
  const [hovered, setHovered] = useState<{ index: number; top: number } | null>(null);
  const hover = (index: number, element: HTMLElement) => setHovered({ index, top: element.offsetTop });
  return (
    <section class="top" aria-label={title} onPointerLeave={() => setHovered(null)}>
      <h2 title={hint}>{title} <button type="button" class="quiet" onClick={() => choose({ view: "flame", metric })}>flame graph</button> <button type="button" class="quiet" onClick={() => choose({ view: "table", metric })}>table</button></h2>
      <ul>
        {rows.map((row, index) => (
          <li key={index} onPointerEnter={(event) => hover(index, event.currentTarget)} {...menuHandlers(() => subjectOfSite(row))}>
            <button type="button" onFocus={(event) => hover(index, event.currentTarget.parentElement!)} onClick={() => choose({ view: "table", metric, by: "site", pick: row.id === null ? "" : String(row.id) })} title="Show it in the table">
              <span class={`numeric${estimate.isWide(row.value, estimate.rangeOfRow(row, metric)) ? " faint" : ""}`} title={estimate.rangeTitle(row.value, estimate.rangeOfRow(row, metric))}>{estimate.valued(row.value, metric)}</span>
              <span class="numeric share">{format.percent(row.share)}</span>
              <span class="share-bar"><i style={{ width: `${Math.min(100, row.share * 100)}%` }} /></span>
              <span class="name"><RowName row={row} /> <small>{row.detail ? "" : callers(row)}</small></span>
            </button>
          </li>
        ))}
        {rows.length === 0 && <li class="nothing"><Nothing isOfA={metric === "live"}>Nothing.</Nothing></li>}
      </ul>
      {hovered && rows[hovered.index] && <MoreButton subject={subjectOfSite(rows[hovered.index])} style={{ top: `${hovered.top - 1}px` }} />}
    </section>
  );
}
