#include "common/copies.h"

#include <array>
#include <atomic>
#include <cstring>

namespace strata {
namespace {

std::array<std::atomic<uint64_t>, kCopyReasons> copied_bytes;

}  // namespace

void CopyBytes(CopyReason reason, void* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
  CountCopy(reason, bytes);
}

void CountCopy(CopyReason reason, size_t bytes) {
  copied_bytes[static_cast<size_t>(reason)].fetch_add(bytes, std::memory_order_relaxed);
}

uint64_t CopiedBytes(CopyReason reason) {
  return copied_bytes[static_cast<size_t>(reason)].load(std::memory_order_relaxed);
}

}  // namespace strata
