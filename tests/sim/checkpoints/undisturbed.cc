#include "tests/sim/checkpoints/undisturbed.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/image/image_file.h"

namespace strata::sim {
namespace {

constexpr int kEventsMax = 1'000'000;

bool SameBytes(const Bytes& a, const Bytes& b) {
  return a.size() == b.size() && std::equal(a.data(), a.data() + a.size(), b.data());
}

bool SameBits(const WeightImage& a, const WeightImage& b) {
  return SameBytes(a.weights, b.weights) &&
         std::equal(a.state.begin(), a.state.end(), b.state.begin(), b.state.end(), SameBytes);
}

}  // namespace

std::string BytesOfFile(const ImageFile& file) {
  std::string bytes;
  for (const absl::Span<const char> piece : file.Pieces()) bytes.append(piece.data(), piece.size());
  return bytes;
}

std::string Undisturbed::Run(const proto::JobRecord& record, uint64_t seed) {
  JobRun run(case_, record, seed, {});
  while (!run.is_over() && events_ < kEventsMax && run.RunOne()) {
    ++events_;
    for (const PartWriter::Part& part : run.TakeParts()) KeepImages(part);
  }
  if (!run.has_finished()) {
    return absl::StrCat("ends once faults stop: never disturbed, ", run.status().message());
  }
  for (size_t n = 0; n < run.nodes(); ++n) weights_.push_back(run.node(n).weights());
  return "";
}

void Undisturbed::KeepImages(const PartWriter::Part& part) {
  part.let_go();
  if (part.name.kind != PartKind::kShard || !part.problem.empty()) return;
  const auto content = std::make_shared<const std::string>(BytesOfFile(part.make()));
  const Bytes bytes(content, reinterpret_cast<const std::byte*>(content->data()), content->size());
  std::vector<ChunkImage> images = *ParseImageFile(bytes, "undisturbed");
  for (ChunkImage& image : images) images_[part.clock][image.begin] = std::move(image);
}

std::string Undisturbed::CheckImages(const std::vector<ChunkImage>& images) const {
  // Where pushes are applied as they come, any may be in the weights.
  if (case_.is_async) return "";
  for (const ChunkImage& image : images) {
    const auto of_clock = images_.find(image.clock);
    if (of_clock == images_.end()) continue;  // it was left out, where others were held
    const auto own = of_clock->second.find(image.begin);
    if (own == of_clock->second.end() || SameBits(image.weights, own->second.weights)) continue;
    return absl::StrFormat("goes on with the bits of that clock: clock %d, elements from %d on",
                           image.clock, image.begin);
  }
  return "";
}

std::string Undisturbed::CheckEnd(const JobRun& run) const {
  for (size_t n = 0; n < run.nodes(); ++n) {
    const std::vector<float>& weights = run.node(n).weights();
    if (!case_.has_ledger && weights != weights_[case_.keeps_nodes ? n : 0]) {
      return absl::StrFormat("ends as an undisturbed job does: node %d has other bits", n);
    }
    for (size_t i = 0; case_.has_ledger && i < weights.size(); ++i) {
      const float expected = i % kJobChunkElements < kJobSamples ? 1 : 0;
      if (weights[i] == expected) continue;
      return absl::StrFormat("each sample counts once: sample %d in chunk %d %g times",
                             i % kJobChunkElements, i / kJobChunkElements, weights[i]);
    }
  }
  return "";
}

}  // namespace strata::sim
