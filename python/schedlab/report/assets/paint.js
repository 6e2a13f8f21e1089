// Drawing. The work of a frame is bounded by the pixels on screen, not by the events in the trace:
// spans wider than a pixel are drawn one by one; narrower ones are drawn as one column a pixel,
// whose height is the share of that pixel's time they cover, and a binary search finds the next
// column. Columns stand on a grid that is fixed in time, so panning does not make them flicker.

const ROW = { pad: 6, task: 24, gap: 3, idle: 9, counter: 18 };

// Of a column's spans at most this many are looked at for the one that lends its colour.
const SAMPLES = 12;

function rowHeight(row) {
  const idle = row.idle ? ROW.gap + ROW.idle : 0;
  return ROW.pad * 2 + ROW.task + idle + row.counters.length * (ROW.gap + ROW.counter);
}

// Rectangles sorted by colour before they are drawn: changing fillStyle is what costs.
class Brush {
  constructor() {
    this.byColour = new Map();
  }

  rect(colour, x, y, width, height) {
    let list = this.byColour.get(colour);
    if (!list) this.byColour.set(colour, (list = []));
    list.push(x, y, width, height);
  }

  flush(context) {
    for (const [colour, list] of this.byColour) {
      if (list.length === 0) continue;
      context.fillStyle = colour;
      for (let i = 0; i < list.length; i += 4) {
        context.fillRect(list[i], list[i + 1], list[i + 2], list[i + 3]);
      }
      list.length = 0;
    }
  }
}

// The longest of the spans [first, last) that a fixed stride visits.
function longest(track, first, last) {
  const stride = Math.max(1, Math.ceil((last - first) / SAMPLES));
  let best = first;
  for (let i = first; i < last; i += stride) {
    if (track.end[i] - track.start[i] > track.end[best] - track.start[best]) best = i;
  }
  return best;
}

class Painter {
  constructor(timeline, view) {
    this.timeline = timeline;
    this.view = view;
    this.brush = new Brush();
    this.palette = readPalette(timeline);
    this.drawn = 0;
  }

  retheme() {
    this.palette = readPalette(this.timeline);
    this.brush = new Brush();
  }

  // One frame of the rows between the scroll offset and the canvas height. All coordinates below
  // are device pixels; `scale` of them make a CSS pixel.
  rows(context, frame) {
    const { palette } = this;
    const { width, height, scale, gutter, scrollTop, selected, hover } = frame;
    this.drawn = 0;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = palette.surface;
    context.fillRect(0, 0, width, height);
    const plot = {
      x: gutter * scale,
      width: width - gutter * scale,
      scale,
      from: this.view.from,
      to: this.view.to,
      nsPerPx: this.view.nsPerPx / scale,
    };
    this.grid(context, plot, height);
    context.textBaseline = "middle";
    let y = -scrollTop * scale;
    for (const row of this.timeline.rows) {
      const tall = rowHeight(row) * scale;
      if (y + tall > 0 && y < height) this.row(context, row, plot, y, selected);
      y += tall;
      if (y > height) break;
    }
    if (hover) this.outline(context, plot, hover);
    this.labels(context, plot, height, scrollTop);
  }

  row(context, row, plot, top, selected) {
    const { palette, brush } = this;
    const { scale } = plot;
    context.fillStyle = palette.line;
    const bottom = top + rowHeight(row) * scale;
    context.fillRect(0, Math.round(bottom) - 1, plot.x + plot.width, 1);
    let y = Math.round(top + ROW.pad * scale);
    if (row.task) {
      const tall = Math.round(ROW.task * scale);
      const task = { texts: [], waits: [] };
      if (selected) context.globalAlpha = 0.28;
      this.spans(row.task, plot, y, tall, palette.tasks, true, task);
      brush.flush(context);
      context.globalAlpha = 1;
      if (selected) this.chosen(context, row.task, plot, y, tall, selected);
      this.waits(context, task.waits, y);
      this.texts(context, task.texts, y + tall / 2, plot, selected);
      y += tall;
    }
    if (row.idle) {
      y += ROW.gap * scale;
      const tall = Math.round(ROW.idle * scale);
      const idle = { misses: [] };
      this.spans(row.idle, plot, y, tall, palette.idle, false, idle);
      brush.flush(context);
      for (const [x, wide, miss] of idle.misses) {
        brush.rect(miss > 0 ? palette.shallow : palette.deep, x, y + tall - 2 * scale, wide, 2 * scale);
      }
      brush.flush(context);
      y += tall;
    }
    for (const counter of row.counters) {
      y += ROW.gap * scale;
      this.counter(context, counter, plot, y, ROW.counter * scale);
      y += ROW.counter * scale;
    }
  }

