// The filters: each a chip that says what it means and can be taken away, and a `+` that makes another.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Rows } from "./answers";
import { useAnswer } from "./answer";
import { ask, Failure } from "./api";
import { addFilter, choice, choose, removeFilter } from "./choice";
import { isTimed, length, when } from "./clock";
import * as format from "./format";
import { clean, shown } from "./names";
import { question } from "./question";
import { saved } from "./saved";
import { has, source } from "./sources";

export function Filters() {
  const [adding, setAdding] = useState(false);
  const { filters, focus, hide, allocators, raw_names } = choice.value;
  return (
    <div class="filters" role="group" aria-label="Filters">
      {filters.map((filter) => <Chip key={filter} text={describe(filter)} exact={filter} remove={() => removeFilter(filter)} negate={() => choose({ filters: filters.map((each) => (each === filter ? negated(filter) : each)) })} />)}
      {focus && choice.value.view === "flame" && <Chip text={`focus on ${shown(focus)}`} exact={`focus=${focus}`} remove={() => choose({ focus: "" })} />}
      {choice.value.view === "flame" && hide.map((name) => <Chip key={name} text={`hidden: ${shown(name)}`} exact={`hide=${name}`} remove={() => choose({ hide: hide.filter((each) => each !== name) })} />)}
      {allocators.map((name) => <Chip key={name} text={`allocator: ${shown(name)}`} exact={`allocator=${name}`} remove={() => choose({ allocators: allocators.filter((each) => each !== name) })} />)}
      {raw_names && <Chip text="names as they are" exact="raw_names=1" remove={() => choose({ raw_names: false })} />}
      <button type="button" class="add" id="add-filter" aria-haspopup="dialog" aria-expanded={adding} title="Add a filter (+)" onClick={() => setAdding(!adding)}>+ filter</button>
      {adding && <NewFilter close={() => { setAdding(false); document.getElementById("add-filter")?.focus(); }} />}
      {filters.length > 1 && <button type="button" class="quiet" onClick={() => choose({ filters: [] })}>clear all</button>}
    </div>
  );
}

function Chip({ text, exact, remove, negate }: { text: string; exact: string; remove: () => void; negate?: () => void }) {
  return (
    <span class="chip" title={clean(exact)}>
      {negate ? <button type="button" class="chip-text" title="The opposite" onClick={negate}>{text}</button> : <span class="chip-text">{text}</span>}
      <button type="button" class="chip-remove" aria-label={`Remove: ${text}`} onClick={remove}>×</button>
    </span>
  );
}

function negated(filter: string): string {
  return filter.startsWith("!") ? filter.slice(1) : `!${filter}`;
}

/** A filter in words. */
export function describe(filter: string): string {
  if (filter.startsWith("!")) return `not ${describe(filter.slice(1))}`;
  const match = /^([a-z]+):(?!:)([^]*)$/.exec(filter);
  if (!match) return `matches /${clean(filter)}/`;
  const [, kind, rest] = match;
  switch (kind) {
    case "size": return `size ${range(rest, format.bytes)}`;
    case "lifetime": return `lived ${range(rest, length)}`;
    case "allocated": return `allocated ${range(rest, when)}`;
    case "freed": return rest === "never" ? "never freed" : rest === "ever" ? "freed at some time" : `freed ${range(rest, when)}`;
    case "live": return `live at ${/^\d+$/.test(rest) ? when(Number(rest)) : rest}`;
    case "thread": {
      const name = source.value?.threads?.find((thread) => String(thread.id) === rest)?.name;
      const isShared = (source.value?.threads?.filter((thread) => thread.name === name).length ?? 0) > 1;
      return `thread ${name ? `${clean(name)}${isShared ? ` (${rest})` : ""}` : rest}`;
    }
    case "inside": case "outside": {
      const [mode, ...text] = rest.split(":");
      const how = mode === "equal" ? "" : mode === "contains" ? "…" : "/";
      return `${kind} ${how}${mode === "equal" ? shown(text.join(":")) : clean(text.join(":"))}${how}`;
    }
    case "site": return `site ${rest}`;
    default: return `${kind} ${clean(rest)}`;
  }
}

