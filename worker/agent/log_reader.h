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
// of a log may be cut out while it is read: what it has not read of that is not shown, and the line
// that says so is.
//
// Threads: one. No call waits for a line to be written.
class LogReader {
 public:
  // Bytes of a line that are shown; the rest of it is counted in a mark at its end. Of one that
  // goes back to its beginning (\r), as progress bars do, the newest state is shown.
  static constexpr size_t kLineBytesMax = 16 << 10;
  // A line with its mark and its line break is never longer.
  static constexpr size_t kShownLineBytesMax = kLineBytesMax + 128;
  static constexpr size_t kPatternBytesMax = 1024;

  struct Options {
    std::optional<uint64_t> tail_lines = {};  // the last ones that are there; nullopt: all
    std::string grep = {};                    // RE2; only lines that match; empty: all
    bool follow = false;                      // else what is written after Open is not read
  };
  struct Piece {
    std::string lines;    // each with its line break
    bool at_end = false;  // nothing more is there now
  };

  // Opens RUN_DIR/logs/NAME, where neither logs nor NAME may be a symbolic link. Errors:
  // InvalidArgument: the pattern; NotFound: there is no such file; FailedPrecondition: it is no
  // file that one may read; each in one line.
  static absl::StatusOr<std::unique_ptr<LogReader>> Open(const std::string& run_dir,
                                                         const std::string& name, Options options);
  ~LogReader();

  // Returns the lines that come next, at most `bytes_max` bytes. A line without an end stays until
  // it has one, or until `last`. A piece without lines that is not at the end says only that many
  // lines did not match: call again. Errors: those of reading the file, which name it.
  // REQUIRES: bytes_max >= kShownLineBytesMax.
  absl::StatusOr<Piece> Read(size_t bytes_max, bool last);

 private:
  LogReader(std::string run_dir, std::string name);

  absl::Status SeekTail(uint64_t lines);
  absl::Status ReadBlock();
  std::string Path() const;
  // Finds the place again after a cut. False: the log is being cut at this moment.
  bool FindPlace();
  // True if the log continues elsewhere: it was truncated, or another file has its name.
  bool StartsOver();
  void Add(std::string_view part);
  // Ends the line that was read so far.
  void EndLine(std::string* lines);

  const std::string run_dir_, name_;
  std::unique_ptr<re2::RE2> grep_;
  UniqueFd file_;
  uint64_t offset_ = 0;          // of the file's bytes after block_
  LogCut cut_;                   // as of then
  std::optional<uint64_t> end_;  // of what is read; nullopt: whatever comes
  std::string block_;            // of the file
  size_t used_ = 0;              // bytes of block_
  std::string line_;             // so far, up to kLineBytesMax
  uint64_t line_bytes_ = 0;      // of all of it
  bool starts_within_ = false;   // the line's beginning was too far back
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_LOG_READER_H_
