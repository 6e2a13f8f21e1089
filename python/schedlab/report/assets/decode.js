// The timeline's data: typed arrays, packed by report/pack.py, deflated and base64-encoded.
//
// One blob holds all columns of all tracks, each at an offset that its track names. Times are
// 64-bit: a span's start is stored as the gap since the end of the span before it. Sums stay exact
// in a double up to 104 days.

async function inflate(element) {
  const packed = atob(element.textContent.trim());
  const bytes = new Uint8Array(packed.length);
  for (let i = 0; i < packed.length; i += 1) bytes[i] = packed.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

// A column of signed 64-bit integers as doubles.
function readI64(buffer, offset, count) {
  const words = new Uint32Array(buffer, offset, count * 2);
  const out = new Float64Array(count);
  for (let i = 0; i < count; i += 1) {
    out[i] = words[2 * i] + (words[2 * i + 1] | 0) * 4294967296;
  }
  return out;
}

// Spans of one lane in time order, never overlapping. total[i] is the time covered by the spans
// before i, so that the coverage of any interval is one subtraction.
class SpanTrack {
  constructor(meta, buffer) {
    this.cpu = meta.cpu;
    this.kind = meta.kind;
    this.count = meta.count;
    const gap = readI64(buffer, meta.columns.gap_ns, meta.count);
    const duration = readI64(buffer, meta.columns.duration_ns, meta.count);
    this.start = new Float64Array(meta.count);
    this.end = new Float64Array(meta.count);
    this.total = new Float64Array(meta.count + 1);
    let now = 0;
    for (let i = 0; i < meta.count; i += 1) {
      this.start[i] = now + gap[i];
      this.end[i] = now = this.start[i] + duration[i];
      this.total[i + 1] = this.total[i] + duration[i];
    }
    // What the span shows: a task's index, or an idle state's.
    this.value = new Uint32Array(buffer, meta.columns.value, meta.count);
    if (meta.kind === "task") {
      this.latency = readI64(buffer, meta.columns.latency_ns, meta.count);
      this.state = new Uint8Array(buffer, meta.columns.state, meta.count);
    } else {
      this.miss = new Int8Array(buffer, meta.columns.miss, meta.count);
    }
  }

  // The first span that ends after time, or count.
  firstEndingAfter(time) {
    return upperBound(this.end, time, 0, this.count);
  }

  // The span that covers time, or -1.
  at(time) {
    const i = this.firstEndingAfter(time);
    return i < this.count && this.start[i] <= time ? i : -1;
  }

  // Time covered within [from, to).
  covered(from, to) {
    const first = this.firstEndingAfter(from);
    const last = upperBound(this.start, to, first, this.count);
    if (last <= first) return 0;
    const inside = this.total[last] - this.total[first];
    return inside - Math.max(0, from - this.start[first]) - Math.max(0, this.end[last - 1] - to);
  }
}

// A counter that keeps its value until the next sample: frequency, utilisation, run-queue length.
class CounterTrack {
  constructor(meta, buffer) {
    this.cpu = meta.cpu;
    this.kind = "counter";
    this.name = meta.name;
    this.unit = meta.unit;
    this.max = meta.max;
    this.count = meta.count;
    this.time = readI64(buffer, meta.columns.gap_ns, meta.count);
    for (let i = 1; i < meta.count; i += 1) this.time[i] += this.time[i - 1];
    this.value = new Float64Array(buffer, meta.columns.value, meta.count);
  }

  // The last sample at or before time, or -1.
  at(time) {
    return upperBound(this.time, time, 0, this.count) - 1;
  }
}

// The first index in [low, high) whose element is greater than x.
function upperBound(array, x, low, high) {
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (array[middle] > x) high = middle;
    else low = middle + 1;
  }
  return low;
}

// The same, for an answer that is likely near low: the step doubles before it is halved.
function gallop(array, x, low, high) {
  let step = 1;
  while (low + step < high && array[low + step] <= x) {
    low += step;
    step *= 2;
  }
  return upperBound(array, x, low, Math.min(high, low + step + 1));
}

async function loadTimeline() {
  const meta = JSON.parse(document.getElementById("timeline-meta").textContent);
  const buffer = await inflate(document.getElementById("timeline-data"));
  const rows = meta.cpus.map((cpu) => ({ cpu, task: null, idle: null, counters: [] }));
  const rowOf = new Map(rows.map((row) => [row.cpu, row]));
  for (const track of meta.tracks) {
    const row = rowOf.get(track.cpu);
    if (track.kind === "counter") row.counters.push(new CounterTrack(track, buffer));
    else row[track.kind] = new SpanTrack(track, buffer);
  }
  return { ...meta, rows };
}
