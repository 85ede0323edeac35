#ifndef STRATA_WORKER_CONTRACT_NODE_MEMORY_H_
#define STRATA_WORKER_CONTRACT_NODE_MEMORY_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/os/limits.h"
#include "common/transport/shared_segment.h"
#include "common/unique_fd.h"

namespace strata::worker {

// The memory that an aggregator shares with the ranks of its node: one anonymous file, whose
// descriptor is passed over a socket, so nothing is left behind however a process ends. It begins
// with NodeHeader. Then follow, at offsets that depend only on elements, ranks and whether there
// are tables: a RankBlock per rank; landed[chunk]; consumed[chunk]; ready[rank][chunk]; and, each
// page-aligned, the weights, the gradients of each rank and, if there are tables, a RowSlot of
// each. Zeroed memory means that nothing has happened.
//
// Clock counts are one more than the clock: ready[r][c] = t + 1 says that rank r has published
// chunk c of step t; consumed[c] = t + 1 that the gradients of step t have been summed; landed[c] =
// t + 1 that the weights are those that step t starts from.

inline constexpr uint64_t kNodeMagic = 0x31304544'4f4e5453;  // "STNODE01"
inline constexpr uint32_t kChunkElementsMin = 256;           // as in proto/job.proto
inline constexpr size_t kSampleSlots = 4;
inline constexpr size_t kNodeStalenessBins = 32;

enum class NodeState : uint32_t { kStarting = 0, kTraining = 1, kFinished = 2, kStopped = 3 };

struct NodeHeader {
  uint64_t magic;
  uint64_t elements;
  uint32_t local_ranks;
  uint32_t chunks_max;
  std::atomic<uint32_t> chunks;  // valid from kTraining on
  std::atomic<NodeState> state;
  // 1 while the aggregator waits in poll: the rank that completes a chunk then sets it to 0 and
  // rings.
  std::atomic<uint32_t> aggregator_asleep;
  char reason[512];  // why it was stopped; written before kStopped
  // In jobs whose nodes may change: from this step on, ranks do not know yet who makes the steps;
  // 0: they know it for all steps. Next to it the number of the newest change that was sent to
  // them.
  std::atomic<uint64_t> views_closed_at;
  std::atomic<uint32_t> view_number;

  std::atomic<uint64_t> bytes_pushed, bytes_answered, pushes, pushes_during_backward;
  // Time during which any chunk was submitted and its next weights had not landed.
  std::atomic<uint64_t> exchange_us;
  std::array<std::atomic<uint64_t>, kNodeStalenessBins> staleness;

  // exchange: NCCL, on_loss: DROP: the highest ring number for which ranks must stop.
  std::atomic<uint32_t> ring_asked;
};

struct alignas(64) RankBlock {
  std::atomic<uint32_t> bell;       // futex: changes when the rank must look again
  std::atomic<uint32_t> waits_for;  // chunk + 1 for whose landing the rank sleeps; 0: none
  std::atomic<uint64_t> published;  // chunks, over all steps
  std::atomic<uint64_t> complete;   // steps whose last chunk is being published
  std::array<std::atomic<uint32_t>, kSampleSlots> samples;  // of step t at t % kSampleSlots
  // The learning rates in the same layout, if the program gives them.
  std::array<std::atomic<float>, kSampleSlots> rates;
  // If the ranks sum their gradients themselves: published chunks that have gone into the node's
  // sum; only these count in ready.
  std::atomic<uint64_t> reduced;
  std::atomic<uint64_t> device_bytes;  // of its device's memory, used for the exchange: its own
                                       // count
  std::atomic<uint64_t> told;          // steps whose participants it knows, or is about to know
  std::atomic<uint32_t> awaits_view;   // 1 while it waits to learn the participants of a step
};

// Through its slot a rank asks the aggregator about rows, one request at a time: it writes the
// request, counts it in `asked` and rings. The aggregator counts it in `answered` and rings the
// rank.
struct RowSlot {
  enum class Ask : uint32_t {
    kLookUp = 1,  // writes the weights of `rows` rows to the values
    kAdd = 2,     // adds the values, `rows` gradients, to those of the rank's step
    kEnd = 3,     // the rank's step is complete
    kWant = 4,    // the rank will take `rows` rows after the step: only ids follow
    kTake = 5,    // as kLookUp, for the step: rows may be those that were wanted for it
  };
  static constexpr size_t kBytes = kRowSlotBytes;
  static constexpr size_t kDataOffset = 64;

  std::atomic<uint64_t> asked, answered;
  Ask ask;
  uint32_t table;
  uint64_t step;
  uint32_t rows;     // kLookUp, kAdd: ids follow, which ascend, each once, and values
  uint32_t samples;  // kEnd
  float rate;        // kAdd: of the table in this step

  // Returns how many rows of a table fit into a slot.
  static uint32_t RowsMax(uint32_t columns) {
    return static_cast<uint32_t>((kBytes - kDataOffset) /
                                 (sizeof(uint64_t) + columns * sizeof(float)));
  }
  uint64_t* ids() {
    return reinterpret_cast<uint64_t*>(reinterpret_cast<std::byte*>(this) + kDataOffset);
  }
  // Those of a request for so many rows.
  float* values(uint32_t of_rows) { return reinterpret_cast<float*>(ids() + of_rows); }
};
static_assert(sizeof(RowSlot) <= RowSlot::kDataOffset);

static_assert(std::atomic<uint64_t>::is_always_lock_free &&
              std::atomic<float>::is_always_lock_free && sizeof(NodeHeader) <= 4096);

// Offsets of all parts; a function of its inputs.
struct NodeOffsets {
  NodeOffsets(uint64_t elements, uint32_t local_ranks, bool has_tables = false);

