#ifndef STRATA_COMMON_IMAGE_CUT_COLLECTOR_H_
#define STRATA_COMMON_IMAGE_CUT_COLLECTOR_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"

namespace strata {

// Cuts that are made and not written yet; a further one gets only a problem.
inline constexpr size_t kCutsHeldMax = 2;

// Images of all chunks of one process at one clock: its part of a checkpoint.
template <typename Image>
struct Cut {
  uint64_t clock = 0;
  std::vector<Image> images;  // by range
  std::string problem;        // why there are no images; empty: there are
};

// Collects images of chunks into cuts. Its memory is bounded: while there are kCutsHeldMax cuts
// that are incomplete, or taken and not released, a cut of a further clock has a problem instead of
// images.
//
// `Image` has `begin`, of its range, and BytesOf(image) returns its size.
//
// Threads: one.
template <typename Image>
class CutCollector {
 public:
  // `begins`: for each chunk, its first element in the arena.
  explicit CutCollector(std::vector<uint64_t> begins) : begins_(std::move(begins)) {}

  // Adds an image of one chunk, by its index in `begins`: one per clock, in ascending order.
  void Add(size_t chunk, uint64_t clock, Image image);
  // Returns the cuts that are complete, and those that cannot be. The first count as held.
  std::vector<Cut<Image>> Take() { return std::exchange(due_, {}); }
  // A cut that was taken is no longer in memory.
  void LetGo(uint64_t clock) { taken_.erase(clock); }

  // Bytes of images that wait for others of their clock, without weights still shared with the
  // chunk.
  uint64_t bytes() const { return bytes_; }

 private:
  const std::vector<uint64_t> begins_;
  std::map<uint64_t, std::vector<Image>> open_;  // by clock; in any order
  std::map<uint64_t, size_t> skipped_;           // by clock: number of chunks that have reached it
  std::set<uint64_t> taken_;
  std::vector<Cut<Image>> due_;
  uint64_t bytes_ = 0;
};

template <typename Image>
void CutCollector<Image>::Add(size_t chunk, uint64_t clock, Image image) {
  if (auto skipped = skipped_.find(clock); skipped != skipped_.end()) {
    if (++skipped->second == begins_.size()) skipped_.erase(skipped);
    return;
  }
  if (!open_.contains(clock) && open_.size() + taken_.size() >= kCutsHeldMax) {
    const uint64_t held = taken_.empty() ? open_.begin()->first : *taken_.begin();
    due_.push_back({.clock = clock,
                    .problem = absl::StrFormat("the checkpoint of clock %d is not written yet: the "
                                               "store is slower than steps are",
                                               held)});
    if (begins_.size() > 1) skipped_[clock] = 1;
    return;
  }
  image.begin = begins_[chunk];
  bytes_ += BytesOf(image);
  std::vector<Image>& images = open_[clock];
  images.push_back(std::move(image));
  if (images.size() < begins_.size()) return;
  std::sort(images.begin(), images.end(),
            [](const Image& a, const Image& b) { return a.begin < b.begin; });
  for (const Image& one : images) bytes_ -= BytesOf(one);
  taken_.insert(clock);
  due_.push_back({.clock = clock, .images = std::move(images)});
  open_.erase(clock);
}

}  // namespace strata

#endif  // STRATA_COMMON_IMAGE_CUT_COLLECTOR_H_
