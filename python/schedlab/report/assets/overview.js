// The overview: how busy all CPUs together are over the whole trace, and which part is on screen.
// A drag inside the window moves it; a drag outside draws a new one; a click centres it.

class Overview {
  constructor(canvas, timeline, view, changed) {
    this.canvas = canvas;
    this.timeline = timeline;
    this.view = view;
    this.changed = changed;
    this.drag = null;
    this.profile = null;
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    for (const type of ["pointerup", "pointercancel"]) {
      canvas.addEventListener(type, () => this.up());
    }
  }

  // One number a pixel: the mean share of the CPUs' time that tasks took.
  measure(width) {
    if (this.profile && this.profile.length === width) return;
    this.profile = new Float32Array(width);
    const step = this.timeline.duration_ns / width;
    const lanes = this.timeline.rows.map((row) => row.task).filter(Boolean);
    for (let x = 0; x < width; x += 1) {
      let busy = 0;
      for (const lane of lanes) busy += lane.covered(x * step, (x + 1) * step);
      this.profile[x] = busy / (step * Math.max(1, lanes.length));
    }
  }

  // Heights go with the square root: the eye looks for activity here, not for amounts.
  draw(palette, scale, gutter) {
    const { canvas } = this;
    const { width, height } = canvas;
    const context = canvas.getContext("2d");
    const left = Math.round(gutter * scale);
    this.left = gutter;
    this.measure(Math.max(1, width - left));
    context.fillStyle = palette.surface;
    context.fillRect(0, 0, width, height);
    context.fillStyle = palette.ink3;
    const room = height - 6 * scale;
    for (let x = 0; x < this.profile.length; x += 1) {
      const tall = this.profile[x] > 0 ? Math.max(scale, Math.sqrt(Math.min(1, this.profile[x])) * room) : 0;
      context.fillRect(left + x, height - tall, 1, tall);
    }
    this.window(context, palette, scale, left, width, height);
    context.fillStyle = palette.ink3;
    context.font = `${10.5 * scale}px ${palette.font}`;
    context.textBaseline = "middle";
    context.fillText("busy", 10 * scale, height / 2);
  }

  window(context, palette, scale, left, width, height) {
    const perNs = (width - left) / this.timeline.duration_ns;
    const x0 = left + this.view.from * perNs;
    const x1 = Math.max(x0 + 2 * scale, left + this.view.to * perNs);
    context.globalAlpha = 0.72;
    context.fillStyle = palette.sunken;
    context.fillRect(left, 0, x0 - left, height);
    context.fillRect(x1, 0, width - x1, height);
    context.globalAlpha = 1;
    context.strokeStyle = palette.accent;
    context.lineWidth = 1.5 * scale;
    const inset = 0.75 * scale;
    context.strokeRect(x0 + inset, inset, Math.max(scale, x1 - x0 - 2 * inset), height - 2 * inset);
  }

  timeOf(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = (event.clientX - box.left - this.left) / Math.max(1, box.width - this.left);
    return Math.min(1, Math.max(0, x)) * this.timeline.duration_ns;
  }

  down(event) {
    const time = this.timeOf(event);
    const whole = this.view.to - this.view.from >= this.timeline.duration_ns * 0.999;
    const inside = !whole && time >= this.view.from && time <= this.view.to;
    this.drag = { inside, time, from: this.view.from, to: this.view.to, moved: false };
    this.canvas.setPointerCapture(event.pointerId);
  }

  move(event) {
    if (!this.drag) return;
    const { inside, time, from, to } = this.drag;
    const now = this.timeOf(event);
    if (Math.abs(now - time) > this.timeline.duration_ns * 0.004) this.drag.moved = true;
    if (!this.drag.moved) return;
    if (inside) this.view.show(from + now - time, to + now - time);
    else this.view.show(Math.min(time, now), Math.max(time, now));
    this.changed();
  }

  up() {
    if (this.drag && !this.drag.moved && !this.drag.inside) {
      const half = (this.view.to - this.view.from) / 2;
      this.view.show(this.drag.time - half, this.drag.time + half);
      this.changed();
    }
    this.drag = null;
  }
}
