// The timeline: ties the data, the view, the painter and the gestures together.

// How a task left its CPU, as report/pack.py numbers it.
const LEAVING = {
  R: "still runnable", "R+": "preempted", S: "went to sleep", D: "uninterruptible sleep",
  T: "stopped", t: "traced", X: "exited", Z: "exited", P: "parked", I: "idle kernel thread",
};

// Rows beyond this height scroll.
const ROWS_MAX_PX = 736;

class Timeline {
  constructor(root, timeline) {
    this.root = root;
    this.timeline = timeline;
    this.find = (name) => root.querySelector(`[data-part="${name}"]`);
    this.canvas = this.find("rows");
    this.axis = this.find("axis");
    this.scroll = this.find("scroll");
    this.tip = this.find("tip");
    this.view = new View(timeline.duration_ns, 100);
    this.painter = new Painter(timeline, this.view);
    this.overview = new Overview(this.find("overview"), timeline, this.view, () => this.redraw());
    this.selected = null;
    this.hovered = null;
    this.pending = false;
    this.index = null;
    this.layout();
    this.gestures = new Gestures(this.canvas, this.handlers());
    this.scroll.addEventListener("scroll", () => this.redraw());
    new ResizeObserver(() => this.layout()).observe(this.scroll);
    this.buttons();
  }

  handlers() {
    return {
      inPlot: (x) => x >= this.gutter,
      zoom: (factor, x) => this.zoom(factor, x - this.gutter),
      pan: (px) => {
        this.view.pan(px);
        this.redraw();
      },
      hover: (event) => this.hover(event),
      leave: () => this.unhover(),
      click: (event) => this.click(event),
      key: (key) => this.key(key),
    };
  }

  zoom(factor, x) {
    this.unhover();
    this.view.zoom(factor, Math.max(0, x));
    this.redraw();
  }

  // Sizes the canvases to the element and the screen's pixel density.
  layout() {
    const width = this.scroll.clientWidth;
    if (width === 0) return;
    this.scale = Math.max(1, window.devicePixelRatio || 1);
    const widest = Math.max(...this.timeline.rows.map((row) => String(row.cpu).length), 1);
    const counters = this.timeline.rows.some((row) => row.counters.length > 0);
    this.gutter = Math.max(counters ? 74 : 0, 50 + 8 * widest);
    this.contentHeight = this.timeline.rows.reduce((sum, row) => sum + rowHeight(row), 0);
    const height = Math.min(this.contentHeight, Math.max(120, window.innerHeight * 0.7), ROWS_MAX_PX);
    this.scroll.style.maxHeight = `${height}px`;
    this.find("spacer").style.height = `${Math.max(0, this.contentHeight - height)}px`;
    this.size(this.canvas, width, height);
    this.size(this.axis, width, 26);
    this.size(this.overview.canvas, width, 44);
    this.view.widthPx = Math.max(1, width - this.gutter);
    this.redraw();
  }

  size(canvas, width, height) {
    canvas.width = Math.round(width * this.scale);
    canvas.height = Math.round(height * this.scale);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }

