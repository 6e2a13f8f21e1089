// Starts everything. `data-state` on the body says how far it got: loading, ready or failed.

async function startTimeline() {
  const root = document.getElementById("timeline");
  if (!root) return null;
  const data = await loadTimeline();
  const timeline = new Timeline(root, data);
  new Search(
    timeline.find("search"),
    timeline.find("results"),
    data,
    (pid) => {
      timeline.select(pid);
      timeline.canvas.focus({ preventScroll: true });
    },
  );
  timeline.draw();
  root.dataset.state = "ready";
  return timeline;
}

// Paper is white: printing takes the light theme, whatever the screen shows.
function followTheme(timeline) {
  const retheme = () => timeline?.retheme();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", retheme);
  window.addEventListener("beforeprint", () => {
    document.documentElement.dataset.theme = "light";
    retheme();
  });
  window.addEventListener("afterprint", () => {
    delete document.documentElement.dataset.theme;
    retheme();
  });
}

async function start() {
  document.body.dataset.state = "loading";
  try {
    const timeline = await startTimeline();
    followTheme(timeline);
    await drawCharts();
    document.body.dataset.state = "ready";
    if (timeline && location.hash === "#measure") await measureFrames(timeline);
  } catch (error) {
    document.body.dataset.state = "failed";
    const note = document.getElementById("problem");
    note.hidden = false;
    note.textContent = `Part of this page could not be shown (${error.message}). `
      + "It needs a browser of 2023 or newer: Chromium 80, Firefox 113, Safari 16.4.";
  }
}

start();
