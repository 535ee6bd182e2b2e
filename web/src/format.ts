// Numbers for people. The same forms as the command line prints: 11.5 MiB, 248.4ms, 120,762, 26.6%.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(value: number): string {
  let scaled = Math.abs(value);
  let unit = 0;
  while (scaled >= 1023.95 && unit < UNITS.length - 1) {
    scaled /= 1024;
    unit += 1;
  }
  const sign = value < 0 ? "−" : "";
  return unit === 0 ? `${sign}${Math.round(scaled)} B` : `${sign}${scaled.toFixed(1)} ${UNITS[unit]}`;
}

export function count(value: number): string {
  const text = Math.round(Math.abs(value)).toString().replace(/\B(?=(\d{3})+$)/g, ",");
  return (value < 0 ? "−" : "") + text;
}

/** 1 thread, 2 threads. */
export function plural(value: number, one: string, more = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : more}`;
}

/** 1,234 stays; 12,345,678 becomes 12.3M: for axes and narrow places. */
export function shortCount(value: number): string {
  const size = Math.abs(value);
  if (size < 10_000) return count(value);
  if (size < 999_950) return `${(value / 1e3).toFixed(size < 99_950 ? 1 : 0)}k`;
  if (size < 999_950_000) return `${(value / 1e6).toFixed(1)}M`;
  return `${(value / 1e9).toFixed(1)}G`;
}

export function measured(value: number, measure: "bytes" | "blocks"): string {
  return measure === "bytes" ? bytes(value) : count(value);
}

/** True for metrics that count allocations instead of bytes. */
export function isCount(metric: string): boolean {
  return metric === "temporary" || metric === "allocations";
}

/** A value of a metric. */
export function valued(value: number, metric: string, measure: "bytes" | "blocks" = "bytes"): string {
  return isCount(metric) ? count(value) : measured(value, measure);
}

export function signed(text: string, value: number): string {
  return value > 0 ? `+${text}` : text;
}

export function percent(share: number): string {
  return `${(share * 100).toFixed(1)}%`;
}

/** A time with about `digits` significant digits: 248.4ms, 1.09s, 3m 05s. */
export function duration(ns: number): string {
  const size = Math.abs(ns);
  const sign = ns < 0 ? "−" : "";
  if (size === 0) return "0s";
  if (size < 1e3) return `${sign}${Math.round(size)}ns`;
  if (size < 1e6) return `${sign}${trimmed(size / 1e3, 1)}µs`;
  if (size < 1e9) return `${sign}${trimmed(size / 1e6, 1)}ms`;
  if (size < 60e9) return `${sign}${trimmed(size / 1e9, 2)}s`;
  if (size < 3600e9) return `${sign}${Math.floor(size / 60e9)}m ${pad(Math.floor(size / 1e9) % 60)}s`;
  return `${sign}${Math.floor(size / 3600e9)}h ${pad(Math.floor(size / 60e9) % 60)}m`;
}

/** An instant, as exact as steps of `resolution` need: neighbours on an axis zoomed to nanoseconds differ. */
export function instant(ns: number, resolution: number): string {
  if (ns >= 60e9) {
    const minutes = Math.floor(ns / 60e9);
    const digits = resolution >= 1e9 ? 0 : Math.min(9, Math.ceil(9 - Math.log10(resolution)));
    const seconds = ((ns - minutes * 60e9) / 1e9).toFixed(digits).padStart(digits ? digits + 3 : 2, "0");
    return resolution >= 60e9 ? `${minutes}m` : `${minutes}m ${seconds}s`;
  }
  const [unit, scale, exponent] = ns >= 1e9 ? ["s", 1e9, 9] as const : ns >= 1e6 ? ["ms", 1e6, 6] as const : ns >= 1e3 ? ["µs", 1e3, 3] as const : ["ns", 1, 0] as const;
  if (ns === 0) return "0";
  const digits = Math.max(0, Math.min(exponent, Math.ceil(exponent - Math.log10(Math.max(1, resolution)))));
  return `${(ns / scale).toFixed(digits)}${unit}`;
}

/** A time of the day in milliseconds since 1970: 13:05:12; of another day, with its date. */
export function timeOfDay(ms: number, withSeconds = true): string {
  const then = new Date(ms);
  const clock = `${pad(then.getHours())}:${pad(then.getMinutes())}${withSeconds ? `:${pad(then.getSeconds())}` : ""}`;
  if (then.toDateString() === new Date().toDateString()) return clock;
  return `${then.getFullYear()}-${pad(then.getMonth() + 1)}-${pad(then.getDate())} ${clock}`;
}

/** An instant that many hosts share, in seconds since 1970: 2026-11-17 12:30. Of UTC, which is the same everywhere. */
export function utc(seconds: number, resolution = 3600): string {
  const text = new Date(seconds * 1000).toISOString();
  const day = text.slice(0, 10);
  return resolution >= 86_400 ? day : `${day} ${text.slice(11, resolution < 60 ? 19 : 16)}`;
}

/** How long something took, in whole seconds: 18s, 3m 05s, 2h 10m, 3d 04h. */
export function seconds(ms: number): string {
  const whole = Math.max(0, Math.round(ms / 1000));
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m ${pad(whole % 60)}s`;
  if (whole < 86_400) return `${Math.floor(whole / 3600)}h ${pad(Math.floor(whole / 60) % 60)}m`;
  return `${Math.floor(whole / 86_400)}d ${pad(Math.floor(whole / 3600) % 24)}h`;
}

