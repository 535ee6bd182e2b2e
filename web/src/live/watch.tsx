// One live process: its timeline, the looks at it, and which sites grow.
import { useState } from "preact/hooks";
import { useActions } from "../actions";
import type { GrowingRow } from "../answers";
import { choice, choose, EVERY, GROWN, LATELY, SPANS, type Grouping } from "../choice";
import { allRows, noteOfLimit, SaveCsv } from "../csv";
import * as format from "../format";
import { matcherOf } from "../matcher";
import { clean } from "../names";
import { naming, question } from "../question";
import { Search } from "../search";
import { StatusLine } from "../status";
import { signOf, ms, type Live, type LiveGrowth, type LiveTimeline, type LiveTree, type OwnSnapshot, type Process } from "./answers";
import { LiveChart } from "./chart";
import { LiveFlame } from "./flame";
import { useStamped, usePolled } from "./following";
import { useLooks } from "./looks";
import { ChosenMarks, MarkList, markOfLook, markOfOwn, type Mark } from "./marks";
import { open } from "./opening";
import { CSV, GrowingSites, SORTS } from "./sites";

const TIMELINE_MS = 1000;
const BINS = 600;
/** The most rows of the table: the page stays as large as it is. */
const ROWS = 500;
const GROUPINGS: Grouping[] = ["site", "function", "line", "file", "module", "thread", "type"];
const GROWN_TITLES = { live: "what is live", opened: "growth since opened", lately: "growth lately" };

function everyTitle(seconds: number): string {
  if (seconds === 0) return "off";
  return seconds < 60 ? `${seconds} s` : `${seconds / 60} min`;
}

