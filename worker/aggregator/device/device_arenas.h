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
  // By local rank: the device that it computes on. Several ranks may share one.
  std::vector<std::shared_ptr<device::Device>> devices;
  // Called from the devices' threads when Poll has something to do.
  std::function<void()> wake;
  // Ranks, each with a device of its own, have summed a chunk's gradients before BeginSum; the sum
  // replaces the gradients of the rank whose device has the chunk's turn.
  bool ranks_add_up = false;
  // Sums are encoded on the device, as this node of the job encodes its pushes, and TakeSum returns
  // their payloads. Null: it returns fp32. Not used after Create.
  const proto::JobRecord* encodes_for = nullptr;
  NodeId node{0};
  // Records the devices' work; outlives the arenas. Null: no events are timed.
  TraceLog* trace = nullptr;
  // Host memory for sums, if it can be pinned: memory that the exchange may share with peers on
  // this host. Null: the devices' own.
  std::shared_ptr<BlockSource> source = nullptr;
  // Help to copy data from the network; outlive the arenas. Null: none.
  ForkJoin* helpers = nullptr;
};

// The node's arenas in the memory of its devices: one of weights on each device, one of gradients
// for each rank on its own. Devices take turns by chunk: one sums a chunk's gradients in place of
// those of its own first rank. It reads the others' memory over NVLink or PCIe, or copies it if it
// cannot. The sum, encoded if requested, is copied into pinned host memory, from which it is sent
// as it is. Received data is copied, or decoded there, into every device's weights. Nothing here
// blocks but Create: everything else is queued, and Poll reports what is done. The rules on who may
// touch which chunk when are those of NodeArenas; `memory`'s own arena of weights holds the first
// ones.
//
// A device's error is returned by the call that meets it; errors of queued work by Poll.
//
// Threads: one.
class DeviceArenas final : public Arenas {
 public:
  // Starts with the weights in `memory`, which with `core` outlives this. Errors: those of
  // device::Device, including ResourceExhausted.
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
    size_t first_rank;                                   // the lowest local rank that computes on
                                                         // it
    std::unique_ptr<device::Stream> add;                 // also encodes
    std::unique_ptr<device::Stream> down, up;            // sums to the host; weights to the device
    std::unique_ptr<device::Stream> down_told, up_told;  // for wake-ups, which are host functions
                                                         // and delay later work of their stream
    std::unique_ptr<device::Event> added;                // of the sum that is copied next
    device::Memory weights;
    device::Memory payload;     // encoded weights before they are decoded
    device::Memory verdict;     // of sums; not read, because shards check again
    std::vector<bool> reaches;  // by local rank: whether its kernels can access the gradients
    device::Memory copies;      // of gradients of a chunk that they cannot access
    std::unique_ptr<DeviceEncoder> encoder;  // null: sums are not encoded
    std::vector<std::unique_ptr<device::Event>> free_events;
    size_t add_lane = 0, down_lane = 0, up_lane = 0;  // lanes of trace_
  };
  // Queued work of a device, whose completion Poll reports.
  struct Queued {
    enum class What { kSum, kLanded, kFinal } what;
    ChunkId chunk{0};
    uint64_t clock = 0;
    struct Mark {
      UsedDevice* used;
      std::unique_ptr<device::Event> event;
    };
    std::vector<Mark> marks;                        // complete once all of them are reached
    std::vector<std::shared_ptr<const void>> kept;  // memory that it reads or writes
    std::vector<DeviceTrace::Spans> spans;
  };
  // Host bytes to be copied to the devices.
  struct Upload {
    std::shared_ptr<std::byte> buffer;
    size_t bytes = 0;
    const numerics::CheckedPayload* delta = nullptr;  // `bytes` is its payload; null: weights
  };
  struct Summed {
    std::shared_ptr<std::byte> encoded;  // replaces `bytes` once it is copied there
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
  // Allocates memory for summing and encoding, once all devices are open.
  absl::Status PrepareSums(uint32_t used, const DeviceArenasOptions& options);
  size_t TurnOf(ChunkId chunk) const { return chunk.value() % devices_.size(); }
  UsedDevice& AdderOf(ChunkId chunk) { return devices_[TurnOf(chunk)]; }
  absl::Status StartTrace(TraceLog* log);
  // Copies the first weights from the host's arena.
  absl::Status FillWeights();
  // Returns where the chunk's part of an arena begins.
  std::byte* At(const device::Memory& arena, ChunkId chunk, uint32_t first_element = 0) const;
  // Queues a chunk's sum, after the stream's earlier work.
  absl::Status QueueSum(ChunkId chunk, uint64_t clock);
  // Queues the addition itself.
  absl::Status QueueAddition(UsedDevice& used, ChunkId chunk, float* sum);
  // Queues the sum's copy to the host, which overlaps with the next addition.
  absl::Status QueueCopy(UsedDevice& used, const DeviceEncoder::Outcome& outcome, Queued* queued);
  // Queues the upload to all devices.
  absl::Status QueueUpload(ChunkId chunk, uint32_t first_element, const Upload& upload,
                           bool traced);
  Upload StageWeights(const Bytes& weights);
  // Its result may be taken.
  absl::Status TakeOver(ChunkId chunk, uint64_t clock);
  // Marks the end of all devices' queued work on weights.
  absl::Status QueueWeights(Queued queued);
  // Marks the end of the queued work of `stream`; `told` then wakes Poll's caller.
  absl::Status Mark(UsedDevice* used, device::Stream& stream, device::Stream& told, Queued* queued);
  absl::StatusOr<bool> IsDone(const Queued& queued) const;
  // Reports the completed work.
  absl::Status Finish(Queued* queued, std::vector<ChunkId>* summed);
  // Returns spans for the chunk's current step; empty without a trace.
  absl::StatusOr<DeviceTrace::Spans> Trace(size_t lane, ChunkId chunk);

  NodeMemory* const memory_;
  AggregatorCore* const core_;
  const ChunkMap map_;
  const std::function<void()> wake_;
  ForkJoin* const helpers_;
  BufferPool pool_;
  bool ranks_add_up_ = false;
  std::unique_ptr<DeviceTrace> trace_;     // null: not traced
  std::vector<UsedDevice> devices_;        // in order of their first ranks
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
