// Evaluated in the page by page_test.py.
(() => {
  // How many of a chart's pixels have about this colour; box: [left, top, right, bottom].
  const count = (id, colour, box) => {
    const canvas = document.getElementById(id);
    // A copy: Chromium complains of canvases that are read often.
    const copy = new OffscreenCanvas(canvas.width, canvas.height);
    const context = copy.getContext("2d", { willReadFrequently: true });
    context.drawImage(canvas, 0, 0);
    const [left, top, right, bottom] = box || [0, 0, canvas.width, canvas.height];
    const pixels = context.getImageData(left, top, right - left, bottom - top).data;
    const part = (at) => parseInt(colour.slice(at, at + 2), 16);
    const [r, g, b] = [part(1), part(3), part(5)];
    let found = 0;
    for (let i = 0; i < pixels.length; i += 4) {
      if (pixels[i + 3] > 128 && Math.abs(pixels[i] - r) < 20 &&
          Math.abs(pixels[i + 1] - g) < 20 && Math.abs(pixels[i + 2] - b) < 20) ++found;
    }
    return found;
  };

  // Pixels of a mode's bar that have the text's colour: at the ends of its interval and at its figure.
  const interval = (id, mode, estimate) => {
    const text = getComputedStyle(document.documentElement).getPropertyValue("--text").trim();
    const { scales: { x }, chartArea } = charts[id];
    const { y } = charts[id].getDatasetMeta(0).data[mode];
    const at = (value) => Math.round(Math.max(x.getPixelForValue(value), chartArea.left));
    const row = (left, right) => count(id, text, [left, Math.round(y) - 6, right, Math.round(y) + 6]);
    const end = Math.max(at(estimate.high), at(estimate.mean));
    return [row(at(estimate.low) - 2, at(estimate.low) + 3),
      row(at(estimate.high) - 2, at(estimate.high) + 3), row(end + 5, end + 35)];
  };

  // WCAG's contrast of two CSS colours "rgb(r, g, b)".
  const luminance = (colour) => {
    const [r, g, b] = colour.match(/[\d.]+/g).map((part) => {
      const value = part / 255;
      return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };

  const groundOf = (element) => {
    for (; element; element = element.parentElement) {
      const ground = getComputedStyle(element).backgroundColor;
      if (ground !== "rgba(0, 0, 0, 0)" && ground !== "transparent") return ground;
    }
    return "rgb(255, 255, 255)";
  };

  // Elements that hold text of their own and can be seen.
  const texts = () => [...document.body.querySelectorAll("*")].filter((element) =>
    element.getClientRects().length &&
    !["SCRIPT", "STYLE", "NOSCRIPT"].includes(element.tagName) &&
    [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()));

  window.checks = {
    count,
    interval,
    contrast,
    overflow: () => document.documentElement.scrollWidth - window.innerWidth,
    // Elements that reach out of the viewport and do not scroll in a box of their own.
    sticksOut: () => texts().filter((element) =>
      !element.closest(".scroll, pre") &&
      element.getBoundingClientRect().right > window.innerWidth + 0.5)
      .map((element) => element.textContent.slice(0, 40)),
    // Cells from which text runs into the next one.
    spills: () => [...document.querySelectorAll("td, th")].filter((cell) =>
      cell.scrollWidth > cell.clientWidth + 1).map((cell) => cell.textContent.slice(0, 40)),
    // Words, letters and digits alone, that go on in the next line.
    broken: () => texts().filter((element) => !element.closest("pre")).flatMap((element) =>
      [...element.childNodes].filter((node) => node.nodeType === 3).flatMap((node) =>
        [...node.textContent.matchAll(/[\p{L}\p{N}]+/gu)].filter((word) => {
          const range = document.createRange();
          range.setStart(node, word.index);
          range.setEnd(node, word.index + word[0].length);
          const tops = [...range.getClientRects()].map((rect) => Math.round(rect.top));
          return new Set(tops).size > 1;
        }).map((word) => word[0].slice(0, 40)))),
    small: () => texts().filter((element) => parseFloat(getComputedStyle(element).fontSize) < 12)
      .map((element) => element.textContent.slice(0, 40)),
    pale: () => texts().map((element) => [
      contrast(getComputedStyle(element).color, groundOf(element)),
      element.textContent.slice(0, 40)]).filter(([ratio]) => ratio < 4.5),
  };
})();
