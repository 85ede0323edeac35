#ifndef STRATA_WORKER_CLIENT_C_CLIENT_CALLS_H_
#define STRATA_WORKER_CLIENT_C_CLIENT_CALLS_H_

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/bytes.h"
#include "kernels/device/device.h"
#include "proto/processes.pb.h"
#include "worker/client/c/strata_client.h"
#include "worker/client/client.h"
#include "worker/client/client_parts.h"

namespace strata::client {

// The rank's GPU for a program that does not call CUDA itself: the stream that it computes in,
// copies, memory. The first call that needs the device opens it.
//
// Threads: one at a time. Further errors of all calls: FailedPrecondition (the rank has no device),
// those of the device.
class ProgramDevice {
 public:
  // `launch` outlives this.
  explicit ProgramDevice(const proto::Launch& launch) : launch_(launch) {}

  // The device's number; -1: the job uses none.
  int32_t index() const;

  // See strata_compute_in.
  absl::Status ComputeIn(void* cuda_stream, ClientDevices& devices);
  // The stream that copies are made in.
  absl::StatusOr<void*> StreamInUse();
  // See strata_copy. Further errors: InvalidArgument (`ready_in` is not a stream of the device).
  absl::Status Copy(void* to, const void* from, size_t bytes, void* ready_in);
  // Returns memory that lives as long as this object.
  absl::StatusOr<void*> Allocate(size_t bytes);

 private:
  // Opens the device, and creates a stream.
  absl::Status Open();
  device::Stream& InUse() const { return adopted_ != nullptr ? *adopted_ : *own_; }

  const proto::Launch& launch_;
  std::shared_ptr<device::Device> device_;  // null: not open yet
  std::unique_ptr<device::Stream> own_;
  std::unique_ptr<device::Stream> adopted_;  // the program's; null: none
  std::unique_ptr<device::Event> ready_;
  std::vector<device::Memory> memory_;
};

}  // namespace strata::client

// The client behind the C API.
struct strata_client {
  ~strata_client() {
    if (client != nullptr) device->ComputeIn(nullptr, client->devices()).IgnoreError();
  }

  std::unique_ptr<strata::client::Client> client;
  strata::proto::Launch launch;
  std::unique_ptr<strata::client::ProgramDevice> device =
      std::make_unique<strata::client::ProgramDevice>(launch);
  std::string job_json;
  std::vector<std::pair<std::string, uint64_t>> tensors;  // name, elements
  strata::Bytes state;                                    // returned by strata_read_state
  pid_t process = getpid();
  std::atomic<bool> busy{false};
  std::atomic<bool> has_diverged{false};  // so says the program
  bool has_started = false;
  bool guards_weights = false;
  bool finishes_at_exit = false;
};

namespace strata::client {

// Returns a struct of the C ABI in this library's version: the fields that the caller's has, by its
// `size`, which is the first field; zeros for those added since.
template <typename Struct>
Struct Sized(const Struct& from) {
  Struct full = {};
  std::memcpy(static_cast<void*>(&full), &from, std::min(from.size, sizeof(Struct)));
  return full;
}

// Writes such a struct to the caller's, up to the caller's `size`.
template <typename Struct>
void WriteSized(Struct from, Struct* to) {
  from.size = to->size;
  std::memcpy(static_cast<void*>(to), &from, std::min(to->size, sizeof(Struct)));
}

// The calling thread's last error, and whether it says that training has diverged.
std::string& ErrorText();
bool& ErrorHasDiverged();
// Returns the code of a status, and remembers the text of an error.
strata_code Take(const absl::Status& status);

// Makes one call of the client; no other may be running.
template <typename Call>
absl::Status CallOn(strata_client* client, const char* name, const Call& call) {
  if (client == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": the client is null"));
  }
  if (client->process != getpid()) {
    return absl::FailedPreconditionError(
        absl::StrFormat("%s: process %d has the client from process %d, which forked: only that "
                        "one may use it",
                        name, getpid(), client->process));
  }
  if (client->busy.exchange(true)) {
    return absl::FailedPreconditionError(
        absl::StrCat(name, ": another thread is in a call of the same client"));
  }
  absl::Status status = call();
  client->busy.store(false);
  return status;
}
template <typename Call>
strata_code Run(strata_client* client, const char* name, const Call& call) {
  return Take(CallOn(client, name, call));
}

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_C_CLIENT_CALLS_H_