  // The level-of-detail walk over one lane.
  spans(track, plot, y, tall, colours, proportional, extra) {
    const { start, end, value, total, count } = track;
    const { nsPerPx, from, to, scale } = plot;
    const origin = Math.floor(from / nsPerPx);
    const shift = plot.x + origin - from / nsPerPx;
    const left = plot.x;
    const right = plot.x + plot.width;
    let i = track.firstEndingAfter(from);
    while (i < count && start[i] < to) {
      this.drawn += 1;
      const long = end[i] - start[i];
      if (long >= nsPerPx) {
        const x0 = Math.max(left, plot.x + (start[i] - from) / nsPerPx);
        const x1 = Math.min(right, plot.x + (end[i] - from) / nsPerPx);
        const wide = x1 - x0;
        // A hairline between neighbours, once they are wide enough to spare it.
        const gap = wide > 4 * scale ? scale * 0.5 : 0;
        this.brush.rect(colours[value[i]], x0, y, Math.max(1, wide - gap), tall);
        this.detail(track, i, x0, wide, plot, extra);
        i += 1;
        continue;
      }
      const column = Math.floor(start[i] / nsPerPx);
      let next = gallop(start, (column + 1) * nsPerPx, i, count);
      // A long span may begin in this column: it is drawn by itself.
      if (next - 1 > i && end[next - 1] - start[next - 1] >= nsPerPx) next -= 1;
      const share = Math.min(1, (total[next] - total[i]) / nsPerPx);
      const x = Math.round(shift + column - origin);
      const high = proportional ? Math.max(3 * scale, Math.round(share * tall)) : tall;
      const colour = colours[value[longest(track, i, next)]];
      if (x >= left) this.brush.rect(colour, x, y + tall - high, 1, high);
      i = next;
    }
  }

  // What only shows when there is room: names, waiting times, idle misses.
  detail(track, i, x, wide, plot, extra) {
    const { scale } = plot;
    if (extra.misses) {
      if (track.miss[i] !== 0 && wide >= 2 * scale) extra.misses.push([x, wide, track.miss[i]]);
      return;
    }
    const wait = track.latency[i];
    if (wait > 0 && wait / plot.nsPerPx >= 2 * scale) {
      const begin = Math.max(plot.x, plot.x + (track.start[i] - wait - plot.from) / plot.nsPerPx);
      extra.waits.push([begin, x]);
    }
    if (wide >= 26 * scale) extra.texts.push([track.value[i], x, wide]);
  }

  // From wakeup to switch-in: a bracket above the CPU's other work, ending where the task begins.
  waits(context, waits, y) {
    context.fillStyle = this.palette.shallow;
    for (const [from, to] of waits) {
      if (to <= from) continue;
      context.fillRect(from, y - 3, to - from, 2);
      context.fillRect(from, y - 3, 1.5, 6);
    }
  }

  texts(context, texts, y, plot, selected) {
    const { scale } = plot;
    const size = 11 * scale;
    context.font = `500 ${size}px ${this.palette.font}`;
    context.textAlign = "left";
    context.fillStyle = this.palette.taskInk;
    for (const [index, x, wide] of texts) {
      const task = this.timeline.tasks[index];
      if (selected && task.pid !== selected.pid) continue;
      const room = wide - 8 * scale;
      const fits = Math.floor(room / (size * 0.58));
      const name = wide > 130 * scale ? `${task.comm} ${task.pid}` : task.comm;
      const text = name.length <= fits ? name : `${name.slice(0, Math.max(1, fits - 1))}…`;
      context.fillText(text, x + 4 * scale, y + 0.5 * scale, room + 2 * scale);
    }
  }

  // The selected task's spans, over the dimmed rest, never narrower than two pixels.
  chosen(context, track, plot, y, tall, selected) {
    const mine = selected.spans.get(track.cpu);
    if (!mine) return;
    const { brush } = this;
    let drawnTo = -1;
    for (let k = upperBound(mine.ends, plot.from, 0, mine.ends.length); k < mine.ends.length; k += 1) {
      const i = mine.indices[k];
      if (track.start[i] >= plot.to) break;
      const x0 = Math.max(plot.x, plot.x + (track.start[i] - plot.from) / plot.nsPerPx);
      const x1 = Math.min(plot.x + plot.width, plot.x + (track.end[i] - plot.from) / plot.nsPerPx);
      const wide = Math.max(2, x1 - x0);
      if (x0 + wide <= drawnTo) {
        // Hidden behind what is drawn: jump to the first span that ends beyond it.
        const time = plot.from + (drawnTo - plot.x) * plot.nsPerPx;
        k = Math.max(k, gallop(mine.ends, time, k, mine.ends.length) - 1);
        continue;
      }
      brush.rect(this.palette.tasks[track.value[i]], x0, y, wide, tall);
      brush.rect(this.palette.accent, x0, y + tall - plot.scale * 2, wide, plot.scale * 2);
      drawnTo = x0 + wide;
    }
    brush.flush(context);
  }

