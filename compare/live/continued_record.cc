#include "compare/live/continued_record.h"

#include <algorithm>
#include <cmath>

#include "compare/statistics/curve.h"

namespace strata::compare {
namespace {

// When the run had trained on so many samples.
double SecondsAt(const proto::RunRecord& run, uint64_t samples) {
  if (samples >= run.samples()) return run.trained_s();
  Curve seconds = {{0, 0}};
  for (const proto::Window& window : run.windows()) {
    seconds.push_back({double(window.samples()), window.trained_s()});
  }
  seconds.push_back({double(run.samples()), run.trained_s()});
  return ValueAt(seconds, double(samples)).value_or(run.trained_s());
}

uint64_t Part(uint64_t count, double share) {
  return static_cast<uint64_t>(std::llround(static_cast<double>(count) * share));
}

// Bytes and staleness of both, of the earlier run's a share.
void AddCounts(const proto::RunRecord& earlier, double share, proto::RunRecord* record) {
  record->set_bytes_pushed(record->bytes_pushed() + Part(earlier.bytes_pushed(), share));
  record->set_bytes_answered(record->bytes_answered() + Part(earlier.bytes_answered(), share));
  for (int bin = 0; bin < earlier.staleness_size(); ++bin) {
    if (record->staleness_size() <= bin) record->add_staleness(0);
    record->set_staleness(bin, record->staleness(bin) + Part(earlier.staleness(bin), share));
  }
}

void AddWindows(const proto::RunRecord& earlier, double before_s, proto::RunRecord* record) {
  google::protobuf::RepeatedPtrField<proto::Window> own;
  own.Swap(record->mutable_windows());
  for (const proto::Window& window : earlier.windows()) {
    if (window.samples() <= record->resumed_samples()) *record->add_windows() = window;
  }
  for (proto::Window& window : own) {
    window.set_trained_s(before_s + window.trained_s());
    *record->add_windows() = window;
  }
}

// The weights of the step itself may have been measured by both.
void AddMeasurements(const proto::RunRecord& earlier, double before_s, proto::RunRecord* record) {
  google::protobuf::RepeatedPtrField<proto::Measurement> own;
  own.Swap(record->mutable_measurements());
  for (const proto::Measurement& measurement : earlier.measurements()) {
    if (measurement.step() <= record->resumed_step()) *record->add_measurements() = measurement;
  }
  const uint64_t known =
      record->measurements().empty() ? 0 : record->measurements().rbegin()->step();
  for (proto::Measurement& measurement : own) {
    if (measurement.step() <= known) continue;
    // Weights of before may have been measured after.
    const bool is_before = measurement.step() < record->resumed_step();
    measurement.set_trained_s(is_before ? SecondsAt(earlier, measurement.samples())
                                        : before_s + measurement.trained_s());
    *record->add_measurements() = measurement;
  }
}

}  // namespace

proto::RunRecord Continued(const proto::RunRecord& earlier, proto::RunRecord record) {
  const double before_s = SecondsAt(earlier, record.resumed_samples());
  const double share =
      earlier.samples() == 0
          ? 0
          : std::min(1.0, double(record.resumed_samples()) / double(earlier.samples()));
  AddCounts(earlier, share, &record);
  AddWindows(earlier, before_s, &record);
  AddMeasurements(earlier, before_s, &record);
  const double waited_s =
      earlier.waiting_share() * before_s + record.waiting_share() * record.trained_s();
  record.set_trained_s(before_s + record.trained_s());
  record.set_waiting_share(record.trained_s() > 0 ? waited_s / record.trained_s() : 0);
  return record;
}

}  // namespace strata::compare
