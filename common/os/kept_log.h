#ifndef STRATA_COMMON_OS_KEPT_LOG_H_
#define STRATA_COMMON_OS_KEPT_LOG_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace strata {

// A log of which only the beginning and the end are kept. Its process appends to it as to any file;
// excess in the middle is cut out while it runs. A line of kCutLineBytes there says how many bytes
// are missing. LOG.cut, beside the log, tells readers what was cut, so that they can find their
// position again.

inline constexpr uint64_t kCutLineBytes = 128;

// A cut in a log.
struct LogCut {
  uint64_t head = 0;         // bytes before the cut
  uint64_t missing = 0;      // 0: nothing was cut
  bool is_changing = false;  // the bytes after `head` are being moved
  bool operator==(const LogCut&) const = default;
};

// Reads LOG.cut; a missing or malformed one means that nothing was cut.
LogCut ReadLogCut(const std::string& log_path);

// Returns the new position of `offset` in the log. If that part was removed, the position of the
// line that reports the cut.
uint64_t MovedOffset(uint64_t offset, const LogCut& before, const LogCut& now);

// Cuts a log while others append to it. Between construction and destruction it makes only calls
// that are safe after a fork of a process with threads.
//
// File systems that can remove a range from a file do so at once; elsewhere the end is copied
// forward, and bytes written in the very moment when the file is shortened may be lost without
// being counted.
class LogCutter {
 public:
  struct Options {
    std::string path;
    uint64_t bytes_max = 0;  // half is kept of the beginning, half of the end
    mode_t mode = 0600;      // of LOG.cut
  };
  // The log need not exist yet. It may have been cut before.
  explicit LogCutter(const Options& options);
  ~LogCutter();
  LogCutter(const LogCutter&) = delete;
  LogCutter& operator=(const LogCutter&) = delete;

  // Cuts if the log is larger than `bytes_max` by an eighth; with `last` if it is larger at all.
  void Cut(bool last);
  // Bytes of the log's output that are in the file after the last cut.
  uint64_t bytes_max() const { return bytes_max_; }
  // The open descriptors, -1 for none.
  int log_fd() const { return log_fd_; }

 private:
  bool Open();
  // Opens a file in the log's folder, which must not be a link.
  int OpenThere(const char* name, int flags) const;
  // Removes bytes [first, end) from the file. Returns how many it has removed.
  uint64_t TakeOut(uint64_t first, uint64_t end);
  uint64_t CopyForward(uint64_t first, uint64_t end);
  void WriteLine(uint64_t missing);
  void WriteCut(bool is_changing);

  const std::string folder_, name_, cut_name_;
  const uint64_t bytes_max_;
  const mode_t mode_;
  int log_fd_ = -1, cut_fd_ = -1;
  LogCut cut_;
};

}  // namespace strata

#endif  // STRATA_COMMON_OS_KEPT_LOG_H_