  // A step line; a pixel that holds several samples shows their highest.
  counter(context, track, plot, y, tall) {
    const { palette } = this;
    const base = y + tall - 1;
    context.fillStyle = palette.line;
    context.fillRect(plot.x, base, plot.width, 1);
    if (track.count === 0 || track.max <= 0) return;
    const high = (value) => (Math.max(0, value) / track.max) * (tall - 2 * plot.scale);
    context.fillStyle = palette.accent;
    context.globalAlpha = 0.55;
    let i = Math.max(0, track.at(plot.from));
    while (i < track.count && track.time[i] < plot.to) {
      const x0 = Math.max(plot.x, plot.x + (track.time[i] - plot.from) / plot.nsPerPx);
      const pixelEnd = track.time[i] + plot.nsPerPx;
      const next = gallop(track.time, pixelEnd, i, track.count);
      let top = track.value[i];
      const stride = Math.max(1, Math.ceil((next - i) / SAMPLES));
      for (let k = i; k < next; k += stride) top = Math.max(top, track.value[k]);
      const until = next < track.count ? track.time[next] : plot.to;
      const x1 = Math.min(plot.x + plot.width, plot.x + (until - plot.from) / plot.nsPerPx);
      const h = high(top);
      context.fillRect(x0, base - h, Math.max(1, x1 - x0), h);
      i = Math.max(next, i + 1);
    }
    context.globalAlpha = 1;
  }

  grid(context, plot, height) {
    const step = tickStep(plot.nsPerPx, 100 * plot.scale);
    context.fillStyle = this.palette.line;
    for (let t = Math.ceil(plot.from / step) * step; t <= plot.to; t += step) {
      context.fillRect(Math.round(plot.x + (t - plot.from) / plot.nsPerPx), 0, 1, height);
    }
  }

  labels(context, plot, height, scrollTop) {
    const { palette } = this;
    const { scale } = plot;
    context.fillStyle = palette.surface;
    context.fillRect(0, 0, plot.x, height);
    context.fillStyle = palette.line;
    context.fillRect(plot.x - 1, 0, 1, height);
    let y = -scrollTop * scale;
    for (const row of this.timeline.rows) {
      const tall = rowHeight(row) * scale;
      if (y + tall > 0 && y < height) {
        context.fillStyle = palette.line;
        context.fillRect(0, Math.round(y + tall) - 1, plot.x, 1);
        context.textAlign = "left";
        context.fillStyle = palette.ink2;
        context.font = `600 ${11.5 * scale}px ${palette.font}`;
        context.fillText(`CPU ${row.cpu}`, 10 * scale, y + (ROW.pad + ROW.task / 2 + 0.5) * scale);
        this.counterLabels(context, row, scale, y);
      }
      y += tall;
      if (y > height) break;
    }
  }

  counterLabels(context, row, scale, top) {
    context.font = `${10 * scale}px ${this.palette.font}`;
    context.fillStyle = this.palette.ink3;
    let y = top + (ROW.pad + ROW.task + (row.idle ? ROW.gap + ROW.idle : 0)) * scale;
    for (const counter of row.counters) {
      context.fillText(counter.label ?? counter.name, 10 * scale, y + (ROW.gap + ROW.counter / 2 + 2) * scale);
      y += (ROW.gap + ROW.counter) * scale;
    }
  }

  outline(context, plot, hover) {
    const { scale } = plot;
    const x0 = Math.max(plot.x, plot.x + (hover.start - plot.from) / plot.nsPerPx);
    const x1 = Math.min(plot.x + plot.width, plot.x + (hover.end - plot.from) / plot.nsPerPx);
    context.strokeStyle = this.palette.ink;
    context.lineWidth = 1.25 * scale;
    context.strokeRect(x0, hover.y * scale, Math.max(2 * scale, x1 - x0), hover.height * scale);
  }

  axis(context, width, height, scale, gutter) {
    const { palette } = this;
    const x = gutter * scale;
    const nsPerPx = this.view.nsPerPx / scale;
    const step = tickStep(nsPerPx, 100 * scale);
    const { base, label } = tickFormat(step, this.view.from);
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = palette.surface;
    context.fillRect(0, 0, width, height);
    context.font = `${11 * scale}px ${palette.font}`;
    context.textBaseline = "middle";
    context.textAlign = "left";
    const first = Math.ceil(this.view.from / step) * step;
    for (let t = first; t <= this.view.to; t += step) {
      const at = Math.round(x + (t - this.view.from) / nsPerPx);
      context.fillStyle = palette.line2;
      context.fillRect(at, height - 6 * scale, 1, 6 * scale);
      context.fillStyle = palette.ink3;
      const text = label(t);
      const wide = context.measureText(text).width;
      if (at + wide + 8 * scale < width) context.fillText(text, at + 4 * scale, height / 2);
    }
    context.fillStyle = palette.surface;
    context.fillRect(0, 0, x, height);
    if (base > 0) {
      context.fillStyle = palette.ink2;
      context.fillText(shortBase(base), 8 * scale, height / 2, x - 10 * scale);
    }
  }
}

// The base of the axis labels, with no more digits than it has.
function shortBase(ns) {
  const text = (ns / 1e9).toFixed(9).replace(/0+$/, "").replace(/\.$/, "");
  return `${text} s`;
}
