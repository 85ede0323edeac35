#ifndef STRATA_CLI_RENDER_LIVE_LINE_H_
#define STRATA_CLI_RENDER_LIVE_LINE_H_

#include <cstdio>
#include <string>

namespace strata::cli {

// A line on a terminal that each new one replaces; elsewhere nothing.
//
// Threads: one.
class LiveLine {
 public:
  // `columns` of the terminal that `out` is; 0: it is none.
  LiveLine(std::FILE* out, int columns) : out_(out), columns_(columns) {}
  ~LiveLine() { Clear(); }
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;

  void Show(const std::string& text);
  // Takes the line away: what is written next has a row of its own.
  void Clear();

 private:
  std::FILE* out_;
  const int columns_;
  bool live_ = false;
};

}  // namespace strata::cli

#endif  // STRATA_CLI_RENDER_LIVE_LINE_H_
