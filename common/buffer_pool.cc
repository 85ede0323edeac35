#include "common/buffer_pool.h"

#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <new>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"

namespace strata {
namespace {

constexpr size_t kAlignment = 64;

size_t RoundUp(size_t bytes) {
  if (bytes == 0) return kAlignment;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

struct BufferPool::State {
  State(size_t retained_max, std::shared_ptr<BlockSource> blocks)
      : source(std::move(blocks)), retained_bytes_max(retained_max) {}
  ~State() {
    for (auto& [bytes, blocks] : free) {
      for (std::byte* block : blocks) Free(block, bytes);
    }
  }

  std::byte* Allocate(size_t bytes) {
    if (source != nullptr) {
      if (std::byte* block = source->Take(bytes); block != nullptr) return block;
    }
    void* block = std::aligned_alloc(kAlignment, bytes);
    if (block == nullptr) throw std::bad_alloc();
    return static_cast<std::byte*>(block);
  }

  void Free(std::byte* block, size_t bytes) {
    if (source == nullptr || !source->GiveBack(block, bytes)) std::free(block);
  }

  std::byte* Take(size_t bytes) {
    {
      absl::MutexLock lock(&mutex);
      auto it = free.find(bytes);
      if (it != free.end() && !it->second.empty()) {
        std::byte* block = it->second.back();
        it->second.pop_back();
        retained_bytes -= bytes;
        return block;
      }
    }
    std::byte* block = Allocate(bytes);
    absl::MutexLock lock(&mutex);
    allocated_bytes += bytes;
    return block;
  }

  void Return(std::byte* block, size_t bytes) {
    {
      absl::MutexLock lock(&mutex);
      if (retained_bytes + bytes <= retained_bytes_max) {
        free[bytes].push_back(block);
        retained_bytes += bytes;
        return;
      }
      allocated_bytes -= bytes;
    }
    Free(block, bytes);
  }

  void RetainMore(size_t bytes) {
    absl::MutexLock lock(&mutex);
    retained_bytes_max += bytes;
  }

  void RetainLess(size_t bytes_less) {
    std::vector<std::pair<std::byte*, size_t>> surplus;
    {
      absl::MutexLock lock(&mutex);
      retained_bytes_max -= bytes_less;
      for (auto& [bytes, blocks] : free) {
        for (; retained_bytes > retained_bytes_max && !blocks.empty(); blocks.pop_back()) {
          surplus.emplace_back(blocks.back(), bytes);
          retained_bytes -= bytes;
          allocated_bytes -= bytes;
        }
      }
    }
    for (const auto& [block, bytes] : surplus) Free(block, bytes);
  }

  const std::shared_ptr<BlockSource> source;
  absl::Mutex mutex;
  size_t retained_bytes_max ABSL_GUARDED_BY(mutex);
  // Keyed by rounded size; last in, first out, so that warm memory is used again first.
  absl::flat_hash_map<size_t, std::vector<std::byte*>> free ABSL_GUARDED_BY(mutex);
  size_t retained_bytes ABSL_GUARDED_BY(mutex) = 0;
  size_t allocated_bytes ABSL_GUARDED_BY(mutex) = 0;
};

BufferPool::BufferPool(size_t retained_bytes_max, std::shared_ptr<BlockSource> source)
    : state_(std::make_shared<State>(retained_bytes_max, std::move(source))) {}

std::shared_ptr<std::byte> BufferPool::AllocateBytes(size_t bytes) {
  const size_t rounded = RoundUp(bytes);
  std::shared_ptr<State> state = state_;
  std::byte* block = state->Take(rounded);
  return {block, [state, rounded](std::byte* b) { state->Return(b, rounded); }};
}

std::shared_ptr<float> BufferPool::AllocateFloats(size_t count) {
  std::shared_ptr<std::byte> bytes = AllocateBytes(count * sizeof(float));
  float* floats = reinterpret_cast<float*>(bytes.get());
  return {std::move(bytes), floats};
}

std::shared_ptr<void> BufferPool::RetainMore(size_t bytes) {
  state_->RetainMore(bytes);
  return {nullptr, [state = state_, bytes](void*) { state->RetainLess(bytes); }};
}

size_t BufferPool::retained_bytes() const {
  absl::MutexLock lock(&state_->mutex);
  return state_->retained_bytes;
}

size_t BufferPool::allocated_bytes() const {
  absl::MutexLock lock(&state_->mutex);
  return state_->allocated_bytes;
}

void TuneAllocator() {
  // The largest threshold that glibc accepts for blocks outside of its heaps.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 64 << 20);
}

namespace {

constexpr size_t kLargePage = size_t{2} << 20;

}  // namespace

std::shared_ptr<std::byte> AlignedMemory(size_t size, size_t alignment) {
  if (size >= kLargePage) alignment = std::max(alignment, kLargePage);
  if (size > std::numeric_limits<size_t>::max() - alignment) return nullptr;
  // aligned_alloc wants a multiple of the alignment.
  const size_t rounded = (std::max<size_t>(size, 1) + alignment - 1) / alignment * alignment;
  void* const memory = std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) return nullptr;
  // Large pages reduce the faults to a five-hundredth. The kernel may refuse.
  if (rounded >= kLargePage) madvise(memory, rounded, MADV_HUGEPAGE);
  return {static_cast<std::byte*>(memory), std::free};
}

}  // namespace strata
