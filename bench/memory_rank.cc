// A rank that computes nothing and holds nothing of its own, so that what is resident is the
// exchange's: memory_rank ELEMENTS STEPS SLOW_MS LAUNCH_FILE. Every rank but the first sleeps
// SLOW_MS in each step, so that the first one runs ahead as far as the job's mode lets it.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "worker/client/client.h"

namespace {

constexpr uint64_t kTensorElements = 1 << 20;

struct Work {
  uint64_t elements = 0, steps = 0, slow_ms = 0;
};

absl::Status Train(strata::client::Client& client, const Work& work) {
  std::vector<int> tensors;
  for (uint64_t at = 0; at < work.elements; at += kTensorElements) {
    auto tensor = client.Register({.name = absl::StrCat("t", tensors.size()),
                                   .shape = {std::min(kTensorElements, work.elements - at)}});
    if (!tensor.ok()) return tensor.status();
    tensors.push_back(*tensor);
  }
  if (absl::Status status = client.Allocate(); !status.ok()) return status;
  // Pages count once they are written.
  for (const int tensor : tensors) std::ranges::fill(client.Weights(tensor), 1.0f);
  if (absl::Status status = client.Start({.total_steps = work.steps}); !status.ok()) return status;
  for (uint64_t step = 0; step < work.steps; ++step) {
    if (absl::Status status = client.BeginStep(1); !status.ok()) return status;
    if (client.rank() > 0) absl::SleepFor(absl::Milliseconds(work.slow_ms));
    for (const int tensor : tensors) {
      if (absl::Status status = client.Wait(tensor); !status.ok()) return status;
      std::ranges::fill(client.Gradients(tensor), 0.5f);
      if (absl::Status status = client.Publish(tensor); !status.ok()) return status;
    }
    if (absl::Status status = client.FinishStep(); !status.ok()) return status;
    const absl::Status sent = client.Send({.first_step = step, .end_step = step + 1, .samples = 1});
    if (!sent.ok()) return sent;
  }
  return client.Finish();
}

absl::Status Run(const std::vector<std::string>& arguments) {
  Work work;
  if (arguments.size() != 5 || !absl::SimpleAtoi(arguments[1], &work.elements) ||
      !absl::SimpleAtoi(arguments[2], &work.steps) ||
      !absl::SimpleAtoi(arguments[3], &work.slow_ms) || work.elements == 0) {
    return absl::InvalidArgumentError("usage: memory_rank ELEMENTS STEPS SLOW_MS LAUNCH_FILE");
  }
  auto client = strata::client::Client::Connect(arguments[4]);
  return client.ok() ? Train(**client, work) : client.status();
}

}  // namespace

int main(int argc, char** argv) {
  const absl::Status status = Run({argv, argv + argc});
  if (!status.ok()) std::fprintf(stderr, "memory_rank: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
