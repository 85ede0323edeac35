#include "compare/report/drawing.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "compare/report/palette.h"

namespace strata::compare {

namespace {

// For text of 12 pixels, rather too wide than too narrow.
constexpr double kLetterWidth = 7;

const char* ClassOf(Ink ink) {
  return ink == Ink::kText ? "text" : ink == Ink::kMuted ? "muted" : "grid";
}

std::string Escaped(std::string text) {
  for (char& letter : text) {
    if (letter < ' ' || letter > '~') letter = '?';
  }
  return absl::StrReplaceAll(text,
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

// `text` in lines of at most `letters`, broken behind the last '+' or space in them, if any.
std::vector<std::string> LinesOf(std::string text, size_t letters) {
  std::vector<std::string> lines;
  while (text.size() > letters) {
    const size_t at = text.find_last_of("+ ", letters - 1);
    const size_t length = at == std::string::npos || at == 0 ? letters : at + 1;
    lines.push_back(text.substr(0, length));
    text.erase(0, length);
  }
  lines.push_back(std::move(text));
  return lines;
}

std::string Coordinates(const std::vector<Point>& points) {
  std::string text;
  for (const Point& point : points) absl::StrAppendFormat(&text, " %.1f,%.1f", point.x, point.y);
  return text.empty() ? text : text.substr(1);
}

std::string ColourRules(const char* Colour::*ground) {
  std::string rules;
  for (size_t i = 0; i < kColours.size(); ++i) {
    absl::StrAppend(&rules, ".m", i, "{color:", kColours[i].*ground, "}");
  }
  return rules;
}

std::string Style() {
  return absl::StrCat(
      "text{font:12px system-ui,'DejaVu Sans',sans-serif}.title{font-size:15px;font-weight:600}"
      ".line{fill:none;stroke:currentColor;stroke-width:2}.thin{stroke-width:1}"
      ".bar{fill:currentColor}.area{fill:currentColor;opacity:.16}"
      ".page{fill:#fff}text,.title,.text{fill:#1b1f24}line.text{stroke:#1b1f24}"
      "text.muted{fill:#57606a}line.muted{stroke:#57606a}.grid{stroke:#d5dae0}",
      ColourRules(&Colour::light),
      "@media(prefers-color-scheme:dark){.page{fill:#1a1e24}text,.title,.text{fill:#e7eaee}"
      "line.text{stroke:#e7eaee}text.muted{fill:#a3adb8}line.muted{stroke:#a3adb8}"
      ".grid{stroke:#38404a}",
      ColourRules(&Colour::dark), "}");
}

}  // namespace

Drawing::Drawing(double width, const std::string& title) : width_(width), title_(Escaped(title)) {
  absl::StrAppend(&body_, "<text class=\"title\" x=\"16\" y=\"25\">", title_, "</text>\n");
}

void Drawing::Line(Point from, Point to, Ink ink) {
  absl::StrAppendFormat(&body_,
                        "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n",
                        ClassOf(ink), from.x, from.y, to.x, to.y);
}

void Drawing::Curve(const std::vector<Point>& points, size_t mode, bool is_thin) {
  absl::StrAppendFormat(&body_,
                        "<polyline class=\"line%s m%d\" stroke-dasharray=\"%s\" points=\"%s\"/>\n",
                        is_thin ? " thin" : "", mode % kColours.size(),
                        is_thin ? "3, 3" : ModeDash(mode), Coordinates(points));
}

void Drawing::Dot(Point at, size_t mode) {
  absl::StrAppendFormat(&body_, "<circle class=\"bar m%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"/>\n",
                        mode % kColours.size(), at.x, at.y);
}

void Drawing::Area(const std::vector<Point>& above, const std::vector<Point>& below, size_t mode) {
  std::vector<Point> around = above;
  around.insert(around.end(), below.rbegin(), below.rend());
  absl::StrAppendFormat(&body_, "<polygon class=\"area m%d\" points=\"%s\"/>\n",
                        mode % kColours.size(), Coordinates(around));
}

void Drawing::Bar(Point corner, double width, double height, size_t mode) {
  absl::StrAppendFormat(
      &body_, "<rect class=\"bar m%d\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n",
      mode % kColours.size(), corner.x, corner.y, width, height);
}

void Drawing::Text(Point at, const std::string& text, Anchor anchor, Ink ink) {
  const char* anchors[] = {"start", "middle", "end"};
  absl::StrAppendFormat(&body_,
                        "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n",
                        ClassOf(ink), at.x, at.y, anchors[static_cast<int>(anchor)], Escaped(text));
}

void Drawing::UprightText(Point at, const std::string& text, Ink ink) {
  absl::StrAppendFormat(&body_,
                        "<text class=\"%s\" transform=\"translate(%.1f %.1f) rotate(-90)\" "
                        "text-anchor=\"middle\">%s</text>\n",
                        ClassOf(ink), at.x, at.y, Escaped(text));
}

std::string Drawing::Finish(double height) const {
  return absl::StrCat(
      absl::StrFormat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
                      "width=\"%.0f\" height=\"%.0f\" role=\"img\">\n",
                      width_, height, width_, height),
      "<title>", title_, "</title>\n<style>", Style(), "</style>\n",
      "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n", body_, "</svg>\n");
}

void DrawAxes(const Scale& x, const NumberText& x_text, const std::string& x_name, const Scale& y,
              const NumberText& y_text, const std::string& y_name, Drawing* drawing) {
  for (const double tick : x.ticks) {
    const double at = x.Pixel(tick);
    drawing->Line({at, y.from}, {at, y.to}, Ink::kGrid);
    drawing->Text({at, y.from + 18}, x_text(tick), Anchor::kMiddle, Ink::kText);
  }
  for (const double tick : y.ticks) {
    const double at = y.Pixel(tick);
    drawing->Line({x.from, at}, {x.to, at}, Ink::kGrid);
    drawing->Text({x.from - 8, at + 4}, y_text(tick), Anchor::kEnd, Ink::kText);
  }
  drawing->Line({x.from, y.from}, {x.to, y.from}, Ink::kMuted);
  drawing->Line({x.from, y.from}, {x.from, y.to}, Ink::kMuted);
  drawing->Text({(x.from + x.to) / 2, y.from + 38}, x_name, Anchor::kMiddle, Ink::kMuted);
  drawing->UprightText({18, (y.from + y.to) / 2}, y_name, Ink::kMuted);
}

double DrawLegend(const std::vector<std::string>& names, double top, Drawing* drawing) {
  constexpr double kLeft = 16, kPiece = 34, kGap = 14, kRow = 20;
  const double room = drawing->width() - kLeft - kPiece;
  double x = kLeft, y = top;
  for (size_t mode = 0; mode < names.size(); ++mode) {
    const double width = kPiece + names[mode].size() * kLetterWidth + kGap;
    if (x > kLeft && x + width > drawing->width()) {
      x = kLeft;
      y += kRow;
    }
    drawing->Curve({{x, y + 8}, {x + 28, y + 8}}, mode, false);
    const auto lines = LinesOf(names[mode], static_cast<size_t>(room / kLetterWidth));
    for (size_t line = 0; line < lines.size(); ++line) {
      if (line > 0) y += kRow;
      drawing->Text({x + kPiece, y + 12}, lines[line], Anchor::kStart, Ink::kText);
    }
    x += width;
  }
  return y + kRow;
}

namespace {

double RoundStep(double step) {
  const double power = std::pow(10, std::floor(std::log10(step)));
  for (const double factor : {1, 2, 5}) {
    if (step <= factor * power * (1 + 1e-9)) return factor * power;
  }
  return 10 * power;
}

}  // namespace

Scale RoundScale(double least, double greatest, int count, double from, double to) {
  if (!(greatest > least)) greatest = least + (least == 0 ? 1 : std::abs(least));
  const double step = RoundStep((greatest - least) / count);
  Scale scale;
  const double first = std::floor(least / step + 1e-9), last = std::ceil(greatest / step - 1e-9);
  scale.low = first * step;
  scale.high = last * step;
  scale.from = from;
  scale.to = to;
  for (int i = 0; i <= std::lround(last - first); ++i) scale.ticks.push_back((first + i) * step);
  return scale;
}

}  // namespace strata::compare
