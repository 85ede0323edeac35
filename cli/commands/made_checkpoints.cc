#include "cli/commands/made_checkpoints.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/buffer_pool.h"
#include "common/checkpoint/checkpoints.h"
#include "common/image/image_file.h"
#include "common/job/arena.h"
#include "common/job/job.h"
#include "common/require.h"
#include "kernels/kernels.h"
#include "numerics/update.h"
#include "numerics/weight_state.h"

namespace strata::cli {
namespace {

constexpr uint32_t kChunkElements = 8;
constexpr uint64_t kSamples = 16;  // of a step

void AddTensor(const std::string& name, const std::vector<uint64_t>& shape, bool averaged,
               proto::Layout* layout) {
  proto::Segment* segment = layout->add_segments();
  segment->set_name(name);
  segment->set_offset(layout->elements());
  segment->set_lr_multiplier(1);
  segment->set_decay_multiplier(1);
  segment->set_averaged(averaged);
  uint64_t elements = 1;
  for (const uint64_t extent : shape) {
    segment->add_shape(extent);
    elements *= extent;
  }
  layout->set_elements(layout->elements() + elements);
}

Bytes Floats(BufferPool& pool, uint64_t begin, uint32_t count, float (*value)(uint64_t, uint64_t),
             uint64_t step) {
  const std::shared_ptr<float> floats = pool.AllocateFloats(count);
  for (uint32_t i = 0; i < count; ++i) floats.get()[i] = value(step, begin + i);
  return Bytes(floats, reinterpret_cast<const std::byte*>(floats.get()), count * sizeof(float));
}

absl::Status Put(Store& store, const std::string& part, const ImageFile& file, Manifest* manifest) {
  const std::string name = Checkpoints::ObjectName(manifest->clock, part);
  const std::vector<absl::Span<const char>> pieces = file.Pieces();
  manifest->objects.push_back(FactsOf(name, pieces));
  return store.Put(name, pieces);
}

}  // namespace

proto::JobRecord MadeRecord(const std::string& fields) {
  constexpr char kJob[] =
      "name: 'made' program { path: '/bin/true' } schedule { base_lr: 0.1 constant {} } ";
  const absl::StatusOr<proto::Job> job = ParseJob(absl::StrCat(kJob, fields), "made");
  STRATA_REQUIRE(job.ok());
  proto::JobRecord record;
  record.set_job_id(7);
  *record.mutable_job() = *job;
  FillDefaults(record.mutable_job());
  record.mutable_view()->add_nodes()->set_ranks(1);
  record.mutable_placement()->set_chunk_elements(kChunkElements);
  proto::Layout* const layout = record.mutable_layout();
  AddTensor("0.weight", {4, 3}, false, layout);
  AddTensor("0.bias", {4}, false, layout);
  AddTensor("running", {4}, true, layout);
  AddTensor("1.weight", {2, 4}, false, layout);
  AddTensor("2.weight (frozen, checksum 0123abcd)", {1}, false, layout);
  AddTensor("scale", {1}, false, layout);
  return record;
}

float MadeGradient(uint64_t step, uint64_t element) {
  return 0.125f * static_cast<float>((step * 5 + element * 3) % 11) - 0.5f;
}
float MadeWeight(uint64_t element) {
  return 0.0625f * static_cast<float>(element * 7 % 13) - 0.375f;
}

std::vector<ChunkImage> MadeImages(const proto::JobRecord& record, uint64_t steps) {
  const ChunkMap map(record.layout().elements(), kChunkElements);
  const numerics::UpdateRule rule = numerics::MakeUpdateRule(record.job(), kSamples);
  BufferPool pool;
  std::vector<ChunkImage> images;
  for (uint32_t c = 0; c < map.chunks(); ++c) {
    const ChunkId chunk(c);
    const uint64_t begin = map.OffsetOf(chunk);
    const uint32_t count = map.ElementsOf(chunk);
    numerics::WeightState weights(kernels::Cpu(), pool, rule, count,
                                  OptimizerRuns(record.layout(), map, chunk));
    const auto first = [](uint64_t, uint64_t element) { return MadeWeight(element); };
    weights.Seed(Floats(pool, begin, count, first, 0), 0);
    for (uint64_t step = 1; step <= steps; ++step) {
      weights.Apply(Floats(pool, begin, count, MadeGradient, step), 1, kSamples, {});
    }
    images.push_back({.begin = begin, .clock = steps, .weights = weights.Image()});
  }
  return images;
}

absl::StatusOr<Manifest> PutCheckpoint(Store& store, const proto::JobRecord& record, uint64_t clock,
                                       const std::vector<ChunkImage>& images,
                                       const std::vector<NodeImage>& nodes) {
  Manifest manifest = {
      .job = record.job_id(),
      .job_name = record.job().name(),
      .clock = clock,
      .written = absl::FromUnixSeconds(1'800'000'000 + static_cast<int64_t>(clock)),
      .record = record.SerializeAsString()};
  std::vector<ChunkImage> of_shard[2];
  for (size_t i = 0; i < images.size(); ++i) of_shard[i % 2].push_back(images[i]);
  for (size_t shard = 0; shard < 2; ++shard) {
    const ImageFile file = MakeImageFile(of_shard[shard]);
    absl::Status status = Put(store, absl::StrCat("shard-", shard), file, &manifest);
    if (!status.ok()) return status;
  }
  for (const NodeImage& node : nodes) {
    const ImageFile file = MakeNodeImageFile(node);
    absl::Status status = Put(store, absl::StrCat("node-", node.node), file, &manifest);
    if (!status.ok()) return status;
  }
  // One that was made before goes.
  absl::Status status = store.Delete(Checkpoints::ObjectName(manifest.clock, "manifest.json"));
  if (status.ok()) status = Checkpoints(store).Complete(manifest);
  if (!status.ok()) return status;
  return manifest;
}

}  // namespace strata::cli
