#include "worker/agent/log_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <re2/re2.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/require.h"

namespace strata::worker {
namespace {

constexpr size_t kBlockBytes = 64 << 10;
// Bytes that one call of Read examines, so that a pattern without matches does not block others.
constexpr size_t kBytesPerReadMax = 1 << 20;
// Bytes from the end in which the last lines are searched: a file without line breaks may be of any
// size.
constexpr uint64_t kTailBytesMax = 64 << 20;
constexpr absl::Duration kReadFor = absl::Milliseconds(50);
constexpr int64_t kPatternMemoryMax = 1 << 20;

constexpr char kBeginsAnew[] = "[the log was truncated or replaced, and begins anew]\n";
constexpr char kStartsWithin[] = "[...] ";

absl::Status CannotRead(const std::string& path, int error) {
  const std::string text = absl::StrCat("cannot read ", path, ": ", strerror(error));
  if (error == ENOENT) return absl::NotFoundError(text);
  return absl::FailedPreconditionError(text);
}

// Opens FOLDER/logs/NAME, without following links: they could lead to files that the job's owner
// may not read.
absl::StatusOr<UniqueFd> OpenLog(const std::string& run_dir, const std::string& name) {
  const std::string path = absl::StrCat(run_dir, "/logs/", name);
  const UniqueFd folder(open(run_dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0) return CannotRead(path, errno);
  const UniqueFd logs(
      openat(folder.get(), "logs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (logs.get() < 0) return CannotRead(path, errno);
  // O_NONBLOCK, or a pipe of that name would make the reader wait for a writer.
  UniqueFd file(openat(logs.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (file.get() < 0) return CannotRead(path, errno);
  struct stat about;
  if (fstat(file.get(), &about) != 0) return CannotRead(path, errno);
  if (!S_ISREG(about.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat("cannot read ", path, ": it is no file"));
  }
  return file;
}

}  // namespace

LogReader::LogReader(std::string run_dir, std::string name)
    : run_dir_(std::move(run_dir)), name_(std::move(name)) {}

LogReader::~LogReader() = default;

absl::StatusOr<std::unique_ptr<LogReader>> LogReader::Open(const std::string& run_dir,
                                                           const std::string& name,
                                                           Options options) {
  STRATA_REQUIRE(name.find('/') == std::string::npos);
  std::unique_ptr<LogReader> reader(new LogReader(run_dir, name));
  if (options.grep.size() > kPatternBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("grep: a pattern of ", options.grep.size(),
                                                   " bytes, which may have ", kPatternBytesMax));
  }
  if (!options.grep.empty()) {
    RE2::Options pattern(RE2::Latin1);  // a log may have any bytes
    pattern.set_log_errors(false);
    pattern.set_max_mem(kPatternMemoryMax);
    reader->grep_ = std::make_unique<RE2>(options.grep, pattern);
    if (!reader->grep_->ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("grep: ", options.grep, ": ", reader->grep_->error()));
    }
  }
  absl::StatusOr<UniqueFd> file = OpenLog(run_dir, name);
  if (!file.ok()) return file.status();
  reader->file_ = *std::move(file);
  reader->cut_ = ReadLogCut(reader->Path());
  if (!options.follow) {
    struct stat about;
    if (fstat(reader->file_.get(), &about) != 0) return CannotRead(name, errno);
    reader->end_ = static_cast<uint64_t>(about.st_size);
  }
  if (options.tail_lines.has_value()) {
    const absl::Status found = reader->SeekTail(*options.tail_lines);
    if (!found.ok()) return found;
  }
  return reader;
}

absl::Status LogReader::SeekTail(uint64_t lines) {
  struct stat about;
  if (fstat(file_.get(), &about) != 0) return CannotRead(name_, errno);
  const uint64_t size = end_.value_or(static_cast<uint64_t>(about.st_size));
  offset_ = size;
  if (lines == 0) return absl::OkStatus();
  const uint64_t first = size > kTailBytesMax ? size - kTailBytesMax : 0;
  std::string block(kBlockBytes, '\0');
  uint64_t end = size;
  while (end > first) {
    const size_t want = static_cast<size_t>(std::min<uint64_t>(kBlockBytes, end - first));
    const ssize_t got = pread(file_.get(), block.data(), want, static_cast<off_t>(end - want));
    if (got < 0) return CannotRead(name_, errno);
    if (static_cast<size_t>(got) < want) break;  // it was truncated; Read notices that
    for (size_t i = want; i-- > 0;) {
      const uint64_t at = end - want + i;
      if (block[i] != '\n' || at + 1 == size || --lines > 0) continue;
      offset_ = at + 1;
      return absl::OkStatus();
    }
    end -= want;
  }
  offset_ = first;
  starts_within_ = first > 0;
  return absl::OkStatus();
}

std::string LogReader::Path() const { return absl::StrCat(run_dir_, "/logs/", name_); }

bool LogReader::FindPlace() {
  const LogCut now = ReadLogCut(Path());
  if (now.is_changing) return false;
  offset_ = MovedOffset(offset_, cut_, now);
  if (end_.has_value()) end_ = std::max(offset_, MovedOffset(*end_, cut_, now));
  cut_ = now;
  return true;
}

absl::Status LogReader::ReadBlock() {
  block_.clear();
  used_ = 0;
  if (!FindPlace()) return absl::OkStatus();
  block_.resize(kBlockBytes);
  if (end_.has_value()) {
    const uint64_t rest = *end_ > offset_ ? *end_ - offset_ : 0;
    block_.resize(static_cast<size_t>(std::min<uint64_t>(rest, block_.size())));
  }
  const ssize_t got = pread(file_.get(), block_.data(), block_.size(), static_cast<off_t>(offset_));
  block_.resize(got > 0 ? static_cast<size_t>(got) : 0);
  if (got < 0) return CannotRead(Path(), errno);
  // The bytes may have moved during the read; they are read again.
  if (ReadLogCut(Path()) != cut_) {
    block_.clear();
    return absl::OkStatus();
  }
  offset_ += block_.size();
  return absl::OkStatus();
}

bool LogReader::StartsOver() {
  struct stat mine, theirs;
  if (end_.has_value()) return false;
  if (!FindPlace() || fstat(file_.get(), &mine) != 0) return false;
  if (static_cast<uint64_t>(mine.st_size) < offset_) return ReadLogCut(Path()) == cut_;
  absl::StatusOr<UniqueFd> now = OpenLog(run_dir_, name_);
  // If it was only removed, the rest can still be read.
  if (!now.ok() || fstat(now->get(), &theirs) != 0) return false;
  if (mine.st_ino == theirs.st_ino && mine.st_dev == theirs.st_dev) return false;
  file_ = *std::move(now);
  return true;
}

void LogReader::Add(std::string_view part) {
  line_bytes_ += part.size();
  if (line_.size() + part.size() > kLineBytesMax) {
    const size_t back = part.substr(0, part.size() - 1).rfind('\r');
    if (back != std::string_view::npos) {
      part.remove_prefix(back + 1);
      line_.clear();
    }
  }
  line_.append(part.substr(0, kLineBytesMax - line_.size()));
}

void LogReader::EndLine(std::string* lines) {
  if (grep_ == nullptr || RE2::PartialMatch(line_, *grep_)) {
    absl::StrAppend(lines, starts_within_ ? kStartsWithin : "", line_);
    if (line_bytes_ > line_.size()) {
      absl::StrAppend(lines, " [", line_bytes_ - line_.size(), " more bytes]");
    }
    lines->push_back('\n');
  }
  line_.clear();
  line_bytes_ = 0;
  starts_within_ = false;
}

absl::StatusOr<LogReader::Piece> LogReader::Read(size_t bytes_max, bool last) {
  STRATA_REQUIRE(bytes_max >= kShownLineBytesMax);
  Piece piece;
  size_t looked_at = 0;
  const absl::Time until = absl::Now() + kReadFor;
  const auto has_room = [&] { return bytes_max - piece.lines.size() >= kShownLineBytesMax; };
  while (looked_at < kBytesPerReadMax) {
    while (used_ < block_.size()) {
      if (!has_room()) return piece;
      const std::string_view rest = std::string_view(block_).substr(used_);
      const size_t end = rest.find('\n');
      Add(rest.substr(0, end));
      used_ += end == std::string_view::npos ? rest.size() : end + 1;
      if (end == std::string_view::npos) continue;
      EndLine(&piece.lines);
      // Some patterns take long per line.
      if (grep_ != nullptr && absl::Now() > until) return piece;
    }
    const absl::Status read = ReadBlock();
    if (!read.ok()) return read;
    looked_at += block_.size();
    if (!block_.empty()) continue;
    if (!has_room()) return piece;
    if (StartsOver()) {
      if (line_bytes_ > 0) EndLine(&piece.lines);
      // The next call continues: there may be no room for another line.
      absl::StrAppend(&piece.lines, kBeginsAnew);
      offset_ = 0;
      cut_ = ReadLogCut(Path());
      return piece;
    }
    if (last && line_bytes_ > 0) EndLine(&piece.lines);
    piece.at_end = true;
    return piece;
  }
  return piece;
}

}  // namespace strata::worker
