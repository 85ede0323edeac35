#include <fcntl.h>
#include <nccl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "common/unique_fd.h"
#include "kernels/fake_cuda/control.h"
#include "kernels/fake_cuda/memory.h"
#include "kernels/fake_cuda/streams.h"

namespace fake_cuda {
namespace {

// Where the ranks of a communicator meet: memory shared by their processes, an anonymous file,
// found through the process that made it and freed by the last one that has it.
//
// Threads: any; for one rank, one at a time.
class Meeting {
 public:
  static constexpr uint32_t kRanksMax = 16;
  static constexpr size_t kPieceBytes = 64 << 10;

  // The name by which others find it while its creator lives.
  struct Name {
    uint64_t magic;
    int32_t pid, fd;
  };
  // Makes one, which lasts as long as this process. Null: out of descriptors.
  static std::optional<Name> Make();
  // Null: its creator is gone, or the name is invalid.
  static std::unique_ptr<Meeting> Open(const Name& name);
  ~Meeting();
  Meeting(const Meeting&) = delete;

  // Joins as `rank`, on the device of that number. Returns false if that rank has joined.
  bool Come(uint32_t rank, uint32_t ranks, int device);
  // Returns whether all have joined.
  bool all_here(uint32_t ranks) const;
  // After that: whether they agree on their number; and two that share one device.
  bool agree(uint32_t ranks) const;
  std::optional<std::pair<uint32_t, uint32_t>> same_device(uint32_t ranks) const;

  // Each rank's buffer for data that the others read.
  std::byte* piece(uint32_t rank) const;
  // Waits until all ranks have called it as often; returns false if `ended` came first.
  bool Pass(uint32_t rank, uint32_t ranks, const std::atomic<bool>& ended);
  // Marks this rank as done, without waiting; returns whether all are.
  void Leave(uint32_t rank);
  bool all_left(uint32_t ranks) const;

 private:
  struct Rank {
    std::atomic<uint32_t> ranks;  // the number of ranks that it expects; 0: has not joined
    std::atomic<int32_t> device;
    std::atomic<uint64_t> passed;
    std::atomic<uint32_t> left;
  };
  struct Shared {
    Rank ranks[kRanksMax];
  };
  static constexpr size_t kBytes = 4096 + kRanksMax * kPieceBytes;
  static_assert(sizeof(Shared) <= 4096 && std::atomic<uint64_t>::is_always_lock_free);

  explicit Meeting(std::byte* memory) : memory_(memory) {}
  Shared& shared() const { return *reinterpret_cast<Shared*>(memory_); }

  std::byte* const memory_;
};

constexpr uint64_t kMagic = 0x6c63'636e'656b'6166;
constexpr absl::Duration kLook = absl::Microseconds(20);

std::optional<Meeting::Name> Meeting::Make() {
  strata::UniqueFd fd(memfd_create("fake-nccl", MFD_CLOEXEC));
  if (!fd.valid() || ftruncate(fd.get(), kBytes) != 0) return std::nullopt;
  prctl(PR_SET_DUMPABLE, 1);  // for Open in other processes
  return Name{kMagic, getpid(), fd.Release()};
}

std::unique_ptr<Meeting> Meeting::Open(const Name& name) {
  if (name.magic != kMagic) return nullptr;
  const std::string path = absl::StrCat("/proc/", name.pid, "/fd/", name.fd);
  const strata::UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct stat file = {};
  if (!fd.valid() || fstat(fd.get(), &file) != 0 || file.st_size != kBytes) return nullptr;
  void* at = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (at == MAP_FAILED) return nullptr;
  return std::unique_ptr<Meeting>(new Meeting(static_cast<std::byte*>(at)));
}

Meeting::~Meeting() { munmap(memory_, kBytes); }

bool Meeting::Come(uint32_t rank, uint32_t ranks, int device) {
  Rank& self = shared().ranks[rank];
  self.device = device;
  return self.ranks.exchange(ranks) == 0;
}

bool Meeting::all_here(uint32_t ranks) const {
  for (uint32_t r = 0; r < ranks; ++r) {
    if (shared().ranks[r].ranks == 0) return false;
  }
  return true;
}

bool Meeting::agree(uint32_t ranks) const {
  for (uint32_t r = 0; r < ranks; ++r) {
    if (shared().ranks[r].ranks != ranks) return false;
  }
  return true;
}

std::optional<std::pair<uint32_t, uint32_t>> Meeting::same_device(uint32_t ranks) const {
  for (uint32_t r = 0; r < ranks; ++r) {
    for (uint32_t other = 0; other < r; ++other) {
      if (shared().ranks[r].device == shared().ranks[other].device) return std::pair(other, r);
    }
  }
  return std::nullopt;
}

std::byte* Meeting::piece(uint32_t rank) const { return memory_ + 4096 + rank * kPieceBytes; }

bool Meeting::Pass(uint32_t rank, uint32_t ranks, const std::atomic<bool>& ended) {
  const uint64_t mine = shared().ranks[rank].passed.fetch_add(1) + 1;
  for (uint32_t r = 0; r < ranks; ++r) {
    while (shared().ranks[r].passed < mine) {
      if (ended) return false;
      absl::SleepFor(kLook);
    }
  }
  return true;
}

void Meeting::Leave(uint32_t rank) { shared().ranks[rank].left = 1; }

bool Meeting::all_left(uint32_t ranks) const {
  for (uint32_t r = 0; r < ranks; ++r) {
    if (shared().ranks[r].left == 0) return false;
  }
  return true;
}

}  // namespace
}  // namespace fake_cuda

