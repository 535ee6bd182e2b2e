// The source of a frame, beside the view: each line with the memory that it allocates.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Frame, LineFigures, SourceCode, SourceLine } from "./answers";
import { useAnswer, type Question } from "./answer";
import { post } from "./api";
import { choice, choose } from "./choice";
import { comparedSides, sampledSide, sideTitles } from "./compared";
import * as estimate from "./estimate";
import * as format from "./format";
import { COPIED_FOR, copyText } from "./link";
import { clean } from "./names";
import { about, naming, question } from "./question";
import { hasSavedText, saved } from "./saved";
import { SourceSeparator } from "./separator";
import { has, metric as shownMetric, source } from "./sources";
import { StatusLine } from "./status";

type Place = Pick<Frame, "file" | "line">;

/** Whether there may be source for a frame: of a saved page, only what it holds. */
export function hasSource(frame?: Place | null): boolean {
  return Boolean(frame?.file) && (saved === null || hasSavedText(frame!.file!));
}

/** Opens the source of a frame beside the view. */
export function openSource(frame: Place): void {
  if (frame.file) choose({ source_file: `${frame.file}:${frame.line ?? 0}` });
}

/** The file and the line of a text "path:line"; line 0 where it has none. */
export function placeOf(text: string): { file: string; line: number } {
  const match = /^(.*):(\d{1,9})$/s.exec(text);
  return match ? { file: match[1], line: Number(match[2]) } : { file: text, line: 0 };
}

/** A frame's place, which opens its source. `own`: the key `s` opens this one. */
export function SourceLink({ frame, own }: { frame: Place; own?: boolean }) {
  const place = clean(format.place(frame.file, frame.line));
  return <button type="button" class="source-link" data-own={own || undefined} aria-label={`Source: ${place}`} title={`${clean(frame.file ?? "")}\nShow the source${own ? " (s)" : ""}`} onClick={() => openSource(frame)}>{place}</button>;
}

const LINE_HEIGHT = 18;

/** Views whose metric is chosen above them; elsewhere the panel shows what is live. */
const WITH_METRIC = ["flame", "table", "types"];

function questionOf(file: string): Question | null {
  const { view, from, to, filters } = choice.value;
  const sides = view === "compare" && !saved ? comparedSides() : null;
  if (sides && source.value) return question("source", { source: source.value.id, file, ...sides, from, to, filter: filters, ...naming() });
  return about("source", { file, metric: WITH_METRIC.includes(view) ? shownMetric.value : "live" });
}

/** What a line has, as chosen: its own, or with all that it calls. */
function valueOf(line: SourceLine, isSelf: boolean): number {
  if (line.change) return isSelf ? line.change.self : line.change.total;
  return isSelf ? line.figures.self : line.figures.total;
}

function blocksOf(line: { figures: LineFigures; change?: SourceLine["change"] }, isSelf: boolean): number {
  const blocks = (figures: LineFigures) => (isSelf ? figures.blocks : figures.total_blocks);
  return blocks(line.figures) - (line.change ? blocks(line.change.before) : 0);
}