function trimmed(value: number, digits: number): string {
  return value.toFixed(digits);
}

function pad(value: number): string {
  return value.toString().padStart(2, "0");
}

/** Parses what was typed as a size: 4096, 4k, 4 KiB, 4 KB (4,000 bytes), 1.5MiB. Null if it is none. The units are those of the command line. */
export function parseBytes(text: string): number | null {
  const match = /^\s*([\d.]+)\s*(b|[kmgt](?:i?b)?)?\s*$/i.exec(text);
  if (!match) return null;
  const unit = (match[2] ?? "b").toLowerCase();
  const factor = { b: 0, k: 1, m: 2, g: 3, t: 4 }[unit[0]] ?? 0;
  const value = Number(match[1]) * (/^[kmgt]b$/.test(unit) ? 1000 : 1024) ** factor;
  return Number.isFinite(value) ? Math.round(value) : null;
}

const TIME_UNITS: { [unit: string]: number } = { ns: 1, us: 1e3, "µs": 1e3, "μs": 1e3, ms: 1e6, s: 1e9, m: 60e9, min: 60e9, h: 3600e9, d: 86400e9 };

/** Parses what was typed as a time: 250 (nanoseconds), 1.5ms, 3s, 2m, 1h30m. Null if it is none. The units are those of the command line. */
export function parseDuration(text: string): number | null {
  if (/^\s*[\d.]+\s*$/.test(text)) return rounded(Number(text));
  let sum = 0, last = Infinity, end = 0;
  for (const part of text.matchAll(/\s*([\d.]+)\s*([a-zµμ]+)\s*/giy)) {
    const scale = TIME_UNITS[part[2].toLowerCase()];
    if (!(scale < last)) return null;
    sum += Number(part[1]) * scale;
    last = scale;
    end = part.index + part[0].length;
  }
  return end > 0 && end === text.length ? rounded(sum) : null;
}

function rounded(value: number): number | null {
  return Number.isFinite(value) ? Math.round(value) : null;
}

/** The last two parts of a path: enough to know a file, short enough to fit. */
export function shortPath(path: string): string {
  const parts = path.split("/");
  return parts.length <= 2 ? path : parts.slice(-2).join("/");
}

export function place(file?: string | null, line?: number | null): string {
  if (!file) return "";
  return line ? `${shortPath(file)}:${line}` : shortPath(file);
}
