#ifndef STRATA_COMMON_OS_KEPT_LOG_H_
#define STRATA_COMMON_OS_KEPT_LOG_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace strata {

// A log of which the beginning and the end are kept. Its process appends to it as to any file; what
// is too much between the two is cut out of the file while it runs. A line of kCutLineBytes says
// there how many bytes are missing. Beside the log, LOG.cut tells readers what was cut, so that
// they find their place again.

inline constexpr uint64_t kCutLineBytes = 128;

// A cut in a log.
struct LogCut {
  uint64_t head = 0;         // bytes before the cut
  uint64_t missing = 0;      // 0: nothing was cut
  bool is_changing = false;  // the bytes after `head` are being moved
  bool operator==(const LogCut&) const = default;
};

// Reads LOG.cut; one that is not there, or makes no sense, says that nothing was cut.
LogCut ReadLogCut(const std::string& log_path);

// Returns where what was at `offset` of the log lies now. If it is no longer there, it is the place
// of the line that says so.
uint64_t MovedOffset(uint64_t offset, const LogCut& before, const LogCut& now);

// Cuts a log while others append to it. Between construction and destruction it makes only calls
// that are safe after a fork of a process with threads.
//
// File systems that can take a range out of a file do it at once; elsewhere the end is copied
// forward, and what is written in the very moment in which the file is shortened may be lost
// without being counted.
class LogCutter {
 public:
  struct Options {
    std::string path;
    uint64_t bytes_max = 0;  // half of it is kept of the beginning, half of the end
    mode_t mode = 0600;      // of LOG.cut
  };
  // The log need not be there yet. It may have been cut before.
  explicit LogCutter(const Options& options);
  ~LogCutter();
  LogCutter(const LogCutter&) = delete;
  LogCutter& operator=(const LogCutter&) = delete;

  // Cuts if the log is larger than `bytes_max` by an eighth; with `last` if it is larger at all.
  void Cut(bool last);
  // Bytes of the log's output that are in the file once it was cut for the last time.
  uint64_t bytes_max() const { return bytes_max_; }
  // The descriptors that it has open, -1 for none.
  int log_fd() const { return log_fd_; }

 private:
  bool Open();
  // Opens a file in the log's folder, which must be no link.
  int OpenThere(const char* name, int flags) const;
  // Takes bytes [first, end) out of the file. Returns how many it has taken out.
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
