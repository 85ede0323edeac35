#ifndef STRATA_WORKER_AGGREGATOR_DEVICE_DEVICE_ARENAS_H_
#define STRATA_WORKER_AGGREGATOR_DEVICE_DEVICE_ARENAS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/buffer_pool.h"
#include "common/bytes.h"
#include "common/fork_join.h"
#include "common/ids.h"
#include "common/job/arena.h"
#include "common/job/trace_log.h"
#include "kernels/device/device.h"
#include "kernels/device/device_kernels.h"
#include "proto/record.pb.h"
#include "worker/aggregator/core/aggregator_core.h"
#include "worker/aggregator/core/arenas.h"
#include "worker/aggregator/device/device_encoder.h"
#include "worker/contract/device_trace.h"
#include "worker/contract/node_memory.h"

namespace strata::worker {

struct DeviceArenasOptions {
  // By local rank: the device that it computes on. Several ranks may have one.
  std::vector<std::shared_ptr<device::Device>> devices;
  // Called from threads of the devices' when Poll has something to do.
  std::function<void()> wake;
  // Ranks, each with a device of its own, have added up a chunk's gradients before BeginSum: in
  // place of those of the rank whose device has the chunk's turn.
  bool ranks_add_up = false;
  // Sums are encoded on the device, as this node of the job encodes its pushes, and TakeSum gives
  // their payloads. Null: it gives fp32. Not used after Create.
  const proto::JobRecord* encodes_for = nullptr;
  NodeId node{0};
  // The log of what the devices do; outlives the arenas. Null: no event is timed.
  TraceLog* trace = nullptr;
  // Where sums come to lie on the host, if it can be pinned: memory that the exchange may show to
  // peers of this host. Null: the devices' own.
  std::shared_ptr<BlockSource> source = nullptr;
  // Help to copy what comes from the network; outlive the arenas. Null: there are none.
  ForkJoin* helpers = nullptr;
};

// The node's arenas in the memory of its devices: one of weights on each device, one of gradients
// for each rank on its own. Devices take turns, chunk by chunk: one adds up a chunk's gradients in
// place of those of its own first rank. It reads the others' memory over NVLink or PCIe, or copies
// it where it cannot. The sum, encoded if so wanted, is copied into pinned host memory, which goes
// to the network as it is. What comes is copied, or decoded there, into every device's weights.
// Nothing here waits but Create: all else is queued, and Poll tells what is done. Who may touch
// which chunk when is as with NodeArenas; `memory`'s own arena of weights holds the first ones.
//
// A device's error comes out of the call that meets it; what was queued before fails Poll.
//
// Threads: one.
class DeviceArenas final : public Arenas {
 public:
  // Begins with the weights in `memory`, which with `core` outlives this. Errors: those of
  // device::Device, ResourceExhausted among them.
  static absl::StatusOr<std::unique_ptr<DeviceArenas>> Create(NodeMemory* memory,
                                                              AggregatorCore* core,
                                                              const ChunkMap& map,
                                                              DeviceArenasOptions options);
  ~DeviceArenas() override;

  absl::StatusOr<bool> BeginSum(ChunkId chunk, uint64_t clock) override;
  absl::Status Poll(std::vector<ChunkId>* summed) override;
  bool busy() const override { return !queued_.empty(); }
  void LandFirstWeights() override;
  // Its device's weights, and its own gradients, for another process to open.
  absl::Status Describe(uint32_t local_rank, proto::Started* started) override;
  size_t buffer_bytes() const override { return pool_.allocated_bytes(); }

  Bytes FirstWeights(ChunkId chunk) override;
  // REQUIRES: Poll has named the chunk since the last call for it.
  Sum TakeSum(ChunkId chunk, uint64_t clock) override;
  absl::Status TakeWeights(ChunkId chunk, uint32_t first_element, const Bytes& weights) override;
  absl::Status AddToWeights(ChunkId chunk, uint32_t first_element,
                            const numerics::CheckedPayload& delta) override;
  // Ranks are told once the devices have the weights.
  absl::Status Landed(ChunkId chunk, uint64_t clock) override;
  absl::Status TakeFinalWeights(ChunkId chunk, const Bytes& weights) override;
  bool Notes(proto::TraceEvent::Phase phase) const override {
    return phase == proto::TraceEvent::SUM ||
           (phase == proto::TraceEvent::ENCODE && devices_[0].encoder != nullptr);
  }

  const device::Memory& WeightsForTest(uint32_t local_rank) const {
    return devices_[device_of_[local_rank]].weights;
  }
  const device::Memory& GradientsForTest(uint32_t local_rank) const {
    return gradients_[local_rank];
  }

  size_t device_bytes() const override { return device_bytes_; }

