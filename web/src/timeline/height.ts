// How high the timeline is: a part of the window, or what the user dragged it to.
import { computed, signal } from "@preact/signals";
import { pane } from "../separator";

export const HEIGHT = pane("highwater-timeline", 96, 900, () => innerHeight * 0.6);

const windowHeight = signal(innerHeight);
addEventListener("resize", () => (windowHeight.value = innerHeight));

/** The height of the plot of live memory, in pixels. */
export const plotHeight = computed(() => Math.min(HEIGHT.size.value ?? Math.max(138, Math.min(360, Math.round(windowHeight.value * 0.19))), Math.max(96, Math.round(windowHeight.value * 0.6))));