  // At most one frame a display refresh, however many events asked for it.
  redraw() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.draw();
    });
  }

  draw() {
    const { canvas, axis, scale, gutter } = this;
    this.painter.rows(canvas.getContext("2d", { alpha: false }), {
      width: canvas.width,
      height: canvas.height,
      scale,
      gutter,
      scrollTop: this.scroll.scrollTop,
      selected: this.selected,
      hover: this.hovered,
    });
    this.painter.axis(axis.getContext("2d"), axis.width, axis.height, scale, gutter);
    this.overview.draw(this.painter.palette, scale, gutter);
    this.publish();
  }

  // What is on screen, for people (the line above the timeline) and for tests (data attributes).
  publish() {
    const { from, to } = this.view;
    this.find("window").textContent = `${formatInstant(from)} + ${formatDuration(to - from)}`;
    const { dataset } = this.root;
    dataset.fromNs = String(Math.round(from));
    dataset.toNs = String(Math.round(to));
    dataset.drawn = String(this.painter.drawn);
    const whole = to - from >= this.timeline.duration_ns * 0.999999;
    this.find("fit").disabled = whole;
  }

  retheme() {
    this.painter.retheme();
    this.draw();
  }

  // What lies under a point of the rows: a task's span, an idle period or a counter's sample.
  hit(x, y) {
    if (x < this.gutter) return null;
    const time = this.view.timeAt(x - this.gutter);
    let top = -this.scroll.scrollTop;
    for (const row of this.timeline.rows) {
      const tall = rowHeight(row);
      if (y >= top && y < top + tall) return this.hitRow(row, time, y - top, top);
      top += tall;
    }
    return null;
  }

  hitRow(row, time, y, top) {
    let lane = ROW.pad;
    if (row.task && y < lane + ROW.task + 1) {
      return this.hitSpan(row.task, time, { y: top + lane, height: ROW.task });
    }
    lane += ROW.task + ROW.gap;
    if (row.idle && y < lane + ROW.idle + 1) {
      return this.hitSpan(row.idle, time, { y: top + lane, height: ROW.idle });
    }
    if (row.idle) lane += ROW.idle + ROW.gap;
    for (const counter of row.counters) {
      if (y >= lane && y < lane + ROW.counter) {
        const index = counter.at(time);
        return index < 0 ? null : { kind: "counter", track: counter, index, time };
      }
      lane += ROW.counter + ROW.gap;
    }
    return null;
  }

  // The span under the pointer, or the nearest one within two pixels.
  hitSpan(track, time, box) {
    let index = track.at(time);
    if (index < 0) {
      const reach = 2 * this.view.nsPerPx;
      const next = track.firstEndingAfter(time);
      const before = next - 1;
      if (next < track.count && track.start[next] - time <= reach) index = next;
      else if (before >= 0 && time - track.end[before] <= reach) index = before;
    }
    if (index < 0) return null;
    return {
      kind: track.kind, track, index, time, start: track.start[index], end: track.end[index], ...box,
    };
  }

  hover(event) {
    const box = this.canvas.getBoundingClientRect();
    const hit = this.hit(event.clientX - box.left, event.clientY - box.top);
    const outlined = hit && hit.kind !== "counter" ? hit : null;
    if (this.hovered?.track !== outlined?.track || this.hovered?.index !== outlined?.index) {
      this.hovered = outlined;
      this.redraw();
    }
    if (!hit) {
      this.tip.hidden = true;
      return;
    }
    const { title, facts } = this.describe(hit);
    showFacts(this.tip, title, facts);
    this.tip.hidden = false;
    const wide = this.tip.offsetWidth;
    const tall = this.tip.offsetHeight;
    const x = Math.min(event.clientX + 14, window.innerWidth - wide - 8);
    const below = event.clientY + 18 + tall < window.innerHeight;
    this.tip.style.left = `${Math.max(8, x)}px`;
    this.tip.style.top = `${below ? event.clientY + 18 : event.clientY - tall - 12}px`;
  }

  unhover() {
    this.tip.hidden = true;
    if (this.hovered) {
      this.hovered = null;
      this.redraw();
    }
  }

  describe(hit) {
    const { track, index } = hit;
    if (hit.kind === "counter") {
      const facts = [["CPU", track.cpu], ["since", formatInstant(track.time[index])]];
      return { title: `${track.name} ${formatCount(track.value[index])} ${track.unit}`, facts };
    }
    const when = [
      ["CPU", track.cpu],
      ["from", formatInstant(track.start[index])],
      ["for", formatDuration(track.end[index] - track.start[index])],
    ];
    if (hit.kind === "idle") {
      const state = this.timeline.idle_states[track.value[index]];
      const verdict = { "-1": "too deep", 0: "no", 1: "too shallow" }[track.miss[index]];
      return { title: `idle: ${state.name}`, facts: [...when, ["missed", verdict]] };
    }
    const task = this.timeline.tasks[track.value[index]];
    const letter = this.timeline.states[track.state[index]] ?? "?";
    const facts = [["pid", task.pid], ...when];
    if (track.latency[index] >= 0) {
      facts.push(["woken", `${formatDuration(track.latency[index])} before`]);
    }
    facts.push(["left", LEAVING[letter] ? `${letter}, ${LEAVING[letter]}` : letter]);
    return { title: task.comm, facts };
  }

  click(event) {
    this.canvas.focus({ preventScroll: true });
    const box = this.canvas.getBoundingClientRect();
    const hit = this.hit(event.clientX - box.left, event.clientY - box.top);
    if (event.pointerType !== "mouse") this.hover(event);
    if (hit?.kind === "task") this.select(this.timeline.tasks[hit.track.value[hit.index]].pid, hit);
    else if (!hit) this.select(null);
  }

  // Every span of a task, in time order over all CPUs and by CPU; found once for each selection.
  spansOf(pid) {
    const wanted = new Uint8Array(this.timeline.tasks.length);
    this.timeline.tasks.forEach((task, i) => {
      wanted[i] = task.pid === pid ? 1 : 0;
    });
    const spans = new Map();
    const all = [];
    let busy = 0;
    for (const { cpu, task: track } of this.timeline.rows) {
      if (!track) continue;
      const indices = [];
      for (let i = 0; i < track.count; i += 1) if (wanted[track.value[i]]) indices.push(i);
      if (indices.length === 0) continue;
      for (const i of indices) {
        all.push({ track, index: i, start: track.start[i] });
        busy += track.end[i] - track.start[i];
      }
      spans.set(cpu, { indices, ends: Float64Array.from(indices, (i) => track.end[i]) });
    }
    all.sort((a, b) => a.start - b.start);
    return { pid, spans, all, busy };
  }

  select(pid, hit = null) {
    if (pid === null) {
      this.selected = null;
    } else {
      if (this.selected?.pid !== pid) this.selected = this.spansOf(pid);
      const at = hit
        ? this.selected.all.findIndex((s) => s.track === hit.track && s.index === hit.index)
        : -1;
      this.selected.position = at;
    }
    this.root.dataset.selectedPid = pid === null ? "" : String(pid);
    this.showSelection();
    this.redraw();
  }

  // Goes to the selected task's next (+1) or previous (-1) span.
  step(direction) {
    const chosen = this.selected;
    if (!chosen || chosen.all.length === 0) return;
    let next = chosen.position + direction;
    if (chosen.position < 0) {
      const starts = Float64Array.from(chosen.all, (span) => span.start);
      const after = upperBound(starts, this.view.from, 0, starts.length);
      next = direction > 0 ? after : after - 1;
    }
    chosen.position = Math.min(chosen.all.length - 1, Math.max(0, next));
    const { track, index } = chosen.all[chosen.position];
    this.view.reveal(track.start[index], track.end[index]);
    this.hovered = this.locate(track, index);
    this.showSelection();
    this.redraw();
  }

  // Scrolls a run's row into view and says where it is drawn.
  locate(track, index) {
    const place = this.timeline.rows.findIndex((row) => row.task === track);
    const rows = this.timeline.rows.slice(0, place);
    const top = rows.reduce((sum, row) => sum + rowHeight(row), 0);
    const bottom = top + rowHeight(this.timeline.rows[place]);
    const shown = this.scroll.clientHeight;
    if (top < this.scroll.scrollTop) this.scroll.scrollTop = top;
    if (bottom > this.scroll.scrollTop + shown) this.scroll.scrollTop = bottom - shown;
    const y = top + ROW.pad - this.scroll.scrollTop;
    return { track, index, start: track.start[index], end: track.end[index], y, height: ROW.task };
  }

  showSelection() {
    const place = this.find("selection");
    const none = !this.selected;
    for (const name of ["previous", "next", "clear"]) this.find(name).disabled = none;
    if (none) {
      place.replaceChildren("Click a task to follow it across CPUs.");
      return;
    }
    const { pid, all, busy, spans, position } = this.selected;
    const names = this.timeline.tasks.filter((task) => task.pid === pid).map((task) => task.comm);
    const title = document.createElement("b");
    title.textContent = `${names.join(" → ")} (${pid})`;
    const cpus = [...spans.keys()].join(", ");
    const parts = [
      `${formatCount(all.length)} ${all.length === 1 ? "run" : "runs"}`,
      `${formatDuration(busy)} in all`,
      `on CPU ${cpus}`,
    ];
    if (position >= 0) {
      const { track, index } = all[position];
      parts.push(`this one: ${formatDuration(track.end[index] - track.start[index])}, CPU ${track.cpu}`);
      if (track.latency[index] >= 0) {
        parts.push(`woken ${formatDuration(track.latency[index])} before`);
      }
    }
    place.replaceChildren(title, ...parts.map((text) => {
      const part = document.createElement("span");
      part.textContent = text;
      return part;
    }));
  }

  buttons() {
    const middle = () => this.view.widthPx / 2;
    const actions = {
      closer: () => this.zoom(0.5, middle()),
      wider: () => this.zoom(2, middle()),
      fit: () => this.fit(),
      previous: () => this.step(-1),
      next: () => this.step(1),
      clear: () => this.select(null),
    };
    for (const [name, action] of Object.entries(actions)) {
      this.find(name).addEventListener("click", action);
    }
    this.showSelection();
  }

  fit() {
    this.unhover();
    this.view.fit();
    this.redraw();
  }

  // True when the key meant something.
  key(key) {
    const middle = this.view.widthPx / 2;
    const move = this.view.widthPx * 0.12;
    const actions = {
      w: () => this.zoom(0.7, middle),
      s: () => this.zoom(1 / 0.7, middle),
      a: () => this.view.pan(-move),
      d: () => this.view.pan(move),
      n: () => this.step(1),
      p: () => this.step(-1),
      0: () => this.view.fit(),
      Escape: () => this.select(null),
    };
    const same = {
      ArrowLeft: "a", ArrowRight: "d", ArrowUp: "w", ArrowDown: "s",
      "+": "w", "=": "w", "-": "s", _: "s", Home: "0",
    };
    const action = actions[same[key] ?? key];
    if (!action) return false;
    this.unhover();
    action();
    this.redraw();
    return true;
  }
}

// A title and a list of facts; text only, whatever the trace's names contain.
function showFacts(place, title, facts) {
  const head = document.createElement("b");
  head.textContent = title;
  const list = document.createElement("dl");
  list.className = "facts";
  for (const [name, value] of facts) {
    const term = document.createElement("dt");
    term.textContent = name;
    const text = document.createElement("dd");
    text.textContent = String(value);
    list.append(term, text);
  }
  place.replaceChildren(head, list);
}