/** Parses what was typed as a time; of a log without times, a line. Null if it is none. */
function parseTime(text: string): number | null {
  if (isTimed()) return format.parseDuration(text);
  const match = /^\s*(?:line\s*)?([\d,]+)\s*(?:lines?)?\s*$/i.exec(text);
  return match ? Number(match[1].replaceAll(",", "")) : null;
}

function range(text: string, shown: (value: number) => string): string {
  const [low, high] = text.split("..");
  // A number with a unit is shown as it was written.
  const one = (bound: string) => (/^\d+$/.test(bound) ? shown(Number(bound)) : clean(bound));
  if (low === high) return one(low);
  if (!high) return `≥ ${one(low)}`;
  if (!low) return `≤ ${one(high)}`;
  return `${one(low)} – ${one(high)}`;
}

const KINDS = [
  ["inside", "inside function"], ["outside", "not inside function"], ["size", "size"], ["lifetime", "lifetime"], ["allocated", "time allocated"], ["freed", "time freed"],
  ["live", "live at"], ["thread", "thread"], ["type", "type"], ["heap", "heap"], ["task", "task"], ["module", "module"], ["file", "source file"], ["line", "source line"],
] as const;

/** Those whose value is the name of a row. */
const BY_NAME = ["type", "module", "file", "line"];

