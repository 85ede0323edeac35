#include "common/os/kept_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "common/unique_fd.h"

namespace strata {
namespace {

constexpr uint64_t kBlockBytes = 4096;  // what file systems take out is a multiple of it
constexpr size_t kCutFileBytes = 64;
constexpr time_t kMovesForS = 10;
constexpr char kCutSuffix[] = ".cut";
// Does not wait for a pipe or follow a link that the program has put there.
constexpr int kOwnFile = O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
constexpr int kOwnFolder = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

bool IsRegular(int fd, struct stat* facts) {
  return fstat(fd, facts) == 0 && S_ISREG(facts->st_mode);
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);  // with a trailing '/' a link would be followed
}
std::string NameOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

uint64_t RoundUp(uint64_t bytes) { return (bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes; }

// Writes digits; snprintf is not allowed after a fork. Returns their end.
char* AppendNumber(uint64_t number, char* out) {
  char digits[20];
  int count = 0;
  do {
    digits[count++] = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number > 0);
  while (count > 0) *out++ = digits[--count];
  return out;
}

char* AppendText(const char* text, char* out) {
  const size_t bytes = strlen(text);
  memcpy(out, text, bytes);
  return out + bytes;
}

bool WriteAt(int fd, const char* bytes, size_t count, uint64_t offset) {
  return pwrite(fd, bytes, count, static_cast<off_t>(offset)) == static_cast<ssize_t>(count);
}

uint64_t LineBytes(const LogCut& cut) { return cut.missing > 0 ? kCutLineBytes : 0; }

}  // namespace

LogCut ReadLogCut(const std::string& log_path) {
  const UniqueFd fd(open((log_path + kCutSuffix).c_str(), O_RDONLY | kOwnFile));
  struct stat facts;
  char text[kCutFileBytes + 1] = {};
  if (!fd.valid() || !IsRegular(fd.get(), &facts)) return {};
  if (pread(fd.get(), text, kCutFileBytes, 0) != static_cast<ssize_t>(kCutFileBytes)) return {};
  unsigned long long head = 0, missing = 0;
  char state[8] = {};
  if (sscanf(text, "%llu %llu %7s", &head, &missing, state) != 3) return {};
  // A program may write anything there.
  constexpr uint64_t kBytesMax = uint64_t{1} << 62;
  if (head > kBytesMax || missing > kBytesMax) return {};
  // A process that was killed while it moved them does not continue.
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  const bool is_fresh = now.tv_sec - facts.st_mtim.tv_sec < kMovesForS;
  return {
      .head = head, .missing = missing, .is_changing = is_fresh && strcmp(state, "moving") == 0};
}

uint64_t MovedOffset(uint64_t offset, const LogCut& before, const LogCut& now) {
  if (now.missing == before.missing || offset <= now.head) return offset;
  // Counted without the line, but including what is missing.
  const uint64_t in_line = std::min(LineBytes(before), offset - now.head);
  const uint64_t counted = offset - in_line + before.missing;
  const uint64_t kept_from = now.head + now.missing;
  if (counted < kept_from) return now.head;
  return counted - now.missing + LineBytes(now);
}

LogCutter::LogCutter(const Options& options)
    : folder_(FolderOf(options.path)),
      name_(NameOf(options.path)),
      cut_name_(name_ + kCutSuffix),
      bytes_max_(options.bytes_max),
      mode_(options.mode),
      cut_(ReadLogCut(options.path)) {
  const uint64_t head = bytes_max_ / 2 / kBlockBytes * kBlockBytes;
  // An earlier attempt has cut at the same place, unless it was another job.
  if (cut_.head != head) cut_ = {.head = head};
  cut_.is_changing = false;
}

LogCutter::~LogCutter() {
  if (log_fd_ >= 0) close(log_fd_);
  if (cut_fd_ >= 0) close(cut_fd_);
}

int LogCutter::OpenThere(const char* name, int flags) const {
  const int folder = open(folder_.c_str(), kOwnFolder);
  if (folder < 0) return -1;
  const int fd = openat(folder, name, flags | kOwnFile, mode_);
  close(folder);
  return fd;
}

bool LogCutter::Open() {
  struct stat facts;
  if (log_fd_ < 0) log_fd_ = OpenThere(name_.c_str(), O_RDWR);
  return log_fd_ >= 0 && IsRegular(log_fd_, &facts);
}

void LogCutter::Cut(bool last) {
  struct stat facts;
  if (!Open() || !IsRegular(log_fd_, &facts)) return;
  const auto size = static_cast<uint64_t>(facts.st_size);
  const uint64_t tail_begin = cut_.head + LineBytes(cut_);
  const uint64_t kept = size - std::min(size, LineBytes(cut_));
  if (kept <= bytes_max_ + (last ? 0 : bytes_max_ / 8) || size <= tail_begin) return;
  // The line replaces the first bytes of the remaining part.
  const uint64_t tail_bytes = bytes_max_ - cut_.head + kCutLineBytes;
  const uint64_t end = RoundUp(size - std::min(size, tail_bytes));
  if (end <= tail_begin || end + kCutLineBytes > size) return;
  if (cut_fd_ < 0) cut_fd_ = OpenThere(cut_name_.c_str(), O_RDWR | O_CREAT);
  if (cut_fd_ < 0 || !IsRegular(cut_fd_, &facts)) return;
  WriteCut(/*is_changing=*/true);
  const uint64_t taken = TakeOut(cut_.head, end);
  if (taken > 0) {
    // An earlier line is part of what was removed; the new one covers as many bytes.
    cut_.missing += taken - LineBytes(cut_) + kCutLineBytes;
    WriteLine(cut_.missing);
  }
  WriteCut(/*is_changing=*/false);
}

uint64_t LogCutter::TakeOut(uint64_t first, uint64_t end) {
  const auto offset = static_cast<off_t>(first), bytes = static_cast<off_t>(end - first);
  if (fallocate(log_fd_, FALLOC_FL_COLLAPSE_RANGE, offset, bytes) == 0) return end - first;
  return CopyForward(first, end);
}

uint64_t LogCutter::CopyForward(uint64_t first, uint64_t end) {
  static char block[64 << 10];
  uint64_t from = end, to = first;
  while (true) {
    const ssize_t got = pread(log_fd_, block, sizeof block, static_cast<off_t>(from));
    if (got < 0) return 0;
    if (got == 0) break;
    if (!WriteAt(log_fd_, block, static_cast<size_t>(got), to)) return 0;
    from += static_cast<uint64_t>(got);
    to += static_cast<uint64_t>(got);
  }
  return ftruncate(log_fd_, static_cast<off_t>(to)) == 0 ? end - first : 0;
}

// It begins on a line of its own.
void LogCutter::WriteLine(uint64_t missing) {
  char line[kCutLineBytes];
  memset(line, ' ', sizeof line);
  char before = '\n';
  const bool ends = cut_.head == 0 ||
                    pread(log_fd_, &before, 1, static_cast<off_t>(cut_.head - 1)) != 1 ||
                    before == '\n';
  char* at = ends ? line : AppendText("\n", line);
  at = AppendText("[strata: ", at);
  at = AppendNumber(missing, at);
  at = AppendText(" bytes are missing here: rank_log_bytes of the job is ", at);
  at = AppendNumber(bytes_max_, at);
  AppendText("]", at);
  line[kCutLineBytes - 1] = '\n';
  [[maybe_unused]] const bool written = WriteAt(log_fd_, line, sizeof line, cut_.head);
}

void LogCutter::WriteCut(bool is_changing) {
  char text[kCutFileBytes];
  memset(text, ' ', sizeof text);
  char* at = AppendNumber(cut_.head, text);
  at = AppendNumber(cut_.missing, AppendText(" ", at));
  AppendText(is_changing ? " moving" : " stable", at);
  text[kCutFileBytes - 1] = '\n';
  [[maybe_unused]] const bool written = WriteAt(cut_fd_, text, sizeof text, 0);
}

}  // namespace strata
