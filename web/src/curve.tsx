// Small pictures of numbers: no axes, only their shape.
/** As wide as its place if it is stretched. */
export function Curve({ values, width = 120, height = 20, stretched = false, label }: { values: number[]; width?: number; height?: number; stretched?: boolean; label: string }) {
  const highest = Math.max(1, ...values);
  const x = (index: number) => (values.length < 2 ? 0 : (index / (values.length - 1)) * (width - 2) + 1);
  const y = (value: number) => height - 1 - (value / highest) * (height - 3);
  const points = values.map((value, index) => `${x(index).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
  return (
    <svg class="curve" width={stretched ? "100%" : width} height={height} viewBox={`0 0 ${width} ${height}`} preserveAspectRatio={stretched ? "none" : undefined} role="img" aria-label={label}>
      <polygon points={`1,${height - 1} ${points} ${width - 1},${height - 1}`} />
      <polyline points={points} />
    </svg>
  );
}

/** One bar for each of some amounts. */
export function Bars({ values, width = 104, height = 18, label }: { values: number[]; width?: number; height?: number; label: string }) {
  const highest = Math.max(1, ...values);
  const step = width / Math.max(1, values.length);
  const wide = Math.max(1, Math.min(14, step - 1));
  const bar = (value: number, index: number) => {
    const high = value > 0 ? Math.max(2, (value / highest) * height) : 1;
    return `M${(index * step).toFixed(1)},${height}v${(-high).toFixed(1)}h${wide.toFixed(1)}v${high.toFixed(1)}z`;
  };
  return <svg class="small-bars" width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="img" aria-label={label}><path d={values.map(bar).join("")} /></svg>;
}
