// Numbers and times as people read them. All times are nanoseconds since the trace began.

const UNITS = [
  ["s", 1e9],
  ["ms", 1e6],
  ["µs", 1e3],
  ["ns", 1],
];

// A duration with three significant digits in the unit that suits it: 1.25 ms, 640 ns.
function formatDuration(ns) {
  if (!Number.isFinite(ns)) return "–";
  if (ns === 0) return "0 ns";
  const magnitude = Math.abs(ns);
  const [unit, scale] = UNITS.find(([, size]) => magnitude >= size) ?? UNITS[3];
  const value = ns / scale;
  const digits = scale === 1 ? 0 : Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  return `${value.toFixed(digits)} ${unit}`;
}

// A point in time, exact to the nanosecond, grouped by thousands: 1.234 567 890 s.
function formatInstant(ns) {
  const rounded = Math.round(ns);
  const seconds = Math.floor(rounded / 1e9);
  const rest = String(rounded - seconds * 1e9).padStart(9, "0");
  return `${seconds}.${rest.slice(0, 3)} ${rest.slice(3, 6)} ${rest.slice(6)} s`;
}

function formatCount(count) {
  return count.toLocaleString("en-US").replaceAll(",", " ");
}

// The step between axis labels: 1, 2 or 5 times a power of ten, at least minPx pixels wide.
function tickStep(nsPerPx, minPx) {
  const raw = Math.max(1, nsPerPx * minPx);
  const power = 10 ** Math.floor(Math.log10(raw));
  const factor = [1, 2, 5, 10].find((f) => f * power >= raw * (1 - 1e-9));
  return factor * power;
}

// Labels of one axis share the unit of the step, and leave out what they have in common: far into
// a long trace, the axis names a base once and the labels count from it.
function tickFormat(step, fromNs) {
  const [unit, scale] = UNITS.find(([, size]) => step >= size) ?? UNITS[3];
  const above = UNITS[Math.max(0, UNITS.findIndex(([u]) => u === unit) - 1)][1];
  const base = unit === "s" ? 0 : Math.floor(fromNs / above) * above;
  const label = (ns) => `${base > 0 ? "+" : ""}${Math.round((ns - base) / scale)} ${unit}`;
  return { base, label };
}
