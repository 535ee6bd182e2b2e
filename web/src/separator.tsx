// The edge of a side panel: a drag or the arrow keys make it wider or narrower. The width is remembered where the browser allows that.
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

const KEY = "highwater-side";
const LEAST = 200;
const MOST = 1200;
const STEP = 20;

function remembered(): number | null {
  try {
    const value = Number(localStorage.getItem(KEY));
    return value >= LEAST && value <= MOST ? value : null;
  } catch {
    return null;
  }
}

const width = signal<number | null>(remembered());

function setWidth(wanted: number): void {
  width.value = Math.round(Math.max(LEAST, Math.min(MOST, innerWidth * 0.45, wanted)));
  try {
    localStorage.setItem(KEY, String(width.value));
  } catch {
    // It holds until the page is closed.
  }
}

/** Stands before a side panel. */
export function Separator() {
  const element = useRef<HTMLDivElement>(null);
  const now = width.value;
  const measured = () => element.current?.nextElementSibling?.getBoundingClientRect().width ?? now ?? 400;
  useEffect(() => {
    if (now !== null) document.documentElement.style.setProperty("--side", `${now}px`);
  }, [now]);
  return (
    <div class="separator" ref={element} role="separator" aria-orientation="vertical" aria-label="Width of the side panel" aria-valuemin={LEAST} aria-valuemax={MOST} aria-valuenow={now ?? 400} tabIndex={0} title="Drag, or ← and →"
      onPointerDown={(event) => { event.currentTarget.setPointerCapture(event.pointerId); event.preventDefault(); }}
      onPointerMove={(event) => { if (event.currentTarget.hasPointerCapture(event.pointerId)) setWidth(element.current!.nextElementSibling!.getBoundingClientRect().right - event.clientX); }}
      onKeyDown={(event) => {
        const by = { ArrowLeft: STEP, ArrowRight: -STEP }[event.key];
        if (by === undefined) return;
        setWidth(measured() + by);
        event.preventDefault();
        event.stopPropagation();
      }} />
  );
}
