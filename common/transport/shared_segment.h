#ifndef STRATA_COMMON_TRANSPORT_SHARED_SEGMENT_H_
#define STRATA_COMMON_TRANSPORT_SHARED_SEGMENT_H_

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "common/unique_fd.h"

namespace strata::transport {

// A mapped anonymous file of fixed size: memory that is passed to another process as a descriptor,
// so nothing has a name on disk and nothing is left behind. Pages take memory once they are
// written.
//
// Threads: const after creation; users synchronize access to its content.
class SharedSegment {
 public:
  // Makes a new, zeroed one. Errors: ResourceExhausted.
  static absl::StatusOr<std::shared_ptr<SharedSegment>> Create(size_t bytes);
  // Wraps a file made elsewhere in this process and mapped at `data`, to pass it on. The mapping
  // outlives this. Errors: ResourceExhausted.
  static absl::StatusOr<std::shared_ptr<SharedSegment>> Borrow(int fd, std::byte* data,
                                                               size_t bytes);

  enum class Access { kRead, kReadWrite };
  // Maps a peer's. Errors: InvalidArgument (not a sealed anonymous file, so its size could change;
  // larger than `bytes_max`), ResourceExhausted.
  static absl::StatusOr<std::shared_ptr<SharedSegment>> Attach(UniqueFd fd, Access access,
                                                               size_t bytes_max);

  // Use Create, Borrow or Attach.
  SharedSegment(UniqueFd fd, std::byte* data, size_t size)
      : fd_(std::move(fd)), data_(data), size_(size) {}
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

  // Returns a descriptor for a peer. Errors: ResourceExhausted.
  absl::StatusOr<UniqueFd> Share(Access access) const;
  // Allows no more descriptors; the mapping stays.
  void CloseDescriptor() { fd_.Reset(); }

 private:
  static absl::StatusOr<std::shared_ptr<SharedSegment>> Map(UniqueFd fd, size_t bytes,
                                                            Access access);

  UniqueFd fd_;
  bool is_borrowed_ = false;
  std::byte* const data_;
  const size_t size_;
};

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_SHARED_SEGMENT_H_
