#include "kernels/cuda/nccl/communicator.h"

#if __has_include(<nccl.h>)

#include <cuda_runtime.h>
#include <nccl.h>

#include <cstring>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "kernels/cuda/nccl/nccl_functions.h"
#include "kernels/cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

constexpr absl::Duration kLook = absl::Microseconds(100);
// Calls that only connect or launch take less.
constexpr absl::Duration kBriefly = absl::Microseconds(50);

// A communicator of NCCL in non-blocking mode: unfinished calls are polled here.
class NcclCommunicator final : public device::Communicator {
 public:
  NcclCommunicator(const NcclFunctions& nccl, int device, uint32_t rank)
      : nccl_(nccl), device_(device), rank_(rank) {}
  ~NcclCommunicator() override { Abort(); }

  absl::Status Begin(const ncclUniqueId& id, uint32_t ranks, const device::StillWanted& wanted) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t made = nullptr;
    const ncclResult_t begun = nccl_.CommInitRankConfig(&made, static_cast<int>(ranks), id,
                                                        static_cast<int>(rank_), &config);
    {
      absl::MutexLock lock(&mutex_);
      comm_ = made;
    }
    return Await("ncclCommInitRankConfig", begun, wanted);
  }

  absl::Status AllReduce(device::Stream& stream, const float* values, float* sum, size_t count,
                         const device::StillWanted& wanted) override {
    return Add(stream, values, sum, count, ncclFloat, wanted);
  }
  absl::Status AllReduce(device::Stream& stream, uint64_t* values, size_t count,
                         const device::StillWanted& wanted) override {
    return Add(stream, values, values, count, ncclUint64, wanted);
  }

  absl::Status Reduce(device::Stream& stream, const float* values, float* sum, size_t count,
                      uint32_t root, const device::StillWanted& wanted) override {
    if (absl::Status status = Select(); !status.ok()) return status;
    return Await("ncclReduce", Do([&](ncclComm_t comm) {
                   return nccl_.Reduce(values, sum, count, ncclFloat, ncclSum,
                                       static_cast<int>(root), comm, Cast(stream).get());
                 }),
                 wanted);
  }

  absl::Status Broadcast(device::Stream& stream, float* values, size_t count, uint32_t root,
                         const device::StillWanted& wanted) override {
    if (absl::Status status = Select(); !status.ok()) return status;
    return Await("ncclBroadcast", Do([&](ncclComm_t comm) {
                   return nccl_.Broadcast(values, values, count, ncclFloat, static_cast<int>(root),
                                          comm, Cast(stream).get());
                 }),
                 wanted);
  }

  absl::Status Error() override {
    ncclResult_t state = ncclSuccess;
    const absl::StatusOr<ncclResult_t> asked = State(&state);
    if (!asked.ok()) return asked.status();
    if (*asked != ncclSuccess) return Failure("ncclCommGetAsyncError", *asked);
    return state == ncclInProgress ? absl::OkStatus() : Failure("a collective", state);
  }

  absl::Status Finish(const device::StillWanted& wanted) override {
    if (absl::Status status = Select(); !status.ok()) return status;
    absl::Status status = Await("ncclCommFinalize", Do(nccl_.CommFinalize), wanted);
    if (!status.ok()) return status;
    const ncclComm_t comm = Take();
    return comm == nullptr ? Ended() : Failure("ncclCommDestroy", nccl_.CommDestroy(comm));
  }

  void Abort() override {
    const ncclComm_t comm = Take();
    if (comm == nullptr) return;
    (void)cudaSetDevice(device_);  // any thread's
    nccl_.CommAbort(comm);
  }

 private:
  // Returns the library's answer to `call` with the communicator, which another thread may end
  // between calls, but not during one. No call waits for other ranks.
  template <typename Call>
  absl::StatusOr<ncclResult_t> Do(Call call) {
    absl::MutexLock lock(&mutex_);
    if (comm_ == nullptr) return Ended();
    return call(comm_);
  }
  absl::StatusOr<ncclResult_t> State(ncclResult_t* state) {
    return Do([&](ncclComm_t comm) { return nccl_.CommGetAsyncError(comm, state); });
  }
  // Takes ownership; nobody else has it then.
  ncclComm_t Take() {
    absl::MutexLock lock(&mutex_);
    return std::exchange(comm_, nullptr);
  }

  absl::Status Select() const { return Check(device_, "cudaSetDevice", cudaSetDevice(device_)); }

  absl::Status Ended() const {
    return absl::FailedPreconditionError(
        absl::StrCat("device ", device_, ": NCCL: the communicator was ended before"));
  }

  // OK for success.
  absl::Status Failure(const char* call, ncclResult_t result) const {
    if (result == ncclSuccess) return absl::OkStatus();
    const char* const last = nccl_.GetLastError(nullptr);
    const std::string more = last == nullptr || *last == '\0' ? "" : absl::StrCat(": ", last);
    return absl::InternalError(absl::StrCat("device ", device_, ": NCCL: ", call, ": ",
                                            nccl_.GetErrorString(result), more));
  }

  template <typename T>
  absl::Status Add(device::Stream& stream, const T* values, T* sum, size_t count,
                   ncclDataType_t type, const device::StillWanted& wanted) {
    if (absl::Status status = Select(); !status.ok()) return status;
    return Await("ncclAllReduce", Do([&](ncclComm_t comm) {
                   return nccl_.AllReduce(values, sum, count, type, ncclSum, comm,
                                          Cast(stream).get());
                 }),
                 wanted);
  }

  // Waits until the call begun by `call` is done; only then another call may follow.
  absl::Status Await(const char* call, const absl::StatusOr<ncclResult_t>& begun,
                     const device::StillWanted& wanted) {
    if (!begun.ok()) return begun.status();
    ncclResult_t state = *begun;
    const absl::Time brief = absl::Now() + kBriefly;
    while (state == ncclInProgress) {
      const absl::StatusOr<ncclResult_t> asked = State(&state);
      if (!asked.ok()) return asked.status();
      if (*asked != ncclSuccess) return Failure(call, *asked);
      if (state != ncclInProgress || absl::Now() < brief) continue;
      if (absl::Status status = wanted(); !status.ok()) {
        Abort();
        return status;
      }
      absl::SleepFor(kLook);
    }
    return Failure(call, state);
  }

  const NcclFunctions& nccl_;
  const int device_;
  const uint32_t rank_;
  absl::Mutex mutex_;
  ncclComm_t comm_ ABSL_GUARDED_BY(mutex_) = nullptr;  // null: ended
};

}  // namespace

