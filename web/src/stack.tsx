// Functions and stacks as text, with what can be done with them.
import type { Frame, Row } from "./answers";
import { addFilter, choice, choose, treatAsAllocator } from "./choice";
import * as format from "./format";
import { menuHandlers } from "./menu";
import { clean, shown } from "./names";
import { saved } from "./saved";
import { hasSource, SourceLink } from "./source";
import { hasBlockTypes } from "./sources";
import type { Subject } from "./subject";

/** A frame's name as it is shown. */
export function functionOf(frame?: Frame | null): string {
  return shown(nameOf(frame) ?? frame?.address ?? "?");
}

/** A frame's whole name. */
function wholeName(frame?: Frame | null): string {
  return clean(nameOf(frame) ?? frame?.address ?? "?");
}

/** What a frame is called, by the page and the server: its function, or where in its module its code lies, or its source line. */
export function nameOf(frame?: Frame | null): string | null {
  if (!frame || frame.function) return frame?.function ?? null;
  if (frame.module && frame.offset) return `${frame.module.slice(frame.module.lastIndexOf("/") + 1)}+${frame.offset}`;
  return frame.file && frame.line ? `${frame.file}:${frame.line}` : frame.file || null;
}

const LIBRARY = /^\/rustc\/|\/rustlib\/src\/rust\/|^\/rust\/deps\/|\/include\/c\+\+\//;

/** A language's own library: rarely what the user looks for. */
export function isLibrary(frame: Frame): boolean {
  return LIBRARY.test(frame.file ?? "");
}

/** The innermost frame of the program itself. */
export function ownFrame(stack: Frame[]): Frame | undefined {
  return stack.find((frame) => !isLibrary(frame) && (frame.file || frame.module || frame.function)) ?? stack[0];
}

/** What a row is called: its pool, its function and place, or its key; and what tells it from another that would look the same. */
export function RowName({ row }: { row: Pick<Row, "key" | "frame" | "pool" | "detail"> }) {
  // Where there is little room, what tells a row from another goes before its place.
  const place = row.detail && innerWidth < ROOMY ? "" : format.place(row.frame?.file, row.frame?.line);
  const detail = row.detail && <small class="detail"> {clean(row.detail)}</small>;
  const pool = row.pool && <>{clean(row.pool)} · </>;
  if (!row.frame?.function) return <span class="name" title={clean(row.key)}>{pool}{shown(row.key)}{detail}</span>;
  return <span class="name" title={`${wholeName(row.frame)}\n${clean(row.frame.file ?? "")}`}>{pool}{functionOf(row.frame)} {place && <small>{clean(place)}</small>}{detail}</span>;
}

/** From this width of the window on, a list has room for places. */
const ROOMY = 1200;
const UNKNOWN_TYPE = "The type is not known: docs, Names and types";

/** A type's name, which has no short form. Among the types of blocks, brackets enclose the description of an unknown one; among those of objects, an array. */
export function TypeName({ name }: { name: string }) {
  const isUnknown = name.startsWith("[") && hasBlockTypes();
  return <span class={isUnknown ? "name faint" : "name"} title={isUnknown ? `${clean(name)}\n${UNKNOWN_TYPE}` : clean(name)}>{clean(name)}</span>;
}

type WithStack = Pick<Row, "key" | "frame" | "stack">;

/** What tells a row of a list from others: its caller, or, where others that are called the same have that one, too, the first that none of them shares.
    Computed for the rows that are asked for: a list may have thousands of one name. */
export function distinctCallers<Named extends WithStack>(rows: Named[]): (row: Named) => string {
  const byKey = new Map<string, Named[]>();
  for (const row of rows) {
    const same = byKey.get(row.key);
    if (same) same.push(row);
    else byKey.set(row.key, [row]);
  }
  const known = new Map<Named, string>();
  return (row) => {
    let text = known.get(row);
    if (text === undefined) known.set(row, text = callerOf(row, byKey.get(row.key) ?? []));
    return text;
  };
}

function callerOf(row: WithStack, same: WithStack[]): string {
  const stack = row.stack ?? [];
  const own = stack.findIndex((frame) => functionOf(frame) === functionOf(row.frame) && frame.line === row.frame?.line);
  if (own < 0) return "";
  let place = own + 1;
  for (const other of same) if (other !== row) place = Math.max(place, sharedLength(stack, other.stack ?? []));
  return place >= stack.length ? "" : `${place > own + 1 ? "← … " : ""}← ${functionOf(stack[place])}`;
}

