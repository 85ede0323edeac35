#include "training/trainer/trainer_state.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/bytes.h"
#include "worker/client/client_checkpoints.h"

namespace strata::worker {

absl::Status TrainerState::MoveTo(const Backend& backend) {
  if (!keeps_state() || client_.first_step() == 0) return statistics_.MoveTo(backend);
  const absl::StatusOr<Bytes> state = client_.checkpoints().Read(client_.rank());
  if (!state.ok()) return state.status();
  const size_t own = statistics_.state_bytes();
  // Copies to be measured are of no use where that has been done in the course of training.
  const bool fits = measures_later_ ? state->size() >= own : state->size() == own;
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "the checkpoint has %d bytes of running statistics of rank %d, the model %d", state->size(),
        client_.rank(), own));
  }
  const absl::Span<const std::byte> bytes(state->data(), state->size());
  std::vector<size_t> sizes;
  for (const TensorSpec& spec : ListWeights(model_)) sizes.push_back(spec.Elements());
  for (const TensorSpec& spec : ListBuffers(model_)) sizes.push_back(spec.Elements());
  if (absl::Status status = snapshots_.Restore(bytes.subspan(own), sizes); !status.ok()) {
    return status;
  }
  return statistics_.MoveTo(backend, bytes.subspan(0, own));
}

bool TrainerState::is_due() const { return keeps_state() && client_.checkpoints().due(); }

absl::Status TrainerState::GiveIfDue(bool measured_soon) {
  if (!is_due()) return absl::OkStatus();
  std::string state;
  if (absl::Status status = statistics_.AppendState(&state); !status.ok()) {
    client_.Fail(std::string(status.message()));
    return status;
  }
  if (!measured_soon) snapshots_.AppendState(&state);
  return client_.checkpoints().Give(std::move(state));
}

}  // namespace strata::worker
