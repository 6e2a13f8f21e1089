// Mouse, touch and keyboard on the timeline's rows.

// A wheel gesture that began outside the rows keeps scrolling the page when the rows slide under
// the pointer; it ends after this many milliseconds of rest.
const WHEEL_REST_MS = 250;

// A pointer that moved less than this is a click.
const CLICK_PX = 4;

class Gestures {
  // `on` receives zoom(factor, x), pan(px), hover(event), leave(), click(event), key(name).
  constructor(element, on) {
    this.element = element;
    this.on = on;
    this.pointers = new Map();
    this.wheelElsewhere = -Infinity;
    window.addEventListener("wheel", (event) => this.outside(event), { passive: true });
    element.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    element.addEventListener("pointerdown", (event) => this.down(event));
    element.addEventListener("pointermove", (event) => this.move(event));
    for (const type of ["pointerup", "pointercancel"]) {
      element.addEventListener(type, (event) => this.up(event));
    }
    element.addEventListener("pointerleave", () => on.leave());
    element.addEventListener("keydown", (event) => this.keydown(event));
  }

  x(event) {
    return event.clientX - this.element.getBoundingClientRect().left;
  }

  outside(event) {
    if (!this.element.contains(event.target)) this.wheelElsewhere = performance.now();
  }

  wheel(event) {
    const now = performance.now();
    if (!event.ctrlKey && now - this.wheelElsewhere < WHEEL_REST_MS) {
      this.wheelElsewhere = now;
      return;
    }
    if (!this.on.inPlot(this.x(event))) return;
    event.preventDefault();
    const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      this.on.pan((event.deltaX || event.deltaY) * lines);
    } else {
      const delta = Math.max(-160, Math.min(160, event.deltaY * lines));
      this.on.zoom(Math.exp(delta * (event.ctrlKey ? 0.01 : 0.0022)), this.x(event));
    }
  }

  down(event) {
    if (event.button !== 0) return;
    this.element.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY, travelled: 0 });
  }

  move(event) {
    const mine = this.pointers.get(event.pointerId);
    if (!mine) {
      this.on.hover(event);
      return;
    }
    const dx = event.clientX - mine.x;
    const before = this.spread();
    mine.travelled += Math.abs(dx) + Math.abs(event.clientY - mine.y);
    mine.x = event.clientX;
    mine.y = event.clientY;
    if (mine.travelled < CLICK_PX) return;
    this.element.classList.add("dragging");
    this.on.leave();
    if (this.pointers.size === 1) {
      this.on.pan(-dx);
    } else if (this.pointers.size === 2) {
      const after = this.spread();
      if (before.apart > 8 && after.apart > 8) this.on.zoom(before.apart / after.apart, after.middle);
      this.on.pan(before.middle - after.middle);
    }
  }

  // Of two fingers: how far apart, and where their middle is.
  spread() {
    const [a, b] = [...this.pointers.values()];
    if (!b) return { apart: 0, middle: 0 };
    const left = this.element.getBoundingClientRect().left;
    return { apart: Math.abs(a.x - b.x), middle: (a.x + b.x) / 2 - left };
  }

  up(event) {
    const mine = this.pointers.get(event.pointerId);
    this.pointers.delete(event.pointerId);
    if (this.pointers.size === 0) this.element.classList.remove("dragging");
    if (mine && event.type === "pointerup" && mine.travelled < CLICK_PX) this.on.click(event);
  }

  keydown(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (this.on.key(event.key.length === 1 ? event.key.toLowerCase() : event.key)) {
      event.preventDefault();
    }
  }
}
