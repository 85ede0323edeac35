#include "worker/client/c/strata_client_checkpoints.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/bytes.h"
#include "worker/client/c/client_calls.h"
#include "worker/client/client_checkpoints.h"

using strata::client::Run;

extern "C" {

int strata_goes_on(const strata_client* client) {
  return client->launch.record().has_resume() ? 1 : 0;
}

uint64_t strata_first_step(const strata_client* client) { return client->client->first_step(); }

int strata_checkpoint_due(const strata_client* client) {
  return client->client->checkpoints().due() ? 1 : 0;
}

strata_code strata_give_state(strata_client* client, const void* state, size_t bytes) {
  return Run(client, "strata_give_state", [&] {
    if (state == nullptr && bytes > 0) return absl::InvalidArgumentError("state: is null");
    const char* const begin = state == nullptr ? "" : static_cast<const char*>(state);
    return client->client->checkpoints().Give(std::string(begin, bytes));
  });
}

strata_code strata_read_state(strata_client* client, uint32_t rank, const void** state,
                              size_t* bytes) {
  return Run(client, "strata_read_state", [&] {
    *state = nullptr;
    *bytes = 0;
    absl::StatusOr<strata::Bytes> read = client->client->checkpoints().Read(rank);
    if (!read.ok()) return read.status();
    client->state = *std::move(read);
    *state = client->state.data();
    *bytes = client->state.size();
    return absl::OkStatus();
  });
}

}  // extern "C"
