#ifndef STRATA_WORKER_CLIENT_NCCL_DEVICE_STEPS_H_
#define STRATA_WORKER_CLIENT_NCCL_DEVICE_STEPS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/ids.h"
#include "common/job/arena.h"
#include "kernels/device/communicator.h"
#include "kernels/device/device.h"
#include "kernels/device/device_kernels.h"
#include "numerics/update.h"
#include "proto/record.pb.h"
#include "worker/client/arena_image.h"
#include "worker/client/nccl/communicator_watch.h"
#include "worker/client/nccl/reduce_trace.h"
#include "worker/client/nccl/ring_stops.h"
#include "worker/contract/agent_channel.h"

namespace strata::nccl {

// Numbers that all ranks sum on their devices, each at the same position among its gradient sums,
// and then read on the host.
//
// Threads: one. Errors: those of device::Device and device::Communicator.
class RankSums {
 public:
  // One rank's contribution: a number to add, and values that must be equal on all ranks.
  struct Own {
    uint64_t value = 0;
    uint64_t step = 0;  // the step that the rank begins, from 1; 0: no more
    float rate = 0;     // of that step, if the program gives rates
    uint64_t made = 0;  // steps, for messages
  };

  // `stream`, of the device, outlives this. `slots`: maximum number of ranks for StartEach.
  static absl::StatusOr<std::unique_ptr<RankSums>> Create(device::Device* device,
                                                          device::Stream* stream, uint32_t slots);

  // Queues the sum and the comparison.
  absl::Status Start(device::Communicator* communicator, uint32_t ranks, const Own& own,
                     const device::StillWanted& wanted);
  // Completes with the newest sum.
  const device::Event& done() const { return *done_; }
  // Returns the sum of the values, once done. Errors: InvalidArgument: ranks differ in the rest.
  absl::StatusOr<uint64_t> Sum() const;

  // Queues an exchange after which all ranks have each rank's number; this rank is number `rank`.
  // REQUIRES: ranks <= slots.
  absl::Status StartEach(device::Communicator* communicator, uint32_t ranks, uint32_t rank,
                         uint64_t value, const device::StillWanted& wanted);
  // Returns the numbers by rank, once done.
  std::vector<uint64_t> Each() const;

  // Bytes allocated on the device.
  uint64_t device_bytes() const { return device_bytes_; }

 private:
  // Numbers on the device, and in pinned host memory for copies.
  struct Words {
    device::Memory on_device, on_host;
  };
  struct Agreed {
    uint64_t value, step, rate;  // the bits of the rate
  };

  explicit RankSums(device::Stream* stream) : stream_(stream) {}
  absl::Status Allocate(device::Device* device, size_t bytes, const char* what, Words* words);
  // Queues the sums of the words over all ranks, in place.
  absl::Status Queue(const Words& words, const void* own, size_t count,
                     device::Communicator* communicator, const device::StillWanted& wanted);

  device::Stream* const stream_;
  uint64_t device_bytes_ = 0;
  Words agreed_, each_;
  std::unique_ptr<device::Event> done_;
  uint32_t ranks_ = 1;
  Own own_;  // of the pending sum
};

// A rank that keeps weights, gradients and optimizer state in device memory: each published chunk
// is checked, summed over all ranks, and applied, all queued at once in a stream of this object's.
//
// Chunks are queued in the arena's order, each once those before it are published, so ranks need
// not publish in the same order. How much of the exchange overlaps with the rank's computation is
// up to the device.
//
// Together with the samples of a step, ranks compare its number and the learning rate given by the
// program.
//
// If a sum cannot complete any more, streams that wait for it are released, and every call from
// then on returns the reason: their results are meaningless.
//
// With RingStops it continues without ranks that die. Sums are stored apart from gradients, and are
// applied once the host has seen all sums of the step, so a rank either has made a step or still
// has its gradients. Only then does it count the next step's samples, and it sums nothing of that
// step before all have done so. Hence ranks are at most one step apart, and the one ahead has the
// sums that others lack.
//
// Threads: one. Errors: Aborted (with RingStops: see LeaveRing), Internal (the device or the
// communicator's library, in its words), ResourceExhausted (out of device memory), InvalidArgument
// (a gradient of this rank's is not finite; another rank has another rate, or ends earlier), and
// those of `still_wanted`.
class DeviceSteps {
 public:
  // Allocates zeroed memory. `still_wanted`: an error ends a wait for others; called on any thread.
  // `program_waits`: the same for the program, called on the thread whose call waits; null: no
  // limit. The job's defaults are filled in. `says_rates`: the program gives a rate in each step.
  // `stops` outlives this; null: a lost rank ends the job.
  static absl::StatusOr<std::unique_ptr<DeviceSteps>> Create(
      std::shared_ptr<device::Device> device, const proto::Job& job, const proto::Layout& layout,
      device::StillWanted still_wanted, bool says_rates = false,
      device::StillWanted program_waits = nullptr, RingStops* stops = nullptr);
  // Ends pending work.
  ~DeviceSteps();

