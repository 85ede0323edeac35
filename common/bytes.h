#ifndef STRATA_COMMON_BYTES_H_
#define STRATA_COMMON_BYTES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "common/require.h"

namespace strata {

// An immutable run of bytes together with whatever keeps it alive. Copies share the bytes, so one
// buffer can be queued to many peers; safe to copy and destroy from any thread.
class Bytes {
 public:
  Bytes() = default;
  Bytes(std::shared_ptr<const void> owner, const std::byte* data, size_t size)
      : owner_(std::move(owner)),
        data_(data),
        size_(size),
        checksum_(std::make_shared<std::atomic<uint64_t>>(0)) {}

  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  // Part of them, which keeps all of them alive. REQUIRES: offset + size <= size().
  Bytes Part(size_t offset, size_t size) const {
    STRATA_REQUIRE(offset <= size_ && size <= size_ - offset);
    return Bytes(owner_, data_ + offset, size);
  }

  // A place for a checksum of exactly these bytes, which all copies share: computed once, however
  // many peers they go to. 0: not known.
  uint64_t known_checksum() const {
    return checksum_ == nullptr ? 0 : checksum_->load(std::memory_order_relaxed);
  }
  // REQUIRES: not a default-constructed one.
  void RememberChecksum(uint64_t checksum) const {
    STRATA_REQUIRE(checksum_ != nullptr);
    checksum_->store(checksum, std::memory_order_relaxed);
  }

  // The bytes as fp32, where they are some: the frame's decoder has seen that size() is a multiple
  // of 4. The address may be unaligned to more than 4 bytes.
  const float* floats() const { return reinterpret_cast<const float*>(data_); }
  size_t float_count() const { return size_ / sizeof(float); }

 private:
  std::shared_ptr<const void> owner_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::shared_ptr<std::atomic<uint64_t>> checksum_;
};

}  // namespace strata

#endif  // STRATA_COMMON_BYTES_H_
