// The life of one block: who allocated, resized and freed it, and what lay at its address before and after.
import "./biography.css";
import { useEffect } from "preact/hooks";
import type { Biography, Block, LifeEvent, Occupant } from "./answers";
import { useAnswer } from "./answer";
import { choose } from "./choice";
import { instant, isTimed, length, when } from "./clock";
import * as estimate from "./estimate";
import * as format from "./format";
import { clean } from "./names";
import { naming, question } from "./question";
import { saved } from "./saved";
import { has, source } from "./sources";
import { functionOf, Stack } from "./stack";
import { StatusLine } from "./status";
import { shownLife } from "./timeline/life";
import { showRange } from "./timeline/range";

const WORDS: { [what: string]: string } = { allocated: "Allocated", reallocated: "Reallocated", promoted: "Promoted", freed: "Freed", evicted: "Freed unseen", known: "Live already" };

/** The stacks of a life with no more events are shown at once. */
const OPEN_EVENTS = 3;

export function threadName(id: number | null): string {
  if (id === null) return "";
  const name = source.value?.threads?.find((thread) => thread.id === id)?.name;
  return name ? clean(name) : String(id);
}

/** `row` is what the list knows of the block; a saved page has nothing else. */
export function BlockPanel({ id, row }: { id: number; row?: Block }) {
  const file = source.value;
  const answer = useAnswer<Biography>(saved || !file ? null : question("block", { source: file.id, id, ...naming() }), 80);
  const life = answer.data?.block.id === id ? answer.data : null;
  const block = life?.block ?? row;
  useEffect(() => {
    shownLife.value = life && life.has_history && has("timeline") ? life : null;
    return () => { shownLife.value = null; };
  }, [life]);
  return (
    <aside class="picked biography" data-exact aria-label="The chosen block">
      <h2>{block ? clean(block.address) : "Block"} <small>block {format.count(id)}</small> <button type="button" class="quiet" aria-label="Close" onClick={() => choose({ pick: "" })}>×</button></h2>
      {block && <Facts block={block} life={life} />}
      <StatusLine answer={answer} />
      {life ? <Life life={life} /> : saved && row && <><p class="nothing">A saved page has no more of a block's life.</p><Stack stack={row.stack} site={row.site} named={row.frame} /></>}
    </aside>
  );
}

function Facts({ block, life }: { block: Block; life: Biography | null }) {
  const facts = [
    `${format.bytes(block.size)} (${format.count(block.size)} bytes)`,
    block.usable ? `usable ${format.bytes(block.usable)}` : "",
    block.weight > 1 ? `stands for ${estimate.plural(block.weight, "block")}` : "",
    block.heap && block.heap !== "malloc" ? clean(block.heap) : "",
    block.variable ? `variable ${clean(block.variable)}` : "",
    block.task ? `task ${clean(block.task)}` : "",
  ].filter((fact) => fact !== "");
  const lived = block.lifetime_ns !== null ? `Lived ${length(block.lifetime_ns)}.` : life?.has_history ? "Never freed." : "";
  return (
    <>
      <p>{block.type && <b>{clean(block.type)} </b>}{facts.join(", ")}. <span data-fact="lived">{lived}</span></p>
      {life?.has_history && has("timeline") && isTimed() && (
        <p class="actions"><button type="button" onClick={() => showLife(block)} title="Zoom the timeline to its life">Zoom to its life</button></p>
      )}
    </>
  );
}

/** Its life with some room around. */
function showLife(block: Block): void {
  const end = block.freed_ns ?? source.value?.duration_ns ?? block.allocated_ns;
  const room = Math.max(1000, (end - block.allocated_ns) * 0.1);
  showRange(Math.max(0, block.allocated_ns - room), end + room, true);
}

function Life({ life }: { life: Biography }) {
  const digits = resolutionOf([life.before?.until_ns, ...life.events.map((event) => event.time_ns), life.after?.since_ns].filter((time) => time !== null && time !== undefined));
  const last = life.events[life.events.length - 1];
  return (
    <>
      <ol class="life" aria-label="Its life">
        {life.before && <Neighbour title="Before it, at this address" one={life.before} at={life.before.until_ns} digits={digits} />}
        {life.events.map((event, index) => (
          <>
            {life.left_out > 0 && index === life.events.length - 1 && <li class="nothing" key="left out">{format.plural(life.left_out, "more reallocation")}</li>}
            <Event key={index} event={event} digits={digits} isSnapshot={!life.has_history} isOpen={life.events.length <= OPEN_EVENTS} />
          </>
        ))}
        {life.after && <Neighbour title="After it, at this address" one={life.after} at={life.after.since_ns} digits={digits} />}
      </ol>
      {last?.what === "evicted" && <p class="hint">Its address was given to another block, so it must have been freed before. That was not seen.</p>}
      {life.has_history && !life.has_every_block && <p class="hint">Only samples were recorded: other blocks may have been at its address.</p>}
      {life.has_history && life.has_addresses && life.has_every_block && !life.before && <p class="hint">No block was at its address before.</p>}
      {!life.has_history && <p class="hint">A snapshot knows one instant: what happened before and after is not known.</p>}
    </>
  );
}

/** The smallest step between two times: as exact as they must be to differ. */
export function resolutionOf(times: number[]): number {
  const sorted = [...times].sort((a, b) => a - b);
  const steps = sorted.map((time, index) => time - (sorted[index - 1] ?? time)).filter((step) => step > 0);
  return Math.max(100, Math.min(1e6, ...steps));
}

function Event({ event, digits, isSnapshot, isOpen }: { event: LifeEvent; digits: number; isSnapshot: boolean; isOpen: boolean }) {
  const isEnd = event.what === "freed" || event.what === "evicted";
  const size = event.old_size === null ? format.bytes(event.size) : `${format.bytes(event.old_size)} → ${format.bytes(event.size)}`;
  return (
    <li data-event={event.what}>
      <p>
        <b>{isSnapshot ? "Allocated" : WORDS[event.what] ?? clean(event.what)}</b>{" "}
        {!isSnapshot && has("timeline")
          ? <button type="button" class="quiet" title={`${when(event.time_ns)}: put A here`} onClick={() => choose({ at: event.time_ns })}>{instant(event.time_ns, digits)}</button>
          : instant(event.time_ns, digits)}
        {event.thread !== null && <>, thread {threadName(event.thread)}</>}
        {!isEnd && <>, {size}</>}
        {event.old_address !== null && <>, moved from <code>{clean(event.old_address)}</code> to <code>{clean(event.address)}</code></>}
      </p>
      {event.stack.length > 0
        ? <details open={isOpen}><summary>{functionOf(event.frame)} <small>{clean(format.place(event.frame?.file, event.frame?.line))}</small></summary><Stack stack={event.stack} site={isEnd ? null : event.site} named={event.frame} /></details>
        : <p class="nothing">{event.what === "freed" ? <>Who freed it was not recorded: <code>record --free-stacks</code> does.</> : event.what === "evicted" ? "" : "No stack is known."}</p>}
    </li>
  );
}

function Neighbour({ title, one, at, digits }: { title: string; one: Occupant; at: number | null; digits: number }) {
  const { block } = one;
  return (
    <li class="neighbour">
      <p>{title}: <button type="button" class="quiet" onClick={() => choose({ pick: String(block.id) })} title="Show its life">block {format.count(block.id)}</button>, {format.bytes(block.size)} at <code>{clean(block.address)}</code>{at !== null && <>, {one.until_ns === at && one.left ? clean(one.left) : "allocated"} {instant(at, digits)}</>}</p>
      <p><small>{functionOf(block.frame)} {clean(format.place(block.frame?.file, block.frame?.line))}</small></p>
    </li>
  );
}
