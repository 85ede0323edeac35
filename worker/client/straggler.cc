#include "worker/client/straggler.h"

#include <algorithm>
#include <ctime>

#include "common/random.h"

namespace strata {
namespace {

constexpr uint64_t kStream = 0x73747261;  // of the job's seed

}  // namespace

Straggler::Straggler(const proto::Job& job, uint32_t node, uint32_t rank)
    : key_(RandomKey(RandomKey(job.seed(), kStream), rank)) {
  for (const proto::Delay& delay : job.debug().delays()) {
    if (delay.node() == node) delays_.push_back(delay);
  }
}

absl::Duration Straggler::Delay(uint64_t step, absl::Duration computed) const {
  absl::Duration sum;
  for (size_t i = 0; i < delays_.size(); ++i) {
    const proto::Delay& delay = delays_[i];
    const double jitter = 2.0 * RandomUniform(RandomKey(key_, i), step) - 1.0;
    sum += absl::Milliseconds(delay.delay_ms() + jitter * delay.jitter_ms());
    sum += std::max(0.0, double{delay.slow()} - 1.0) * computed;
  }
  return sum;
}

absl::Duration ThreadTime() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return absl::DurationFromTimespec(time);
}

}  // namespace strata
