"use strict";

const shown = report.modes.map(() => true);
const choice = { axis: "seconds", zoom: "all" };

function seedsText() {
  const counts = report.modes.map((mode) => mode.runs.length);
  const low = Math.min(...counts), high = Math.max(...counts);
  const seeds = low === high ? `${high}` : `${low} to ${high}`;
  return `${seeds} ${high === 1 ? "seed" : "seeds"}`;
}

function showHeader() {
  document.title = `${report.title}: comparison of modes`;
  document.getElementById("title").textContent = report.title;
  const modes = report.modes.length;
  const parts = [`${modes} ${modes === 1 ? "mode" : "modes"}`, seedsText(), `baseline ${report.modes[0].mode}`];
  parts.push(...new Set(report.modes.map((mode) => mode.cluster).filter(Boolean)));
  if (report.straggler) parts.push(`slowed down: ${report.straggler}`);
  document.getElementById("subtitle").textContent = parts.join(" · ");
  document.getElementById("overall").textContent = report.verdict;
  document.getElementById("further").textContent = report.verdict_further;
}

// ---- findings ----

const ACCURACY = {
  equal: ["good", `${report.metric.words} equal`],
  better: ["good", `${report.metric.words} better`],
  worse: ["bad", `${report.metric.words} worse`],
  undecided: ["open", `${report.metric.words} undecided`],
};
const TIME = {
  sooner: ["good", "sooner"],
  later: ["bad", "later"],
  equal: ["", "time equal"],
  undecided: ["", "time: no difference shown"],
};

function badge(className, text) {
  return element("span", `badge ${className}`, text);
}

function timeBadge(mode) {
  const total = mode.runs.length;
  if (mode.reached < total) {
    const text = mode.reached === 0 ? "target not reached" : `target in ${mode.reached} of ${total}`;
    return badge("bad", text);
  }
  const found = mode.comparison && TIME[mode.comparison.time_finding];
  if (!found) return null;
  const ratio = mode.comparison.speedup.mean;
  if (["equal", "undecided"].includes(mode.comparison.time_finding)) return badge(...found);
  return badge(found[0], `${ratioText(ratio < 1 ? 1 / ratio : ratio)} ${found[1]}`);
}

function glanceOf(mode, index) {
  const box = element("div", "mode");
  const name = element("span", "name");
  name.append(swatch(index), mode.mode);
  box.append(name);
  if (index === 0) box.append(badge("", "baseline"));
  const found = mode.comparison && ACCURACY[mode.comparison.accuracy_finding];
  if (found) {
    const points = differenceText(mode.comparison.accuracy.mean, report.metric.format);
    box.append(badge(found[0], `${found[1]} (${points})`));
  }
  const time = mode.final_accuracy && timeBadge(mode);
  if (time) box.append(time);
  if (mode.failed) box.append(badge("bad", `${mode.failed} of ${mode.runs.length} runs failed`));
  return box;
}

function classOf(mode, column) {
  const comparison = mode.comparison;
  if (column === 2 && comparison) return (ACCURACY[comparison.accuracy_finding] || [""])[0];
  if (column === 4 && mode.reached < mode.runs.length) return "bad";
  if (column === 5 && comparison) return (TIME[comparison.time_finding] || [""])[0];
  return column === 9 && mode.failed ? "bad" : "";
}

// "88.13 % (87.90 to 88.36)": the interval goes into a line of its own.
function cellOf(text, className) {
  const cell = element("td");
  const split = /^(.*) \(([^()]* to [^()]*)\)$/.exec(text);
  cell.append(element("span", className, split ? split[1] : text));
  if (split) cell.append(element("small", "", split[2]));
  return cell;
}

function showTable() {
  const head = element("tr");
  head.append(...report.table[0].map((name) => element("th", "", name)));
  const rows = report.modes.map((mode, index) => {
    const row = element("tr");
    const name = element("td");
    name.append(swatch(index), mode.mode);
    row.append(name);
    report.table[index + 1].slice(1).forEach((text, i) => {
      row.append(cellOf(text, classOf(mode, i + 1)));
    });
    return row;
  });
  fill("figures", [head, ...rows]);
  const margin = +(report.equivalence_margin * 100).toPrecision(3);
  document.getElementById("figures-note").textContent =
    `In small type: 95 % intervals. Differences and speed-ups are from ${report.modes[0].mode}; ` +
    `equal: within ${margin} points. Target: ${report.target || "none, as no run finished"}.`;
  fill("sentences", report.modes.map((mode) => element("li", "", mode.verdict)));
}

function showRules() {
  fill("rules", report.rules.map((rule) => element("li", "", rule)));
  fill("jobs", report.modes.flatMap((mode) => [
    element("p", "", `${mode.mode}, on ${mode.cluster || "a cluster that was not described"}`),
    element("pre", "", mode.job),
  ]));
}

// ---- controls ----

function radios(id, options, key) {
  const group = document.getElementById(id);
  const buttons = options.map(([value, text]) => {
    const button = element("button", "", text);
    button.type = "button";
    button.setAttribute("role", "radio");
    button.setAttribute("aria-checked", String(choice[key] === value));
    button.addEventListener("click", () => {
      choice[key] = value;
      for (const other of buttons) other.setAttribute("aria-checked", String(other === button));
      drawCurves();
    });
    return button;
  });
  group.replaceChildren(...buttons);
}

function showLegend() {
  fill("legend", report.modes.map((mode, index) => {
    const button = element("button");
    button.type = "button";
    button.append(swatch(index), mode.mode);
    button.setAttribute("aria-pressed", String(shown[index]));
    button.addEventListener("click", () => {
      shown[index] = !shown[index];
      button.setAttribute("aria-pressed", String(shown[index]));
      drawCurves();
    });
    return button;
  }));
}

function showAll() {
  fill("glance", report.modes.map(glanceOf));
  showTable();
  showLegend();
  drawAll();
}

showHeader();
showRules();
radios("axis", [["seconds", "time"], ["samples", "samples"], ["updates", "updates"]], "axis");
if (report.metric.format === "percent") {
  radios("zoom", [["all", "whole curve"], ["top", "top 10 points"]], "zoom");
}
showAll();
isDark.addEventListener("change", showAll);
