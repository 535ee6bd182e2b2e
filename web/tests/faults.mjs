// What is wrong with a page for those who see little, or use no pointer.
/** Runs in the page. Text that contrasts too little with what is behind it, and things that can be used and have no name. */
export function faults() {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const brush = canvas.getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const coloured = (text) => {
    if (!known.has(text)) {
      brush.clearRect(0, 0, 1, 1);
      brush.fillStyle = text;
      brush.fillRect(0, 0, 1, 1);
      const [red, green, blue, alpha] = brush.getImageData(0, 0, 1, 1).data;
      known.set(text, [red, green, blue, alpha / 255]);
    }
    return known.get(text);
  };
  const over = (upper, lower) => lower.map((part, index) => upper[index] * upper[3] + part * (1 - upper[3]));
  const luminance = (colour) => colour.slice(0, 3).map((part) => part / 255).map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)).reduce((sum, part, index) => sum + part * [0.2126, 0.7152, 0.0722][index], 0);
  const contrast = (one, other) => { const [high, low] = [luminance(one), luminance(other)].sort((a, b) => b - a); return (high + 0.05) / (low + 0.05); };
  const behind = (element) => {
    const layers = [];
    for (let each = element; each; each = each.parentElement) layers.push(coloured(getComputedStyle(each).backgroundColor));
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
  };
  const visible = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && element.getClientRects().length > 0;
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.textContent.trim();
    // Those of a control that cannot be used are allowed to be faint.
    if (!text || !visible(element) || element.closest("script, style, :disabled")) continue;
    const paper = behind(element);
    const ratio = contrast(over(coloured(getComputedStyle(element).color), paper), paper);
    if (ratio < 4.5) found.push(`'${text.slice(0, 30)}' of .${element.className || element.tagName} has a contrast of ${ratio.toFixed(2)}`);
  }
  const ink = coloured(getComputedStyle(document.body).color);
  for (const graph of document.querySelectorAll(".flame-canvas, .treemap canvas")) {
    const { data } = graph.getContext("2d").getImageData(0, 0, graph.width, graph.height);
    const pixels = new Map();
    for (let at = 0; at < data.length; at += 4) if (data[at + 3] === 255) { const key = (data[at] << 16) | (data[at + 1] << 8) | data[at + 2]; pixels.set(key, (pixels.get(key) ?? 0) + 1); }
    // Areas that names are written upon, not the pixels of letters and lines.
    for (const [key, many] of pixels) {
      const area = [key >> 16, (key >> 8) & 255, key & 255];
      if (many > 1500 && contrast(ink, area) < 4.5) found.push(`an area of rgb(${area}) has a contrast of ${contrast(ink, area).toFixed(2)} to names`);
    }
  }
  for (const element of document.querySelectorAll("button, a[href], input, select, canvas, [tabindex], [role=img], [role=slider], [role=grid]")) {
    if (!visible(element) || element.closest("[aria-hidden=true]")) continue;
    const label = element.getAttribute("aria-label") ?? [...(element.labels ?? [])].map((each) => each.textContent).join(" ");
    const name = (label || element.textContent || "").replace(/[^\p{L}\p{N}?+⇄×]/gu, "");
    if (!name || element.textContent.trim() === "×" && !label) found.push(`${element.outerHTML.slice(0, 90)} has no name`);
  }
  return [...new Set(found)];
}
