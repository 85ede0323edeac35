// A rank that says when it says something: clock_rank STEP_MS EVERY LAUNCH_FILE. It computes
// nothing; the loss that it reports every EVERY steps is the time, in seconds since 1970.
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "worker/client/client.h"

namespace {

constexpr uint64_t kSteps = 1 << 30;

double Seconds(absl::Time time) { return absl::ToDoubleSeconds(time - absl::UnixEpoch()); }

absl::Status Train(strata::client::Client& client, absl::Duration pause, uint64_t every) {
  auto tensor = client.Register({.name = "w", .shape = {1000}});
  if (!tensor.ok()) return tensor.status();
  if (absl::Status status = client.Start({.total_steps = kSteps}); !status.ok()) return status;
  absl::Time window = absl::Now();
  for (uint64_t step = 0; step < kSteps; ++step) {
    absl::Status status = client.BeginStep(1);
    if (status.ok()) status = client.WaitAll();
    if (!status.ok()) return status;
    absl::SleepFor(pause);
    status = client.Publish(*tensor);
    if (status.ok()) status = client.FinishStep();
    if (status.ok() && (step + 1) % every == 0) {
      const absl::Time now = absl::Now();
      const double wall_s = absl::ToDoubleSeconds(now - std::exchange(window, now));
      // A loss is shown as the mean over all samples.
      status = client.Send({.first_step = step + 1 - every,
                            .end_step = step + 1,
                            .samples = every,
                            .loss_sum = Seconds(now) * static_cast<double>(every),
                            .wall_s = wall_s});
    }
    if (!status.ok()) return status;
  }
  return client.Finish();
}

absl::Status Run(const std::vector<std::string>& arguments) {
  uint64_t step_ms = 0, every = 0;
  if (arguments.size() != 4 || !absl::SimpleAtoi(arguments[1], &step_ms) ||
      !absl::SimpleAtoi(arguments[2], &every) || every == 0) {
    return absl::InvalidArgumentError("usage: clock_rank STEP_MS EVERY LAUNCH_FILE");
  }
  auto client = strata::client::Client::Connect(arguments[3]);
  return client.ok() ? Train(**client, absl::Milliseconds(step_ms), every) : client.status();
}

}  // namespace

int main(int argc, char** argv) {
  const absl::Status status = Run({argv, argv + argc});
  if (!status.ok()) std::fprintf(stderr, "clock_rank: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
