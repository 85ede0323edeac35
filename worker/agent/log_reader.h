#ifndef STRATA_WORKER_AGENT_LOG_READER_H_
#define STRATA_WORKER_AGENT_LOG_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/os/kept_log.h"
#include "common/unique_fd.h"

namespace re2 {
class RE2;
}  // namespace re2

namespace strata::worker {

// Reads one log in pieces of whole lines, in constant memory however large the file is. The middle
// of a log may be cut out while it is read: the unread part of that is not shown, but the line that
// reports the cut is.
//
// Threads: one. No call waits for a line to be written.
class LogReader {
 public:
  // Bytes of a line that are shown; a mark at its end counts the rest. Of a line that returns to
  // its start (\r), as progress bars do, the newest state is shown.
  static constexpr size_t kLineBytesMax = 16 << 10;
  // Upper bound of a line with its mark and its line break.
  static constexpr size_t kShownLineBytesMax = kLineBytesMax + 128;
  static constexpr size_t kPatternBytesMax = 1024;

  struct Options {
    std::optional<uint64_t> tail_lines = {};  // only the last ones; nullopt: all
    std::string grep = {};                    // RE2; only matching lines; empty: all
    bool follow = false;                      // otherwise lines written after Open are not read
  };
  struct Piece {
    std::string lines;    // each with its line break
    bool at_end = false;  // there is nothing more at present
  };

  // Opens RUN_DIR/logs/NAME, where neither logs nor NAME may be a symbolic link. Errors, one line
  // each: InvalidArgument: the pattern; NotFound: no such file; FailedPrecondition: not a readable
  // regular file.
  static absl::StatusOr<std::unique_ptr<LogReader>> Open(const std::string& run_dir,
                                                         const std::string& name, Options options);
  ~LogReader();

  // Returns the next lines, at most `bytes_max` bytes. An unfinished line is held back until it
  // ends, or until `last`. A piece without lines that is not at the end only means that many lines
  // did not match: call again. Errors: those of reading the file, which name it.
  // REQUIRES: bytes_max >= kShownLineBytesMax.
  absl::StatusOr<Piece> Read(size_t bytes_max, bool last);

 private:
  LogReader(std::string run_dir, std::string name);

  absl::Status SeekTail(uint64_t lines);
  absl::Status ReadBlock();
  std::string Path() const;
  // Finds the position again after a cut. Returns false if the log is being cut at this moment.
  bool FindPlace();
  // Returns whether the log continues elsewhere: it was truncated, or another file has its name.
  bool StartsOver();
  void Add(std::string_view part);
  // Completes the current line.
  void EndLine(std::string* lines);

  const std::string run_dir_, name_;
  std::unique_ptr<re2::RE2> grep_;
  UniqueFd file_;
  uint64_t offset_ = 0;          // of the file, after block_
  LogCut cut_;                   // at that time
  std::optional<uint64_t> end_;  // of what is read; nullopt: unlimited
  std::string block_;            // of the file
  size_t used_ = 0;              // consumed bytes of block_
  std::string line_;             // so far, up to kLineBytesMax
  uint64_t line_bytes_ = 0;      // length of the whole line so far
  bool starts_within_ = false;   // the line's start was too far back
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_LOG_READER_H_
