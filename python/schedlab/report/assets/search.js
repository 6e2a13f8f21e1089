// Finding a task by name or pid.

const SEARCH_ROWS = 40;

class Search {
  constructor(input, list, timeline, choose) {
    this.input = input;
    this.list = list;
    this.tasks = countRuns(timeline);
    this.choose = choose;
    this.active = 0;
    this.found = [];
    input.addEventListener("input", () => this.update());
    input.addEventListener("focus", () => this.update());
    input.addEventListener("blur", () => this.close());
    input.addEventListener("keydown", (event) => this.key(event));
    document.addEventListener("keydown", (event) => {
      if (event.key === "/" && !/^(input|textarea|select)$/i.test(event.target.tagName)) {
        event.preventDefault();
        input.focus();
      }
    });
  }

  update() {
    const wanted = this.input.value.trim().toLowerCase();
    this.found = this.tasks
      .filter(({ comm, pid }) => comm.toLowerCase().includes(wanted) || String(pid) === wanted)
      .slice(0, SEARCH_ROWS);
    this.active = 0;
    this.show();
  }

  show() {
    const rows = this.found.map((task, i) => {
      const row = document.createElement("li");
      row.role = "option";
      row.id = `found-${i}`;
      row.ariaSelected = String(i === this.active);
      const name = document.createElement("span");
      name.textContent = `${task.comm} ${task.pid}`;
      const count = document.createElement("span");
      count.className = "count";
      count.textContent = `${formatCount(task.runs)} ${task.runs === 1 ? "run" : "runs"}`;
      row.append(name, count);
      // pointerdown comes before the field's blur, which closes the list.
      row.addEventListener("pointerdown", (event) => {
        event.preventDefault();
        this.take(task);
      });
      return row;
    });
    if (rows.length === 0) {
      const none = document.createElement("li");
      none.textContent = "no such task";
      rows.push(none);
    }
    this.list.replaceChildren(...rows);
    this.list.hidden = false;
    this.input.ariaExpanded = "true";
    this.input.setAttribute("aria-activedescendant", `found-${this.active}`);
  }

  close() {
    this.list.hidden = true;
    this.input.ariaExpanded = "false";
  }

  key(event) {
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (move) {
      this.active = Math.min(this.found.length - 1, Math.max(0, this.active + move));
      this.show();
      this.list.children[this.active]?.scrollIntoView({ block: "nearest" });
      event.preventDefault();
    } else if (event.key === "Enter" && this.found.length > 0) {
      this.take(this.found[this.active]);
    } else if (event.key === "Escape") {
      this.input.blur();
    }
  }

  take(task) {
    this.input.value = task.comm;
    this.close();
    this.choose(task.pid);
  }
}

// Tasks with their number of runs, those that ran most often first.
function countRuns(timeline) {
  const runs = new Uint32Array(timeline.tasks.length);
  for (const { task } of timeline.rows) {
    if (task) for (let i = 0; i < task.count; i += 1) runs[task.value[i]] += 1;
  }
  return timeline.tasks
    .map(({ comm, pid }, i) => ({ comm, pid, runs: runs[i] }))
    .sort((a, b) => b.runs - a.runs || a.pid - b.pid);
}
