// A diagram of the page as an SVG file: the style sheet's part of its looks becomes attributes, and its legend stands below.
import { escaped } from "./flame/svg";

const COPIED = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size", "font-family"];
const LINE = 16;

/** `legend`: colours and names. */
export function svgOfElement(drawn: SVGSVGElement, title: string, legend: [string, string][]): string {
  const copy = drawn.cloneNode(true) as SVGSVGElement;
  const originals = drawn.querySelectorAll("*");
  copy.querySelectorAll("*").forEach((element, index) => {
    const style = getComputedStyle(originals[index]);
    for (const name of COPIED) element.setAttribute(name, style.getPropertyValue(name));
    element.removeAttribute("style");
    element.removeAttribute("class");
  });
  const { width, height } = drawn.getBoundingClientRect();
  const page = getComputedStyle(document.documentElement);
  const whole = height + 8 + legend.length * LINE;
  const rows = legend.map(([colour, name], index) => {
    const y = height + 4 + index * LINE;
    return `<rect x="12" y="${y}" width="10" height="10" fill="${escaped(colour)}"/><text x="28" y="${y + 9}" font-size="11" fill="${escaped(page.getPropertyValue("--ink").trim())}">${escaped(name)}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${whole}" viewBox="0 0 ${width} ${whole}" font-family="system-ui, sans-serif"><title>${escaped(title)}</title><rect width="100%" height="100%" fill="${escaped(page.getPropertyValue("--paper").trim())}"/>${[...copy.children].map((child) => new XMLSerializer().serializeToString(child)).join("")}${rows.join("")}</svg>\n`;
}
