#include "worker/aggregator/node_checkpoints.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "absl/strings/str_format.h"
#include "common/checkpoint/checkpoints.h"
#include "common/image/image_file.h"
#include "common/job/consistency.h"
#include "common/require.h"

namespace strata::worker {
namespace {

absl::Status Expect(const char* unit, uint64_t found, uint64_t wanted, const std::string& path) {
  if (found == wanted) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("%s: is of %s %d, not %d", path, unit, found, wanted));
}

absl::Status ReadOwn(const proto::Resume& resume, uint32_t node, Store* store, NodeResume* out) {
  if (node >= static_cast<uint32_t>(resume.object_of_node_size())) {
    return absl::FailedPreconditionError(
        absl::StrFormat("the checkpoint has the state of %d nodes, not of node %d",
                        resume.object_of_node_size(), node));
  }
  const uint32_t index = resume.object_of_node(static_cast<int>(node));
  const absl::StatusOr<ResumeObject> object = ReadResumeObject(resume, index, *store);
  if (!object.ok()) return object.status();
  const std::string& path = object->path;
  absl::StatusOr<NodeImage> image = ParseNodeImageFile(object->content, path);
  if (!image.ok()) return image.status();
  if (image->node != node) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: is of node %d, not %d", path, image->node, node));
  }
  out->own = std::move(image->chunks);
  return Expect("step", image->clock, resume.step(), path);
}

absl::Status ReadSlices(const proto::Resume& resume, Store* store, NodeResume* out) {
  for (int i = 0; i < resume.objects_size(); ++i) {
    const std::optional<PartName> part = ParsePartName(resume.objects(i).name());
    if (!part || part->kind != PartKind::kShard) continue;
    const absl::StatusOr<ResumeObject> object = ReadResumeObject(resume, i, *store);
    if (!object.ok()) return object.status();
    const std::string& path = object->path;
    absl::StatusOr<std::vector<ChunkImage>> images = ParseImageFile(object->content, path);
    if (!images.ok()) return images.status();
    for (const ChunkImage& image : *images) {
      absl::Status same = Expect("clock", image.clock, resume.clock(), path);
      if (!same.ok()) return same;
    }
    std::move(images->begin(), images->end(), std::back_inserter(out->slices));
  }
  std::sort(out->slices.begin(), out->slices.end(),
            [](const ChunkImage& a, const ChunkImage& b) { return a.begin < b.begin; });
  return absl::OkStatus();
}

}  // namespace

bool NodesWriteCheckpoints(const proto::Job& job) {
  return job.has_checkpoint() && (NodesKeepState(job) || job.exchange() == proto::Job::RING);
}

absl::StatusOr<std::shared_ptr<const NodeResume>> LoadNodeResume(const proto::JobRecord& record,
                                                                 uint32_t node,
                                                                 const StoreOpener& open) {
  const bool has_slices = record.job().exchange() == proto::Job::RING;
  const bool has_own = NodesKeepState(record.job());
  if (!record.has_resume() || (!has_slices && !has_own)) return nullptr;
  absl::StatusOr<std::unique_ptr<Store>> store = open(record.resume().dir());
  if (!store.ok()) return store.status();
  auto resume = std::make_shared<NodeResume>();
  if (has_own) {
    absl::Status read = ReadOwn(record.resume(), node, store->get(), resume.get());
    if (!read.ok()) return read;
  }
  if (has_slices) {
    absl::Status read = ReadSlices(record.resume(), store->get(), resume.get());
    if (!read.ok()) return read;
  }
  return resume;
}

NodeCheckpoints::NodeCheckpoints(const proto::JobRecord& record, uint32_t node,
                                 const StoreOpener& open)
    : node_(node),
      steps_per_clock_(StepsPerClock(record.job())),
      writer_(record, {.open = [open, dir = record.job().checkpoint().dir()] { return open(dir); },
                       .tell =
                           [this](const proto::CheckpointPart& part) {
                             absl::MutexLock lock(&mutex_);
                             parts_.push_back(part);
                           }}) {
  STRATA_REQUIRE(NodesWriteCheckpoints(record.job()));
}

void NodeCheckpoints::Write(PartKind kind, NodeCuts::Kind cut_kind, uint64_t clock,
                            std::string problem, std::function<ImageFile()> make) {
  PartWriter::Part part;
  part.name = {.kind = kind, .number = node_};
  part.clock = clock;
  part.problem = std::move(problem);
  part.make = std::move(make);
  part.let_go = [this, cut_kind, clock] {
    absl::MutexLock lock(&mutex_);
    let_go_.emplace_back(cut_kind, clock);
  };
  writer_.Write(std::move(part));
}

void NodeCheckpoints::Take(ExchangeCore* exchange) {
  std::vector<std::pair<NodeCuts::Kind, uint64_t>> let_go;
  {
    absl::MutexLock lock(&mutex_);
    let_go.swap(let_go_);
  }
  for (const auto& [kind, clock] : let_go) exchange->ReleaseCut(kind, clock);
  NodeCuts cuts = exchange->TakeCuts();
  for (Cut<NodeChunkImage>& cut : cuts.own) {
    NodeImage image{
        .node = node_, .clock = cut.clock * steps_per_clock_, .chunks = std::move(cut.images)};
    Write(PartKind::kNode, NodeCuts::Kind::kOwn, cut.clock, std::move(cut.problem),
          [image = std::move(image)] { return MakeNodeImageFile(image); });
  }
  for (Cut<ChunkImage>& cut : cuts.slices) {
    Write(PartKind::kShard, NodeCuts::Kind::kSlices, cut.clock, std::move(cut.problem),
          [images = std::move(cut.images)] { return MakeImageFile(images); });
  }
}

std::vector<proto::CheckpointPart> NodeCheckpoints::TakeParts() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(parts_, {});
}

void NodeCheckpoints::Finish(absl::Duration timeout) {
  writer_.Finish();
  if (!writer_.AwaitDone(timeout)) writer_.GiveUp(kNotInTime);
}

}  // namespace strata::worker
