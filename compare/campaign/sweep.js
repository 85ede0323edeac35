"use strict";

// A chart per varied field; its lines are made where sweep.json is, as the SVG files have the same.

function showHeader() {
  document.title = `${report.title}: sweep`;
  document.getElementById("title").textContent = report.title;
  const count = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
  const parts = [count(report.points.length, "point"), count(report.seeds, "seed")];
  if (report.halving) parts.push(`halving by ${report.halving}`);
  parts.push(report.cluster);
  document.getElementById("subtitle").textContent = parts.filter(Boolean).join(" · ");
  document.getElementById("overall").textContent = report.verdict[0];
  document.getElementById("further").textContent = report.verdict.slice(1).join(" ");
  showUnderWay();
  fill("rules", report.rules.map((rule) => element("li", "", rule)));
  document.getElementById("charts-note").textContent = report.halving
    ? "Hollow: stopped before its whole budget. Lines join points with equally many steps." : "";
}

// The interval goes into a line of its own.
function cellOf(text) {
  const cell = element("td");
  const [value, aside] = splitCell(text);
  cell.append(element("span", "", value));
  if (aside) cell.append(element("small", "", aside));
  return cell;
}

function showTable() {
  const [names, ...rows] = report.table.map((texts) => {
    const row = element("tr");
    row.append(...texts.map((text) => (texts === report.table[0] ? element("th", "", text) : cellOf(text))));
    return row;
  });
  fill("figures", [names, ...rows]);
}

function legendOf(series) {
  const box = element("div", "lines");
  box.append(...series.map((line, index) => {
    const item = element("span", "line-name");
    item.append(swatch(index), line.name);
    return item;
  }));
  return box;
}

function makeFigures() {
  fill("charts", report.vary.map((vary, index) => {
    const figure = element("figure");
    figure.append(element("figcaption", "", `${report.metric.words} by ${vary.field}`));
    if (vary.series.length > 1) figure.append(legendOf(vary.series));
    const canvas = element("canvas");
    canvas.id = `chart${index}`;
    canvas.setAttribute("role", "img");
    const box = element("div", "canvas");
    box.append(canvas);
    figure.append(box);
    return figure;
  }));
}

function lineOf(line, index) {
  const style = styleOf(index);
  const { card } = colours();
  return {
    name: line.name,
    data: line.points.map((point) => ({ ...point, y: point.accuracy })),
    borderColor: style.colour,
    backgroundColor: style.colour,
    pointBackgroundColor: line.points.map((point) => (point.whole ? style.colour : card)),
    pointBorderColor: style.colour,
    pointBorderWidth: 2,
    pointStyle: style.point,
    pointRadius: 5,
    borderWidth: 2,
    borderDash: style.dash,
    segment: {
      borderColor: ({ p0, p1 }) => (p0.raw.rung === p1.raw.rung ? undefined : "transparent"),
    },
  };
}

function drawField(vary, index) {
  const named = new Map(vary.positions.map((position, i) => [position, vary.values[i]]));
  const { words, format } = report.metric;
  const text = format === "percent" ? percentText : FORMATS[format];
  draw(`chart${index}`, `${words} by ${vary.field}`, {
    type: "line",
    data: { datasets: vary.series.map(lineOf) },
    options: {
      parsing: false,
      scales: {
        x: axis(vary.field + (vary.axis === "logarithmic" ? ", log scale" : ""),
          (value) => named.get(value), {
            type: "linear",
            min: vary.low,
            max: vary.high,
            afterBuildTicks: (scale) => {
              scale.ticks = [...named.keys()].sort((a, b) => a - b).map((value) => ({ value }));
            },
          }),
        y: axis(words, (value) => text(value), { grace: "5%" }),
      },
      plugins: {
        tooltip: {
          callbacks: {
            title: (items) => `${vary.field}=${named.get(items[0].raw.x)}`,
            label: ({ dataset, raw }) =>
              `${dataset.name ? `${dataset.name}: ` : ""}${text(raw.y, 2)}${raw.steps ? `, ${raw.steps} steps` : ""}`,
          },
        },
      },
    },
  });
}

function showAll() {
  makeFigures();
  report.vary.forEach(drawField);
  document.body.dataset.charts = `${Object.keys(charts).length} drawn`;
}

showHeader();
showTable();
showAll();
hintScrolls();
isDark.addEventListener("change", showAll);
window.addEventListener("resize", hintScrolls);
