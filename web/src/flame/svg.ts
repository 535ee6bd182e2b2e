// What a flame graph shows, as an SVG: the same rectangles and texts as on the canvas, with whole names as titles.
import { clean } from "../names";
import type { Colours } from "../theme";
import { FADED, fittingName, LEAST_NAMED, NARROW, ROW, shownWidth, type Picture } from "./draw";
import { firstBehind } from "./layout";


/** A recording's text, which may contain anything, as text of an SVG. */
export function escaped(text: string): string {
  return clean(text).replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);
}

export function svgOf(pictures: Picture[], width: number, height: number, theme: Colours, title: string): string {
  const parts: string[] = [];
  for (const picture of pictures) {
    const { layout, left, right, matches } = picture;
    const scale = width / Math.max(1e-9, right - left);
    for (let row = picture.skip; row < layout.rows; row += 1) {
      const y = picture.upwards ? picture.top - row * ROW : picture.top + row * ROW;
      for (let place = firstBehind(layout, row, left); place < layout.rowStart[row + 1]; place += 1) {
        const node = layout.rowNodes[place];
        if (layout.start[node] >= right) break;
        const x = Math.max(0, (layout.start[node] - left) * scale);
        const wide = Math.min(width, (layout.start[node] + layout.width[node] - left) * scale) - x;
        if (wide < NARROW) continue;
        const isFound = matches?.(node) ?? false;
        const isFaded = (matches !== null && !isFound) || row < layout.depth[picture.zoomed];
        const label = picture.label(node);
        const text = fittingName(label, wide);
        parts.push(`<g><title>${escaped(label)}</title><rect x="${x.toFixed(2)}" y="${y}" width="${shownWidth(wide).toFixed(2)}" height="${ROW - 1}" fill="${escaped(isFound ? theme.match : picture.colour(node))}"${isFaded ? ` fill-opacity="${FADED}"` : ""}/>${
          wide > LEAST_NAMED ? `<text x="${(x + 3).toFixed(2)}" y="${y + ROW - 5}">${escaped(text)}</text>` : ""}</g>`);
      }
    }
  }
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="11"><title>${escaped(title)}</title><rect width="100%" height="100%" fill="${escaped(theme.paper)}"/><g fill="${escaped(theme.ink)}">${parts.join("")}</g></svg>\n`;
}
