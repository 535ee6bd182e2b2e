// A small curve: no axes, only its shape.
export function Curve({ values, width = 120, height = 20, label }: { values: number[]; width?: number; height?: number; label: string }) {
  const highest = Math.max(1, ...values);
  const x = (index: number) => (values.length < 2 ? 0 : (index / (values.length - 1)) * (width - 2) + 1);
  const y = (value: number) => height - 1 - (value / highest) * (height - 3);
  const points = values.map((value, index) => `${x(index).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
  return (
    <svg class="curve" width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="img" aria-label={label}>
      <polygon points={`1,${height - 1} ${points} ${width - 1},${height - 1}`} />
      <polyline points={points} />
    </svg>
  );
}