  const std::shared_ptr<device::Device>& device() const { return device_; }
  // The whole arena, on the device. Its memory lives as long as anybody holds it.
  float* weights() const { return weights_; }
  float* gradients() const { return gradients_; }
  device::Memory weights_memory() const { return Part(weights_); }
  device::Memory gradients_memory() const { return Part(gradients_); }

  // Copies `elements` weights between the device and the host. Block.
  absl::Status TakeWeightsFrom(const float* host);
  absl::Status BringWeightsTo(float* host);
  // Loads the image that a job resumes from, after Begin; makes the chunks' images for a
  // checkpoint, between two steps, once all sums have landed. Both block.
  absl::Status TakeFrom(const client::ArenaImage& image);
  absl::StatusOr<std::vector<ChunkImage>> Cut(uint64_t steps);

  // `ranks`: size of the communicator. Null: this is the only rank.
  absl::Status Begin(std::unique_ptr<device::Communicator> communicator, uint32_t ranks,
                     uint32_t chunk_elements, uint64_t samples_per_epoch);
  // Replaces the weights by rank 0's, bit for bit; blocks. On all ranks, before the first step.
  absl::Status TakeWeightsOfRank0();
  // Sums a number over all ranks, all between steps; blocks.
  absl::StatusOr<uint64_t> Sum(uint64_t value);

  // `rate`: the step's learning rate, if the program gives rates.
  absl::Status BeginStep(uint32_t samples, float rate = 0);
  // The chunks' gradients are complete once `ready` is; null: now. The first call of a step blocks
  // until the previous step has landed and all ranks have begun this one. With RingStops, BeginStep
  // and WaitIn block until the previous step is made.
  absl::Status Publish(absl::Span<const ChunkId> chunks, uint64_t step, const device::Event* ready);
  // Blocks until the chunk's weights are those of the next step, if its update is queued.
  absl::Status AwaitWeights(ChunkId chunk);
  // The same for work queued in `stream` from now on; does not block. Errors are returned by the
  // next step's first Publish.
  absl::Status WaitIn(device::Stream* stream, ChunkId chunk);
  absl::Status AwaitAll();  // of all chunks
  // The last call except SendTrace: all ranks have made it, or will.
  absl::Status Finish();
  // Called after Aborted. Blocks until queued work has ended.
  absl::Status LeaveRing();
  // Then continues among `ranks` ranks as number `rank`, with the newest step that any of them has
  // made; the step that none has made begins again with the chunks published so far. The call that
  // was Aborted must be repeated. Blocks until all have done so, without asking the program.
  absl::Status GoOn(std::unique_ptr<device::Communicator> communicator, uint32_t ranks,
                    uint32_t rank);
  // Sends the trace of the device's sums in traced steps, like ReduceTrace::Send.
  void SendTrace(client::AgentChannel* agent, bool all);

  // Number of vectors of optimizer state.
  int states() const { return StateVectors(rule_.optimizer.kind); }
  uint32_t chunks() const { return map_ ? map_->chunks() : 0; }
  uint32_t ranks() const { return ranks_; }
  // Bytes allocated on its device.
  uint64_t device_bytes() const { return device_bytes_; }
  uint64_t bytes_reduced() const { return bytes_reduced_; }
  uint64_t chunks_reduced() const { return chunks_reduced_; }

