// How long a frame takes. `page.html#measure` zooms and pans through the timeline once it is
// loaded, and leaves the figures on the timeline's element; nothing runs without that hash.

const MEASURED_FRAMES = 120;

async function measureFrames(timeline) {
  const { view, root } = timeline;
  const paint = [];
  const interval = [];
  const middle = view.widthPx / 2;
  const refresh = () => new Promise((done) => requestAnimationFrame(done));
  // Reading a pixel back waits until the canvas has really been painted.
  const settle = () => timeline.canvas.getContext("2d").getImageData(0, 0, 1, 1);
  timeline.fit();
  let last = await refresh();
  for (let frame = 0; frame < MEASURED_FRAMES; frame += 1) {
    if (frame < 60) view.zoom(frame < 40 ? 0.86 : 1.12, middle + Math.sin(frame) * 200);
    else view.pan(frame < 90 ? 9 : -13);
    const begin = performance.now();
    timeline.draw();
    settle();
    paint.push(performance.now() - begin);
    const now = await refresh();
    interval.push(now - last);
    last = now;
  }
  timeline.fit();
  const at = (list, share) => [...list].sort((a, b) => a - b)[Math.floor(share * (list.length - 1))];
  root.dataset.frameMsMedian = at(paint, 0.5).toFixed(2);
  root.dataset.frameMsP99 = at(paint, 0.99).toFixed(2);
  root.dataset.frameMsMax = at(paint, 1).toFixed(2);
  root.dataset.intervalMsMedian = at(interval, 0.5).toFixed(2);
  root.dataset.measured = String(MEASURED_FRAMES);
}
