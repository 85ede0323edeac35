"use strict";

// Charts of one job or two: each is made once and then given what is new.

const AXES = [["step", "steps"], ["elapsed", "time"], ["samples", "samples"]];
const AXIS = {
  step: { title: "step", format: countText },
  elapsed: { title: "time since training began", format: durationText },
  samples: { title: "samples", format: countText },
};
const STALENESS_MAX = 7;  // all that is staler is shown as one
const choice = { axis: "step" };

// Where the points of a course lie. Samples follow from the share of steps that has been done.
function xsOf(job) {
  const { step, elapsed_s } = job.course;
  if (choice.axis === "step") return step;
  if (choice.axis === "elapsed") return elapsed_s;
  const { progress } = job.status;
  const each = progress.step ? progress.samples / progress.step : 0;
  return step.map((one) => one * each);
}

function line(name, index, xs, ys, more) {
  const style = styleOf(index);
  const data = xs.map((x, i) => ({ x, y: ys[i] })).filter((point) => point.y !== null);
  return {
    label: name,
    data,
    borderColor: style.colour,
    backgroundColor: style.colour,
    borderWidth: 2,
    borderDash: style.dash,
    pointStyle: style.point,
    pointRadius: data.length <= 30 ? 2.5 : 0,
    pointHitRadius: 6,
    ...more,
  };
}

// A chart with the same axes only gets new data: what the pointer shows stays.
function drawOrRenew(id, label, config, key) {
  const have = charts[id];
  const isSame = have && have.canvas === document.getElementById(id) && have.axesKey === key;
  if (!isSame) {
    draw(id, label, config);
    charts[id].axesKey = key;
    return;
  }
  have.canvas.setAttribute("aria-label", label);
  have.data = config.data;
  have.update("none");
}

// `y` and, for sets with yAxisID "right", `right`: {title, format, more}.
function drawLines(id, label, datasets, y, right) {
  const x = AXIS[choice.axis];
  const scales = {
    x: axis(x.title, x.format, { type: "linear" }),
    y: axis(y.title, y.format, y.more),
  };
  const formatOf = (set) => (set.yAxisID === "right" ? right.format : y.format);
  if (right) {
    scales.right = axis(right.title, right.format, { ...right.more, position: "right" });
    scales.right.grid = { drawOnChartArea: false, borderColor: colours().muted };
  }
  drawOrRenew(id, label, {
    type: "line",
    data: { datasets },
    options: {
      parsing: false,
      interaction: { mode: "nearest", axis: "x", intersect: false },
      scales,
      plugins: {
        tooltip: {
          callbacks: {
            title: (items) => (items.length ? `${x.title} ${x.format(items[0].parsed.x)}` : ""),
            label: (item) => `${item.dataset.label}: ` +
              formatOf(item.dataset)(item.raw.own === undefined ? item.parsed.y : item.raw.own),
          },
        },
      },
    },
  }, [choice.axis, isDark.matches, ...[y, right].map((one) => one && JSON.stringify(one.more))].join(" "));
}

const SHARE = { format: (value) => percentText(value, 0), more: { min: 0, max: 1 } };
const plain = FORMATS.plain;

// Around a single value an axis would be from -100 % to 200 %.
function accuracyAxis(...measured) {
  const count = Math.max(...measured.map((values) => values.filter((one) => one !== null).length));
  return { title: "test accuracy", format: SHARE.format, more: count < 2 ? SHARE.more : {} };
}

function drawLoss(id, job) {
  const { course } = job;
  const xs = xsOf(job);
  const sets = [line("loss", 0, xs, course.loss)];
  const isMeasured = course.test_accuracy.some((value) => value !== null);
  if (isMeasured) {
    sets.push(line("test accuracy", 1, xs, course.test_accuracy,
      { yAxisID: "right", pointRadius: 2.5 }));
  }
  drawLines(id, `loss${isMeasured ? " and test accuracy" : ""}, now ` +
    `${lossText(job.status.progress.loss)}`, sets, { title: "loss", format: plain },
  isMeasured ? accuracyAxis(course.test_accuracy) : null);
}

// How many kinds of staleness are shown apart.
function stalenessBins(course) {
  const used = (counts) => counts.reduce((most, count, bin) => (count ? bin + 1 : most), 0);
  return Math.min(STALENESS_MAX + 1, Math.max(0, ...course.staleness.map(used)));
}

