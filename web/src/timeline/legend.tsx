// What the curves are, and which of them are shown.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Timeline as Course } from "../answers";
import { choice, choose } from "../choice";
import { isTimed } from "../clock";
import { clean } from "../names";
import { has } from "../sources";
import { curvesOf, type Curve } from "./gauges";
import { shownPeak } from "./peak";
import { visibleRange } from "./range";

/** It is where the peak's name is not. */
export function Legend({ course }: { course: Course }) {
  const { measure } = choice.value;
  const { left, right } = visibleRange();
  const peak = shownPeak();
  const peakIsLeft = peak !== null && peak.at_ns < (left + right) / 2;
  const curves = curvesOf(course);
  const shown = curves.filter((each) => each.shown);
  return (
    <div class={`legend-line${peakIsLeft ? " legend-right" : ""}`}>
      <p class="curves">
        <span><i class="of-live" /> live {measure}</span>
        {shown.map((curve) => <span key={curve.name} title={curve.hint}><i class={`of-gauge of-gauge-${curve.colour + 1}`} /> {clean(curve.title)}</span>)}
        {!has("states") && <span><i class="of-rate" /> {measure === "bytes" ? "allocated" : "allocations"} per {isTimed() ? "second" : "line"}{course.approximate ? ", roughly: the file is still being read" : ""}</span>}
      </p>
      {curves.length > 0 && <CurveChoice curves={curves} />}
    </div>
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
          {curves.map((curve) => (
            <label key={curve.name} title={curve.hint}><input type="checkbox" checked={curve.shown} onChange={() => toggle(curve.name)} /> <i class={`of-gauge of-gauge-${curve.colour + 1}`} /> {clean(curve.title)}</label>
          ))}
        </div>
      )}
    </div>
  );
}