absl::StatusOr<std::string> NewCommunicatorId() {
  const absl::StatusOr<const NcclFunctions*> nccl = LoadNccl();
  if (!nccl.ok()) return nccl.status();
  ncclUniqueId id = {};
  const ncclResult_t result = (*nccl)->GetUniqueId(&id);
  if (result == ncclSuccess) return std::string(id.internal, sizeof id.internal);
  return absl::InternalError(
      absl::StrCat("NCCL: ncclGetUniqueId: ", (*nccl)->GetErrorString(result)));
}

absl::StatusOr<std::unique_ptr<device::Communicator>> NewCommunicator(
    int device, const std::string& id, uint32_t ranks, uint32_t rank,
    const device::StillWanted& still_wanted) {
  const absl::StatusOr<const NcclFunctions*> nccl = LoadNccl();
  if (!nccl.ok()) return nccl.status();
  ncclUniqueId unique = {};
  if (id.size() != sizeof unique.internal) {
    return absl::InvalidArgumentError(
        absl::StrCat("NCCL: an id has ", sizeof unique.internal, " bytes, not ", id.size()));
  }
  std::memcpy(unique.internal, id.data(), id.size());
  absl::Status status = Check(device, "cudaSetDevice", cudaSetDevice(device));
  if (!status.ok()) return status;
  auto communicator = std::make_unique<NcclCommunicator>(**nccl, device, rank);
  status = communicator->Begin(unique, ranks, still_wanted);
  if (!status.ok()) return status;
  return communicator;
}

}  // namespace strata::cuda

#else

namespace strata::cuda {
namespace {

absl::Status BuiltWithout() {
  return absl::UnimplementedError(
      "NCCL: libstrata_cuda.so was built where NCCL's header nccl.h was missing");
}

}  // namespace

absl::StatusOr<std::string> NewCommunicatorId() { return BuiltWithout(); }
absl::StatusOr<std::unique_ptr<device::Communicator>> NewCommunicator(int, const std::string&,
                                                                      uint32_t, uint32_t,
                                                                      const device::StillWanted&) {
  return BuiltWithout();
}

}  // namespace strata::cuda

#endif