  uint64_t elements;
  uint32_t local_ranks;
  bool has_tables;
  uint32_t chunks_max;
  size_t ranks, landed, consumed, ready;  // control part, from 0
  size_t weights, gradients;
  size_t arena_stride;  // bytes between arenas
  size_t row_slots;     // RowSlot::kBytes each
  size_t total;
};

// A mapping of the control part and of the arenas that the process needs. Movable by pointer only;
// unmaps at destruction.
class NodeMemory {
 public:
  // For the aggregator: makes a new file and maps all of it. Errors: ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<NodeMemory>> Create(uint64_t elements, uint32_t local_ranks,
                                                            bool has_tables = false);
  // For a rank: maps the control part, its own gradients and its own slot for rows. The weights are
  // private zeroed memory until ShareWeights. Errors: InvalidArgument (not the memory of such a
  // node), ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<NodeMemory>> Attach(UniqueFd fd, uint64_t elements,
                                                            uint32_t local_ranks,
                                                            uint32_t local_rank,
                                                            bool has_tables = false);
  ~NodeMemory();
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;

  int fd() const { return fd_.get(); }
  // Returns all of it as a segment for peers on this host; this object outlives it. Null: out of
  // descriptors.
  // REQUIRES: the aggregator's mapping.
  std::shared_ptr<transport::SharedSegment> segment() const;
  // Bytes that have been written, in whole pages.
  size_t touched_bytes() const;
  // Bytes of device memory that ranks report to hold.
  uint64_t rank_device_bytes() const;
  const NodeOffsets& offsets() const { return offsets_; }

  NodeHeader& header() const { return *At<NodeHeader>(0); }
  RankBlock& rank(uint32_t local_rank) const { return At<RankBlock>(offsets_.ranks)[local_rank]; }
  std::atomic<uint64_t>& landed(uint32_t chunk) const {
    return At<std::atomic<uint64_t>>(offsets_.landed)[chunk];
  }
  std::atomic<uint64_t>& consumed(uint32_t chunk) const {
    return At<std::atomic<uint64_t>>(offsets_.consumed)[chunk];
  }
  std::atomic<uint64_t>& ready(uint32_t local_rank, uint32_t chunk) const {
    return At<std::atomic<uint64_t>>(
        offsets_.ready)[static_cast<size_t>(local_rank) * offsets_.chunks_max + chunk];
  }

  // Keeps the memory from offset 0 mapped, even after this object.
  const std::shared_ptr<void>& mapping() const { return mapping_; }

  float* weights() const { return weights_; }
  // Returns the rank's gradients. REQUIRES: the aggregator's mapping, or that rank's own.
  float* gradients(uint32_t local_rank) const;
  // Returns the rank's slot for rows. REQUIRES: likewise, and that there are tables.
  RowSlot& row_slot(uint32_t local_rank) const;

  // For the aggregator, before ranks train: shows them that `steps` steps of `chunks` chunks have
  // been made. Landed chunks are shown by Land.
  void BeginAt(uint64_t steps, uint32_t chunks) const;
  // For the aggregator: shows ranks that the chunk's weights have landed by setting landed(chunk)
  // to `value`, and wakes ranks that sleep for it.
  void Land(uint32_t chunk, uint64_t value) const;

  // For ranks: one rank copies its private weights into the node's arena; each maps the node's
  // arena read-only over its private memory, at the same address. Errors: ResourceExhausted.
  absl::Status OfferWeights();
  absl::Status ShareWeights();
  // Makes the weights in the arena writable and private to this process for its whole life, even
  // after this object; the address stays. Pages that nobody writes remain shared with the node
  // while any process has them. REQUIRES: they have changed for the last time. Errors:
  // ResourceExhausted.
  absl::Status KeepWeights();

 private:
  NodeMemory(UniqueFd fd, NodeOffsets offsets) : fd_(std::move(fd)), offsets_(offsets) {}

  template <typename T>
  T* At(size_t offset) const {
    return reinterpret_cast<T*>(control_ + offset);
  }
  size_t arena_bytes() const { return offsets_.elements * sizeof(float); }

  const UniqueFd fd_;
  const NodeOffsets offsets_;
  std::shared_ptr<void> mapping_;  // of control_
  std::byte* control_ = nullptr;
  size_t control_bytes_ = 0;
  float* weights_ = nullptr;
  bool keeps_weights_ = false;
  float* own_gradients_ = nullptr;  // set by ranks
  RowSlot* own_slot_ = nullptr;     // set by ranks, if there are tables
  uint32_t own_rank_ = 0;           // set by ranks
};

// Wakes the rank if it sleeps; it then checks its condition again.
void RingRank(RankBlock* rank);
// Sleeps while rank->bell == seen, at most `timeout_ms`.
void SleepUntilRung(RankBlock* rank, uint32_t seen, int timeout_ms);

}  // namespace strata::worker

#endif  // STRATA_WORKER_CONTRACT_NODE_MEMORY_H_
