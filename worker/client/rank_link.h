#ifndef STRATA_WORKER_CLIENT_RANK_LINK_H_
#define STRATA_WORKER_CLIENT_RANK_LINK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/ids.h"
#include "common/image/chunk_image.h"
#include "common/job/arena.h"
#include "common/job/views.h"
#include "kernels/device/device.h"
#include "proto/processes.pb.h"
#include "worker/client/client.h"

namespace strata::client {

class AgentChannel;

// The arenas of one rank, valid as long as their link. Addresses never change.
struct ArenaView {
  absl::Span<float> weights;  // written by the caller only before Start
  absl::Span<float> gradients;
};

// Facts about the job that are settled once all ranks are known.
struct RunFacts {
  uint32_t chunk_elements = 0;
  uint64_t samples_per_epoch = 0;
  uint64_t first_step = 0;                      // see Client
  std::vector<proto::ViewChange> view_changes;  // the decided ones
  // With device: GPU: the arenas from now on, of the same size. Otherwise null.
  std::shared_ptr<device::Device> device;
  device::Memory weights, gradients;
};

// A client's exchange, chunk by chunk: through the node's aggregator or, without any exchange, in
// the rank itself. Steps count from 0, also in a job that resumes at a later one; the caller keeps
// the order of client.h.
//
// Threads: one. Every blocking call ends with Unavailable when the job has been stopped.
class RankLink {
  static absl::Status NoRows() {
    return absl::UnimplementedError("tables need servers: exchange: PARAMETER_SERVER");
  }

 public:
  virtual ~RankLink() = default;

  // Makes every call that waits for other processes or for a device's sums call `still_wanted`, on
  // its own thread and at least every 100 ms; an error ends the call, which returns it.
  // AwaitWeights may then be called again, and so may BeginStep if it waits only for this rank's
  // own device. Before Allocate.
  virtual void AskInWaits(device::StillWanted still_wanted) {}

  // If only ranks have the weights (RanksKeepWeights) and the job resumes from a checkpoint: Start
  // reads it with `read`, once the job may begin. Before Start.
  using ReadImages = std::function<absl::StatusOr<std::vector<ChunkImage>>()>;
  virtual void GoOnFrom(ReadImages read) {}
  // Copies the weights and the optimizer's state for a checkpoint of such a job, once they contain
  // `steps` steps: between two steps.
  virtual absl::StatusOr<std::vector<ChunkImage>> Cut(uint64_t steps) {
    return absl::UnimplementedError("this rank does not have the weights alone");
  }

  // Allocates the arena of `layout`; zero at first.
  virtual absl::StatusOr<ArenaView> Allocate(const proto::Layout& layout) = 0;
  // Offers the weights in the view as the first ones; blocks until training may begin.
  virtual absl::StatusOr<RunFacts> Start(const JobFacts& facts) = 0;

  // In a job whose nodes may change: adds the changes decided since to `views`. Returns true once
  // the ranks of the step can no longer change; blocks for that if `waits`.
  virtual absl::StatusOr<bool> LearnViews(uint64_t step, bool waits, Views* views) { return true; }

  // Returns the changes that were decided since, in order. REQUIRES: Finish has returned.
  virtual std::vector<proto::ViewChange> TakeLateChanges() { return {}; }

  // See ClientDevices::ComputeIn; only with device: GPU.
  virtual void ComputeIn(device::Stream* stream) {}

  // `rate`: the step's learning rate, if the program gives rates; otherwise 0.
  virtual absl::Status BeginStep(uint64_t step, uint32_t samples, float rate) = 0;
  // Blocks until the chunk's weights are those that `step` starts from, and its gradient memory is
  // free.
  virtual absl::Status AwaitWeights(ChunkId chunk, uint64_t step) = 0;
  // The chunks' gradients are complete, and AwaitWeights has returned for each in this step.
  virtual absl::Status Publish(absl::Span<const ChunkId> chunks, uint64_t step) = 0;

  // Rows of the job's tables, by their index in the layout; ids ascend, each once. Only in jobs
  // with servers. Looks rows up: blocks until `to` has their weights, ids.size() x columns values.
  // `of_step`: they may be those that were wanted for this step. May be called again after an error
  // of AskInWaits.
  virtual absl::Status LookUpRows(uint32_t table, uint32_t columns, absl::Span<const uint64_t> ids,
                                  bool of_step, float* to) {
    return NoRows();
  }
  // The rank will look these rows up row_lookahead() steps after this one, or the one to come: they
  // are fetched with what the step pushes.
  virtual absl::Status WantRows(uint32_t table, uint32_t columns, absl::Span<const uint64_t> ids) {
    return NoRows();
  }
  virtual uint32_t row_lookahead() const { return 1; }
  // Adds gradients, ids.size() x columns sums over samples, to those of the table in this step,
  // whose learning rate is `rate`. Blocks while the step before last has not been pushed.
  virtual absl::Status AddRows(uint32_t table, uint32_t columns, float rate,
                               absl::Span<const uint64_t> ids, const float* gradients) {
    return NoRows();
  }
  // All rows of the step have been added. Once a step in jobs with tables.
  virtual absl::Status EndRows(uint64_t step, uint32_t samples) { return NoRows(); }

  // No steps follow the first `steps`, counted from the job's start: blocks until the final weights
  // are in the arena.
  virtual absl::Status Finish(uint64_t steps) = 0;
  // See Client. REQUIRES: Finish has returned OK.
  virtual absl::Status KeepWeights() = 0;

  // Sends the link's own trace events: as many as the daemon reads now, once they fill a message;
  // or with `all`, waiting for it, all.
  virtual void SendTrace(AgentChannel* agent, bool all) {}

  // Counters of the whole node, since Start.
  virtual proto::NodeCounters Counters() const = 0;
};

// KeepWeights for a link whose weights are a vector of its own.
inline absl::Status KeepForGood(std::vector<float> weights) {
  // Reachable, so that leak checkers accept it.
  static auto* const kept = std::make_unique<std::vector<std::vector<float>>>().release();
  kept->push_back(std::move(weights));
  return absl::OkStatus();
}
// KeepWeights for a link whose weights are on a GPU.
inline absl::Status WeightsLieOnDevice() {
  return absl::UnimplementedError("KeepWeights: the weights lie on a GPU, copy them");
}

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_RANK_LINK_H_