using fake_cuda::CurrentSettings;
using fake_cuda::DeviceMemory;
using fake_cuda::Meeting;

namespace {

thread_local std::string last_error;

// State that work in streams keeps after its communicator is abandoned.
struct Group {
  std::unique_ptr<Meeting> meeting;
  uint32_t rank = 0, ranks = 0;
  std::atomic<bool> ended = false;
  std::atomic<bool> finishing = false;
  std::atomic<int> error = ncclSuccess;
  std::atomic<uint32_t> collectives = 0;
};

struct Collective {
  const std::byte* values = nullptr;
  std::byte* sum = nullptr;  // null: not here
  size_t bytes = 0;
  ncclDataType_t type = ncclFloat;
  std::optional<uint32_t> source = std::nullopt;  // whose values are copied, in place of a sum
};

template <typename T>
void AddPiece(const Meeting& meeting, uint32_t ranks, size_t bytes, std::byte* to) {
  T* const sum = reinterpret_cast<T*>(to);
  for (size_t i = 0; i < bytes / sizeof(T); ++i) {
    T value = reinterpret_cast<const T*>(meeting.piece(0))[i];
    for (uint32_t r = 1; r < ranks; ++r) value += reinterpret_cast<const T*>(meeting.piece(r))[i];
    sum[i] = value;
  }
}

// Runs in a stream. Nobody reads a piece before all have written theirs, or writes before all have
// read.
void Run(Group& group, const Collective& what) {
  if (fake_cuda::Sticky() != cudaSuccess || group.ended) return;
  const fake_cuda::Settings& settings = CurrentSettings();
  if (group.rank == settings.nccl_fails_rank && ++group.collectives == settings.nccl_fails_at) {
    group.error = ncclRemoteError;
  }
  while (group.error != ncclSuccess && !group.ended) {
    absl::SleepFor(absl::Milliseconds(1));  // like a kernel that waits forever
  }
  const DeviceMemory& memory = DeviceMemory::Get();
  const std::byte* const from = memory.Real(what.values, what.bytes);
  std::byte* const to = what.sum == nullptr ? nullptr : memory.Real(what.sum, what.bytes);
  if (from == nullptr || (to == nullptr && what.sum != nullptr)) {
    return fake_cuda::Fail(cudaErrorIllegalAddress);
  }
  for (size_t at = 0; at < what.bytes; at += Meeting::kPieceBytes) {
    const size_t bytes = std::min(Meeting::kPieceBytes, what.bytes - at);
    std::memcpy(group.meeting->piece(group.rank), from + at, bytes);
    if (!group.meeting->Pass(group.rank, group.ranks, group.ended)) return;
    if (what.source) {
      std::memcpy(to + at, group.meeting->piece(*what.source), bytes);
    } else if (to != nullptr && what.type == ncclFloat) {
      AddPiece<float>(*group.meeting, group.ranks, bytes, to + at);
    } else if (to != nullptr) {
      AddPiece<uint64_t>(*group.meeting, group.ranks, bytes, to + at);
    }
    if (!group.meeting->Pass(group.rank, group.ranks, group.ended)) return;
  }
}

ncclResult_t Refuse(ncclResult_t why, std::string text) {
  last_error = std::move(text);
  return why;
}

// The result of beginning a communicator.
ncclResult_t Begun(const Group& group) {
  if (!group.meeting->all_here(group.ranks)) return ncclInProgress;
  if (!group.meeting->agree(group.ranks)) {
    return Refuse(ncclInvalidArgument, "ranks do not agree on how many they are");
  }
  if (const auto same = group.meeting->same_device(group.ranks)) {
    return Refuse(ncclInvalidUsage, absl::StrCat("Duplicate GPU detected : rank ", same->first,
                                                 " and rank ", same->second));
  }
  return ncclSuccess;
}

}  // namespace

