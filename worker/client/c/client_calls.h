#ifndef STRATA_WORKER_CLIENT_C_CLIENT_CALLS_H_
#define STRATA_WORKER_CLIENT_C_CLIENT_CALLS_H_

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/bytes.h"
#include "proto/processes.pb.h"
#include "worker/client/c/program_device.h"
#include "worker/client/c/strata_client.h"
#include "worker/client/client.h"

// A client as C has it.
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
  strata::Bytes state;                                    // that strata_read_state gave
  pid_t process = getpid();
  std::atomic<bool> busy{false};
  bool has_started = false;
  bool guards_weights = false;
  bool finishes_at_exit = false;
};

namespace strata::client {

// The calling thread's last error.
std::string& ErrorText();
// Returns the code of a status, and remembers the text of an error.
strata_code Take(const absl::Status& status);

// Runs one call of the client, of which no other is under way.
template <typename Call>
strata_code Run(strata_client* client, const char* name, const Call& call) {
  if (client == nullptr) {
    return Take(absl::InvalidArgumentError(absl::StrCat(name, ": the client is null")));
  }
  if (client->process != getpid()) {
    return Take(absl::FailedPreconditionError(
        absl::StrFormat("%s: process %d has the client from process %d, which forked: only that "
                        "one may use it",
                        name, getpid(), client->process)));
  }
  if (client->busy.exchange(true)) {
    return Take(absl::FailedPreconditionError(
        absl::StrCat(name, ": another thread is in a call of the same client")));
  }
  const strata_code code = Take(call());
  client->busy.store(false);
  return code;
}

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_C_CLIENT_CALLS_H_