/** How many of their innermost frames two stacks share. */
function sharedLength(one: Frame[], other: Frame[]): number {
  const differs = one.findIndex((frame, index) => functionOf(frame) !== functionOf(other[index]) || frame.line !== other[index]?.line);
  return differs < 0 ? one.length : differs;
}

/** A small menu in a line: each of them changes the choice. */
export function FunctionActions({ name }: { name: string }) {
  // The data of a saved page is of one choice; its menu has none of these either.
  if (saved) return null;
  return (
    <span class="actions">
      <button type="button" onClick={() => choose({ view: "flame", focus: name })} title="Flame graph with callers above and callees below (f)">Focus</button>
      <button type="button" onClick={() => addFilter(`inside:equal:${name}`)} title="Only what is allocated inside this function (i)">Only inside</button>
      <button type="button" onClick={() => addFilter(`outside:equal:${name}`)} title="Only what is allocated outside of this function (o)">Not inside</button>
      {!choice.value.raw_names && !choice.value.allocators.includes(name) && <button type="button" onClick={() => treatAsAllocator(name)} title="It only passes memory on: name rows after its callers">Treat as allocator</button>}
    </span>
  );
}

/** `plain`: without links, since the stack is not of the chosen file. */
export function Stack({ stack, site, named, plain }: { stack: Frame[]; site?: number | null; named?: Frame | null; plain?: boolean }) {
  // The key `s` shows the source of the frame that names the row.
  const own = stack.find((frame) => named && frame.function === named.function && frame.file === named.file && frame.line === named.line) ?? ownFrame(stack);
  return (
    <div class="stack">
      {site !== null && site !== undefined && !saved && <p class="actions"><button type="button" onClick={() => addFilter(`site:${site}`)}>Only this site</button></p>}
      {foldedStack(stack).map((run, index) => (run.length >= LEAST_FOLDED && isLibrary(run[0])
        ? <details key={index}><summary>{format.count(run.length)} frames of the library, from {functionOf(run[0])}</summary><Frames frames={run} own={own} stack={stack} plain={plain} /></details>
        : <Frames key={index} frames={run} own={own} stack={stack} plain={plain} />))}
      {stack.length === 0 && <p class="nothing">No stack is known.</p>}
    </div>
  );
}

const LEAST_FOLDED = 3;

/** Runs of frames of the library, and of others, in their order. */
function foldedStack(stack: Frame[]): Frame[][] {
  const runs: Frame[][] = [];
  for (const frame of stack) {
    const last = runs[runs.length - 1];
    if (last && isLibrary(last[0]) === isLibrary(frame)) last.push(frame);
    else runs.push([frame]);
  }
  return runs;
}

/** What the menu of a frame of a stack is about: its function, and the calls that lead to it. */
function subjectOfFrame(frame: Frame, stack: Frame[]): Subject {
  const name = nameOf(frame);
  return { name: name ?? frame.address ?? "?", function: name, frame, stack: stack.slice(stack.indexOf(frame)) };
}

function Frames({ frames, own, stack, plain }: { frames: Frame[]; own?: Frame; stack: Frame[]; plain?: boolean }) {
  return (
    <ol>
      {frames.map((frame, index) => (
        <li key={index} class={isLibrary(frame) ? "library" : ""} {...menuHandlers(() => subjectOfFrame(frame, stack))}>
          {nameOf(frame) && !plain
            ? <button type="button" class="frame" title={`${wholeName(frame)}\nFocus the flame graph on this function`} onClick={() => choose({ view: "flame", focus: nameOf(frame)! })}>{functionOf(frame)}</button>
            : <code title={wholeName(frame)}>{functionOf(frame)}</code>}
          {hasSource(frame) && !plain
            ? <SourceLink frame={frame} own={frame === own} />
            : <small title={clean(frame.file ?? frame.module ?? "")}>{clean(format.place(frame.file, frame.line) || format.shortPath(frame.module ?? ""))}</small>}
        </li>
      ))}
    </ol>
  );
}
