#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/fake_cuda/control.h"
#include "kernels/fake_cuda/meeting.h"
#include "kernels/fake_cuda/memory.h"
#include "kernels/fake_cuda/streams.h"

using fake_cuda::CurrentSettings;
using fake_cuda::DeviceMemory;
using fake_cuda::Meeting;

namespace {

thread_local std::string last_error;

// What work in streams keeps when its communicator is given up.
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

// In a stream. Nobody reads a piece before all have written theirs, or writes before all have read.
void Run(Group& group, const Collective& what) {
  if (fake_cuda::Sticky() != cudaSuccess || group.ended) return;
  const fake_cuda::Settings& settings = CurrentSettings();
  if (group.rank == settings.nccl_fails_rank && ++group.collectives == settings.nccl_fails_at) {
    group.error = ncclRemoteError;
  }
  while (group.error != ncclSuccess && !group.ended) {
    absl::SleepFor(absl::Milliseconds(1));  // as a kernel that waits for ever
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

// Of a communicator that is beginning.
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
