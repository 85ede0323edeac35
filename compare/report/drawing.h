#ifndef STRATA_COMPARE_REPORT_DRAWING_H_
#define STRATA_COMPARE_REPORT_DRAWING_H_

#include <functional>
#include <string>
#include <vector>

#include "compare/curve.h"

namespace strata::compare {

// Formats a number on an axis: 0.5 is "50 %".
using NumberText = std::function<std::string(double)>;

// An axis: its range of numbers, and its position in a picture.
struct Scale {
  double low = 0;   // the number at `from`
  double high = 1;  // the number at `to`, above `low`
  double from = 0;  // pixels
  double to = 0;
  std::vector<double> ticks;

  double Pixel(double value) const { return from + (value - low) / (high - low) * (to - from); }
};

// Returns a scale that ends at round numbers around `least` and `greatest`, which are finite; about
// `count` steps of 1, 2 or 5 times a power of ten. If both are equal, there is room around them.
Scale RoundScale(double least, double greatest, int count, double from, double to);

enum class Anchor { kStart, kMiddle, kEnd };
enum class Ink { kText, kMuted, kGrid };

// An SVG picture under construction. Coordinates in pixels from the upper left corner. Modes'
// colours and dashes are those of palette.h, for a light or a dark background as the viewer
// prefers.
class Drawing {
 public:
  // `title` is at the top and is the picture's name.
  Drawing(double width, const std::string& title);

  double width() const { return width_; }

  void Line(Point from, Point to, Ink ink);
  // Draws a mode's curve; thin and dotted, or in its own dashes.
  void Curve(const std::vector<Point>& points, size_t mode, bool is_thin);
  void Dot(Point at, size_t mode);
  // Fills the area between two lines with a light shade of the mode's colour.
  void Area(const std::vector<Point>& above, const std::vector<Point>& below, size_t mode);
  void Bar(Point corner, double width, double height, size_t mode);
  // Writes any text; characters other than printable ASCII become '?'.
  void Text(Point at, const std::string& text, Anchor anchor, Ink ink);
  // Writes it from bottom to top.
  void UprightText(Point at, const std::string& text, Ink ink);

  // Returns the whole file.
  std::string Finish(double height) const;

 private:
  const double width_;
  const std::string title_;
  std::string body_;
};

// Draws grid, numbers and names of axes; x below, y on the left.
void DrawAxes(const Scale& x, const NumberText& x_text, const std::string& x_name, const Scale& y,
              const NumberText& y_text, const std::string& y_name, Drawing* drawing);

// Draws a sample line and a name per mode, in rows from `top` on; returns the y where it ends.
double DrawLegend(const std::vector<std::string>& names, double top, Drawing* drawing);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_REPORT_DRAWING_H_