function NewFilter({ close }: { close: () => void }) {
  const [kind, setKind] = useState<string>("inside");
  const [mode, setMode] = useState("contains");
  const [text, setText] = useState("");
  const [low, setLow] = useState("");
  const [high, setHigh] = useState("");
  const [when, setWhen] = useState("range");
  const [problem, setProblem] = useState("");
  const form = useRef<HTMLFormElement>(null);
  useLayoutEffect(() => form.current?.querySelector("select")?.focus(), []);
  const file = source.value;

  const made = (): string => {
    if (kind === "inside" || kind === "outside") {
      if (!text) throw new Error("a name is needed");
      return `${kind}:${mode}:${text}`;
    }
    if (kind === "size") return `size:${parsed(low, format.parseBytes)}..${parsed(high, format.parseBytes)}`;
    if (kind === "freed" && when !== "range") return `freed:${when}`;
    if (kind === "lifetime" || kind === "allocated" || kind === "freed") return `${kind}:${parsed(low, parseTime)}..${parsed(high, parseTime)}`;
    if (kind === "live") return `live:${parsed(low, parseTime) || 0}`;
    if (!text) throw new Error(`choose a ${kind}`);
    return `${kind}:${text}`;
  };
  const submit = async (event: Event) => {
    event.preventDefault();
    try {
      const filter = made();
      if (filter.endsWith(":..")) throw new Error("one end at least is needed");
      await check(filter);
      addFilter(filter);
      close();
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
  };
  const field = (label: string, value: string, set: (value: string) => void, placeholder: string) => (
    <input aria-label={label} value={value} placeholder={placeholder} size={10} onInput={(event) => set(event.currentTarget.value)} />
  );
  const named = kind === "inside" || kind === "outside" ? "function" : BY_NAME.includes(kind) ? kind : null;
  const isTime = kind === "lifetime" || kind === "allocated" || kind === "freed";
  return (
    <form class="popup new-filter" ref={form} aria-label="New filter" onSubmit={submit} onKeyDown={(event) => { if (event.key === "Escape") { event.stopPropagation(); close(); } }}>
      <select aria-label="What" value={kind} onChange={(event) => { setKind(event.currentTarget.value); setText(""); setProblem(""); }}>
        {KINDS.filter(([name]) => offered(name)).map(([name, title]) => <option value={name} key={name}>{title}</option>)}
      </select>
      {(kind === "inside" || kind === "outside") && (
        <>
          <select aria-label="How" value={mode} onChange={(event) => setMode(event.currentTarget.value)}>
            <option value="contains">contains</option><option value="equal">is</option><option value="regex">matches</option>
          </select>
          <input aria-label="Function" list="filter-names" value={text} placeholder={mode === "regex" ? "regular expression" : "function"} size={26} onInput={(event) => setText(event.currentTarget.value)} />
        </>
      )}
      {kind === "freed" && (
        <select aria-label="Freed" value={when} onChange={(event) => setWhen(event.currentTarget.value)}>
          <option value="range">between</option><option value="never">never</option><option value="ever">at some time</option>
        </select>
      )}
      {kind === "size" && <>{field("Least", low, setLow, "from 4 KiB")}{field("Most", high, setHigh, "to 1 MiB")}</>}
      {isTime && (kind !== "freed" || when === "range") && <>{field("Least", low, setLow, isTimed() ? "from 10ms" : "from 100")}{field("Most", high, setHigh, isTimed() ? "to 2s" : "to 2000")}</>}
      {kind === "live" && field("Instant", low, setLow, isTimed() ? "at 1.5s" : "at line 100")}
      {kind === "thread" && (
        <select aria-label="Thread" value={text} onChange={(event) => setText(event.currentTarget.value)}>
          <option value="">choose a thread</option>
          {file?.threads?.map((thread) => <option value={String(thread.id)} key={thread.id}>{thread.name ? `${clean(thread.name)} (${thread.id})` : thread.id}</option>)}
        </select>
      )}
      {kind === "heap" && (
        <select aria-label="Heap" value={text} onChange={(event) => setText(event.currentTarget.value)}><option value="">choose a heap</option>{file?.heaps?.map((heap) => <option value={heap} key={heap}>{clean(heap)}</option>)}</select>
      )}
      {kind === "task" && (
        <select aria-label="Task" value={text} onChange={(event) => setText(event.currentTarget.value)}><option value="">choose a task</option>{file?.tasks?.map((task) => <option value={task} key={task}>{clean(task)}</option>)}</select>
      )}
      {BY_NAME.includes(kind) && <input aria-label="Name" list="filter-names" value={text} placeholder={kind} size={26} onInput={(event) => setText(event.currentTarget.value)} />}
      {named && <Names by={named} search={mode === "regex" && named === "function" ? "" : text} />}
      <button type="submit" class="primary">Add</button>
      <button type="button" onClick={close}>Cancel</button>
      {problem && <span class="problem" role="alert">{problem}</span>}
    </form>
  );

  function offered(name: string): boolean {
    if (name === "thread") return (file?.threads?.length ?? 0) > 0;
    if (name === "heap") return (file?.heaps?.length ?? 0) > 0;
    if (name === "task") return (file?.tasks?.length ?? 0) > 0;
    if (name === "type") return has("types");
    return true;
  }
}

/** The names that there are, for a field in which one of them is typed: those with most bytes first. */
function Names({ by, search }: { by: string; search: string }) {
  const answer = useAnswer<Rows>(source.value && question("rows", { source: source.value.id, metric: has("timeline") ? "allocated" : "live", by, search, limit: 30 }), 150);
  return <datalist id="filter-names">{answer.data?.rows.map((row) => <option value={row.key} key={row.key} />)}</datalist>;
}

/** Fails if the server cannot use a filter. Its regular expressions are not those of the browser, so only it knows. */
async function check(filter: string): Promise<void> {
  if (saved) return;
  try {
    await ask("filters", new URLSearchParams({ filter }), AbortSignal.timeout(LONGEST_CHECK));
  } catch (error) {
    // Without an answer the filter is added: the views then say what is wrong.
    if (error instanceof Failure && !error.gone) throw new Error(error.message.replace(/^filter '[^]*?': (?=\S)/, ""));
  }
}

const LONGEST_CHECK = 5000;

function parsed(text: string, parse: (text: string) => number | null): string {
  if (!text.trim()) return "";
  const value = parse(text);
  if (value === null) throw new Error(`'${text}' cannot be read`);
  return String(value);
}
