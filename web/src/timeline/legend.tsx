// What the curves are, and which of them are shown.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Timeline } from "../answers";
import { choice, choose } from "../choice";
import { isTimed } from "../clock";
import { clean } from "../names";
import { has } from "../sources";
import { offeredStacks } from "./bands";
import { curvesOf, type Curve } from "./gauges";
import { hasOverlay, isOverlayShown, OVERLAY, type Overlay } from "./overlay";

/** The line above the curves. */
export function Legend({ timeline, overlay, children }: { timeline: Timeline | null; overlay: Overlay | null; children?: ComponentChildren }) {
  const { measure, filters } = choice.value;
  const curves = curvesOf(timeline);
  const shown = curves.filter((each) => each.shown);
  return (
    <div class="timeline-head">
      <StackChoice />
      <p class="curves">
        <span><i class="of-live" /> live {measure}</span>
        {overlay && <span title="The second file, from its own start"><i class="of-overlay" /> {overlay.title}</span>}
        {shown.map((curve) => <span key={curve.name} title={filters.length ? `${curve.hint}, of the whole process: the scale is that of the filtered blocks` : curve.hint}><i class={`of-gauge of-gauge-${curve.colour + 1}`} /> {clean(curve.title)}{filters.length ? " ↑" : ""}</span>)}
        {!has("states") && <span><i class="of-rate" /> {measure === "bytes" ? "allocated" : "allocations"} per {isTimed() ? "second" : "line"}{timeline?.approximate ? ", roughly: the file is still being read" : ""}</span>}
      </p>
      {(curves.length > 0 || hasOverlay()) && <CurveChoice curves={curves} />}
      {children}
    </div>
  );
}

/** What the timeline is stacked by, and whether its rows are bands or lanes. */
function StackChoice() {
  const { stack, lanes } = choice.value;
  const offered = offeredStacks();
  return (
    <>
      <label>Stack by <select id="stack" value={stack} onChange={(event) => choose({ stack: event.currentTarget.value as typeof stack })}>
        <option value="">nothing</option>
        {offered.map((by) => <option value={by} key={by}>{by}</option>)}
        {stack && !offered.includes(stack) && <option value={stack}>{stack}</option>}
      </select></label>
      {stack && <label title="One small curve for each row, below the timeline"><input type="checkbox" checked={lanes} onChange={() => choose({ lanes: !lanes })} /> lanes</label>}
    </>
  );
}

/** A button, and below it a box for each curve. */
function CurveChoice({ curves }: { curves: Curve[] }) {
  const [open, setOpen] = useState(false);
  const frame = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!open) return;
    const leave = (event: Event) => { if (!frame.current!.contains(event.target as Node)) setOpen(false); };
    document.addEventListener("pointerdown", leave);
    document.addEventListener("focusin", leave);
    return () => {
      document.removeEventListener("pointerdown", leave);
      document.removeEventListener("focusin", leave);
    };
  }, [open]);
  const toggle = (name: string) => choose({ curves: choice.value.curves.includes(name) ? choice.value.curves.filter((each) => each !== name) : [...choice.value.curves, name] });
  return (
    <div class="curve-choice" ref={frame} onKeyDown={(event) => { if (event.key === "Escape" && open) { event.stopPropagation(); setOpen(false); frame.current!.querySelector("button")?.focus(); } }}>
      <button type="button" class="quiet" aria-expanded={open} title="Which curves are shown" onClick={() => setOpen(!open)}>curves…</button>
      {open && (
        <div class="popup" role="group" aria-label="Curves">
          {hasOverlay() && <label title="The second file, from its own start"><input type="checkbox" checked={isOverlayShown()} onChange={() => toggle(OVERLAY)} /> <i class="of-overlay" /> second file</label>}
          {curves.map((curve) => (
            <label key={curve.name} title={curve.hint}><input type="checkbox" checked={curve.shown} onChange={() => toggle(curve.name)} /> <i class={`of-gauge of-gauge-${curve.colour + 1}`} /> {clean(curve.title)}</label>
          ))}
        </div>
      )}
    </div>
  );
}