// Shares of pushes by staleness, one upon the other.
function stalenessSets(course, xs) {
  const bins = stalenessBins(course);
  const heights = course.staleness.map(() => 0);
  const sets = [];
  for (let bin = 0; bin < bins; ++bin) {
    const points = course.staleness.flatMap((counts, i) => {
      const all = counts.reduce((sum, count) => sum + count, 0);
      if (!all) return [];
      const these = bin < STALENESS_MAX ? counts[bin] || 0
        : counts.slice(bin).reduce((sum, count) => sum + count, 0);
      heights[i] += these / all;
      return [{ x: xs[i], y: heights[i], own: these / all }];
    });
    const { colour } = styleOf(bin);
    sets.push({
      label: bin < STALENESS_MAX ? `staleness ${bin}` : `${bin} and more`,
      data: points,
      borderColor: colour,
      borderWidth: 1,
      pointRadius: 0,
      pointHitRadius: 6,
      backgroundColor: translucent(colour, 0.75),
      fill: bin ? "-1" : "origin",
    });
  }
  return sets;
}

function drawJobCharts(job) {
  const { course } = job;
  const xs = xsOf(job);
  const atZero = { beginAtZero: true };
  const solid = { borderDash: [] };  // it is alone
  drawLoss("loss", job);
  drawLines("speed", `samples per second, now ${numberText(job.status.progress.samples_per_s)}`,
    [line("samples/s", 2, xs, course.samples_per_s, solid)], { title: "samples/s", format: countText, more: atZero });
  const hidden = course.hidden_share.some((value) => value !== null)
    ? [line("hidden", 0, xs, course.hidden_share)] : [];
  drawLines("waiting", "share of the ranks' time spent waiting, and of the transfers' time that is hidden",
    [line("waiting", 1, xs, course.waiting_share), ...hidden], { title: "share", ...SHARE });
  if (stalenessBins(course)) {
    drawLines("staleness", "shares of pushes by staleness", stalenessSets(course, xs),
      { title: "share of pushes", ...SHARE });
  }
  drawLines("bytes", "bytes pushed and answered in each window",
    [line("pushed", 4, xs, course.bytes_pushed), line("answered", 5, xs, course.bytes_answered)],
    { title: "bytes in a window", format: bytesText, more: atZero });
  drawLines("lr", "learning rate", [line("learning rate", 3, xs, course.lr, solid)],
    { title: "learning rate", format: plain, more: atZero });
}

// ---- their frames ----

// keys: [name, number of its line]
function figure(id, title, keys) {
  const canvas = element("canvas");
  canvas.id = id;
  canvas.setAttribute("role", "img");
  return keyed(`figure ${id}`, box("figure", "",
    box("figcaption", "", title, box("span", "keys", (keys || []).map(([name, index]) =>
      box("span", "key", swatch(index), name)))),
    box("div", "canvas", canvas)));
}

function jobFigures(job) {
  const { course } = job;
  const has = (values) => values.some((value) => value !== null);
  const bins = stalenessBins(course);
  const lossKeys = has(course.test_accuracy) ? [["loss", 0], ["test accuracy", 1]] : [];
  return box("div", "charts",
    figure("loss", lossKeys.length ? "Loss and accuracy" : "Loss", lossKeys),
    figure("speed", "Samples/s"),
    figure("waiting", "Ranks' waiting", has(course.hidden_share)
      ? [["waiting", 1], ["transfers hidden", 0]] : []),
    bins ? figure("staleness", "Staleness of pushes", Array.from({ length: bins }, (_, bin) =>
      [bin < STALENESS_MAX ? `${bin}` : `${bin} and more`, bin])) : null,
    figure("bytes", "Bytes", [["pushed", 4], ["answered", 5]]),
    figure("lr", "Learning rate"));
}

function axisRadios() {
  const group = box("div", "", AXES.map(([value, text]) => {
    const made = button(text, () => {
      choice.axis = value;
      show();
    });
    made.setAttribute("role", "radio");
    made.setAttribute("aria-checked", String(choice.axis === value));
    return made;
  }));
  group.setAttribute("role", "radiogroup");
  group.setAttribute("aria-label", "Horizontal axis");
  return box("div", "controls", group);
}
