#ifndef STRATA_COMMON_TRANSPORT_SHARED_SEGMENT_H_
#define STRATA_COMMON_TRANSPORT_SHARED_SEGMENT_H_

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "common/unique_fd.h"

namespace strata::transport {

// A mapped anonymous file of fixed size: memory that goes to another process as a descriptor, so
// that nothing has a name on disk and nothing is left behind. Pages take memory once they are
// written to.
//
// Threads: const after creation; what lies in it is its users' affair.
class SharedSegment {
 public:
  // A new one, zero. Errors: ResourceExhausted.
  static absl::StatusOr<std::shared_ptr<SharedSegment>> Create(size_t bytes);
  // All of a file that somebody in this process has made and mapped at `data`, to hand it on. The
  // mapping outlives this. Errors: ResourceExhausted.
  static absl::StatusOr<std::shared_ptr<SharedSegment>> Borrow(int fd, std::byte* data,
                                                               size_t bytes);

  enum class Access { kRead, kReadWrite };
  // A peer's. Errors: InvalidArgument (no sealed anonymous file, whose size could change under us;
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

  // Descriptors for a peer. Errors: ResourceExhausted.
  absl::StatusOr<UniqueFd> Share(Access access) const;
  // There will be no more of them; the mapping stays.
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
