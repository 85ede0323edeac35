"use strict";

// ---- curves ----

const AXES = {
  samples: ["samples of all ranks", countText],
  seconds: ["seconds of training", (value) => `${+value.toPrecision(3)}`],
  updates: ["updates of the weights", countText],
};

// Least and greatest seed, the area between them, and the mean.
function curvesOfMode(mode, index, kind) {
  const style = styleOf(index);
  const points = mode[kind][choice.axis];
  const edge = { mode: mode.mode, borderWidth: 0, pointRadius: 0, hitRadius: 0, hoverRadius: 0 };
  const sets = [];
  if (points.length && mode.runs.length > 1) {
    sets.push({ ...edge, data: points.map(([x, , low]) => ({ x, y: low })), fill: false });
    sets.push({
      ...edge,
      data: points.map(([x, , , high]) => ({ x, y: high })),
      fill: "-1",
      backgroundColor: translucent(style.colour, 0.16),
    });
  }
  if (points.length) {
    sets.push({
      mode: mode.mode,
      isMean: true,
      data: points.map(([x, mean]) => ({ x, y: mean })),
      borderColor: style.colour,
      backgroundColor: style.colour,
      borderWidth: 2,
      borderDash: style.dash,
      pointStyle: style.point,
      pointRadius: points.length <= 40 ? 2.5 : 0,
      pointHitRadius: 6,
    });
  }
  for (const run of mode.runs.filter((run) => run.failure)) {
    const own = run[kind][choice.axis];
    sets.push({
      mode: `${mode.mode}, seed ${run.seed} (failed)`,
      isMean: true,
      data: own.map(([x, y]) => ({ x, y })),
      borderColor: style.colour,
      borderWidth: 1,
      borderDash: [3, 3],
      pointStyle: "crossRot",
      pointRadius: own.map((_, i) => (i === own.length - 1 ? 6 : 0)),
      pointBorderWidth: 2,
    });
  }
  return sets;
}

function drawLines(id, kind, yTitle, yFormat, yFrom) {
  const [xTitle, xFormat] = AXES[choice.axis];
  const datasets = report.modes.flatMap((mode, index) =>
    shown[index] ? curvesOfMode(mode, index, kind) : []);
  draw(id, `${yTitle} against ${xTitle}, a line per mode`, {
    type: "line",
    data: { datasets },
    options: {
      parsing: false,
      interaction: { mode: "nearest", intersect: false },
      scales: {
        x: axis(xTitle, xFormat, { type: "linear", beginAtZero: true, min: 0 }),
        y: axis(yTitle, yFormat, yFrom),
      },
      plugins: {
        tooltip: {
          filter: (item) => Boolean(item.dataset.isMean),
          callbacks: {
            title: (items) => (items.length ? `${xFormat(items[0].parsed.x)} ${xTitle}` : ""),
            label: (item) => `${item.dataset.mode}: ${yFormat(item.parsed.y, 2)}`,
          },
        },
      },
    },
  });
}

function drawCurves() {
  const finals = report.modes.filter((mode) => mode.final_accuracy)
    .map((mode) => mode.final_accuracy.mean);
  const close = choice.zoom === "top" && finals.length;
  const from = close ? { min: Math.max(0, Math.floor(Math.max(...finals) * 100 - 10) / 100) } : {};
  drawLines("accuracy", "accuracy", "accuracy", percentText, from);
  drawLines("loss", "loss", "loss", (value) => `${+value.toPrecision(4)}`, {});
}

// ---- bars ----

// Draws intervals and figures over horizontal bars. An interval that is much longer than all bars
// is cut off at `most`, without an end.
const whiskers = (rows, most) => ({
  id: "whiskers",
  afterDatasetsDraw(chart) {
    const { ctx, scales: { x }, chartArea } = chart;
    const { text, muted, card } = colours();
    ctx.save();
    chart.getDatasetMeta(0).data.forEach((bar, index) => {
      const row = rows[index];
      const clamp = (value) => Math.min(Math.max(x.getPixelForValue(value), chartArea.left),
        chartArea.right);
      let right = row.value === null ? chartArea.left : clamp(row.value);
      if (row.low !== null) {
        // On whole pixels, so that lines are sharp.
        const [low, high, y] = [clamp(row.low), clamp(Math.min(row.high, most)), bar.y].map(Math.round);
        ctx.beginPath();
        ctx.moveTo(low, y);
        ctx.lineTo(high, y);
        for (const end of row.high > most ? [low] : [low, high]) {
          ctx.moveTo(end, y - 5);
          ctx.lineTo(end, y + 5);
        }
        // With an edge, to stand out from a bar of whatever colour.
        for (const [colour, width] of [[card, 4], [text, 2]]) {
          ctx.strokeStyle = colour;
          ctx.lineWidth = width;
          ctx.stroke();
        }
        right = Math.max(right, high);
      }
      ctx.fillStyle = row.value === null ? muted : text;
      ctx.font = Chart.helpers.toFont({ size: 12 }).string;
      ctx.textBaseline = "middle";
      ctx.fillText(row.text, right + 6, bar.y);
    });
    ctx.restore();
  },
});

