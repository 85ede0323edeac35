#include "compare/virtual_time/compute_time.h"

#include <algorithm>
#include <cmath>

#include "common/random.h"

namespace strata::compare {
namespace {

constexpr double kMillisecondsMax = 1e8;
constexpr uint64_t kStream = 0x636f6d7075746572;  // of the job's seed

// In (0, 1].
double Fraction(uint64_t bits) { return static_cast<double>((bits >> 11) + 1) * 0x1p-53; }

}  // namespace

ComputeTime::ComputeTime(const ClusterFile& file, int group, uint64_t seed, uint32_t rank)
    : compute_(file.cluster.nodes(group).compute()),
      key_(RandomKey(RandomKey(seed, kStream), rank)) {
  if (compute_.has_trace_file()) trace_ = &file.traces.at(compute_.trace_file());
}

double ComputeTime::Normal(uint64_t step) const {
  const double radius = std::sqrt(-2 * std::log(Fraction(RandomBits(key_, 2 * step))));
  const double angle = 2 * M_PI * Fraction(RandomBits(key_, 2 * step + 1));
  return radius * std::cos(angle);
}

double ComputeTime::Milliseconds(uint64_t step) const {
  switch (compute_.time_case()) {
    case proto::Compute::kConstantMs:
      return compute_.constant_ms();
    case proto::Compute::kNormal:
      return compute_.normal().mean_ms() + compute_.normal().deviation_ms() * Normal(step);
    case proto::Compute::kLogNormal:
      return compute_.log_normal().median_ms() *
             std::exp(compute_.log_normal().sigma() * Normal(step));
    case proto::Compute::kTraceFile:
      return (*trace_)[(RandomBelow(key_, 0, trace_->size()) + step) % trace_->size()];
    case proto::Compute::TIME_NOT_SET:
      break;
  }
  return 0;
}

absl::Duration ComputeTime::Of(uint64_t step) const {
  return absl::Milliseconds(
      std::clamp(Milliseconds(step) * compute_.slow(), 0.0, kMillisecondsMax));
}

}  // namespace strata::compare
