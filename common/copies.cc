#include "common/copies.h"

#include <array>
#include <atomic>
#include <cstring>

#include "common/require.h"

namespace strata {
namespace {

std::array<std::atomic<uint64_t>, kCopyReasons> copied_bytes;

}  // namespace

void CopyBytes(CopyReason reason, void* to, const void* from, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(to), source = reinterpret_cast<uintptr_t>(from);
  STRATA_REQUIRE(bytes == 0 || begin + bytes <= source || source + bytes <= begin);
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