 private:
  struct Chunk {
    std::vector<OptimizerRun> runs;
    std::unique_ptr<device::Event> landed;
    bool published = false;        // and not queued yet
    std::optional<uint64_t> step;  // pending
  };

  DeviceSteps(std::shared_ptr<device::Device> device, const proto::Job& job,
              const proto::Layout& layout, device::StillWanted still_wanted, bool says_rates,
              device::StillWanted program_waits, RingStops* stops);

  device::Memory Part(float* begin) const {
    return device::Memory(arena_, reinterpret_cast<std::byte*>(begin));
  }
  absl::Status Allocate();
  // The device's vectors, in the order of an ArenaImage.
  float* vector(int index) const { return index == 0 ? weights_ : index == 1 ? state0_ : state1_; }
  // `step`: as in RankSums.
  absl::Status StartSum(uint64_t value, uint64_t step, const device::StillWanted& wanted);
  absl::StatusOr<uint64_t> AwaitSum();
  absl::Status Await(const device::Event& event, bool asks_program = true);
  // Prefers the cause found by the watch over an error that follows from it.
  absl::Status OrCause(absl::Status status);
  absl::Status PublishAll(absl::Span<const ChunkId> chunks, uint64_t step,
                          const device::Event* ready);
  // Waits for the sum of the step's samples, once.
  absl::Status AwaitCount();
  absl::Status QueuePublished(uint64_t step);
  absl::Status PublishOne(ChunkId chunk, uint64_t step);
  absl::Status CheckVerdict(ChunkId chunk, uint64_t step) const;
  absl::Status Update(const Chunk& chunk, uint64_t at, uint64_t number);

  // With RingStops. Blocks until the current step, fully published, is made; if the chunk waits for
  // that.
  absl::Status Settle();
  absl::Status SettleFor(const Chunk& chunk);
  absl::Status ApplySums();
  absl::Status TakeSumsOf(uint32_t rank);
  absl::Status BeginAgain();
  absl::Status EndRing();
  void WatchCommunicator();

  const std::shared_ptr<device::Device> device_;
  const proto::Job job_;
  const proto::Layout layout_;
  const device::StillWanted still_wanted_, program_waits_;
  const device::StillWanted caller_waits_;  // both conditions
  RingStops* const stops_;
  numerics::UpdateRule rule_;

  uint64_t device_bytes_ = 0;
  // Memory outlives the communicator and the stream that use it.
  device::Memory arena_;  // weights, gradients, sums, state, one after the other
  float *weights_ = nullptr, *gradients_ = nullptr, *state0_ = nullptr, *state1_ = nullptr;
  float* sums_ = nullptr;                     // equal to the gradients without RingStops
  device::Memory verdicts_, known_verdicts_;  // by chunk; second: on the host
  std::unique_ptr<RankSums> rank_sums_;
  std::unique_ptr<device::Event> arrived_;  // data from other ranks, except rank_sums_
  uint32_t ranks_ = 1;
  std::vector<Chunk> chunks_;
  std::optional<ChunkMap> map_;
  std::unique_ptr<device::Communicator> communicator_;
  std::optional<CommunicatorWatch> watch_;  // exists with the communicator
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<ReduceTrace> trace_;  // null: the job is not traced, or this is the only rank

  uint32_t own_samples_ = 0;
  float rate_ = 0;                 // of the current step
  uint64_t begun_ = 0, made_ = 0;  // steps; made_ only with RingStops
  uint32_t queued_ = 0;            // chunks of the current step
  bool counting_ = false;          // the sum of the step's samples is pending
  uint64_t step_samples_ = 0;      // of all ranks
  uint64_t samples_ = 0;           // of all ranks, including the current step
  uint64_t bytes_reduced_ = 0, chunks_reduced_ = 0;
};

}  // namespace strata::nccl

#endif  // STRATA_WORKER_CLIENT_NCCL_DEVICE_STEPS_H_
