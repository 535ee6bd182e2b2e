// Whether the page is being printed: paper does not scroll, and is white.
import { signal } from "@preact/signals";

export const isPrinting = signal(false);
addEventListener("beforeprint", () => (isPrinting.value = true));
addEventListener("afterprint", () => (isPrinting.value = false));
