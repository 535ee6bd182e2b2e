// Where the resident memory is: rows that add up to RSS, who holds them, and what would help.
import type { Rss } from "../answers";
import { useAnswer } from "../answer";
import { choice, choose, DEFAULT, RSS_PARTS, type RssPart } from "../choice";
import { when } from "../clock";
import * as format from "../format";
import { clean } from "../names";
import { RssFiles } from "../rss/files";
import { Headline } from "../rss/headline";
import { HeapMap } from "../rss/map";
import { rssQuestion } from "../rss/question";
import { Rows } from "../rss/rows";
import { RssSites, RssTypes } from "../rss/sites";
import { has } from "../sources";
import { StatusLine } from "../status";

/** The most sites and types that are listed. */
const MOST = 2000;

const TITLES: { [part in RssPart]: string } = { rows: "Where it is", sites: "Sites", types: "Types", files: "Files", map: "Heap pages" };

export function RssView() {
  const { part, filters } = choice.value;
  const answer = useAnswer<Rss>(rssQuestion("rss", { by: "type", limit: MOST }), 80);
  const data = answer.data;
  return (
    <div class={`rss-view${answer.isOld ? " old" : ""}`}>
      <div class="tools">
        <div class="switch" role="group" aria-label="Part">
          {RSS_PARTS.map((each) => <button type="button" key={each} aria-pressed={each === part} onClick={() => choose({ part: each })}>{TITLES[each]}</button>)}
        </div>
        {data && <Instants data={data} />}
        {filters.length > 0 && <small>Of the whole process: filters do not apply here.</small>}
        <span class="stretch" />
        {answer.problem !== null && choice.value.at !== DEFAULT.at && <button type="button" onClick={() => choose({ at: DEFAULT.at })}>At the RSS peak</button>}
        <StatusLine answer={answer} />
      </div>
      {data && <Headline data={data} />}
      {data && part === "rows" && <Rows data={data} />}
      {data && part === "sites" && <RssSites data={data} />}
      {data && part === "types" && <RssTypes data={data} />}
      {data && part === "files" && <RssFiles data={data} />}
      {data && part === "map" && <HeapMap key={data.at_ns} />}
    </div>
  );
}

const REASONS: { [reason: string]: string } = { "rss-peak": "RSS peak", mark: "mark", end: "end", request: "snapshot" };

/** The instants at which the resident memory was recorded. */
function Instants({ data }: { data: Rss }) {
  if (!has("timeline") || data.instants.length === 0) return null;
  return (
    <label>at <select aria-label="Instant" value={String(data.at_ns)} onChange={(event) => choose({ at: Number(event.currentTarget.value), node: "" })}>
      {data.instants.map((each, index) => <option value={String(each.at_ns)} key={index}>{titleOf(each)}: {format.bytes(each.rss_bytes)}</option>)}
    </select></label>
  );
}

function titleOf({ reason, mark, at_ns }: Rss["instants"][number]): string {
  return `${mark === null ? REASONS[reason] ?? reason : `mark ${clean(mark)}`}, ${when(at_ns)}`;
}
