"use strict";

// Ranks x time: how much of each window a rank waited. Who waits least is whom the others wait for.

const HEAT_COLUMNS = 60;
const HEAT = {
  light: [[226, 236, 247], [240, 169, 59], [140, 20, 20]],
  dark: [[38, 56, 76], [190, 110, 25], [255, 226, 176]],
};
const HELD_UP = 0.2;  // of their time that others wait more than one who holds them up
const pointed = { rank: null, column: null };

function heatColour(share) {
  const stops = HEAT[isDark.matches ? "dark" : "light"];
  const at = Math.min(Math.max(share, 0), 1) * 2;
  const [one, other] = at < 1 ? [stops[0], stops[1]] : [stops[1], stops[2]];
  const part = at < 1 ? at : at - 1;
  return `rgb(${one.map((value, i) => Math.round(value + (other[i] - value) * part)).join(", ")})`;
}

// {ranks, steps, cells: rank -> step -> {waiting, speed}}
function heatGrid(job) {
  const windows = job.rank_windows;
  const steps = [...new Set(windows.flatMap((one) => one.end_step))]
    .sort((one, other) => one - other).slice(-HEAT_COLUMNS);
  const cells = windows.map((one) => new Map(one.end_step.map((step, i) =>
    [step, { waiting: one.waiting_share[i], speed: one.samples_per_s[i] }])));
  return { ranks: windows.map((one) => one.rank), steps, cells };
}

function daemonOfRank(job, rank) {
  const node = job.status.nodes.find(({ first_rank, ranks }) =>
    rank >= first_rank && rank < first_rank + ranks);
  return node ? node.daemon : "";
}

function rankText(job, rank) {
  const daemon = daemonOfRank(job, rank);
  return daemon ? `rank ${rank} (${daemon})` : `rank ${rank}`;
}

// One sentence that says what the map shows.
function heatVerdict(job) {
  const newest = job.rank_windows.filter((one) => one.end_step.length).map((one) =>
    ({ rank: one.rank, waiting: one.waiting_share[one.waiting_share.length - 1] }))
    .sort((one, other) => one.waiting - other.waiting);
  if (!newest.length) return "No rank has finished a window yet.";
  if (newest.length === 1) {
    return `Rank ${newest[0].rank} waited ${percentText(newest[0].waiting, 0)} of its newest window.`;
  }
  const [least] = newest;
  const middle = newest[Math.ceil(newest.length / 2)].waiting;
  const most = newest[newest.length - 1].waiting;
  if (middle - least.waiting >= HELD_UP) {
    const who = rankText(job, least.rank);
    return `${who[0].toUpperCase()}${who.slice(1)} waits least, ${percentText(least.waiting, 0)} ` +
      `of its newest window, others about ${percentText(middle, 0)}: they wait for it.`;
  }
  return `No rank holds the others up: in the newest window they wait ` +
    `${percentText(least.waiting, 0)} to ${percentText(most, 0)} of their time.`;
}

// ---- the canvas ----

function heatLayout(canvas, grid) {
  const left = 44, top = 8, bottom = 30, width = canvas.parentElement.clientWidth;
  const row = Math.max(2, Math.min(24, Math.floor(384 / grid.ranks.length)));
  const column = Math.max(3, (width - left - 4) / HEAT_COLUMNS);
  return { left, top, width, row, column, height: top + row * grid.ranks.length + bottom, bottom };
}

function drawHeatLabels(context, grid, at) {
  context.fillStyle = colours().text;
  context.font = Chart.helpers.toFont({ size: 12 }).string;
  context.textBaseline = "middle";
  context.textAlign = "right";
  const each = Math.ceil(15 / at.row);
  grid.ranks.forEach((rank, i) => {
    if (i % each === 0) context.fillText(`${rank}`, at.left - 7, at.top + (i + 0.5) * at.row);
  });
  context.textBaseline = "top";
  context.textAlign = "center";
  const apart = Math.ceil(72 / at.column);
  grid.steps.forEach((step, i) => {
    const last = grid.steps.length - 1;
    const x = at.left + (i + 0.5) * at.column;
    if ((last - i) % apart || x > at.width - 18 && i < last) return;
    context.textAlign = x > at.width - 26 ? "right" : "center";
    const right = at.left + HEAT_COLUMNS * at.column;
    context.fillText(countText(step), context.textAlign === "right" ? right : x,
      at.height - at.bottom + 8);
  });
}

