#include "common/os/direct_file.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/buffer_pool.h"
#include "common/os/atomic_file.h"

namespace strata {
namespace {

// Bytes per call: enough to fill a disk's queue.
constexpr size_t kCallBytes = size_t{8} << 20;
constexpr size_t kCallPieces = 64;

bool IsAligned(uint64_t value) { return value % kDirectAlignment == 0; }
bool IsAligned(const char* data) { return IsAligned(reinterpret_cast<uintptr_t>(data)); }

// Sets whether calls on the descriptor bypass the page cache; returns success.
bool SetDirect(int fd, bool direct) {
  const int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && fcntl(fd, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

// Returns whether an ordinary call may succeed where this one failed.
bool IsOfDirect(int error) { return error == EINVAL || error == EOPNOTSUPP || error == ENOMEM; }

// Combines pieces into calls; when bypassing the page cache, into whole blocks, with a buffer for
// unaligned parts.
class PieceWriter {
 public:
  PieceWriter(int fd, bool is_large, const std::string& path)
      : fd_(fd), path_(path), is_direct_(is_large && SetDirect(fd, true)) {}

  absl::Status Add(absl::Span<const char> bytes) {
    while (!bytes.empty()) {
      absl::StatusOr<size_t> taken = TakesInPlace(bytes) ? AddInPlace(bytes) : AddToBuffer(bytes);
      if (!taken.ok()) return taken.status();
      bytes.remove_prefix(*taken);
    }
    return absl::OkStatus();
  }

  // Writes everything left, including the last partial block.
  absl::Status Finish() {
    const size_t rest = buffered_ % kDirectAlignment;
    const char* const last = Buffer() + buffered_ - rest;
    buffered_ -= rest;
    if (absl::Status status = Flush(); !status.ok() || rest == 0) return status;
    BeOrdinary();
    queue_ = {{const_cast<char*>(last), rest}};
    return Flush();
  }

 private:
  bool TakesInPlace(absl::Span<const char> bytes) const {
    if (!is_direct_) return buffered_ == 0;
    return bytes.size() >= kDirectAlignment && IsAligned(bytes.data()) && IsAligned(buffered_);
  }

  absl::StatusOr<size_t> AddInPlace(absl::Span<const char> bytes) {
    if (buffered_ > 0) {
      if (absl::Status status = Flush(); !status.ok()) return status;
    }
    size_t size = std::min(bytes.size(), kCallBytes);
    if (is_direct_) size -= size % kDirectAlignment;
    queue_.push_back({const_cast<char*>(bytes.data()), size});
    queued_ += size;
    if (queued_ < kCallBytes && queue_.size() < kCallPieces) return size;
    const absl::Status status = Flush();
    return status.ok() ? absl::StatusOr<size_t>(size) : status;
  }

  absl::StatusOr<size_t> AddToBuffer(absl::Span<const char> bytes) {
    if (buffer_ == nullptr) buffer_ = AlignedMemory(kCallBytes, kDirectAlignment);
    if (buffer_ == nullptr) return absl::ResourceExhaustedError(absl::StrCat(path_, ": no memory"));
    const size_t size = std::min(bytes.size(), kCallBytes - buffered_);
    std::memcpy(Buffer() + buffered_, bytes.data(), size);
    buffered_ += size;
    if (buffered_ < kCallBytes) return size;
    const absl::Status status = Flush();
    return status.ok() ? absl::StatusOr<size_t>(size) : status;
  }

  // Writes the queue and then the buffer, which holds whole blocks.
  absl::Status Flush() {
    if (buffered_ > 0) queue_.push_back({Buffer(), buffered_});
    for (size_t next = 0; next < queue_.size();) {
      ssize_t written = writev(fd_, &queue_[next], static_cast<int>(queue_.size() - next));
      if (written < 0 && errno == EINTR) continue;
      // Other blocks, or the rest of one after a partial write.
      if (written < 0 && IsOfDirect(errno) && BeOrdinary()) continue;
      if (written <= 0) return FileError(written < 0 ? errno : EIO, path_);
      for (; next < queue_.size() && static_cast<size_t>(written) >= queue_[next].iov_len; ++next) {
        written -= static_cast<ssize_t>(queue_[next].iov_len);
      }
      if (written == 0) continue;
      queue_[next].iov_base = static_cast<char*>(queue_[next].iov_base) + written;
      queue_[next].iov_len -= static_cast<size_t>(written);
    }
    queue_.clear();
    queued_ = buffered_ = 0;
    return absl::OkStatus();
  }

  // Returns true if it was direct.
  bool BeOrdinary() {
    const bool was_direct = is_direct_;
    if (was_direct) SetDirect(fd_, false);
    is_direct_ = false;
    return was_direct;
  }

  char* Buffer() const { return reinterpret_cast<char*>(buffer_.get()); }

  const int fd_;
  const std::string& path_;
  bool is_direct_;
  std::vector<iovec> queue_;
  size_t queued_ = 0;  // bytes
  std::shared_ptr<std::byte> buffer_;
  size_t buffered_ = 0;
};

}  // namespace

absl::Status WritePieces(int fd, absl::Span<const absl::Span<const char>> pieces, PageCache cache,
                         const std::string& path) {
  size_t bytes = 0;
  for (const absl::Span<const char> piece : pieces) bytes += piece.size();
  PieceWriter writer(fd, cache == PageCache::kBypass && bytes >= kDirectBytesMin, path);
  for (const absl::Span<const char> piece : pieces) {
    if (absl::Status status = writer.Add(piece); !status.ok()) return status;
  }
  return writer.Finish();
}

absl::Status ReadDirectly(int fd, size_t size, const std::string& path,
                          absl::FunctionRef<absl::Status(absl::Span<const char>)> take) {
  const std::shared_ptr<std::byte> piece = AlignedMemory(kCallBytes, kDirectAlignment);
  if (piece == nullptr) return absl::ResourceExhaustedError(absl::StrCat(path, ": no memory"));
  bool is_direct = size >= kDirectBytesMin && SetDirect(fd, true);
  for (size_t done = 0; done < size;) {
    // The file may end in the middle of a block, which is requested as a whole.
    const size_t rest = size - done;
    const size_t want = std::min(is_direct ? kCallBytes : rest, kCallBytes);
    const ssize_t got = pread(fd, piece.get(), want, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && IsOfDirect(errno) && is_direct) {
      SetDirect(fd, is_direct = false);
      continue;
    }
    if (got < 0) return FileError(errno, path);
    if (got == 0) return absl::DataLossError(absl::StrCat(path, ": became shorter while read"));
    const size_t own = std::min(static_cast<size_t>(got), rest);
    absl::Status taken = take({reinterpret_cast<const char*>(piece.get()), own});
    if (!taken.ok()) return taken;
    done += own;
  }
  return absl::OkStatus();
}

}  // namespace strata
