#ifndef STRATA_CLI_OPTIONS_LINE_READER_H_
#define STRATA_CLI_OPTIONS_LINE_READER_H_

#include <optional>
#include <string>
#include <vector>

#include "common/unique_fd.h"

namespace strata::cli {

// Whole lines from a pipe. Owns the descriptor and makes it non-blocking.
//
// Threads: one.
class LineReader {
 public:
  // Longer lines are split: memory is bounded whatever the peer writes.
  static constexpr size_t kLineBytesMax = 64 << 10;

  explicit LineReader(UniqueFd fd);

  int fd() const { return fd_.get(); }

  // Returns lines received since the last call, without line breaks; nullopt after the last one,
  // once the peer has closed. An unfinished last line counts as a line.
  std::optional<std::vector<std::string>> Read();

 private:
  UniqueFd fd_;
  std::string rest_;
};

}  // namespace strata::cli

#endif  // STRATA_CLI_OPTIONS_LINE_READER_H_
