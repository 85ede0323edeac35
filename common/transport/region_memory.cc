#include "common/transport/region_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <utility>

#include "common/require.h"

namespace strata::transport {
namespace {

constexpr size_t kPage = 4096;

}  // namespace

absl::StatusOr<std::shared_ptr<RegionMemory>> RegionMemory::Create(size_t bytes_max) {
  absl::StatusOr<std::shared_ptr<SharedSegment>> blocks = SharedSegment::Create(bytes_max);
  if (!blocks.ok()) return blocks.status();
  return std::make_shared<RegionMemory>(*std::move(blocks));
}

absl::StatusOr<std::shared_ptr<RegionMemory>> RegionMemory::Create() {
  return Create(static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) *
                static_cast<size_t>(sysconf(_SC_PAGESIZE)));
}

RegionMemory::RegionMemory(std::shared_ptr<SharedSegment> blocks) {
  segments_.push_back(std::move(blocks));
}

// Blocks of whole pages are page-aligned, so that returning them frees all pages.
std::byte* RegionMemory::Take(size_t bytes) {
  absl::MutexLock lock(&mutex_);
  std::vector<std::byte*>& hollow = hollow_[bytes];
  if (!hollow.empty()) {
    std::byte* block = hollow.back();
    hollow.pop_back();
    return block;
  }
  const size_t begin = bytes < kPage ? taken_ : (taken_ + kPage - 1) / kPage * kPage;
  if (begin > segments_[0]->size() || bytes > segments_[0]->size() - begin) return nullptr;
  taken_ = begin + bytes;
  return segments_[0]->data() + begin;
}

bool RegionMemory::GiveBack(std::byte* block, size_t bytes) {
  const std::byte* begin = segments_[0]->data();
  if (block < begin || block >= begin + segments_[0]->size()) return false;
  // A partial last page is shared, and stays.
  if (bytes >= kPage) madvise(block, bytes / kPage * kPage, MADV_REMOVE);
  absl::MutexLock lock(&mutex_);
  hollow_[bytes].push_back(block);
  return true;
}

void RegionMemory::Add(std::shared_ptr<SharedSegment> segment) {
  STRATA_REQUIRE(segments_.size() < kSegmentsMax);
  segments_.push_back(std::move(segment));
}

std::optional<RegionMemory::SegmentOffset> RegionMemory::Find(const std::byte* data,
                                                              size_t size) const {
  for (uint32_t i = 0; i < segments_.size(); ++i) {
    const std::byte* begin = segments_[i]->data();
    if (data < begin || data >= begin + segments_[i]->size()) continue;
    const auto offset = static_cast<uint64_t>(data - begin);
    if (size > segments_[i]->size() - offset) return std::nullopt;
    return SegmentOffset{i, offset};
  }
  return std::nullopt;
}

}  // namespace strata::transport
