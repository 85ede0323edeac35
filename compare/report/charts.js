"use strict";

// report_charts.h describes the charts in C++, which also writes them as SVG files.
const described = JSON.parse(document.getElementById("described").textContent);

function caption(id, text) {
  document.getElementById(id).closest("figure").querySelector("figcaption").textContent = text;
}

// ---- curves ----

// Least and greatest seed, the area between them, and the mean.
function curvesOfMode(series, index) {
  const style = styleOf(index);
  const edge = { mode: series.name, borderWidth: 0, pointRadius: 0, hitRadius: 0, hoverRadius: 0 };
  const sets = [];
  if (series.band.some(([, , low, high]) => low < high)) {
    sets.push({ ...edge, data: series.band.map(([x, , low]) => ({ x, y: low })), fill: false });
    sets.push({
      ...edge,
      data: series.band.map(([x, , , high]) => ({ x, y: high })),
      fill: "-1",
      backgroundColor: translucent(style.colour, 0.16),
    });
  }
  if (series.band.length) {
    sets.push({
      mode: series.name,
      isMean: true,
      data: series.band.map(([x, mean]) => ({ x, y: mean })),
      borderColor: style.colour,
      backgroundColor: style.colour,
      borderWidth: 2,
      borderDash: style.dash,
      pointStyle: style.point,
      pointRadius: series.band.length <= 40 ? 2.5 : 0,
      pointHitRadius: 6,
    });
  }
  for (const run of series.thin) {
    sets.push({
      mode: run.name,
      isMean: true,
      data: run.points.map(([x, y]) => ({ x, y })),
      borderColor: style.colour,
      borderWidth: 1,
      borderDash: [3, 3],
      pointStyle: "crossRot",
      pointRadius: run.points.map((_, i) => (i === run.points.length - 1 ? 6 : 0)),
      pointBorderWidth: 2,
    });
  }
  return sets;
}

function drawLines(id, chart, yFrom) {
  const [xFormat, yFormat] = [FORMATS[chart.x.format], FORMATS[chart.y.format]];
  const datasets = chart.modes.flatMap((series, index) =>
    shown[index] ? curvesOfMode(series, index) : []);
  caption(id, chart.title);
  draw(id, `${chart.y.name} against ${chart.x.name}, a line per mode`, {
    type: "line",
    data: { datasets },
    options: {
      parsing: false,
      interaction: { mode: "nearest", intersect: false },
      scales: {
        x: axis(chart.x.name, xFormat, { type: "linear", beginAtZero: true, min: 0 }),
        y: axis(chart.y.name, yFormat, yFrom),
      },
      plugins: {
        tooltip: {
          filter: (item) => Boolean(item.dataset.isMean),
          callbacks: {
            title: (items) => (items.length ? `${xFormat(items[0].parsed.x)} ${chart.x.name}` : ""),
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
  const percent = report.metric.format === "percent";
  const close = percent && choice.zoom === "top" && finals.length;
  const from = close ? { min: Math.max(0, Math.floor(Math.max(...finals) * 100 - 10) / 100) } : {};
  drawLines("accuracy", described.accuracy[choice.axis], from);
  drawLines("loss", described.loss[choice.axis], {});
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

// Lines of an axis: a mode's name and, beneath, its settings.
function axisName(index) {
  const { name, settings } = report.modes[index];
  const most = window.innerWidth < 600 ? 18 : 34;
  const cut = (text) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
  return settings.length ? [cut(name), cut(settings.join(" "))] : cut(name);
}

// Pixels that the longest of these texts takes behind its bar.
function widthOf(texts) {
  const context = document.createElement("canvas").getContext("2d");
  context.font = Chart.helpers.toFont({ size: 12 }).string;
  return Math.ceil(Math.max(0, ...texts.map((text) => context.measureText(text).width))) + 10;
}

// A row of the chart is {name, value, low, high, text}; null where there is none.
function drawBars(id) {
  const chart = described[id], rows = chart.modes, format = FORMATS[chart.x.format];
  const longest = Math.max(0, ...rows.map((row) => row.value || 0));
  const most = Math.min(2 * longest, Math.max(longest, ...rows.map((row) => row.high || 0)));
  const figures = widthOf(rows.filter((row) => row.value !== null).map((row) => row.text));
  caption(id, chart.title);
  document.getElementById(id).parentElement.style.height = `${70 + 38 * rows.length}px`;
  draw(id, `${chart.title}, a bar per mode`, {
    type: "bar",
    data: {
      labels: rows.map((row) => row.name),
      datasets: [{
        data: rows.map((row) => row.value),
        backgroundColor: rows.map((_, index) => styleOf(index).colour),
        maxBarThickness: 20,
      }],
    },
    options: {
      indexAxis: "y",
      // Room on the right for the figures, whole also behind the longest bar.
      layout: { padding: { right: figures } },
      scales: {
        x: axis(chart.x.name, format, { beginAtZero: true, suggestedMax: most || 1 }),
        y: axis("", axisName, { grid: { display: false } }),
      },
      plugins: { tooltip: { callbacks: { label: (item) => rows[item.dataIndex].text } } },
    },
    plugins: [whiskers(rows, most)],
  });
}

// ---- staleness ----

function drawStaleness() {
  const chart = described.staleness;
  caption("staleness", chart.bins.length ? chart.title : `${chart.title}: none was counted`);
  draw("staleness", `${chart.title}, shares of each mode`, {
    type: "bar",
    data: {
      labels: chart.bins,
      datasets: chart.modes.map((series, index) => ({
        mode: series.name,
        data: series.shares,
        backgroundColor: styleOf(index).colour,
        hidden: series.shares.length === 0,
      })),
    },
    options: {
      scales: {
        x: axis(chart.x.name, (index) => chart.bins[index]),
        y: axis(chart.y.name, FORMATS[chart.y.format], { beginAtZero: true }),
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
  for (const id of ["time", "bytes", "waiting"]) drawBars(id);
  drawStaleness();
  document.body.dataset.charts = `${Object.keys(charts).length} drawn`;
}
