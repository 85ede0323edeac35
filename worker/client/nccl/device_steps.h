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
#include "optimizer/update_rule.h"
#include "proto/control.pb.h"
#include "worker/client/link/arena_image.h"
#include "worker/client/nccl/communicator_watch.h"
#include "worker/client/nccl/reduce_trace.h"
#include "worker/contract/agent_channel.h"

namespace strata::nccl {

// A rank that keeps weights, gradients and the optimizer's state in memory of its device: what it
// publishes of a chunk is looked at, added over all ranks, and applied, all of it queued at once in
// a stream of this object's.
//
// Chunks are queued in the arena's order, each once those before it are published: ranks need not
// publish in the same order. How much of the exchange goes on while the rank computes is up to the
// device.
//
// With the samples of a step ranks compare what they are about to do: its number and the learning
// rate that the program says.
//
// Where a sum cannot be completed any more, streams that wait for it are let go, and every call
// from then on says why: what they compute with is nothing in particular.
//
// Threads: one. Errors: Internal (the device or the library of the communicator, in its words),
// ResourceExhausted (out of device memory), InvalidArgument (a gradient of this rank's is not
// finite; another rank says another rate, or ends before), and whatever `still_wanted` says.
class DeviceSteps {
 public:
  // Asks for the memory, which is zero then. `still_wanted`: whether to go on waiting for others;
  // called on any thread. `program_waits`: whether the program does, asked on the thread whose call
  // waits; null: as long as it takes. The job's defaults are filled in. `says_rates`: the program
  // does, in each step.
  static absl::StatusOr<std::unique_ptr<DeviceSteps>> Create(
      std::shared_ptr<device::Device> device, const proto::Job& job, const proto::Layout& layout,
      device::StillWanted still_wanted, bool says_rates = false,
      device::StillWanted program_waits = nullptr);
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
  // What a job goes on from, after Begin; and the chunks' images for a checkpoint, between two
  // steps, once all that is under way has landed. Block.
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
  // blocks until the step before has landed and all ranks have begun this one.
  absl::Status Publish(absl::Span<const ChunkId> chunks, uint64_t step, const device::Event* ready);
  // Blocks until the chunk's weights are those of the next step, if it is under way: queued.
  absl::Status AwaitWeights(ChunkId chunk);
  // Does the same for what `stream` is given from now on; does not block. What goes wrong comes out
  // of the next step's first Publish.
  absl::Status WaitIn(device::Stream* stream, ChunkId chunk);
  // Blocks until all chunks' are.
  absl::Status AwaitAll();
  // The last call but SendTrace: all ranks have made theirs, or will.
  absl::Status Finish();
  // Hands on what the device did of sums in traced steps, as ReduceTrace::Send.
  void SendTrace(client::AgentChannel* agent, bool all);

  // Vectors of the optimizer's state.
  int states() const { return StateVectors(rule_.optimizer.kind); }
  uint32_t chunks() const { return map_ ? map_->chunks() : 0; }
  // What it has asked for on its device.
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
  // What all ranks add up at once: a number, and what they compare by it.
  struct Agreed {
    uint64_t value, step, rate;  // from 1, 0: none is begun; the bits of the rate
  };
  // Numbers on the device and in pinned memory of the host, where copies end up.
  struct Words {
    device::Memory on_device, on_host;
  };

  DeviceSteps(std::shared_ptr<device::Device> device, const proto::Job& job,
              const proto::Layout& layout, device::StillWanted still_wanted, bool says_rates,
              device::StillWanted program_waits);

  device::Memory Part(float* begin) const {
    return device::Memory(arena_, reinterpret_cast<std::byte*>(begin));
  }
  absl::Status Allocate();
  // The device's, in the order of an ArenaImage.
  float* vector(int index) const { return index == 0 ? weights_ : index == 1 ? state0_ : state1_; }
  absl::StatusOr<Words> AllocateWords(size_t bytes, const char* what);
  // `step`: as in Agreed. The sum is of this value alone, once all ranks are found to agree.
  absl::Status StartSum(uint64_t value, uint64_t step);
  absl::StatusOr<uint64_t> AwaitSum();
  absl::Status CheckAgreed(const Agreed& sums) const;
  absl::Status Await(const device::Event& event);
  // What the watch has found comes before what follows from it.
  absl::Status OrCause(absl::Status status);
  absl::Status PublishAll(absl::Span<const ChunkId> chunks, uint64_t step,
                          const device::Event* ready);
  absl::Status PublishOne(ChunkId chunk, uint64_t step);
  absl::Status Update(const Chunk& chunk, uint64_t at, uint64_t number);

  const std::shared_ptr<device::Device> device_;
  const proto::Job job_;
  const proto::Layout layout_;
  const device::StillWanted still_wanted_, program_waits_;
  const device::StillWanted caller_waits_;  // both
  kernels::UpdateRule rule_;

  uint64_t device_bytes_ = 0;
  // Memory outlives the communicator and the stream that use it.
  device::Memory arena_;  // weights, gradients, state, one after the other
  float *weights_ = nullptr, *gradients_ = nullptr, *state0_ = nullptr, *state1_ = nullptr;
  Words verdicts_;  // by chunk
  Words agreed_;    // Agreed
  std::unique_ptr<device::Event> counted_;
  Agreed own_ = {};  // of the sum under way
  uint32_t ranks_ = 1;
  std::vector<Chunk> chunks_;
  std::optional<ChunkMap> map_;
  std::unique_ptr<device::Communicator> communicator_;
  std::optional<CommunicatorWatch> watch_;  // with it
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<ReduceTrace> trace_;  // null: the job is not traced, or this is the only rank

  uint32_t own_samples_ = 0;
  float rate_ = 0;             // of the step in hand
  uint64_t begun_ = 0;         // steps
  uint32_t queued_ = 0;        // chunks of the step in hand
  bool counting_ = false;      // of the step's samples, over all ranks
  uint64_t step_samples_ = 0;  // of all ranks
  uint64_t samples_ = 0;       // of all ranks, the step in hand included
  uint64_t bytes_reduced_ = 0, chunks_reduced_ = 0;
};

}  // namespace strata::nccl

#endif  // STRATA_WORKER_CLIENT_NCCL_DEVICE_STEPS_H_
