#include "server/shard/cut_collector.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

namespace strata::server {
namespace {

uint64_t BytesOf(const ChunkImage& image) {
  uint64_t bytes = image.weights.weights.size() + image.copy.size() + image.mean_square.size();
  for (const Bytes& vector : image.weights.state) bytes += vector.size();
  return bytes;
}

}  // namespace

CutCollector::CutCollector(JobId job, ShardId shard, std::vector<uint64_t> begins)
    : job_(job), shard_(shard), begins_(std::move(begins)) {}

void CutCollector::Add(size_t chunk, std::vector<ChunkImage> images) {
  for (ChunkImage& image : images) AddImage(chunk, std::move(image));
}

void CutCollector::AddImage(size_t chunk, ChunkImage image) {
  const uint64_t clock = image.clock;
  if (auto skipped = skipped_.find(clock); skipped != skipped_.end()) {
    if (++skipped->second == begins_.size()) skipped_.erase(skipped);
    return;
  }
  if (!open_.contains(clock) && open_.size() + taken_.size() >= kHeldMax) {
    const uint64_t held = taken_.empty() ? open_.begin()->first : *taken_.begin();
    due_.push_back({.job = job_,
                    .shard = shard_,
                    .clock = clock,
                    .problem = absl::StrFormat("the checkpoint of step %d is not written yet: the "
                                               "store is slower than steps are",
                                               held)});
    if (begins_.size() > 1) skipped_[clock] = 1;
    return;
  }
  image.begin = begins_[chunk];
  bytes_ += BytesOf(image);
  std::vector<ChunkImage>& images = open_[clock];
  images.push_back(std::move(image));
  if (images.size() < begins_.size()) return;
  std::sort(images.begin(), images.end(),
            [](const ChunkImage& a, const ChunkImage& b) { return a.begin < b.begin; });
  for (const ChunkImage& one : images) bytes_ -= BytesOf(one);
  taken_.insert(clock);
  due_.push_back({.job = job_, .shard = shard_, .clock = clock, .images = std::move(images)});
  open_.erase(clock);
}

std::vector<ShardCut> CutCollector::Take() { return std::exchange(due_, {}); }

}  // namespace strata::server
