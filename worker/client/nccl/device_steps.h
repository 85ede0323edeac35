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

// Numbers that all ranks add up on their devices, each of them at the same place among its sums of
// gradients, and then read on the host.
//
// Threads: one. Errors: those of device::Device and device::Communicator.
class RankSums {
 public:
  // One rank's contribution: a number to add, and values that must be the same on all ranks.
  struct Own {
    uint64_t value = 0;
    uint64_t step = 0;  // that the rank begins, from 1; 0: it makes none any more
    float rate = 0;     // of that step, where the program says rates
    uint64_t made = 0;  // steps, for words
  };

  // `stream`, of the device, outlives this. `slots`: for StartEach, of as many ranks at most.
  static absl::StatusOr<std::unique_ptr<RankSums>> Create(device::Device* device,
                                                          device::Stream* stream, uint32_t slots);

  // Queues the sum, and what is compared.
  absl::Status Start(device::Communicator* communicator, uint32_t ranks, const Own& own,
                     const device::StillWanted& wanted);
  // Complete once the newest sum is there.
  const device::Event& done() const { return *done_; }
  // The sum of the values alone, once done. Errors: InvalidArgument: ranks differ in the rest.
  absl::StatusOr<uint64_t> Sum() const;

  // Queues that all ranks have each one's number, those of the others as those of this one, which
  // is number `rank` of them. REQUIRES: ranks <= slots.
  absl::Status StartEach(device::Communicator* communicator, uint32_t ranks, uint32_t rank,
                         uint64_t value, const device::StillWanted& wanted);
  // They, by rank, once done.
  std::vector<uint64_t> Each() const;

  // Bytes allocated on the device.
  uint64_t device_bytes() const { return device_bytes_; }

 private:
  // Numbers on the device and in pinned memory of the host, where copies end up.
  struct Words {
    device::Memory on_device, on_host;
  };
  struct Agreed {
    uint64_t value, step, rate;  // the bits of the rate
  };

  explicit RankSums(device::Stream* stream) : stream_(stream) {}
  absl::Status Allocate(device::Device* device, size_t bytes, const char* what, Words* words);
  // Queues that the words become their sums over all ranks.
  absl::Status Queue(const Words& words, const void* own, size_t count,
                     device::Communicator* communicator, const device::StillWanted& wanted);

  device::Stream* const stream_;
  uint64_t device_bytes_ = 0;
  Words agreed_, each_;
  std::unique_ptr<device::Event> done_;
  uint32_t ranks_ = 1;
  Own own_;  // of the sum under way
};

// A rank that keeps weights, gradients and the optimizer's state in memory of its device: what it
// publishes of a chunk is looked at, added over all ranks, and applied, all of it queued at once in
// a stream of this object's.
//
// Chunks are queued in the arena's order, each once those before it are published: ranks need not
// publish in the same order. How much of the exchange continues while the rank computes is up to
// the device.
//
// With the samples of a step ranks compare what they are about to do: its number and the learning
// rate that the program says.
//
// Where a sum cannot be completed any more, streams that wait for it are let go, and every call
// from then on says why: what they compute with is nothing in particular.
//
// With RingStops it continues without ranks that die. Sums lie apart from gradients, and are
// applied once the host has seen all of the step's: a rank has made a step, or still has its
// gradients. Only then does it count the next step's samples, and adds up nothing of that step
// before all have done so. Hence ranks are at most one step apart, and who is ahead has the sums
// that others lack.
//
// Threads: one. Errors: Aborted (with RingStops: see LeaveRing), Internal (the device or the
// library of the communicator, in its words), ResourceExhausted (out of device memory),
// InvalidArgument (a gradient of this rank's is not finite; another rank says another rate, or ends
// before), and whatever `still_wanted` says.
class DeviceSteps {
 public:
  // Asks for the memory, which is zero then. `still_wanted`: false ends a wait for
  // others; called on any thread. `program_waits`: whether the program does, asked on the thread
  // whose call waits; null: as long as it takes. The job's defaults are filled in. `says_rates`:
  // the program does, in each step. `stops` outlives this; null: a rank that is gone ends the job.
  static absl::StatusOr<std::unique_ptr<DeviceSteps>> Create(
      std::shared_ptr<device::Device> device, const proto::Job& job, const proto::Layout& layout,
      device::StillWanted still_wanted, bool says_rates = false,
      device::StillWanted program_waits = nullptr, RingStops* stops = nullptr);
  // Ends what is under way.
  ~DeviceSteps();

  const std::shared_ptr<device::Device>& device() const { return device_; }
  // The whole arena, on the device. As memory it stays while anybody has it.
  float* weights() const { return weights_; }
  float* gradients() const { return gradients_; }
  device::Memory weights_memory() const { return Part(weights_); }
  device::Memory gradients_memory() const { return Part(gradients_); }

  // Copies between the device's weights and the host's, `elements` of them. Block.
  absl::Status TakeWeightsFrom(const float* host);
  absl::Status BringWeightsTo(float* host);
  // Loads the image that a job resumes from, after Begin; makes the chunks' images for a
  // checkpoint, between two steps, once all sums have landed. Both block.
  absl::Status TakeFrom(const client::ArenaImage& image);
  absl::StatusOr<std::vector<ChunkImage>> Cut(uint64_t steps);