export function Watch({ live, own }: { live: Live | null; own: OwnSnapshot[] }) {
  const { process: key, every, lately, grown, span, by, sort, order, search, compared } = choice.value;
  const process = [...(live?.processes ?? []), ...(live?.ended ?? []), ...(live?.refused ?? [])].find((each) => each.key === key);
  const hasEnded = (process?.exited_unix_ns ?? null) !== null;
  const isUnknown = live !== null && !live.problem && !process;
  const watched = useLooks(key, every, hasEnded || isUnknown);
  const timeline = usePolled<LiveTimeline>(question("live/timeline", { process: key, bins: BINS, last_s: span || null }), hasEnded || isUnknown ? 0 : TIMELINE_MS);
  const latest = watched.looks[watched.looks.length - 1];
  const stamp = latest ? `${watched.looks[0].at_unix_ms} ${latest.number}` : "";
  const isFlame = compared === "flame";
  const isWrong = matcherOf(search).problem !== null;
  const common = { process: key, lately, ...naming() };
  const column = SORTS.includes(sort) ? sort : "growth";
  const asked = latest && !isWrong ? question("live/growth", { ...common, by, sort: column, order, search, limit: ROWS }) : null;
  const growth = useStamped<LiveGrowth>(asked, stamp);
  const tree = useStamped<LiveTree>(latest && isFlame ? question("live/tree", { ...common, since: grown === "live" ? "none" : grown, library: choice.value.library || null }) : null, stamp);
  const [chosen, setChosen] = useState<Mark[]>([]);
  const [action, act] = useActions();
  const [isTaking, setTaking] = useState(false);

  const marks = [...watched.looks.map((look) => markOfLook(key, look)), ...own.filter((each) => isOf(each, process)).map(markOfOwn)].sort((a, b) => a.at - b.at);
  // Looks that were thinned out meanwhile are not offered any more.
  const stillChosen = chosen.filter((mark) => marks.some((each) => each.id === mark.id));
  const chooseMark = (mark: Mark) => setChosen(stillChosen.some((each) => each.id === mark.id) ? stillChosen.filter((each) => each.id !== mark.id) : [...stillChosen.slice(-1), mark]);
  const snapshot = () => {
    setTaking(true);
    void act(({ signal }) => open({ kind: "new", process: key }, signal)).then(() => setTaking(false));
  };
  const data = growth.data;
  const until = hasEnded ? process!.exited_unix_ns! : Math.max(live?.now_unix_ns ?? 0, timeline.data?.to_unix_ns.at(-1) ?? 0);
  // Without the collector, or the process, everything else fails for the same reason.
  const problems = live?.problem ? [live.problem] : isUnknown ? [`The collector does not know this process any more.${latest ? " What was seen of it is below." : ""}`] : [watched.problem, timeline.problem, growth.problem, isFlame ? tree.problem : null];
  const lines = [...new Set(problems.filter((line): line is string => Boolean(line)))];
  return (
    <div class="watch" data-looks={watched.looks.length} data-kept-bytes={watched.keptBytes} data-latest={latest?.number ?? ""}>
      <div class="tools">
        <button type="button" onClick={() => choose({ process: "" })}>← All processes</button>
        <Facts process={process} live={live} timeline={timeline.data} />
        <span class="stretch" />
        {!hasEnded && <label title="Figures by site, compared with earlier ones. It goes on when this page is closed, until the process or the viewer ends, or you choose off.">Look every <select id="every" value={every} onChange={(event) => choose({ every: Number(event.currentTarget.value) })}>{EVERY.map((each) => <option value={each} key={each}>{everyTitle(each)}</option>)}</select></label>}
        {!hasEnded && <button type="button" disabled={action.waiting} onClick={() => void act(({ signal }) => watched.lookNow(signal))}>Look now</button>}
        {!hasEnded && <button type="button" title="Drops the looks: growth counts from now on" disabled={action.waiting} onClick={() => { setChosen([]); void act(({ signal }) => watched.startAgain(signal)); }}>Start again</button>}
        <button type="button" disabled={action.waiting} title="Every block of it" onClick={snapshot}>{isTaking ? "taking it …" : hasEnded ? "Last state" : "Snapshot now"}</button>
        <StatusLine answer={action} />
      </div>
      {lines.map((line) => <p key={line} class="status-line problem" role="alert">{clean(line)}</p>)}
      <Sampling data={data} />
      {timeline.data && timeline.data.from_unix_ns.length > 0 && <LiveChart timeline={timeline.data} until={until} marks={marks} chosen={stillChosen} onChoose={chooseMark}><MarkList marks={marks} onChoose={chooseMark} /><label>Timeline <select value={span} onChange={(event) => choose({ span: Number(event.currentTarget.value) })}>{SPANS.map((each) => <option value={each} key={each}>{each === 0 ? "all" : each < 3600 ? `last ${each / 60} min` : `last ${each / 3600} h`}</option>)}</select></label></LiveChart>}
      <ChosenMarks chosen={stillChosen} marks={marks} clear={() => setChosen([])} />
      <div class="tools">
        <span class="switch" role="group" aria-label="Show as"><button type="button" aria-pressed={!isFlame} onClick={() => choose({ compared: "table" })}>Table</button><button type="button" aria-pressed={isFlame} onClick={() => choose({ compared: "flame" })}>Flame graph</button></span>
        {!isFlame && <label>By <select id="live-by" value={by} onChange={(event) => choose({ by: event.currentTarget.value as Grouping })}>{GROUPINGS.map((each) => <option value={each} key={each}>{each}</option>)}</select></label>}
        {isFlame && <label>Shows <select id="grown" value={grown} onChange={(event) => choose({ grown: event.currentTarget.value as (typeof GROWN)[number] })}>{GROWN.map((each) => <option value={each} key={each}>{GROWN_TITLES[each]}</option>)}</select></label>}
        {isFlame && <label title="Frames of the language's own library, and of what runs before main"><input type="checkbox" checked={choice.value.library} onChange={(event) => choose({ library: event.currentTarget.checked })} /> library frames</label>}
        <label>Lately: since <select value={lately} onChange={(event) => choose({ lately: Number(event.currentTarget.value) })}>{LATELY.map((each) => <option value={each} key={each}>{each === 1 ? "the last look" : `${each} looks ago`}</option>)}</select></label>
        <Search hint={isFlame ? "Search functions" : `Search ${by}s`} />
        {data && search !== "" && !isFlame && <small class="in-all">{format.plural(data.count, "row")}, {signOf(data.now_look.is_estimate)}{format.bytes(data.found_bytes)}, {signOf(isGrowthEstimate(data))}{format.signed(format.bytes(data.found_growth), data.found_growth)}</small>}
        <span class="stretch" />
        {data && !isFlame && <SaveCsv of={process?.name ?? key} part={`live-by-${by}`} columns={CSV} note={noteOfLimit(data.count, "rows")} rows={(signal) => allRows<LiveGrowth, GrowingRow>(asked, data, (all) => all.rows, signal)} />}
        {data && <Totals data={data} />}
      </div>
      {!latest && watched.problem === null && !isUnknown && <p class="nothing">Looking at the process …</p>}
      {!isFlame && data && <GrowingSites data={data} by={(growth.asked?.get("by") ?? "site") as Grouping} />}
      {!isFlame && data && data.count > data.rows.length && <p class="status-line">The first {format.count(data.rows.length)} of {format.count(data.count)} rows; a search finds the others.</p>}
      {isFlame && tree.data && (tree.data.total > 0 ? <LiveFlame tree={tree.data} isGrowth={tree.data.node_before !== undefined && tree.data.node_before !== null} /> : <p class="nothing">Nothing is live.</p>)}
    </div>
  );
}