export function SourcePanel() {
  const { source_file, source_self: isSelf, view } = choice.value;
  const { file, line } = placeOf(source_file);
  const answer = useAnswer<SourceCode>(file ? questionOf(file) : null, 80);
  const data = answer.data;
  const metric = WITH_METRIC.includes(view) ? shownMetric.value : "live";
  const texts = useMemo(() => data?.text?.replace(/\r?\n$/, "").split(/\r?\n/) ?? null, [data]);
  const byNumber = useMemo(() => new Map((data?.lines ?? []).map((each) => [each.line, each])), [data]);
  const withMemory = useMemo(() => (data?.lines ?? []).filter((each) => valueOf(each, isSelf) !== 0 || blocksOf(each, isSelf) !== 0).map((each) => each.line).filter((number) => number > 0), [data, isSelf]);
  const most = useMemo(() => Math.max(1, ...(data?.lines ?? []).map((each) => Math.abs(valueOf(each, isSelf)))), [data, isSelf]);
  // Without the text, the lines that have memory are all there is to show.
  const numbers = texts ? null : (data?.lines ?? []).map((each) => each.line);
  const count = texts ? texts.length : numbers!.length;
  const numberAt = (index: number) => (numbers ? numbers[index] : index + 1);
  const chosen = numbers ? numbers.indexOf(line) : line - 1;

  const body = useRef<HTMLDivElement>(null);
  const [scrolled, setScrolled] = useState({ top: 0, height: 0 });
  useLayoutEffect(() => {
    if (!body.current) return;
    const observer = new ResizeObserver(([entry]) => setScrolled((now) => ({ ...now, height: entry.contentRect.height })));
    observer.observe(body.current);
    return () => observer.disconnect();
  }, [data === null]);
  useEffect(() => {
    const element = body.current;
    if (!element || chosen < 0 || !data || data.file !== file) return;
    const top = chosen * LINE_HEIGHT;
    if (top < element.scrollTop + LINE_HEIGHT || top > element.scrollTop + element.clientHeight - 2 * LINE_HEIGHT) element.scrollTop = top - element.clientHeight / 3;
  }, [data, source_file]);

  const [copied, setCopied] = useState("");
  const [opened, setOpened] = useState("");
  const copy = async () => {
    const text = `${data?.found ?? file}${line ? `:${line}` : ""}`;
    if (!(await copyText(text, "The place:"))) return;
    setCopied(text);
    window.setTimeout(() => setCopied(""), COPIED_FOR);
  };
  const openInEditor = () => {
    post("source/open", new URLSearchParams({ source: String(source.value?.id ?? 0), file, line: String(Math.max(1, line)) }))
      .then(() => setOpened(""), (error: unknown) => setOpened(error instanceof Error ? error.message : String(error)));
  };
  const next = withMemory.find((number) => number > line);
  const previous = withMemory.findLast((number) => number < line);
  const go = (number: number | undefined) => number !== undefined && choose({ source_file: `${file}:${number}` }, false);
  const close = () => choose({ source_file: "" });

  if (!file || view === "live" || view === "image") return null;
  const first = Math.max(0, Math.floor(scrolled.top / LINE_HEIGHT) - 4);
  const last = Math.min(count, first + Math.ceil(scrolled.height / LINE_HEIGHT) + 10);
  const shownLines = Array.from({ length: Math.max(0, last - first) }, (_, index) => first + index);
  const unit = (value: number) => (data?.change ? estimate.signedBytes(value, sampledSide()) : estimate.valued(value, metric));
  return (
    <><SourceSeparator /><section class={`source-panel${answer.isOld ? " old" : ""}`} aria-label="Source code" onKeyDown={(event) => { if (event.key === "Escape") { close(); event.preventDefault(); event.stopPropagation(); } }}>
      <h2 title={clean(data?.found ?? file)}><span class="source-name">{clean(format.shortPath(file))}{line > 0 && `:${line}`}</span> <button type="button" class="quiet" aria-label="Close the source" title="Esc" onClick={close}>×</button></h2>
      <div class="source-tools">
        <span class="switch" role="group" aria-label="Memory of a line">
          <button type="button" aria-pressed={isSelf} title="What the line allocates itself, as the table by line has it" onClick={() => choose({ source_self: true })}>self</button>
          <button type="button" aria-pressed={!isSelf} title="With all that the line calls; each stack counts once" onClick={() => choose({ source_self: false })}>total</button>
        </span>
        <button type="button" disabled={previous === undefined} title="The previous line with memory" aria-label="Previous line with memory" onClick={() => go(previous)}>▲</button>
        <button type="button" disabled={next === undefined} title="The next line with memory" aria-label="Next line with memory" onClick={() => go(next)}>▼</button>
        <button type="button" onClick={() => void copy()}><span role="status">{copied ? "Copied" : "Copy path:line"}</span></button>
        {!saved && <button type="button" title={data?.has_editor ? undefined : "Needs an editor: start the viewer with --editor 'code -g {file}:{line}', or set HIGHWATER_EDITOR, VISUAL or EDITOR"} onClick={openInEditor}>Open in editor</button>}
      </div>
      {data && (
        <p class="source-sum">{data.change ? sideTitles().join(" → ") : format.isCount(metric) ? "allocations" : "memory"}: <b data-source-self={data.figures.self}>{unit(data.change ? data.change.self : data.figures.self)}</b> self, <b data-source-total={data.figures.total}>{unit(data.change ? data.change.total : data.figures.total)}</b> total
          {data.found && data.found !== file && <small title={clean(data.found)}> · found at {clean(data.found)}</small>}</p>
      )}
      {opened && <p class="status-line problem" role="status">{clean(opened)}</p>}
      {data?.problem && <p class="status-line problem" role="status">{clean(data.problem.what)}</p>}
      <StatusLine answer={answer} />
      {data && (
        <div class="source-lines" ref={body} tabIndex={0} role="region" aria-label={`Lines of ${clean(format.shortPath(file))}`} onScroll={(event) => setScrolled({ top: event.currentTarget.scrollTop, height: event.currentTarget.clientHeight })}>
          <div style={{ height: `${count * LINE_HEIGHT}px`, position: "relative" }}>
            <div class="source-shown" style={{ transform: `translateY(${first * LINE_HEIGHT}px)` }}>
              {shownLines.map((index) => {
                const number = numberAt(index);
                const each = byNumber.get(number);
                const value = each ? valueOf(each, isSelf) : 0;
                const blocks = each ? blocksOf(each, isSelf) : 0;
                return (
                  <div key={index} class={`source-line${number === line ? " chosen" : ""}`} data-line={number} data-value={each ? value : undefined} data-blocks={each ? blocks : undefined} aria-current={number === line ? "location" : undefined}
                    onClick={() => { if (!getSelection()?.toString()) choose({ source_file: `${file}:${number}` }, false); }}>
                    <span class={`numeric${value > 0 && data.change ? " grown" : value < 0 ? " shrunk" : ""}`}>{value !== 0 ? unit(value) : ""}</span>
                    <span class="numeric blocks">{blocks !== 0 && has("counts") && !format.isCount(metric) ? (data.change ? estimate.signedCount(blocks, sampledSide()) : estimate.count(blocks)) : ""}</span>
                    <span class="source-bar">{value !== 0 && <i style={{ width: `${(Math.abs(value) / most) * 100}%` }} />}</span>
                    <span class="numeric line-number">{number || "?"}</span>
                    <code>{texts ? lineText(texts[index]) : number ? "" : "line not known"}</code>
                  </div>
                );
              })}
            </div>
          </div>
        </div>
      )}
    </section></>
  );
}

/** The most letters of a line that are shown: generated files have lines of a megabyte. */
const LONGEST = 2000;

function lineText(text: string): string {
  const spaced = text.slice(0, LONGEST).replaceAll("\t", "    ");
  return clean(text.length > LONGEST ? `${spaced} …` : spaced);
}
