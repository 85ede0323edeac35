#ifndef STRATA_COMMON_BYTES_H_
#define STRATA_COMMON_BYTES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/require.h"

namespace strata {

// An immutable run of bytes together with the object that keeps it alive. Copies share the bytes,
// so one buffer can be queued to many peers; safe to copy and destroy from any thread.
class Bytes {
 public:
  Bytes() = default;
  Bytes(std::shared_ptr<const void> owner, const std::byte* data, size_t size)
      : owner_(std::move(owner)), data_(data), size_(size), notes_(std::make_shared<Notes>()) {}

  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  // Returns a part that keeps the whole alive. REQUIRES: offset + size <= size().
  Bytes Part(size_t offset, size_t size) const {
    STRATA_REQUIRE(offset <= size_ && size <= size_ - offset);
    return Bytes(owner_, data_ + offset, size);
  }

  // A cached checksum of exactly these bytes, shared by all copies: computed once for any number of
  // peers. 0: not known.
  uint64_t known_checksum() const {
    return notes_ == nullptr ? 0 : notes_->checksum.load(std::memory_order_relaxed);
  }
  // REQUIRES: not default-constructed.
  void RememberChecksum(uint64_t checksum) const {
    STRATA_REQUIRE(notes_ != nullptr);
    notes_->checksum.store(checksum, std::memory_order_relaxed);
  }

  // An object derived from exactly these bytes, shared by all copies for as long as somebody else
  // keeps it. Null: there is none, or it is gone.
  struct Made {
    virtual ~Made() = default;
  };
  std::shared_ptr<const Made> known_made() const {
    if (notes_ == nullptr) return nullptr;
    absl::MutexLock lock(&notes_->mutex);
    return notes_->made.lock();
  }
  // REQUIRES: not default-constructed.
  void RememberMade(const std::shared_ptr<const Made>& made) const {
    STRATA_REQUIRE(notes_ != nullptr);
    absl::MutexLock lock(&notes_->mutex);
    notes_->made = made;
  }

  // The bytes as fp32, if they are: the frame's decoder has checked that size() is a multiple of 4.
  // The address may be unaligned to more than 4 bytes.
  const float* floats() const { return reinterpret_cast<const float*>(data_); }
  size_t float_count() const { return size_ / sizeof(float); }

 private:
  struct Notes {
    std::atomic<uint64_t> checksum = 0;
    absl::Mutex mutex;
    std::weak_ptr<const Made> made ABSL_GUARDED_BY(mutex);
  };

  std::shared_ptr<const void> owner_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::shared_ptr<Notes> notes_;
};

}  // namespace strata

#endif  // STRATA_COMMON_BYTES_H_
