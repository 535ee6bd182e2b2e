// The first thing to know, in one sentence whose parts lead to where they are shown.
import type { ComponentChildren } from "preact";
import type { Headline as Answer } from "./answers";
import { useAnswer } from "./answer";
import { choose, type Choice } from "./choice";
import { when } from "./clock";
import * as estimate from "./estimate";
import * as format from "./format";
import { clean, shown } from "./names";
import { about } from "./question";
import { has } from "./sources";
import { nameOf } from "./stack";

export function Headline() {
  const { data, isOld } = useAnswer<Answer>(about("headline", { at: null }), 80);
  if (!data || data.bytes === 0) return null;
  const { top, site, steady } = data;
  const hasTime = has("timeline");
  const isAll = top !== null && top.share > 0.995;
  return (
    <p class={`headline${isOld ? " old" : ""}`} aria-label="In one sentence">
      <Link to={{ view: "flame", metric: "live", at: "peak" }} title={hasTime ? "Put A at the peak and show the flame graph" : "Show the flame graph"}>
        <b data-headline="bytes" data-value={data.bytes}><estimate.Bytes value={data.bytes} samples={data.samples} beside /></b>{hasTime ? <> at {when(data.at_ns)}</> : " live"}
      </Link>
      {top && <>; <Link to={{ view: "table", metric: "live", at: "peak", by: "function", pick: top.key }} title="Show this function in the table, with its callers">
        <b data-headline="top" data-value={top.bytes}>{isAll ? "all" : format.percent(top.share)}</b> of it {has("counts") ? <>in {estimate.plural(top.blocks, "block")} from </> : "from "}{top.sites > 1 && <>{format.plural(top.sites, "call site")} of </>}{top.pool && `${clean(top.pool)} · `}<code>{shown(top.key)}</code>
      </Link></>}
      {site && top && top.sites > 1 && <>; the largest call site, <Link to={{ view: "table", metric: "live", at: "peak", by: "site", pick: String(site.id) }} title={`Show this call site in the table: ${clean(site.frame?.function ?? site.key)} ${clean(format.place(site.frame?.file, site.frame?.line))}`}>
        {site.pool && `${clean(site.pool)} · `}<code>{shown(nameOf(site.frame) ?? site.key)}</code>, has <b data-headline="site" data-value={site.bytes}>{format.percent(site.share)}</b>{has("counts") && <> in {estimate.plural(site.blocks, "block")}</>}
      </Link></>}
      {steady && <>; <Link to={{ view: "growth", pick: String(steady.id) }} title={`Show what grows: ${format.plural(steady.sites, "site")}, most of all ${clean(steady.frame?.function ?? steady.key)}`}>
        <b data-headline="steady" data-value={steady.bytes}><estimate.Bytes value={steady.bytes} /></b> grows steadily since {when(steady.since_ns)}
      </Link></>}
      .
    </p>
  );
}

function Link({ to, title, children }: { to: Partial<Choice>; title: string; children: ComponentChildren }) {
  return <button type="button" class="link" title={title} onClick={() => choose(to)}>{children}</button>;
}