 private:
  // A device that at least one rank computes on.
  struct UsedDevice {
    std::shared_ptr<device::Device> device;
    size_t first_rank;                                   // local, of those that compute on it
    std::unique_ptr<device::Stream> add;                 // which encodes, too
    std::unique_ptr<device::Stream> down, up;            // sums to the host; weights to the device
    std::unique_ptr<device::Stream> down_told, up_told;  // wake: a call holds up what follows it
    std::unique_ptr<device::Event> added;                // of the sum that goes down next
    device::Memory weights;
    device::Memory payload;     // encoded weights on their way, before they are decoded
    device::Memory verdict;     // of sums; nobody reads it, for shards look again
    std::vector<bool> reaches;  // by local rank: whether its kernels reach the gradients
    device::Memory copies;      // of a chunk's gradients that they do not reach
    std::unique_ptr<DeviceEncoder> encoder;  // null: sums go as they are
    std::vector<std::unique_ptr<device::Event>> free_events;
    size_t add_lane = 0, down_lane = 0, up_lane = 0;  // of trace_
  };
  // Something that a device does, to be heard of in Poll.
  struct Queued {
    enum class What { kSum, kLanded, kFinal } what;
    ChunkId chunk{0};
    uint64_t clock = 0;
    struct Mark {
      UsedDevice* used;
      std::unique_ptr<device::Event> event;
    };
    std::vector<Mark> marks;                        // all of them reached: it is done
    std::vector<std::shared_ptr<const void>> kept;  // memory that it reads or writes
    std::vector<DeviceTrace::Spans> spans;
  };
  // Host bytes on their way to the devices.
  struct Upload {
    std::shared_ptr<std::byte> buffer;
    size_t bytes = 0;
    const numerics::CheckedPayload* delta = nullptr;  // the bytes are its payload; null: weights
  };
  struct Summed {
    std::shared_ptr<std::byte> encoded;  // what becomes `bytes` once it is there
    Bytes bytes;
    StepFacts step;
  };

  DeviceArenas(NodeMemory* memory, AggregatorCore* core, const ChunkMap& map,
               const DeviceArenasOptions& options, std::shared_ptr<BlockSource> pinned)
      : memory_(memory),
        core_(core),
        map_(map),
        wake_(options.wake),
        helpers_(options.helpers),
        pool_(BufferPool::kRetainedBytesMax, std::move(pinned)),
        sums_(map.chunks()) {}

  absl::Status Init(const DeviceArenasOptions& options);
  absl::Status AddDevice(const std::shared_ptr<device::Device>& device, size_t first_rank);
  // Memory for adding and encoding, once all devices are there.
  absl::Status PrepareSums(uint32_t used, const DeviceArenasOptions& options);
  size_t TurnOf(ChunkId chunk) const { return chunk.value() % devices_.size(); }
  UsedDevice& AdderOf(ChunkId chunk) { return devices_[TurnOf(chunk)]; }
  absl::Status StartTrace(TraceLog* log);
  // The first weights, from the host's arena.
  absl::Status FillWeights();
  // Returns where the chunk's part of an arena begins.
  std::byte* At(const device::Memory& arena, ChunkId chunk, uint32_t first_element = 0) const;
  // Queues what a chunk's sum takes, after what is queued in the stream already.
  absl::Status QueueSum(ChunkId chunk, uint64_t clock);
  // Queues the addition itself.
  absl::Status QueueAddition(UsedDevice& used, ChunkId chunk, float* sum);
  // Queues the sum's way to the host, while the next one is added.
  absl::Status QueueCopy(UsedDevice& used, const DeviceEncoder::Outcome& outcome, Queued* queued);
  // Queues the upload to all devices.
  absl::Status QueueUpload(ChunkId chunk, uint32_t first_element, const Upload& upload,
                           bool traced);
  Upload StageWeights(const Bytes& weights);
  // Its result may be taken.
  absl::Status TakeOver(ChunkId chunk, uint64_t clock);
  // Marks the end of what all devices have to do with weights now.
  absl::Status QueueWeights(Queued queued);
  // Marks the end of what `stream` has to do now; `told` wakes Poll's caller then.
  absl::Status Mark(UsedDevice* used, device::Stream& stream, device::Stream& told, Queued* queued);
  absl::StatusOr<bool> IsDone(const Queued& queued) const;
  // Tells of it what there is to tell.
  absl::Status Finish(Queued* queued, std::vector<ChunkId>* summed);
  // The spans of the step that the chunk is in; empty where there is no trace.
  absl::StatusOr<DeviceTrace::Spans> Trace(size_t lane, ChunkId chunk);

  NodeMemory* const memory_;
  AggregatorCore* const core_;
  const ChunkMap map_;
  const std::function<void()> wake_;
  ForkJoin* const helpers_;
  BufferPool pool_;
  bool ranks_add_up_ = false;
  std::unique_ptr<DeviceTrace> trace_;     // null: no trace
  std::vector<UsedDevice> devices_;        // the first rank's first
  std::vector<size_t> device_of_;          // by local rank
  std::vector<device::Memory> gradients_;  // by local rank
  size_t device_bytes_ = 0;
  std::vector<Summed> sums_;                            // by chunk, until they are taken
  std::vector<uint64_t> complete_;                      // scratch, by local rank
  std::vector<std::shared_ptr<const void>> uploading_;  // since the last Landed
  std::vector<DeviceTrace::Spans> upload_spans_;        // likewise
  std::deque<Queued> queued_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGGREGATOR_DEVICE_DEVICE_ARENAS_H_