/** Whether a program's own snapshot is of this process: another one may have had its number. */
function isOf(own: OwnSnapshot, process: Process | undefined): boolean {
  return process !== undefined && own.pid === process.pid && own.taken_unix_ns >= process.since_unix_ns && own.taken_unix_ns <= (process.exited_unix_ns ?? Infinity);
}

function Facts({ process, live, timeline }: { process: Process | undefined; live: Live | null; timeline: LiveTimeline | null }) {
  if (!process) return <b>Process {choice.value.process.split("-")[0]}</b>;
  const now = ms(live?.now_unix_ns ?? Date.now() * 1e6);
  const rss = timeline?.rss_bytes.last.at(-1) ?? 0;
  const ended = process.exited_unix_ns;
  return (
    <span class="facts">
      <b>{clean(process.name)}</b> (pid {process.pid}) · {ended === null ? `runs for ${format.seconds(now - ms(process.since_unix_ns))}` : <b class="ended">ended at {format.timeOfDay(ms(ended))} after {format.seconds(ms(ended - process.since_unix_ns))}</b>} · {clean(process.mode)}
      {" · "}{signOf(process.is_estimate)}{format.bytes(process.live_bytes)} live{ended === null ? "" : " at the end"}{rss > 0 && ` · RSS ${format.bytes(rss)}`}
      {process.problem && <span class="problem"> · {clean(process.problem)}</span>}
    </span>
  );
}

/** Whether samples made the growth since the first look. */
function isGrowthEstimate({ opened_look: first, now_look: now }: LiveGrowth): boolean {
  return first.is_estimate || now.is_estimate;
}

/** The whole, and how it grew: the figures of the looks that the rows below are of. */
function Totals({ data }: { data: LiveGrowth }) {
  const { opened_look: first, lately_look: before, now_look: now } = data;
  const approx = signOf(now.is_estimate);
  const grew = data.now.live_bytes - data.opened.live_bytes;
  const lately = data.now.live_bytes - data.lately.live_bytes;
  const passed = (look: { at_unix_ms: number }) => format.seconds(now.at_unix_ms - look.at_unix_ms);
  return (
    <span class="totals" title={now.is_verified ? "The figures of the latest look equal the process's own counts at that instant" : "The figures of the latest look could not be verified"}>
      <b data-figure="live_bytes" data-value={data.now.live_bytes}>{approx}{format.bytes(data.now.live_bytes)}</b> in {approx}<span data-figure="live_blocks" data-value={data.now.live_blocks}>{format.plural(data.now.live_blocks, "block")}</span> at {format.timeOfDay(now.at_unix_ms)};{" "}
      <b data-figure="growth" data-value={grew}>{signOf(isGrowthEstimate(data))}{format.signed(format.bytes(grew), grew)}</b> in {passed(first)}, <span data-figure="lately" data-value={lately}>{signOf(now.is_estimate || before.is_estimate)}{format.signed(format.bytes(lately), lately)}</span> in {passed(before)}{!now.is_verified && <span class="problem"> · not verified</span>}
    </span>
  );
}

/** What a change of the sampling means for the growth. */
function Sampling({ data }: { data: LiveGrowth | null }) {
  if (!data || data.opened_look.sample_bytes === data.now_look.sample_bytes) return null;
  const mode = (bytes: number) => (bytes === 0 ? "every block" : `one sample per ${format.bytes(bytes)}`);
  return <p class="status-line problem" role="status">The sampling changed since this was opened, from {mode(data.opened_look.sample_bytes)} to {mode(data.now_look.sample_bytes)}: growth compares an exact figure with an estimate. “Start again” counts from now on.</p>;
}