  // `ranks`: how many have a communicator. Null: this is the only one.
  absl::Status Begin(std::unique_ptr<device::Communicator> communicator, uint32_t ranks,
                     uint32_t chunk_elements, uint64_t samples_per_epoch);
  // The weights become those of rank 0, bit for bit; blocks. On all ranks, before the first step.
  absl::Status TakeWeightsOfRank0();
  // Adds up a number over all ranks, none of which is within a step; blocks.
  absl::StatusOr<uint64_t> Sum(uint64_t value);

  // `rate`: the step's learning rate, where the program says rates.
  absl::Status BeginStep(uint32_t samples, float rate = 0);
  // The chunks' gradients are complete once `ready` is; null: they are. The first one of a step
  // blocks until the step before has landed and all ranks have begun this one. With RingStops,
  // BeginStep and WaitIn block until the step before is made.
  absl::Status Publish(absl::Span<const ChunkId> chunks, uint64_t step, const device::Event* ready);
  // Blocks until the chunk's weights are those of the next step, if it is under way: queued.
  absl::Status AwaitWeights(ChunkId chunk);
  // Does the same for what `stream` is given from now on; does not block. What goes wrong comes out
  // of the next step's first Publish.
  absl::Status WaitIn(device::Stream* stream, ChunkId chunk);
  absl::Status AwaitAll();  // of all chunks
  // The last call but SendTrace: all ranks have made theirs, or will.
  absl::Status Finish();
  // After Aborted. Blocks until what is queued has run out.
  absl::Status LeaveRing();
  // Then continues among `ranks`, as number `rank`, with the newest step that any of them has made;
  // the one that none has begins again with what is published of it. The call that was Aborted is
  // to be repeated. Blocks until all are as far, without asking the program.
  absl::Status GoOn(std::unique_ptr<device::Communicator> communicator, uint32_t ranks,
                    uint32_t rank);
  // Hands on what the device did of sums in traced steps, as ReduceTrace::Send.
  void SendTrace(client::AgentChannel* agent, bool all);

  // Vectors of the optimizer's state.
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
    std::optional<uint64_t> step;  // under way
  };

  DeviceSteps(std::shared_ptr<device::Device> device, const proto::Job& job,
              const proto::Layout& layout, device::StillWanted still_wanted, bool says_rates,
              device::StillWanted program_waits, RingStops* stops);

  device::Memory Part(float* begin) const {
    return device::Memory(arena_, reinterpret_cast<std::byte*>(begin));
  }
  absl::Status Allocate();
  // The device's, in the order of an ArenaImage.
  float* vector(int index) const { return index == 0 ? weights_ : index == 1 ? state0_ : state1_; }
  // `step`: as in RankSums.
  absl::Status StartSum(uint64_t value, uint64_t step, const device::StillWanted& wanted);
  absl::StatusOr<uint64_t> AwaitSum();
  absl::Status Await(const device::Event& event, bool asks_program = true);
  // Prefers the cause that the watch has found over an error that follows from it.
  absl::Status OrCause(absl::Status status);
  absl::Status PublishAll(absl::Span<const ChunkId> chunks, uint64_t step,
                          const device::Event* ready);
  // The count of the step's samples, once.
  absl::Status AwaitCount();
  absl::Status QueuePublished(uint64_t step);
  absl::Status PublishOne(ChunkId chunk, uint64_t step);
  absl::Status CheckVerdict(ChunkId chunk, uint64_t step) const;
  absl::Status Update(const Chunk& chunk, uint64_t at, uint64_t number);

  // With RingStops. Blocks until the step in hand, all of it published, is made; where the chunk
  // waits for that.
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
  const device::StillWanted caller_waits_;  // both
  RingStops* const stops_;
  numerics::UpdateRule rule_;

  uint64_t device_bytes_ = 0;
  // Memory outlives the communicator and the stream that use it.
  device::Memory arena_;  // weights, gradients, sums, state, one after the other
  float *weights_ = nullptr, *gradients_ = nullptr, *state0_ = nullptr, *state1_ = nullptr;
  float* sums_ = nullptr;                     // where gradients lie, without RingStops
  device::Memory verdicts_, known_verdicts_;  // by chunk; the host's
  std::unique_ptr<RankSums> rank_sums_;
  std::unique_ptr<device::Event> arrived_;  // what comes from other ranks, but for rank_sums_
  uint32_t ranks_ = 1;
  std::vector<Chunk> chunks_;
  std::optional<ChunkMap> map_;
  std::unique_ptr<device::Communicator> communicator_;
  std::optional<CommunicatorWatch> watch_;  // with it
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<ReduceTrace> trace_;  // null: the job is not traced, or this is the only rank

  uint32_t own_samples_ = 0;
  float rate_ = 0;                 // of the step in hand
  uint64_t begun_ = 0, made_ = 0;  // steps; made_ with RingStops
  uint32_t queued_ = 0;            // chunks of the step in hand
  bool counting_ = false;          // of the step's samples, over all ranks
  uint64_t step_samples_ = 0;      // of all ranks
  uint64_t samples_ = 0;           // of all ranks, the step in hand included
  uint64_t bytes_reduced_ = 0, chunks_reduced_ = 0;
};

}  // namespace strata::nccl

#endif  // STRATA_WORKER_CLIENT_NCCL_DEVICE_STEPS_H_
