// Draws the visible part of a tree. The work is bounded by the pixels: nodes narrower than half of one are passed over together.
import type { Colours } from "../theme";
import { firstBehind, type Layout } from "./layout";

export const ROW = 18;
/** Rectangles narrower than this are not drawn one by one. */
export const NARROW = 0.5;
const FONT = "11px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace";
const LETTER = 6.62;
/** The least width of a rectangle that has its name in it. */
export const LEAST_NAMED = 26;

export interface Picture {
  layout: Layout;
  label: (node: number) => string;
  colour: (node: number) => string;
  /** Whether a node is found by the search; null: nothing is searched. */
  matches: ((node: number) => boolean) | null;
  /** The part of the whole that fills the width. */
  left: number;
  right: number;
  /** Where row `r` begins: `top + r × ROW`, or `top − r × ROW` if it grows upwards. */
  top: number;
  upwards: boolean;
  /** Rows that are not drawn, because another picture has them. */
  skip: number;
  hovered: number;
  selected: number;
  /** The node that fills the width: what is above it is faded. */
  zoomed: number;
}

/** How much of its colour a frame keeps that is not what is looked at. */
export const FADED = 0.35;
/** Names stay readable. */
const FADED_TEXT = 0.6;

/** The width of a rectangle without the gap to the next one. */
export function shownWidth(wide: number): number {
  return Math.max(NARROW, wide - (wide > 3 ? 1 : 0.25));
}

/** What of a name fits into a rectangle. */
export function fittingName(name: string, wide: number): string {
  const letters = Math.floor((wide - 7) / LETTER);
  return name.length > letters ? `${name.slice(0, Math.max(1, letters - 1))}…` : name;
}

export function draw(context: CanvasRenderingContext2D, picture: Picture, width: number, height: number, theme: Colours): number {
  const { layout, left, right, matches } = picture;
  const scale = width / Math.max(1e-9, right - left);
  context.font = FONT;
  context.textBaseline = "middle";
  let drawn = 0;
  for (let row = picture.skip; row < layout.rows; row += 1) {
    const y = picture.upwards ? picture.top - row * ROW : picture.top + row * ROW;
    if (y + ROW < 0 || y > height) {
      if (picture.upwards ? y + ROW < 0 : y > height) break;
      continue;
    }
    const end = layout.rowStart[row + 1];
    let place = firstBehind(layout, row, left);
    while (place < end) {
      const node = layout.rowNodes[place];
      const start = layout.start[node];
      if (start >= right) break;
      const x = Math.max(0, (start - left) * scale);
      const until = Math.min(width, (start + layout.width[node] - left) * scale);
      const wide = until - x;
      if (wide < NARROW) {
        context.fillStyle = theme.line;
        context.fillRect(x, y + 1, 1, ROW - 2);
        place = Math.max(place + 1, firstBehind(layout, row, left + (x + 1) / scale, place));
        continue;
      }
      const found = matches?.(node) ?? false;
      // Only its ancestors are wider than the node that fills the width, or as wide and above it.
      const isFaded = (matches !== null && !found) || (node !== picture.zoomed && row < layout.depth[picture.zoomed]);
      context.globalAlpha = isFaded ? FADED : 1;
      context.fillStyle = found ? theme.match : picture.colour(node);
      context.fillRect(x, y, shownWidth(wide), ROW - 1);
      context.globalAlpha = 1;
      if (node === picture.hovered || node === picture.selected) {
        context.strokeStyle = node === picture.selected ? theme.selected : theme.ink;
        context.lineWidth = node === picture.selected ? 2 : 1;
        context.strokeRect(x + 1, y + 1, Math.max(1, wide - 3), ROW - 3);
      }
      if (wide > LEAST_NAMED) {
        context.fillStyle = theme.ink;
        context.globalAlpha = isFaded ? FADED_TEXT : 1;
        context.fillText(fittingName(picture.label(node), wide), x + 3, y + ROW / 2, wide - 6);
        context.globalAlpha = 1;
      }
      drawn += 1;
      place += 1;
    }
  }
  return drawn;
}