function drawHeatMap(job) {
  const canvas = document.getElementById("heat");
  const grid = heatGrid(job);
  const at = heatLayout(canvas, grid);
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(at.width * ratio);
  canvas.height = Math.round(at.height * ratio);
  canvas.style.width = `${at.width}px`;
  canvas.style.height = `${at.height}px`;
  canvas.setAttribute("aria-label",
    `Share of time that each of ${counted(grid.ranks.length, "rank")} waited. ${heatVerdict(job)}`);
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  const gap = at.row > 6 ? 1 : 0;
  grid.cells.forEach((cells, i) => grid.steps.forEach((step, j) => {
    const cell = cells.get(step);
    if (!cell) return;
    context.fillStyle = heatColour(cell.waiting);
    context.fillRect(at.left + j * at.column, at.top + i * at.row,
      at.column - (at.column > 5 ? gap : 0), at.row - gap);
  }));
  drawHeatLabels(context, grid, at);
  if (pointed.rank !== null && grid.cells[pointed.rank]) {
    context.strokeStyle = colours().text;
    context.lineWidth = 2;
    context.strokeRect(at.left + pointed.column * at.column,
      at.top + pointed.rank * at.row, at.column, at.row);
  }
}

// ---- what a cell says ----

function cellText(job) {
  const grid = heatGrid(job);
  const step = grid.steps[pointed.column];
  const cell = pointed.rank !== null && grid.cells[pointed.rank] && grid.cells[pointed.rank].get(step);
  if (!cell) return "Point at a cell, or use the arrow keys.";
  return `${rankText(job, grid.ranks[pointed.rank])}, step ${step.toLocaleString("en")}: waited ` +
    `${percentText(cell.waiting, 0)}, ${numberText(cell.speed)} samples/s`;
}

function pointAt(job, rank, column) {
  const grid = heatGrid(job);
  pointed.rank = Math.min(Math.max(rank, 0), grid.ranks.length - 1);
  pointed.column = Math.min(Math.max(column, 0), grid.steps.length - 1);
  show();
}

function heatCanvas(id) {
  const canvas = element("canvas");
  canvas.id = "heat";
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "img");
  const job = () => feed.jobs.get(id);
  canvas.onpointermove = (event) => {
    const at = heatLayout(canvas, heatGrid(job()));
    const column = Math.floor((event.offsetX - at.left) / at.column);
    const rank = Math.floor((event.offsetY - at.top) / at.row);
    if (column !== pointed.column || rank !== pointed.rank) pointAt(job(), rank, column);
  };
  canvas.onpointerleave = () => {
    pointed.rank = null;
    show();
  };
  const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  canvas.onkeydown = (event) => {
    const move = MOVES[event.key];
    if (!move) return;
    event.preventDefault();
    if (pointed.rank === null) pointAt(job(), 0, HEAT_COLUMNS - 1);
    else pointAt(job(), pointed.rank + move[0], pointed.column + move[1]);
  };
  return canvas;
}

function heatLegend() {
  const steps = Array.from({ length: 24 }, (_, i) => {
    const made = element("span", "");
    made.style.backgroundColor = heatColour(i / 23);
    return made;
  });
  return box("p", "heat-legend", element("span", "", "0 %"), box("span", "scale", steps),
    element("span", "", "100 % of a window waited"));
}

function heatSection(id, job) {
  if (!job.rank_windows.length) return null;
  const rows = job.rank_windows.filter((one) => one.end_step.length).map((one) => {
    const last = one.end_step.length - 1;
    return [`rank ${one.rank}`, [rankText(job, one.rank), one.end_step[last].toLocaleString("en"),
      percentText(one.waiting_share[last], 0), numberText(one.samples_per_s[last])]];
  });
  return section("heat-map", "Ranks and time", element("p", "verdict", heatVerdict(job)),
    heatLegend(), box("div", "heat", heatCanvas(id)),
    box("p", "note heat-cell", `Rows: ranks. Columns: windows, by their last step. ${cellText(job)}`),
    keyed("figures", box("details", "", element("summary", "", "Newest window of each rank in figures"),
      table("Newest window of each rank", [["Rank", "name"], ["To step", ""], ["Waited", ""],
        ["Samples/s", ""]], rows))));
}
