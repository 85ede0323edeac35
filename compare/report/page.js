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
  const parts = [`${modes} ${modes === 1 ? "mode" : "modes"}`, seedsText(), `baseline ${report.modes[0].name}`];
  parts.push(...new Set(report.modes.map((mode) => mode.cluster).filter(Boolean)));
  if (report.straggler) parts.push(`slowed down: ${report.straggler}`);
  addBreakable(document.getElementById("subtitle"), parts.join(" · "));
  addBreakable(document.getElementById("answer"), report.answer);
  document.getElementById("answer").hidden = !report.answer;
  addBreakable(document.getElementById("overall"), report.verdict);
  showUnderWay();
  addBreakable(document.getElementById("further"), report.verdict_further);
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

function speedBadge(mode) {
  const found = mode.comparison && TIME[mode.comparison.time_finding];
  const speedup = mode.comparison && mode.comparison.speedup;
  if (!speedup) return null;
  const ratio = speedup.mean;
  const text = `${ratioText(ratio < 1 ? 1 / ratio : ratio)} ${ratio < 1 ? "later" : "sooner"}`;
  if (!found) return badge("open", `${text}: ${seedsCount(mode)}, too few to judge`);
  if (mode.comparison.time_finding === "equal") return badge("", `time equal (${text})`);
  if (mode.comparison.time_finding === "undecided") return badge("open", `${text}: not shown`);
  return badge(found[0], text);
}

function seedsCount(mode) {
  const { pairs } = mode.comparison;
  return `${pairs} ${pairs === 1 ? "seed" : "seeds"}`;
}

function timeLine(mode) {
  const total = mode.runs.length;
  if (mode.seconds_to_target) {
    const line = element("p", "time", secondsText(mode.seconds_to_target.mean));
    line.append(element("small", "", ` to ${report.target_words}`));
    return line;
  }
  if (mode.reached === total) return element("p", "time", "target reached from the first");
  return badge("bad", mode.reached === 0 ? "target not reached" : `target in ${mode.reached} of ${total}`);
}

function accuracyBadge(mode) {
  const { comparison } = mode;
  if (!comparison || !comparison.accuracy) return null;
  const points = differenceText(comparison.accuracy.mean, report.metric.format);
  const few = comparison.pairs < report.seeds_for_interval;
  const found = ACCURACY[comparison.accuracy_finding];
  if (few && (!found || comparison.accuracy_finding === "undecided")) {
    return badge("open", `${report.metric.words} ${points}: ${seedsCount(mode)}, too few to judge`);
  }
  return found ? badge(found[0], `${found[1]} (${points})`) : null;
}

function glanceOf(mode, index) {
  const box = element("div", "mode");
  box.append(nameOf(index, mode.name, mode.settings));
  if (mode.final_accuracy) box.append(timeLine(mode));
  const badges = [index === 0 ? badge("", "baseline") : null, speedBadge(mode), accuracyBadge(mode),
    mode.failed ? badge("bad", `${mode.failed} of ${mode.runs.length} runs failed`) : null];
  box.append(...badges.filter(Boolean));
  return box;
}

function classOf(mode, column) {
  const comparison = mode.comparison;
  if (column === 2 && comparison) return (ACCURACY[comparison.accuracy_finding] || [""])[0];
  if (column === 4 && mode.reached < mode.runs.length) return "bad";
  if (column === 5 && comparison) return (TIME[comparison.time_finding] || [""])[0];
  return column === 9 && mode.failed ? "bad" : "";
}

// The interval goes into a line of its own.
function cellOf(text, className) {
  const cell = element("td");
  const [value, aside] = splitCell(text);
  cell.append(element("span", className, value));
  if (aside) cell.append(element("small", "", aside));
  return cell;
}

function showTable() {
  const head = element("tr");
  head.append(...report.table[0].map((name) => element("th", "", name)));
  const rows = report.modes.map((mode, index) => {
    const row = element("tr");
    const name = element("td");
    name.append(nameOf(index, mode.name, mode.settings));
    row.append(name);
    report.table[index + 1].slice(1).forEach((text, i) => {
      row.append(cellOf(text, classOf(mode, i + 1)));
    });
    return row;
  });
  fill("figures", [head, ...rows]);
  const margin = +(report.equivalence_margin * 100).toPrecision(3);
  const note =
    `In small type: 95 % intervals, or how many seeds there are where these are too few. ` +
    `Differences and speed-ups are from ${report.modes[0].name}; ` +
    `equal: within ${margin} points. Target: ${report.target || "none, as no run finished"}.`;
  fill("figures-note", [breakable("span", "", note)]);
  fill("sentences", report.modes.map((mode) => breakable("li", "", mode.verdict)));
}

function showRules() {
  fill("rules", report.rules.map((rule) => breakable("li", "", rule)));
  fill("jobs", report.modes.flatMap((mode) => [
    breakable("p", "", `${mode.mode}, on ${mode.cluster || "a cluster that was not described"}`),
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
    button.append(nameOf(index, mode.name, mode.settings));
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
  hintScrolls();
}

showHeader();
showRules();
radios("axis", [["seconds", "time"], ["samples", "samples"], ["updates", "updates"]], "axis");
if (report.metric.format === "percent") {
  radios("zoom", [["all", "whole curve"], ["top", "top 10 points"]], "zoom");
}
showAll();
isDark.addEventListener("change", showAll);
window.addEventListener("resize", hintScrolls);
