// Light, dark, and a palette for colour-blind eyes. What is drawn on canvas takes its colours from the same style sheet as everything else.
import { computed, effect, signal } from "@preact/signals";
import { choice } from "./choice";
import { isPrinting } from "./printing";
import { GAUGE_COLOURS } from "./timeline/gauges";

const darkMachine = matchMedia("(prefers-color-scheme: dark)");
const machineIsDark = signal(darkMachine.matches);
darkMachine.addEventListener("change", () => (machineIsDark.value = darkMachine.matches));

/** Paper is white: canvases are drawn again in light colours before they are printed. */
export const dark = computed(() => !isPrinting.value && (choice.value.theme ? choice.value.theme === "dark" : machineIsDark.value));
export const safe = computed(() => choice.value.palette === "safe");

export interface Colours {
  ink: string;
  faint: string;
  line: string;
  paper: string;
  live: string;
  /** Of the second file. */
  other: string;
  liveFill: string;
  liveLow: string;
  rate: string;
  rateFill: string;
  gauges: string[];
  grown: [number, number, number];
  shrunk: [number, number, number];
  same: [number, number, number];
  match: string;
  /** Of pages of the heap. */
  several: string;
  severalPale: string;
  free: string;
  allocator: string;
  selected: string;
}

function readColours(): Colours {
  const style = getComputedStyle(document.documentElement);
  const get = (name: string) => style.getPropertyValue(`--${name}`).trim();
  const triple = (name: string) => get(name).split(" ").map(Number) as [number, number, number];
  return {
    ink: get("ink"), faint: get("faint"), line: get("line"), paper: get("paper"), live: get("live"), other: get("b"), liveFill: get("live-fill"), liveLow: get("live-low"), rate: get("rate"),
    rateFill: get("rate-fill"), gauges: Array.from({ length: GAUGE_COLOURS }, (_, index) => get(`gauge-${index + 1}`)), grown: triple("grown"), shrunk: triple("shrunk"), same: triple("same"),
    match: get("match"), several: get("several"), severalPale: get("several-pale"), free: get("free"), allocator: get("allocator"), selected: get("selected"),
  };
}

export const colours = signal<Colours>(readColours());

export function wearTheme(): void {
  effect(() => {
    document.documentElement.dataset.theme = dark.value ? "dark" : "light";
    document.documentElement.dataset.palette = safe.value ? "safe" : "usual";
    colours.value = readColours();
  });
}

/** Hues of packages: of one kin in the usual palette; those of Okabe and Ito, which colour-blind eyes can tell apart, in the safe one. */
const HUES = [12, 28, 42, 58, 90, 140, 175, 200, 225, 265, 310, 340];
const SAFE: [number, number, number][] = [[230, 159, 0], [86, 180, 233], [0, 158, 115], [240, 228, 66], [0, 114, 178], [213, 94, 0], [204, 121, 167]];

/** A strong colour and a pale one for the first of a list; all later ones share one. */
export function rankColour(rank: number): [string, string] {
  const [strength, paleness] = dark.value ? [58, 26] : [46, 82];
  if (safe.value && rank >= 0 && rank < SAFE.length) {
    const colour = SAFE[rank].join(" ");
    return [`rgb(${colour})`, `rgb(${colour} / .3)`];
  }
  if (safe.value || rank < 0 || rank >= RANK_HUES.length) return [`hsl(220 8% ${strength}%)`, `hsl(220 8% ${paleness}%)`];
  return [`hsl(${RANK_HUES[rank]} 62% ${strength}%)`, `hsl(${RANK_HUES[rank]} 50% ${paleness}%)`];
}

/** Neighbours in a list are far apart. */
const RANK_HUES = [212, 340, 145, 275, 52, 180, 310, 95, 240, 12, 165, 290];

const known = new Map<string, string>();

/** The colour of a function: its package gives the hue, its name a shade, so that neighbours differ. */
export function functionColour(name: string, file: string): string {
  const key = `${dark.value}${safe.value}${packageOf(name, file)}\0${name}`;
  let colour = known.get(key);
  if (colour === undefined) {
    if (known.size > 20_000) known.clear();
    colour = makeColour(hash(packageOf(name, file)), hash(name) % 5);
    known.set(key, colour);
  }
  return colour;
}

function makeColour(kin: number, shade: number): string {
  if (safe.value) {
    const [red, green, blue] = SAFE[kin % SAFE.length];
    const paper = dark.value ? 24 : 255;
    // Names are written upon it: in the dark, the brighter a colour is, the less there may be of it.
    const brightness = (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255;
    const part = dark.value ? (0.52 + shade * 0.035) * (1 - 0.6 * brightness) : 0.42 + shade * 0.045;
    const mixed = [red, green, blue].map((each) => Math.round(paper + (each - paper) * part));
    return `rgb(${mixed.join(",")})`;
  }
  const hue = HUES[kin % HUES.length];
  const brightHue = hue >= 40 && hue <= 180;
  return dark.value ? `hsl(${hue} 34% ${(brightHue ? 22 : 27) + shade * 2}%)` : `hsl(${hue} 66% ${76 + shade * 2.2}%)`;
}

/** What stands before the first `::` or `.` of a name; for those without, the folder of the file. */
function packageOf(name: string, file: string): string {
  const plain = name.replace(/^[<&(\s]+/, "");
  const end = plain.search(/::|\.|\(|</);
  if (end > 0 && plain.startsWith("::", end)) return plain.slice(0, end);
  if (end > 0 && plain[end] === ".") return plain.slice(0, end);
  const folder = file.lastIndexOf("/");
  return folder > 0 ? file.slice(0, folder) : file || "?";
}

function hash(text: string): number {
  let value = 2166136261;
  for (let index = 0; index < text.length; index += 1) value = Math.imul(value ^ text.charCodeAt(index), 16777619);
  return (value ^ (value >>> 15)) >>> 0;
}

/** From blue (shrank) over grey to red (grew): `part` from −1 to 1. */
export function changeColour(part: number): string {
  const { grown, shrunk, same } = colours.value;
  const end = part > 0 ? grown : shrunk;
  const weight = Math.sqrt(Math.min(1, Math.abs(part)));
  const mixed = same.map((each, index) => Math.round(each + (end[index] - each) * weight));
  return `rgb(${mixed.join(",")})`;
}
