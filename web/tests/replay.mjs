// The viewer's figures by a naive pass through all events: docs/api.md once more, in a second language, without an index or a shortcut.

/** What a state of a block counts as: itself, or as much as its samples stand for. Spacings are kept in units of 2⁻¹⁶ bytes. */
function countedAs({ size, weight = 1, samples = 0, bytes_per_sample = 0 }) {
  return { bytes: samples > 0 ? (samples * Math.round(bytes_per_sample * 65536)) / 65536 : size * weight, blocks: weight };
}

/** Adds up what states count as. Sums come first, rounding last; `exact` is what was rounded. */
export function sum(states) {
  const exact = states.reduce((all, state) => ({ bytes: all.bytes + state.bytes, blocks: all.blocks + state.blocks }), { bytes: 0, blocks: 0 });
  return { bytes: Math.round(exact.bytes), blocks: exact.blocks, exact: exact.bytes };
}

export const EVERYTHING = { keeps: () => true };

export class Replay {
  /** Each move has the state that leaves, the state that arrives, or both: a block that is resized does both at once. */
  moves = [];
  duration = 0;

  constructor(events) {
    const live = new Map();
    const latest = new Map();
    for (const { event, time_ns: at, thread, address, old_address, ...given } of events) {
      if (at !== undefined) this.duration = at;
      if (event === "allocate" || event === "reallocate") {
        const leaves = event === "reallocate" ? live.get(old_address) : undefined;
        const life = leaves?.life ?? { born: at, died: null };
        // Without a type of its own a reallocation keeps the one that the block had.
        const { size, stack, type = leaves?.type, heap = "malloc" } = given;
        const arrives = { life, size, thread, stack, type, heap, ...countedAs(given) };
        if (leaves) live.delete(old_address);
        live.set(address, arrives);
        latest.set(thread, life);
        this.moves.push({ at, leaves, arrives, how: event });
      } else if (event === "deallocate") {
        const leaves = live.get(address);
        live.delete(address);
        leaves.life.died = at;
        this.moves.push({ at, leaves, how: event, isTemporary: latest.get(leaves.thread) === leaves.life });
      }
    }
  }

  /** The moves from one time to another, both included. */
  within({ from, to }) {
    return this.moves.filter(({ at }) => at >= from && at <= to);
  }

  /** What is live after so many moves. */
  liveAfter(count) {
    const live = new Set();
    for (const { leaves, arrives } of this.moves.slice(0, count)) {
      if (leaves) live.delete(leaves);
      if (arrives) live.add(arrives);
    }
    return [...live];
  }

  liveAt(time) {
    return this.liveAfter(this.moves.filter(({ at }) => at <= time).length);
  }

  /** The first instant in the window with the most bytes of what is kept; the window begins with what was there before it. */
  peak({ from, to }, { keeps, deaths }) {
    const bytes = (state) => (state && keeps(state) ? state.bytes : 0);
    const first = this.moves.filter(({ at }) => at < from).length;
    let now = this.liveAfter(first).reduce((all, state) => all + bytes(state), 0);
    let most = { bytes: now, at: from, count: first };
    for (let index = first; index < this.moves.length && this.moves[index].at <= to; index += 1) {
      const { at, leaves, arrives } = this.moves[index];
      now += bytes(arrives) - bytes(leaves);
      // Lives are known by their times: what happens at one time happens at once.
      const isInstant = !deaths || this.moves[index + 1]?.at !== at;
      if (isInstant && now > most.bytes) most = { bytes: now, at, count: index + 1 };
    }
    return { ...most, bytes: Math.round(most.bytes) };
  }

  /** What is live where all memory together is highest. */
  liveAtPeak(window) {
    return this.liveAfter(this.peak(window, EVERYTHING).count);
  }

  /** The states that a metric counts. `deaths`: the filters ask for deaths, and then a block that was resized counts once, as it was last. */
  counted(metric, window, at, { keeps, deaths }) {
    const moves = this.within(window);
    const left = moves.filter((move) => move.leaves && (!deaths || move.how === "deallocate"));
    switch (metric) {
      case "live": return (at === "peak" ? this.liveAtPeak(window) : this.liveAt(at)).filter(keeps);
      case "peak": return this.liveAtPeak(window).filter(keeps);
      case "leaked": return this.liveAt(this.duration).filter(({ life }) => life.born >= window.from && life.born <= window.to).filter(keeps);
      case "temporary": return left.filter((move) => move.isTemporary).map((move) => move.leaves).filter(keeps);
      case "freed": return left.map((move) => move.leaves).filter(keeps);
      case "allocated": {
        if (!deaths) return moves.flatMap((move) => move.arrives ?? []).filter(keeps);
        const last = [...this.moves.flatMap((move) => (move.how === "deallocate" ? move.leaves : [])), ...this.liveAt(this.duration)];
        return last.filter(({ life }) => life.born >= window.from && life.born <= window.to).filter(keeps);
      }
    }
    throw new Error(metric);
  }
}