function short(name) {
  const most = window.innerWidth < 600 ? 16 : 30;
  return name.length > most ? `${name.slice(0, most - 1)}…` : name;
}

// `rows`: {mode, value, low, high, text} by mode; null where there is none.
function drawBars(id, label, xTitle, format, rows) {
  const longest = Math.max(0, ...rows.map((row) => row.value || 0));
  const most = Math.min(2 * longest, Math.max(longest, ...rows.map((row) => row.high || 0)));
  document.getElementById(id).parentElement.style.height = `${70 + 34 * rows.length}px`;
  draw(id, label, {
    type: "bar",
    data: {
      labels: rows.map((row) => row.mode),
      datasets: [{
        data: rows.map((row) => row.value),
        backgroundColor: rows.map((_, index) => styleOf(index).colour),
        maxBarThickness: 20,
      }],
    },
    options: {
      indexAxis: "y",
      scales: {
        // Room on the right for the figures.
        x: axis(xTitle, format, { beginAtZero: true, suggestedMax: most * 1.35 || 1 }),
        y: axis("", (index) => short(rows[index].mode), { grid: { display: false } }),
      },
      plugins: { tooltip: { callbacks: { label: (item) => rows[item.dataIndex].text } } },
    },
    plugins: [whiskers(rows, most)],
  });
}

function rowOf(mode, estimate, text) {
  const { mean = null, low = null, high = null } = estimate || {};
  return { mode: mode.mode, value: mean, low, high, text };
}

function drawTime() {
  const target = report.target_accuracy;
  document.getElementById("time-caption").textContent =
    target === null ? "Time to accuracy: no run finished" : `Time to ${percentText(target, 1)}`;
  drawBars("time", "Time to accuracy of each mode, with 95 % intervals", "seconds of training",
    (value) => `${+value.toPrecision(3)}`,
    report.modes.map((mode) => rowOf(mode, mode.seconds_to_target, mode.seconds_to_target
      ? secondsText(mode.seconds_to_target.mean)
      : mode.failed === mode.runs.length ? "failed"
        : `reached in ${mode.reached} of ${mode.runs.length} runs`)));
}

function drawCosts() {
  const failed = (estimate, format) => (estimate ? format(estimate.mean) : "failed");
  drawBars("bytes", "Bytes per step of each mode", "bytes", bytesText,
    report.modes.map((mode) => rowOf(mode, mode.bytes_per_step,
      failed(mode.bytes_per_step, bytesText))));
  drawBars("waiting", "Share of time in which ranks waited, of each mode", "share of ranks' time",
    percentText, report.modes.map((mode) => rowOf(mode, mode.waiting_share,
      failed(mode.waiting_share, (value) => percentText(value, 1)))));
}

// ---- staleness ----

function drawStaleness() {
  const bins = Math.max(0, ...report.modes.map((mode) => mode.staleness.length));
  let last = 0;
  for (const mode of report.modes) {
    mode.staleness.forEach((pushes, bin) => { if (pushes) last = Math.max(last, bin); });
  }
  const labels = Array.from({ length: bins ? last + 1 : 0 },
    (_, bin) => (bin === bins - 1 && bin > 0 ? `${bin}+` : `${bin}`));
  document.getElementById("staleness-caption").textContent =
    labels.length ? "Staleness of pushes" : "Staleness of pushes: none was counted";
  const datasets = report.modes.map((mode, index) => {
    const pushes = mode.staleness.reduce((sum, count) => sum + count, 0);
    return {
      mode: mode.mode,
      data: labels.map((_, bin) => (pushes ? (mode.staleness[bin] || 0) / pushes : 0)),
      backgroundColor: styleOf(index).colour,
      hidden: pushes === 0,
    };
  });
  draw("staleness", "Share of pushes by staleness, of each mode", {
    type: "bar",
    data: { labels, datasets },
    options: {
      scales: {
        x: axis("staleness, in clocks or updates", (index) => labels[index]),
        y: axis("share of the mode's pushes", percentText, { beginAtZero: true }),
      },
      plugins: {
        tooltip: {
          callbacks: {
            title: (items) => `staleness ${items[0].label}`,
            label: (item) => `${item.dataset.mode}: ${percentText(item.parsed.y, 1)}`,
          },
        },
      },
    },
  });
}

function drawAll() {
  drawCurves();
  drawTime();
  drawCosts();
  drawStaleness();
  document.body.dataset.charts = `${Object.keys(charts).length} drawn`;
}
