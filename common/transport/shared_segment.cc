#include "common/transport/shared_segment.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace strata::transport {
namespace {

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;

absl::Status SystemError(const char* call) {
  return absl::ResourceExhaustedError(
      absl::StrCat("shared memory for peers of this host: ", call, ": ", strerror(errno)));
}

}  // namespace

absl::StatusOr<std::shared_ptr<SharedSegment>> SharedSegment::Map(UniqueFd fd, size_t bytes,
                                                                  Access access) {
  const int protection = access == Access::kRead ? PROT_READ : PROT_READ | PROT_WRITE;
  void* data = mmap(nullptr, bytes, protection, MAP_SHARED | MAP_NORESERVE, fd.get(), 0);
  if (data == MAP_FAILED) return SystemError("mmap");
  return std::make_shared<SharedSegment>(std::move(fd), static_cast<std::byte*>(data), bytes);
}

absl::StatusOr<std::shared_ptr<SharedSegment>> SharedSegment::Create(size_t bytes) {
  UniqueFd fd(memfd_create("strata-region", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return SystemError("memfd_create");
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) return SystemError("ftruncate");
  if (fcntl(fd.get(), F_ADD_SEALS, kSizeSeals | F_SEAL_SEAL) != 0) return SystemError("seal");
  return Map(std::move(fd), bytes, Access::kReadWrite);
}

absl::StatusOr<std::shared_ptr<SharedSegment>> SharedSegment::Borrow(int fd, std::byte* data,
                                                                     size_t bytes) {
  UniqueFd own(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!own.valid()) return SystemError("dup");
  auto segment = std::make_shared<SharedSegment>(std::move(own), data, bytes);
  segment->is_borrowed_ = true;
  return segment;
}

absl::StatusOr<std::shared_ptr<SharedSegment>> SharedSegment::Attach(UniqueFd fd, Access access,
                                                                     size_t bytes_max) {
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  struct stat file = {};
  if (seals < 0 || (seals & kSizeSeals) != kSizeSeals || fstat(fd.get(), &file) != 0) {
    return absl::InvalidArgumentError("a peer's memory is not of a fixed size");
  }
  const auto bytes = static_cast<size_t>(file.st_size);
  if (file.st_size <= 0 || bytes > bytes_max) {
    return absl::InvalidArgumentError(
        absl::StrCat("a peer's memory has ", file.st_size, " bytes, not 1 to ", bytes_max));
  }
  absl::StatusOr<std::shared_ptr<SharedSegment>> mapped = Map(std::move(fd), bytes, access);
  if (!mapped.ok()) return mapped;
  (*mapped)->CloseDescriptor();
  return mapped;
}

SharedSegment::~SharedSegment() {
  if (!is_borrowed_) munmap(data_, size_);
}

absl::StatusOr<UniqueFd> SharedSegment::Share(Access access) const {
  if (access == Access::kReadWrite) {
    UniqueFd fd(fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0));
    if (!fd.valid()) return SystemError("dup");
    return fd;
  }
  UniqueFd fd(open(absl::StrCat("/proc/self/fd/", fd_.get()).c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return SystemError("open for reading");
  return fd;
}

}  // namespace strata::transport
