// The edge of a pane: a drag or the arrow keys make the pane larger or smaller. Its size is remembered where the browser allows that.
import { signal, type Signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

const STEP = 20;

/** A pane whose size the user chooses. */
export interface Pane {
  /** Null: as large as the page makes it. */
  size: Signal<number | null>;
  least: number;
  most: number;
  resize: (wanted: number) => void;
}

/** `limit` is the most that fits into the window now. */
export function pane(key: string, least: number, most: number, limit: () => number): Pane {
  const remembered = (): number | null => {
    try {
      const value = Number(localStorage.getItem(key));
      return value >= least && value <= most ? value : null;
    } catch {
      return null;
    }
  };
  const size = signal<number | null>(remembered());
  const resize = (wanted: number) => {
    size.value = Math.round(Math.max(least, Math.min(most, limit(), wanted)));
    try {
      localStorage.setItem(key, String(size.value));
    } catch {
      // It holds until the page is closed.
    }
  };
  return { size, least, most, resize };
}

interface SidePane extends Pane {
  /** The property of the style sheet that has its width. */
  property: string;
  /** How wide it is before the user resizes it, about. */
  usual: number;
}

const SIDE: SidePane = { ...pane("highwater-side", 200, 1200, () => innerWidth * 0.45), property: "--side", usual: 400 };
const SOURCE: SidePane = { ...pane("highwater-source", 240, 2000, () => innerWidth * 0.75), property: "--source-side", usual: 600 };

/** Stands before a side panel. */
export function Separator() {
  return <SideSeparator of={SIDE} label="Width of the side panel" />;
}

/** Stands before the source. */
export function SourceSeparator() {
  return <SideSeparator of={SOURCE} label="Width of the source" />;
}

function SideSeparator({ of, label }: { of: SidePane; label: string }) {
  const element = useRef<HTMLDivElement>(null);
  const now = of.size.value;
  const box = () => element.current!.nextElementSibling!.getBoundingClientRect();
  useEffect(() => {
    if (now !== null) document.documentElement.style.setProperty(of.property, `${now}px`);
  }, [now]);
  return (
    <div class="separator" ref={element} role="separator" aria-orientation="vertical" aria-label={label} aria-valuemin={of.least} aria-valuemax={of.most} aria-valuenow={now ?? of.usual} tabIndex={0} title="Drag, or ← and →"
      {...grips((event) => box().right - event.clientX, (key) => {
        const by = { ArrowLeft: STEP, ArrowRight: -STEP }[key];
        return by === undefined ? null : (element.current?.nextElementSibling ? box().width : now ?? of.usual) + by;
      }, of)} />
  );
}

/** Stands below a pane; `shown` is how high that is now. */
export function HeightSeparator({ of, shown, label }: { of: Pane; shown: number; label: string }) {
  const began = useRef({ y: 0, size: 0 });
  return (
    <div class="separator separator-below" role="separator" aria-orientation="horizontal" aria-label={label} aria-valuemin={of.least} aria-valuemax={of.most} aria-valuenow={shown} tabIndex={0} title="Drag, or ↑ and ↓"
      {...grips((event) => began.current.size + event.clientY - began.current.y, (key) => {
        const by = { ArrowUp: -STEP, ArrowDown: STEP }[key];
        return by === undefined ? null : shown + by;
      }, of, (event) => (began.current = { y: event.clientY, size: shown }))} />
  );
}

function grips(dragged: (event: PointerEvent) => number, pressed: (key: string) => number | null, of: Pane, begin?: (event: PointerEvent) => void) {
  type Grip = PointerEvent & { currentTarget: HTMLElement };
  return {
    onPointerDown: (event: Grip) => { event.currentTarget.setPointerCapture(event.pointerId); begin?.(event); event.preventDefault(); },
    onPointerMove: (event: Grip) => { if (event.currentTarget.hasPointerCapture(event.pointerId)) of.resize(dragged(event)); },
    onKeyDown: (event: KeyboardEvent) => {
      const wanted = pressed(event.key);
      if (wanted === null) return;
      of.resize(wanted);
      event.preventDefault();
      event.stopPropagation();
    },
  };
}
