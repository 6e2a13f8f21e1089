// Colours for the canvas, read from the page's custom properties whenever the theme changes.

// FNV-1a: the same name gets the same hue in every report.
function hashText(text) {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  }
  return hash >>> 0;
}

// A kernel thread's number does not change its hue: the workers of one kind belong together.
function hueOf(task) {
  const name = task.kernel ? task.comm.replace(/[-/:]?\d.*$/, "") : task.comm;
  return (hashText(name) % 36) * 10;
}

function readPalette(timeline) {
  const style = getComputedStyle(document.documentElement);
  const css = (name) => style.getPropertyValue(name).trim();
  const slots = timeline.idle_states.map((state) => css(`--idle-${state.colour}`));
  const tasks = timeline.tasks.map((task) => {
    const kind = task.kernel ? "kernel" : "task";
    return `hsl(${hueOf(task)} ${css(`--${kind}-saturation`)} ${css(`--${kind}-lightness`)})`;
  });
  return {
    surface: css("--surface"),
    sunken: css("--sunken"),
    ink: css("--ink"),
    ink2: css("--ink-2"),
    ink3: css("--ink-3"),
    line: css("--line"),
    line2: css("--line-2"),
    accent: css("--accent"),
    deep: css("--deep"),
    shallow: css("--shallow"),
    taskInk: css("--task-ink"),
    font: css("--font"),
    idle: slots,
    tasks,
  };
}