struct FakeNcclComm {
  std::shared_ptr<Group> group;
};

namespace {

ncclResult_t Queue(const Collective& what, ncclComm_t comm, cudaStream_t stream) {
  if (comm == nullptr || stream == nullptr) return Refuse(ncclInvalidArgument, "null");
  if (Begun(*comm->group) != ncclSuccess) return Refuse(ncclInvalidUsage, "not all ranks are here");
  stream->Add([group = comm->group, what] { Run(*group, what); });
  return ncclSuccess;
}

size_t BytesOf(size_t count, ncclDataType_t type) {
  return count * (type == ncclFloat ? sizeof(float) : sizeof(uint64_t));
}

}  // namespace

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::optional<Meeting::Name> name = Meeting::Make();
  if (!name) return Refuse(ncclSystemError, "out of descriptors");
  *id = {};
  static_assert(sizeof *name <= sizeof id->internal);
  std::memcpy(id->internal, &*name, sizeof *name);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  *comm = nullptr;
  if (config->blocking != 0 || ranks < 1 || ranks > static_cast<int>(Meeting::kRanksMax) ||
      rank < 0 || rank >= ranks) {
    return Refuse(ncclInvalidArgument, absl::StrCat("rank ", rank, " of ", ranks));
  }
  Meeting::Name name;
  std::memcpy(&name, id.internal, sizeof name);
  auto group = std::make_shared<Group>();
  group->meeting = Meeting::Open(name);
  group->rank = static_cast<uint32_t>(rank);
  group->ranks = static_cast<uint32_t>(ranks);
  if (group->meeting == nullptr) return Refuse(ncclSystemError, "nobody has made that id");
  int device = 0;
  cudaGetDevice(&device);
  if (group->rank != CurrentSettings().nccl_absent_rank &&
      !group->meeting->Come(group->rank, group->ranks, device)) {
    return Refuse(ncclInvalidUsage, absl::StrCat("rank ", rank, " is there twice"));
  }
  *comm = std::make_unique<FakeNcclComm>(FakeNcclComm{std::move(group)}).release();
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  const Group& group = *comm->group;
  *state = Begun(group);
  if (*state == ncclSuccess) *state = static_cast<ncclResult_t>(group.error.load());
  if (*state == ncclSuccess && group.finishing && !group.meeting->all_left(group.ranks)) {
    *state = ncclInProgress;
  }
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  comm->group->finishing = true;
  comm->group->meeting->Leave(comm->group->rank);
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const std::unique_ptr<FakeNcclComm> owned(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const std::unique_ptr<FakeNcclComm> owned(comm);
  owned->group->ended = true;
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* values, void* sum, size_t count, ncclDataType_t type,
                           ncclRedOp_t, ncclComm_t comm, cudaStream_t stream) {
  return Queue({.values = static_cast<const std::byte*>(values),
                .sum = static_cast<std::byte*>(sum),
                .bytes = BytesOf(count, type),
                .type = type},
               comm, stream);
}

ncclResult_t ncclReduce(const void* values, void* sum, size_t count, ncclDataType_t type,
                        ncclRedOp_t, int root, ncclComm_t comm, cudaStream_t stream) {
  const bool here = comm != nullptr && static_cast<uint32_t>(root) == comm->group->rank;
  return Queue({.values = static_cast<const std::byte*>(values),
                .sum = here ? static_cast<std::byte*>(sum) : nullptr,
                .bytes = BytesOf(count, type),
                .type = type},
               comm, stream);
}

ncclResult_t ncclBroadcast(const void* values, void* copy, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  if (copy == nullptr) return Refuse(ncclInvalidArgument, "null");
  return Queue({.values = static_cast<const std::byte*>(values),
                .sum = static_cast<std::byte*>(copy),
                .bytes = BytesOf(count, type),
                .type = type,
                .source = static_cast<uint32_t>(root)},
               comm, stream);
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    case ncclInternalError:
      break;
  }
  return "internal error";
}

const char* ncclGetLastError(ncclComm_t) { return last_error.c_str(); }
