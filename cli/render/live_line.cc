#include "cli/render/live_line.h"

namespace strata::cli {

void LiveLine::Show(const std::string& text) {
  if (columns_ == 0) return;
  // A line that wraps could not be overwritten.
  std::fprintf(out_, "\r\033[K%s", text.substr(0, columns_ - 1).c_str());
  std::fflush(out_);
  live_ = true;
}

void LiveLine::Clear() {
  if (live_) {
    std::fprintf(out_, "\r\033[K");
    std::fflush(out_);
  }
  live_ = false;
}

}  // namespace strata::cli
