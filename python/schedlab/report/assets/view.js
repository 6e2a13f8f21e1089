// Which part of the trace is on screen. Pixels here are CSS pixels of the plot, left edge 0.

class View {
  constructor(durationNs, widthPx) {
    this.durationNs = Math.max(1, durationNs);
    this.widthPx = Math.max(1, widthPx);
    this.fit();
  }

  get nsPerPx() {
    return (this.to - this.from) / this.widthPx;
  }

  fit() {
    this.from = 0;
    this.to = this.durationNs;
  }

  // Keeps the window within the trace, and no narrower than 200 ns: finer than any clock's events.
  show(from, to) {
    const span = Math.min(this.durationNs, Math.max(Math.min(200, this.durationNs), to - from));
    const start = Math.min(Math.max(0, from), this.durationNs - span);
    this.from = start;
    this.to = start + span;
  }

  // Zooms by factor (below 1: closer) about the time at pixel x.
  zoom(factor, x) {
    const anchor = this.timeAt(x);
    const span = Math.min(this.durationNs, (this.to - this.from) * factor);
    const from = anchor - (x / this.widthPx) * span;
    this.show(from, from + span);
  }

  pan(px) {
    const shift = px * this.nsPerPx;
    this.show(this.from + shift, this.to + shift);
  }

  timeAt(x) {
    return this.from + x * this.nsPerPx;
  }

  xOf(time) {
    return (time - this.from) / this.nsPerPx;
  }

  // Brings [from, to) into view with room around it, changing the scale only when it must.
  reveal(from, to) {
    const span = this.to - this.from;
    const wanted = to - from;
    if (wanted < span / 200 || wanted > span) {
      const room = Math.max(wanted * 8, 2000);
      this.show((from + to) / 2 - room / 2, (from + to) / 2 + room / 2);
    } else if (from < this.from || to > this.to) {
      this.show((from + to) / 2 - span / 2, (from + to) / 2 + span / 2);
    }
  }
}
