#include "worker/contract/node_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/require.h"

namespace strata::worker {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kControlStart = 4096;  // after NodeHeader

size_t RoundUp(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

absl::Status SystemError(const char* call) {
  return absl::ResourceExhaustedError(
      absl::StrCat("the node's shared memory: ", call, ": ", strerror(errno)));
}

// Returns null on failure.
void* Map(void* at, size_t bytes, int protection, int flags, int fd, size_t offset) {
  void* address = mmap(at, bytes, protection, flags, fd, static_cast<off_t>(offset));
  return address == MAP_FAILED ? nullptr : address;
}

void Unmap(void* address, size_t bytes) {
  if (address != nullptr) munmap(address, bytes);
}

std::shared_ptr<void> Owned(void* address, size_t bytes) {
  return {address, [bytes](void* mapped) { Unmap(mapped, bytes); }};
}

}  // namespace

NodeOffsets::NodeOffsets(uint64_t elements_in, uint32_t local_ranks_in, bool has_tables_in)
    : elements(elements_in),
      local_ranks(local_ranks_in),
      has_tables(has_tables_in),
      chunks_max(static_cast<uint32_t>((elements_in + kChunkElementsMin - 1) / kChunkElementsMin)) {
  const size_t counts = RoundUp(chunks_max * sizeof(uint64_t), 64);
  ranks = kControlStart;
  landed = ranks + local_ranks * sizeof(RankBlock);
  consumed = landed + counts;
  ready = consumed + counts;
  weights = RoundUp(ready + size_t{local_ranks} * chunks_max * sizeof(uint64_t), kPage);
  arena_stride = RoundUp(elements * sizeof(float), kPage);
  gradients = weights + arena_stride;
  row_slots = gradients + local_ranks * arena_stride;
  total = row_slots + (has_tables ? local_ranks * RowSlot::kBytes : 0);
}

absl::StatusOr<std::unique_ptr<NodeMemory>> NodeMemory::Create(uint64_t elements,
                                                               uint32_t local_ranks,
                                                               bool has_tables) {
  const NodeOffsets offsets(elements, local_ranks, has_tables);
  UniqueFd fd(memfd_create("strata-node", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return SystemError("memfd_create");
  if (ftruncate(fd.get(), static_cast<off_t>(offsets.total)) != 0) return SystemError("ftruncate");
  fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  std::unique_ptr<NodeMemory> memory(new NodeMemory(std::move(fd), offsets));
  void* all = Map(nullptr, offsets.total, PROT_READ | PROT_WRITE, MAP_SHARED, memory->fd(), 0);
  if (all == nullptr) return SystemError("mmap");
  memory->mapping_ = Owned(all, offsets.total);
  memory->control_ = static_cast<std::byte*>(all);
  memory->control_bytes_ = offsets.total;
  memory->weights_ = reinterpret_cast<float*>(memory->control_ + offsets.weights);
  NodeHeader& header = memory->header();
  header.elements = elements;
  header.local_ranks = local_ranks;
  header.chunks_max = offsets.chunks_max;
  header.magic = kNodeMagic;
  return memory;
}

absl::StatusOr<std::unique_ptr<NodeMemory>> NodeMemory::Attach(UniqueFd fd, uint64_t elements,
                                                               uint32_t local_ranks,
                                                               uint32_t local_rank,
                                                               bool has_tables) {
  const NodeOffsets offsets(elements, local_ranks, has_tables);
  struct stat file = {};
  if (fstat(fd.get(), &file) != 0 || static_cast<size_t>(file.st_size) != offsets.total) {
    return absl::InvalidArgumentError("the node's shared memory has another size");
  }
  std::unique_ptr<NodeMemory> memory(new NodeMemory(std::move(fd), offsets));
  constexpr int kReadWrite = PROT_READ | PROT_WRITE;
  const size_t arena = memory->arena_bytes();
  memory->own_rank_ = local_rank;
  memory->control_bytes_ = offsets.weights;
  memory->control_ = static_cast<std::byte*>(
      Map(nullptr, offsets.weights, kReadWrite, MAP_SHARED, memory->fd(), 0));
  memory->mapping_ = Owned(memory->control_, offsets.weights);
  memory->own_gradients_ =
      static_cast<float*>(Map(nullptr, arena, kReadWrite, MAP_SHARED, memory->fd(),
                              offsets.gradients + local_rank * offsets.arena_stride));
  memory->weights_ =
      static_cast<float*>(Map(nullptr, arena, kReadWrite, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (!memory->control_ || !memory->own_gradients_ || !memory->weights_) return SystemError("mmap");
  if (has_tables) {
    memory->own_slot_ =
        static_cast<RowSlot*>(Map(nullptr, RowSlot::kBytes, kReadWrite, MAP_SHARED, memory->fd(),
                                  offsets.row_slots + local_rank * RowSlot::kBytes));
    if (memory->own_slot_ == nullptr) return SystemError("mmap");
  }
  const NodeHeader& header = memory->header();
  if (header.magic != kNodeMagic || header.elements != elements ||
      header.local_ranks != local_ranks) {
    return absl::InvalidArgumentError("the node's shared memory is of another version or job");
  }
  return memory;
}

NodeMemory::~NodeMemory() {
  if (control_bytes_ == offsets_.total) return;  // a single mapping
  if (!keeps_weights_) Unmap(weights_, arena_bytes());
  Unmap(own_gradients_, arena_bytes());
  Unmap(own_slot_, RowSlot::kBytes);
}

std::shared_ptr<transport::SharedSegment> NodeMemory::segment() const {
  STRATA_REQUIRE(own_gradients_ == nullptr);
  auto segment = transport::SharedSegment::Borrow(fd(), control_, offsets_.total);
  return segment.ok() ? *std::move(segment) : nullptr;
}

size_t NodeMemory::touched_bytes() const {
  struct stat file = {};
  constexpr size_t kStatBlock = 512;
  return fstat(fd(), &file) == 0 ? static_cast<size_t>(file.st_blocks) * kStatBlock : 0;
}

uint64_t NodeMemory::rank_device_bytes() const {
  uint64_t sum = 0;
  for (uint32_t r = 0; r < offsets_.local_ranks; ++r) sum += rank(r).device_bytes;
  return sum;
}

float* NodeMemory::gradients(uint32_t local_rank) const {
  STRATA_REQUIRE(local_rank < offsets_.local_ranks);
  STRATA_REQUIRE(own_gradients_ == nullptr || local_rank == own_rank_);
  if (own_gradients_ != nullptr) return own_gradients_;
  return reinterpret_cast<float*>(control_ + offsets_.gradients +
                                  local_rank * offsets_.arena_stride);
}

RowSlot& NodeMemory::row_slot(uint32_t local_rank) const {
  STRATA_REQUIRE(offsets_.has_tables && local_rank < offsets_.local_ranks);
  STRATA_REQUIRE(own_gradients_ == nullptr || local_rank == own_rank_);
  if (own_slot_ != nullptr) return *own_slot_;
  return *At<RowSlot>(offsets_.row_slots + local_rank * RowSlot::kBytes);
}

void NodeMemory::BeginAt(uint64_t steps, uint32_t chunks) const {
  for (uint32_t c = 0; c < chunks; ++c) consumed(c).store(steps);
  for (uint32_t r = 0; r < offsets_.local_ranks; ++r) {
    for (uint32_t c = 0; c < chunks; ++c) ready(r, c).store(steps);
    rank(r).published.store(steps * chunks);
    rank(r).complete.store(steps);
    rank(r).told.store(steps);
  }
}

void NodeMemory::Land(uint32_t chunk, uint64_t value) const {
  // Sequentially consistent with the rank's store to waits_for: one of the two sees the other.
  landed(chunk).store(value);
  for (uint32_t r = 0; r < offsets_.local_ranks; ++r) {
    RankBlock& block = rank(r);
    if (block.waits_for.load() == chunk + 1) RingRank(&block);
  }
}

absl::Status NodeMemory::OfferWeights() {
  const char* from = reinterpret_cast<const char*>(weights_);
  size_t done = 0;
  while (done < arena_bytes()) {
    const ssize_t wrote = pwrite(fd(), from + done, arena_bytes() - done,
                                 static_cast<off_t>(offsets_.weights + done));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return SystemError("write");
    done += static_cast<size_t>(wrote);
  }
  return absl::OkStatus();
}

absl::Status NodeMemory::ShareWeights() {
  if (Map(weights_, arena_bytes(), PROT_READ, MAP_SHARED | MAP_FIXED, fd(), offsets_.weights) ==
      nullptr) {
    weights_ = nullptr;  // the old mapping there may be gone
    return SystemError("mmap");
  }
  return absl::OkStatus();
}

absl::Status NodeMemory::KeepWeights() {
  if (keeps_weights_) return absl::OkStatus();
  if (Map(weights_, arena_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd(),
          offsets_.weights) == nullptr) {
    weights_ = nullptr;  // the old mapping there may be gone
    return SystemError("mmap");
  }
  keeps_weights_ = true;
  return absl::OkStatus();
}

void RingRank(RankBlock* rank) {
  rank->bell.fetch_add(1);
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&rank->bell), FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

void SleepUntilRung(RankBlock* rank, uint32_t seen, int timeout_ms) {
  const timespec timeout = {timeout_ms / 1000, (timeout_ms % 1000) * 1000000L};
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&rank->bell), FUTEX_WAIT, seen, &timeout, nullptr,
          0);
}

}  // namespace strata::worker
